"""One session teaches the same in whatever format it was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from combee.traces.mining import survey
from combee.traces.readers import read
from tests.traces.mining.everyday import SESSIONS, Session
from tests.traces.mining.workdays import WORKDAYS

Call = tuple[str, str, int]
Record = dict[str, object]
TASK = "Please mend the tests of the repository, the code is in src/app.py."


def shell_calls(session: Session) -> list[Call] | None:
    """Return the calls of a session that is nothing but calls of a shell."""
    calls = []
    for turn in session.turns:
        if len(turn) == 1 or turn[0] != "Bash":
            return None
        _, arguments, output, failed = turn
        calls.append((str(dict(arguments)["command"]), str(output), int(bool(failed))))  # type: ignore[call-overload]
    return calls


def claude_code(calls: Sequence[Call]) -> list[object]:
    def record(number: int, kind: str, content: object) -> Record:
        parent = f"u{number - 1}" if number else None
        head = {"type": kind, "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s", "isSidechain": False}
        return {**head, "message": {"role": kind, "content": content, "id": f"m{number}"}}

    lines: list[object] = [record(0, "user", TASK)]
    for at, (command, said, code) in enumerate(calls):
        use = {"type": "tool_use", "id": f"t{at}", "name": "Bash", "input": {"command": command}}
        result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": said, "is_error": code != 0}
        lines += [record(2 * at + 1, "assistant", [use]), record(2 * at + 2, "user", [result])]
    return lines


def codex(calls: Sequence[Call]) -> list[object]:
    def item(**payload: object) -> Record:
        return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload}

    lines: list[object] = [{"timestamp": "t", "type": "session_meta", "payload": {"id": "s", "cli_version": "1"}}]
    lines.append(item(type="message", role="user", content=[{"type": "input_text", "text": TASK}]))
    for at, (command, said, code) in enumerate(calls):
        arguments = json.dumps({"command": ["bash", "-lc", command]})
        output = json.dumps({"output": said, "metadata": {"exit_code": code}})
        lines.append(item(type="function_call", name="shell", arguments=arguments, call_id=f"c{at}"))
        lines.append(item(type="function_call_output", call_id=f"c{at}", output=output))
    return lines


def atif(calls: Sequence[Call]) -> list[object]:
    steps: list[Record] = [{"step_id": 1, "source": "user", "message": TASK}]
    for at, (command, said, code) in enumerate(calls, 2):
        call = {"tool_call_id": f"c{at}", "function_name": "bash", "arguments": {"command": command}}
        result = {"source_call_id": f"c{at}", "content": said, "extra": {"exit_code": code}}
        step = {"step_id": at, "source": "agent", "message": "now", "tool_calls": [call]}
        steps.append({**step, "observation": {"results": [result]}})
    return [json.dumps({"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a"}, "steps": steps})]


def openhands(calls: Sequence[Call]) -> list[object]:
    lines: list[object] = [{"id": 0, "source": "user", "action": "message", "args": {"content": TASK}}]
    for at, (command, said, code) in enumerate(calls):
        run = {"id": 2 * at + 1, "source": "agent", "action": "run", "args": {"command": command, "thought": ""}}
        seen = {"id": 2 * at + 2, "source": "agent", "observation": "run", "cause": 2 * at + 1, "content": said}
        lines += [run, {**seen, "extras": {"command": command, "metadata": {"exit_code": code}}}]
    return [json.dumps({"instance_id": "i", "history": lines})]


def mini_swe_agent(calls: Sequence[Call]) -> list[object]:
    messages: list[Record] = [{"role": "system", "content": "s"}, {"role": "user", "content": TASK}]
    for command, said, code in calls:
        messages.append({"role": "assistant", "content": f"now\n```bash\n{command}\n```"})
        output = f"<returncode>{code}</returncode>\n<output>\n{said}\n</output>"
        messages.append({"role": "user", "content": output})
    info = {"mini_version": "1.16.0", "exit_status": "LimitsExceeded"}
    return [json.dumps({"trajectory_format": "mini-swe-agent-1", "messages": messages, "info": info})]


def openai_chat(calls: Sequence[Call]) -> list[object]:
    messages: list[Record] = [{"role": "user", "content": TASK}]
    for at, (command, said, code) in enumerate(calls):
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        call = {"id": f"c{at}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": f"{said}\nExit code: {code}"})
    return [{"messages": messages}]


def gemini_cli(calls: Sequence[Call]) -> list[object]:
    messages: list[Record] = [{"id": "u", "type": "user", "timestamp": "t", "content": [{"text": TASK}]}]
    for at, (command, said, code) in enumerate(calls):
        printed = f"Output: {said}" + (f"\nExit Code: {code}" if code else "") + "\nProcess Group PGID: 7"
        answer = {"id": f"c{at}", "name": "run_shell_command", "response": {"output": printed}}
        call: Record = {"id": f"c{at}", "name": "run_shell_command", "args": {"command": command}}
        call = {**call, "status": "success", "result": [{"functionResponse": answer}]}
        messages.append({"id": f"m{at}", "type": "gemini", "timestamp": "t", "content": "now", "toolCalls": [call]})
    return [{"sessionId": "s", "projectHash": "h", "messages": messages}]


def opencode(calls: Sequence[Call]) -> list[object]:
    asked: Record = {"info": {"id": "u", "role": "user"}, "parts": [{"type": "text", "text": TASK}]}
    messages = [asked]
    for at, (command, said, code) in enumerate(calls):
        state = {"status": "completed", "input": {"command": command}, "output": said, "metadata": {"exit": code}}
        part = {"type": "tool", "callID": f"c{at}", "tool": "bash", "state": state}
        messages.append({"info": {"id": f"m{at}", "role": "assistant"}, "parts": [part]})
    return [{"info": {"id": "s"}, "messages": messages}]


def copilot_cli(calls: Sequence[Call]) -> list[object]:
    def event(kind: str, **data: object) -> Record:
        return {"type": kind, "data": data, "timestamp": "t"}

    lines: list[object] = [event("session.start", sessionId="s"), event("user.message", content=TASK)]
    for at, (command, said, code) in enumerate(calls):
        asked = {"toolCallId": f"c{at}", "name": "bash", "arguments": {"command": command}}
        lines.append(event("assistant.message", content="now", toolRequests=[asked]))
        result = {"content": f"{said}\n<exited with exit code {code}>"}
        lines.append(event("tool.execution_complete", toolCallId=f"c{at}", success=True, result=result))
    return lines


def cline(calls: Sequence[Call]) -> list[object]:
    messages: list[Record] = [{"role": "user", "content": f"<task>\n{TASK}\n</task>"}]
    for at, (command, said, code) in enumerate(calls):
        use = {"type": "tool_use", "id": f"c{at}", "name": "execute_command", "input": {"command": command}}
        messages.append({"role": "assistant", "content": [use]})
        shown = f"Command executed in terminal within working directory '/w'. Exit code: {code}\nOutput:\n{said}"
        messages.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{at}", "content": shown}]}
        )
    return [json.dumps(messages)]


def swe_agent(calls: Sequence[Call]) -> list[object]:
    steps = [{"action": one, "observation": said, "response": "now"} for one, said, _ in calls]
    return [json.dumps({"trajectory": steps, "history": [], "info": {}})]


def plain_chat(calls: Sequence[Call]) -> list[object]:
    (record,) = openai_chat([(command, said, 0) for command, said, _ in calls])
    return [json.loads(json.dumps(record).replace("\\nExit code: 0", ""))]


Writer = Callable[[Sequence[Call]], list[object]]
CODED: tuple[Writer, ...] = (
    claude_code, codex, atif, openhands, mini_swe_agent, openai_chat, gemini_cli, opencode, copilot_cli, cline,
)  # fmt: skip
PLAIN: tuple[Writer, ...] = (swe_agent, plain_chat)
SHELL = [(each.name, calls) for each in (*SESSIONS, *WORKDAYS) if (calls := shell_calls(each))]


def taught(writer: Writer, calls: Sequence[Call], folder: Path) -> list[str]:
    path = folder / f"{writer.__name__}.{'traj' if writer is swe_agent else 'jsonl'}"
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in writer(calls)))
    (trace,) = read(path)
    assert trace.meta["format"] in {writer.__name__, "harbor", "atif", "openai_chat"}
    return sorted(survey([trace]).support())


def test_a_session_of_a_shell_teaches_the_same_in_ten_formats(tmp_path: Path) -> None:
    assert len(SHELL) >= 70
    differs = {}
    for name, calls in SHELL:
        found = {writer.__name__: taught(writer, calls, tmp_path) for writer in CODED}
        if len({tuple(each) for each in found.values()}) > 1:
            differs[name] = found
    assert differs == {}


@pytest.mark.parametrize("writer", PLAIN)
def test_where_no_exit_code_is_recorded_nothing_else_is_taught(writer: Writer, tmp_path: Path) -> None:
    found = {name: (taught(writer, calls, tmp_path), taught(claude_code, calls, tmp_path)) for name, calls in SHELL}
    assert {name: both for name, both in found.items() if not set(both[0]) <= set(both[1])} == {}
    assert sum(map(bool, (plain for plain, _ in found.values()))) >= 40  # most failures say that they are


def test_formats_without_exit_codes_teach_alike(tmp_path: Path) -> None:
    found = {name: [taught(writer, calls, tmp_path) for writer in PLAIN] for name, calls in SHELL}
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}
