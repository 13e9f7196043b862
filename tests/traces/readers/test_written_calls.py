"""Agents that write their calls into their text: keystrokes in JSON, tags, ReAct; and the harness that kills them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from combee.redaction import Trace
from combee.traces.mining import survey
from combee.traces.mining.faults import fault_of
from combee.traces.readers import Report

Read = Callable[[Path], tuple[list[Trace], Report]]
WriteLines = Callable[[str, Sequence[object]], Path]


def keystrokes(*typed: str) -> str:
    commands = [{"keystrokes": f"{each}\n", "duration": 0.1} for each in typed]
    body = json.dumps(
        {"analysis": "{not yet}", "plan": "go on", "commands": commands, "task_complete": False}, indent=1
    )
    return f"Let me look.\n```json\n{body}\n```"


def tagged(line: str) -> str:
    return f"I try.\n<function=execute_bash>\n<parameter=command>\n{line}\n</parameter>\n</function>"


def react(line: str) -> str:
    return f"Thought: I need it.\nAction: bash\nAction Input: {line}"


FORMS = {
    "terminus": keystrokes,
    "openhands": tagged,
    "older openhands": lambda line: f"<execute_bash>\n{line}\n</execute_bash>",
    "anthropic": lambda line: f'<invoke name="bash"><parameter name="command">{line}</parameter></invoke>',
    "hermes": lambda line: f"<tool_call>\n{json.dumps({'name': 'bash', 'arguments': {'command': line}})}\n</tool_call>",
    "cline": lambda line: f"<execute_command>\n<command>{line}</command>\n</execute_command>",
    "react": react,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_calls_in_the_text_teach_as_calls_do(
    form: Callable[[str], str], read_all: Read, write_lines: WriteLines
) -> None:
    turns = [("pip show x; jq . a.json", "sh: 1: jq: not found"), ("apt-get install -y jq", "Setting up jq")]
    turns.append(("jq . a.json", "{}"))
    messages = [{"role": "system", "content": "You act by writing calls."}, {"role": "user", "content": "read a.json"}]
    for line, output in turns:
        messages += [{"role": "assistant", "content": form(line)}, {"role": "user", "content": f"Output:\n{output}"}]
    traces, report = read_all(write_lines("run.jsonl", [{"messages": messages}]))
    assert dict(report.formats) == {"openai_chat": 1}
    assert [step.role for step in traces[0].steps][2:] == ["assistant", "tool"] * 3
    assert [call.arguments for step in traces[0].steps for call in step.tool_calls][1].count("apt-get") == 1
    assert list(survey(traces).support()) == [
        "The program `jq` may be missing (`jq: command not found`): `apt-get install -y jq` brought it."
    ]


def test_a_text_about_calls_is_none(read_all: Read, write_lines: WriteLines) -> None:
    messages = [
        {"role": "user", "content": "How do I tag a call?"},
        {"role": "assistant", "content": 'Write </function> behind it, and {"keystrokes": as a key. Action: none.'},
        {"role": "user", "content": "Thanks"},
    ]
    traces, _ = read_all(write_lines("chat.jsonl", [{"messages": messages}]))
    assert [step.role for step in traces[0].steps] == ["user", "assistant", "user"]
    assert not any(step.tool_calls for step in traces[0].steps)


@pytest.mark.parametrize(
    "said",
    [
        "EXECUTION TIMED OUT",
        "EXECUTION TIMED OUT BECAUSE NO OUTPUT WAS PRODUCED FOR MORE THAN 60 SECONDS",
        "EXECUTION TIMED OUT AND INTERRUPT FAILED. RESTARTING PROCESS.",
        "Command timed out after 2m 0.0s",
        "command timed out after 10000 milliseconds",
        "[The command timed out after 120.0 seconds. You may wait longer to see additional output.]",
        "The command 'pip install x' was cancelled because it took more than 30 seconds. Try a quicker one.",
        "timed out: bash has not returned in 120 seconds and must be restarted",
        "Error: Command timed out after 60 seconds",
        "Command 'sleep 5' timed out after 3 seconds",
        "Code execution timed out",
        "Error: The command was terminated due to timeout",
    ],
)
def test_what_a_harness_says_of_a_call_that_it_killed(said: str) -> None:
    fault = fault_of(said)
    assert fault is not None
    assert fault.kind == "timeout"


@pytest.mark.parametrize(
    "said",
    [
        "curl: (28) Connection timed out after 30 seconds",
        "TimeoutError: timed out",
        "urllib3: Read timed out.",
        "The process of installing is described below; a request that timed out is repeated",
        "execution of the query: what to do when a lock timed out",
    ],
)
def test_a_time_limit_of_the_program_itself_is_not_one_of_the_harness(said: str) -> None:
    fault = fault_of(said)
    assert fault is None or fault.kind != "timeout"


def test_swe_agent_runs_in_which_calls_were_killed(read_all: Read, write_lines: WriteLines) -> None:
    state = "(Open file: n/a)\n(Current directory: /repo)\nbash-$"

    def run(number: int, *turns: tuple[str, str]) -> object:
        history = [{"role": "user", "content": f"mend {number}", "agent": "main"}]
        for action, observation in turns:
            history.append({"role": "assistant", "content": action, "action": action, "agent": "main"})
            history.append({"role": "user", "content": f"{observation}\n{state}", "agent": "main"})
        steps = [{"action": action, "observation": observation} for action, observation in turns]
        return {"history": history, "trajectory": steps, "info": {"exit_status": "submitted"}}

    turns = (
        ("traceroute a.b", "/bin/bash: line 12: traceroute: command not found"),
        ("apt-get install traceroute", "Setting up traceroute"),
        ("traceroute a.b", "EXECUTION TIMED OUT"),
        ("find. -name pom.xml", "/bin/bash: line 15: find.: command not found"),
        ("DISCUSSION", "/bin/bash: line 16: DISCUSSION: command not found"),
        ("create probe.py", "[File: probe.py (1 lines total)]"),
        ("python probe.py", "Traceback (most recent call last):\nModuleNotFoundError: No module named 'some_module'"),
        ("./gradlew test", "/bin/bash: line 441: ./gradlew: No such file or directory"),
    )
    paths = [write_lines(f"{at}/a.traj", [json.dumps(run(at, *turns))]) for at in range(3)]
    traces, report = read_all(paths[0].parent.parent)
    assert dict(report.formats) == {"swe_agent": 3}
    assert traces[0].steps[-1].text.endswith("directory")
    past = "in run after run; no run got past it that way."
    assert set(survey(traces).support()) == {
        f"`traceroute a.b` failed with `timed out and was killed` {past}",
        f"`./gradlew test` failed with `./gradlew: No such file or directory` {past}",
    }
