"""Sessions of the coding agents of a developer's machine, in the shapes that their programs write; made by hand."""

# ruff: noqa: E501 - records stand on one line, as they are written

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from combee.redaction import Trace
from combee.traces.mining import failed_calls
from combee.traces.readers import Report, read

Read = Callable[[Path], tuple[list[Trace], Report]]
WriteLines = Callable[[str, Sequence[object]], Path]


def shown(trace: Trace) -> list[tuple[str, ...]]:
    """Return role, text and calls of every step; of a result also the call that it answers and whether it failed."""
    return [
        (step.role, step.text, *(f"{call.id} {call.name} {call.arguments}" for call in step.tool_calls))
        if step.answers is None
        else (step.role, step.text, f"{step.answers} {step.is_error}")
        for step in trace.steps
    ]


def only(read: tuple[list[Trace], Report], kind: str) -> Trace:
    (trace,), report = read
    assert (dict(report.formats), report.lost) == ({kind: 1}, 0), report
    return trace


HEAD = {
    "sessionId": "g1",
    "projectHash": "ab",
    "startTime": "2026-01-01T00:00:00Z",
    "lastUpdated": "2026-01-01T00:00:00Z",
}
PRINTED = "Output: ls: no such file\nExit Code: 2\nProcess Group PGID: 77"
GEMINI_CALL: dict[str, object] = {
    "id": "c1", "name": "run_shell_command", "args": {"command": "ls x"}, "status": "success", "timestamp": "t",
    "result": [{"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": PRINTED}}}],
}  # fmt: skip
GEMINI: list[dict[str, object]] = [
    {"id": "m1", "timestamp": "t1", "type": "user", "content": [{"text": "Mend it"}]},
    {"id": "m2", "timestamp": "t2", "type": "gemini", "content": "now", "model": "gemini-x", "thoughts": [{"subject": "s", "description": "d"}], "toolCalls": [GEMINI_CALL]},
    {"id": "m3", "timestamp": "t3", "type": "info", "content": "Update available"},
    {"id": "m4", "timestamp": "t4", "type": "gemini", "content": "done"},
]  # fmt: skip
GEMINI_SHOWN = [
    ("user", "Mend it"),
    ("assistant", "now"),
    ("assistant", "", 'c1 run_shell_command {"command": "ls x"}'),
    ("tool", "ls: no such file\nExit code: 2", "c1 True"),
    ("assistant", "done"),
]


def test_gemini_cli_in_one_document_and_in_lines_is_one_run(read_all: Read, write_lines: WriteLines) -> None:
    path = write_lines("chats/session-1.json", [{**HEAD, "messages": GEMINI}])
    trace = only(read_all(path), "gemini_cli")
    assert shown(trace) == GEMINI_SHOWN
    assert (trace.task, trace.meta["model"], failed_calls(trace)) == ("Mend it", "gemini-x", 1)
    again = {**GEMINI[1], "toolCalls": []}  # a record of a known name takes the place of the first
    wrong = {"id": "m9", "timestamp": "t", "type": "user", "content": "no"}
    write_lines(
        "chats/session-1.jsonl",
        [HEAD, GEMINI[0], again, GEMINI[1], {"$set": {"lastUpdated": "t"}}, wrong, {"$rewindTo": "m9"}, *GEMINI[2:]],
    )
    result = read(path.parent)
    (first,) = result.once()
    assert (shown(first), result.report.twice) == (GEMINI_SHOWN, 1)
    moved = write_lines("only/session-2.jsonl", [HEAD, wrong, {"$set": {"messages": GEMINI, "kind": "subagent"}}])
    (sub,), _ = read_all(moved)
    assert shown(sub) == GEMINI_SHOWN
    assert {step.agent for step in sub.steps} == {"subagent"}


def test_gemini_streams_join_what_was_said_in_pieces(read_all: Read, write_lines: WriteLines) -> None:
    events = [
        {"type": "init", "timestamp": "t", "session_id": "s", "model": "gemini-x"},
        {"type": "message", "timestamp": "t", "role": "user", "content": "Mend it"},
        {"type": "message", "timestamp": "t", "role": "assistant", "content": "on ", "delta": True},
        {"type": "message", "timestamp": "t", "role": "assistant", "content": "it", "delta": True},
        {"type": "tool_use", "timestamp": "t", "tool_name": "read_file", "tool_id": "r1", "parameters": {"path": "a"}},
        {"type": "tool_result", "timestamp": "t", "tool_id": "r1", "status": "error", "error": {"type": "E", "message": "gone"}},
        {"type": "message", "timestamp": "t", "role": "assistant", "content": "done", "delta": True},
        {"type": "result", "timestamp": "t", "status": "success", "stats": {}},
    ]  # fmt: skip
    trace = only(read_all(write_lines("s.jsonl", events)), "gemini_stream")
    assert shown(trace) == [
        ("user", "Mend it"),
        ("assistant", "on it"),
        ("assistant", "", 'r1 read_file {"path": "a"}'),
        ("tool", "E: gone", "r1 True"),
        ("assistant", "done"),
    ]
    assert trace.outcome is None  # that a run came to its end says nothing


def qwen(number: int, kind: str, parts: list[object], **more: object) -> dict[str, object]:
    role = "model" if kind == "assistant" else "user"
    head = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": "q", "type": kind}
    return {**head, "timestamp": "t", "message": {"role": role, "parts": parts}, **more}


def test_qwen_code_is_read_with_its_calls_and_without_what_hooks_added(read_all: Read, write_lines: WriteLines) -> None:
    call = {"functionCall": {"id": "c1", "name": "run_shell_command", "args": {"command": "ls x"}}}
    answer = {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": PRINTED}}}
    lines = [
        qwen(0, "user", [{"text": "Mend it"}, {"text": "a hook's words"}], systemPayload={"displayText": "Mend it"}),
        qwen(1, "assistant", [{"text": "hm", "thought": True}], model="qwen-x"),
        {**qwen(1, "assistant", [call]), "model": "qwen-x"},  # the same answer goes on
        qwen(2, "tool_result", [answer], toolCallResult={"callId": "c1", "status": "success"}),
        qwen(3, "user", [{"text": "A task ended"}], subtype="notification"),
        qwen(4, "assistant", [{"text": "done"}]),
    ]
    trace = only(read_all(write_lines("q.jsonl", lines)), "qwen_code")
    assert shown(trace) == [
        ("user", "Mend it"),
        ("assistant", "[thinking] hm\n"),
        ("assistant", "", 'c1 run_shell_command {"command": "ls x"}'),
        ("tool", "ls: no such file\nExit code: 2", "c1 True"),
        ("system", "A task ended"),
        ("assistant", "done"),
    ]
    assert (trace.meta["agent"], trace.meta["model"]) == ("qwen-code", "qwen-x")


def test_sessions_of_googles_development_kit(read_all: Read, write_lines: WriteLines) -> None:
    def event(author: str, *parts: object, **more: object) -> dict[str, object]:
        role = "user" if author == "user" else "model"
        return {
            "invocation_id": "i",
            "author": author,
            "content": {"role": role, "parts": list(parts)},
            "timestamp": 1.5e9,
            **more,
        }

    events = [
        event("user", {"text": "Which?"}),
        event("lead", {"text": "Wh"}, partial=True),
        event("lead", {"function_call": {"name": "look", "args": {"a": 1}}}),  # without ids, as older versions wrote
        event("lead", {"function_response": {"name": "look", "response": {"error": "nothing there"}}}),
        event("helper", {"text": "This."}),
    ]
    trace = only(read_all(write_lines("s.json", [{"id": "s1", "app_name": "app", "events": events}])), "google_adk")
    assert shown(trace) == [
        ("user", "Which?"),
        ("assistant", "", 'look look {"a": 1}'),
        ("tool", "nothing there", "look True"),
        ("assistant", "This."),
    ]
    assert [step.agent for step in trace.steps] == [None, None, None, "helper"]
    assert shown(only(read_all(write_lines("s.jsonl", [*events, events[0]])), "google_adk"))[:4] == shown(trace)


CALLS: dict[str, list[object]] = {
    "goose": [
        {"id": "m", "role": "assistant", "created": 1, "content": [{"type": "text", "text": "now"}, {"type": "toolRequest", "id": "c", "toolCall": {"status": "success", "value": {"name": "developer__shell", "arguments": {"command": "ls x"}}}}]},
        {"role": "user", "created": 2, "content": [{"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": {"content": [{"type": "text", "text": "gone"}], "isError": True}}}]},
    ],
    "goose before 1.10": [
        {"role": "assistant", "content": [{"type": "text", "text": "now"}, {"type": "toolRequest", "id": "c", "toolCall": {"status": "success", "value": {"name": "developer__shell", "arguments": {"command": "ls x"}}}}]},
        {"role": "user", "content": [{"type": "toolResponse", "id": "c", "toolResult": {"status": "error", "error": "gone"}}]},
    ],
    "AI SDK": [
        {"role": "assistant", "content": [{"type": "text", "text": "now"}, {"type": "tool-call", "toolCallId": "c", "toolName": "developer__shell", "input": {"command": "ls x"}}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "developer__shell", "output": {"type": "error-text", "value": "gone"}}]},
    ],
    "AI SDK, of the screen": [
        {"id": "m", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "text", "text": "now"}, {"type": "tool-developer__shell", "toolCallId": "c", "state": "output-error", "input": {"command": "ls x"}, "errorText": "gone"}]},
    ],
    "AI SDK 4, of the screen": [
        {"id": "m", "role": "assistant", "content": "now", "parts": [{"type": "text", "text": "now"}, {"type": "tool-invocation", "toolInvocation": {"state": "result", "toolCallId": "c", "toolName": "developer__shell", "args": {"command": "ls x"}, "result": "ls: gone: No such file or directory"}}]},
    ],
    "pydantic-ai": [
        {"kind": "response", "parts": [{"part_kind": "text", "content": "now"}, {"part_kind": "tool-call", "tool_name": "developer__shell", "args": '{"command": "ls x"}', "tool_call_id": "c"}]},
        {"kind": "request", "parts": [{"part_kind": "retry-prompt", "tool_name": "developer__shell", "content": "gone", "tool_call_id": "c"}]},
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", CALLS)
def test_a_list_of_messages_of_any_kit_pairs_calls_with_results_and_errors(
    kind: str, read_all: Read, write_lines: WriteLines
) -> None:
    asked: object = {"role": "user", "content": "Mend it"}
    if kind == "pydantic-ai":
        asked = {
            "kind": "request",
            "parts": [
                {"part_kind": "system-prompt", "content": "Be short."},
                {"part_kind": "user-prompt", "content": "Mend it"},
            ],
        }
    trace = only(read_all(write_lines("m.json", [json.dumps([asked, *CALLS[kind]], indent=1)])), "openai_chat")
    assert (trace.task, failed_calls(trace)) == ("Mend it", 1)
    assert [step.role for step in trace.steps][-3:] == ["user", "assistant", "tool"]
    said, answer = trace.steps[-2:]
    assert (said.text, said.tool_calls[0].name, said.tool_calls[0].arguments) == (
        "now",
        "developer__shell",
        '{"command": "ls x"}',
    )
    assert (answer.answers, said.tool_calls[0].id) == ("c", "c")
    assert "gone" in answer.text


def test_goose_sessions_exports_and_streams_are_the_same_run(read_all: Read, write_lines: WriteLines) -> None:
    asked = {"role": "user", "created": 0, "content": [{"type": "text", "text": "Mend it"}]}
    talk = [asked, *CALLS["goose"]]
    lines = only(
        read_all(
            write_lines("s.jsonl", [{"id": "x", "working_dir": "/w", "description": "", "message_count": 3}, *talk])
        ),
        "openai_chat",
    )
    export = only(
        read_all(write_lines("e.json", [json.dumps({"id": "x", "working_dir": "/w", "conversation": talk}, indent=1)])),
        "openai_chat",
    )
    stream = only(
        read_all(
            write_lines(
                "t.jsonl",
                [*({"type": "message", "message": each} for each in talk), {"type": "complete", "total_tokens": 1}],
            )
        ),
        "openai_chat",
    )
    assert shown(lines) == shown(export) == shown(stream)
    assert len(lines.steps) == 3


def test_lines_of_messages_without_ids_pair_in_order(read_all: Read, write_lines: WriteLines) -> None:
    lines = [
        {"role": "user", "message": {"content": [{"type": "text", "text": "<user_query>\nMend it\n</user_query>"}]}},
        {"role": "assistant", "message": {"content": [{"type": "tool_use", "name": "Shell", "input": {"command": "a"}}, {"type": "tool_use", "name": "Shell", "input": {"command": "b"}}]}},
        {"role": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "A"}, {"type": "tool_result", "tool_use_id": "t2", "content": "B"}]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": "done"}]}},
        {"note": "of nobody"},
    ]  # fmt: skip
    (trace,), report = read_all(write_lines("c.jsonl", lines))
    assert shown(trace) == [
        ("user", "Mend it\n"),
        ("assistant", "", 'call-1 Shell {"command": "a"}', 'call-2 Shell {"command": "b"}'),
        ("tool", "A", "call-1 None"),
        ("tool", "B", "call-2 None"),
        ("assistant", "done"),
    ]
    assert [str(each) for each in report.skipped] == ["c.jsonl:5: no chat message in it"]
    traces, report = read_all(
        write_lines("d.jsonl", [*lines, *[{"made": "up"}] * 5])
    )  # half would be worse than a refusal
    assert (traces, report.lost) == ([], 1)


def test_logged_requests_of_anthropic_and_google_keep_their_system_prompt(
    read_all: Read, write_lines: WriteLines
) -> None:
    def request(*messages: object) -> dict[str, object]:
        return {
            "model": "m",
            "system": [{"type": "text", "text": "Be short."}],
            "messages": [{"role": "user", "content": "Mend it"}, *messages],
        }

    use = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c", "name": "bash", "input": {"command": "ls x"}}],
    }
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c", "content": "gone", "is_error": True}],
    }
    done = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "done"}]}
    lines = [
        {"request": request(), "response": {"type": "message", **use}},
        {"request": request(use, result), "response": done},
    ]
    expected = [
        ("system", "Be short."),
        ("user", "Mend it"),
        ("assistant", "", 'c bash {"command": "ls x"}'),
        ("tool", "gone", "c True"),
        ("assistant", "done"),
    ]
    assert shown(only(read_all(write_lines("a.jsonl", lines)), "openai_chat")) == expected
    contents = [{"role": "user", "parts": [{"text": "Mend it"}]}, {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "bash", "args": {"command": "ls x"}}}]},
                {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "bash", "response": {"error": "gone"}}}]}]  # fmt: skip
    google = {"request": {"contents": contents, "systemInstruction": {"parts": [{"text": "Be short."}]}},
              "response": {"candidates": [{"content": {"role": "model", "parts": [{"text": "done"}]}}]}}  # fmt: skip
    assert shown(only(read_all(write_lines("g.jsonl", [google])), "openai_chat")) == expected


def test_cursors_stream_is_read_with_its_calls(read_all: Read, write_lines: WriteLines) -> None:
    def event(kind: str, **more: object) -> dict[str, object]:
        return {"type": kind, "session_id": "s", **more}

    def call(subtype: str, name: str, **call: object) -> dict[str, object]:
        return event(
            "tool_call",
            subtype=subtype,
            call_id=name,
            tool_call={f"{'shell' if name == 'c1' else 'read'}ToolCall": call},
        )

    lines = [
        event("system", subtype="init", model="Auto", cwd="/w"),
        event("user", message={"role": "user", "content": [{"type": "text", "text": "Mend it"}]}),
        event("thinking", subtype="delta", text="hm"),
        call("started", "c1", args={"command": "ls x"}),
        call("completed", "c1", args={"command": "ls x"}, result={"failure": {"exitCode": 2, "stdout": "", "stderr": "ls: no such file"}}),
        call("completed", "c2", args={"path": "a"}, result={"success": {"content": "text of a", "totalLines": 1}}),
        call("completed", "c3", args={"path": "b"}, result={"rejected": {"reason": "not allowed"}}),
        event("assistant", message={"role": "assistant", "content": [{"type": "text", "text": "done"}]}),
        event("result", subtype="success", is_error=False, result="done"),
    ]  # fmt: skip
    trace = only(read_all(write_lines("s.jsonl", lines)), "claude_stream")
    assert shown(trace) == [
        ("user", "Mend it"),
        ("assistant", "", 'c1 shell {"command": "ls x"}'),
        ("tool", "ls: no such file", "c1 True"),
        ("assistant", "", 'c2 read {"path": "a"}'),
        ("tool", "text of a", "c2 False"),
        ("assistant", "", 'c3 read {"path": "b"}'),
        ("tool", '{"reason": "not allowed"}', "c3 True"),
        ("assistant", "done"),
    ]
    assert trace.meta["agent"] == "cursor"
    assert trace.outcome is not None
    assert trace.outcome.claimed


PARTS: dict[str, list[dict[str, object]]] = {
    "msg_1": [
        {"id": "p1", "type": "text", "text": "Mend it"},
        {"id": "p2", "type": "text", "text": "content of a file", "synthetic": True},
    ],
    "msg_2": [
        {"id": "p3", "type": "step-start", "snapshot": "abc"},
        {"id": "p4", "type": "reasoning", "text": "hm"},
        {"id": "p5", "type": "tool", "callID": "c1", "tool": "bash", "state": {"status": "completed", "input": {"command": "ls x"}, "output": "ls: no such file\n", "metadata": {"exit": 2}}},
        {"id": "p6", "type": "tool", "callID": "c2", "tool": "read", "state": {"status": "error", "input": {"filePath": "a"}, "error": "File not found"}},
        {"id": "p7", "type": "tool", "callID": "c3", "tool": "grep", "state": {"status": "running", "input": {}}},
        {"id": "p8", "type": "text", "text": "done"},
        {"id": "p9", "type": "step-finish", "reason": "stop"},
    ],
}  # fmt: skip
INFOS: list[dict[str, object]] = [
    {"id": "msg_2", "sessionID": "ses_1", "role": "assistant", "modelID": "m", "time": {"created": 1730000002000}, "error": {"name": "APIError", "data": {"message": "Overloaded"}}},
    {"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1730000001000}},
]  # fmt: skip
OPENCODE_SHOWN = [
    ("user", "Mend it"),
    ("system", "content of a file"),
    ("assistant", "[thinking] hm\n"),
    ("assistant", "", 'c1 bash {"command": "ls x"}'),
    ("tool", "ls: no such file\n", "c1 True"),
    ("assistant", "", 'c2 read {"filePath": "a"}'),
    ("tool", "File not found", "c2 True"),
    ("assistant", "", "c3 grep {}"),
    ("assistant", "done"),
    ("system", "[error] Overloaded"),
]


def opencode_storage(root: Path, session: dict[str, object], infos: Sequence[dict[str, object]] = INFOS) -> None:
    files = {f"session/proj/{session['id']}.json": session}
    files |= {f"message/{session['id']}/{info['id']}.json": {**info, "sessionID": session["id"]} for info in infos}
    files |= {f"part/{name}/{part['id']}.json": part for name, parts in PARTS.items() for part in parts}
    for below, value in files.items():
        (root / below).parent.mkdir(parents=True, exist_ok=True)
        (root / below).write_text(json.dumps(value), encoding="utf-8")


def test_the_storage_of_opencode_is_one_run_a_session_and_its_export_the_same(
    read_all: Read, write_lines: WriteLines, tmp_path: Path
) -> None:
    root = tmp_path / "storage"
    opencode_storage(root, {"id": "ses_1", "version": "1.0"})
    child = [{**info, "id": f"{info['id']}"} for info in INFOS[:1]]
    child[0] = {"id": "msg_3", "sessionID": "ses_2", "role": "user", "time": {"created": 1}}
    (root / "part" / "msg_3").mkdir()
    (root / "part" / "msg_3" / "p.json").write_text(
        '{"id": "p", "type": "text", "text": "look there"}', encoding="utf-8"
    )
    opencode_storage(root, {"id": "ses_2", "parentID": "ses_1"}, child)
    (root / "part" / "msg_1" / "p3.json").write_text("{torn", encoding="utf-8")
    traces, report = read_all(root)
    assert [shown(trace) for trace in traces] == [OPENCODE_SHOWN, [("user", "look there")]]
    assert [step.agent for step in traces[1].steps] == ["subagent"]
    assert failed_calls(traces[0]) == 2
    assert [str(each).partition(": ")[0] for each in report.skipped] == [
        "part/msg_1/p3.json:1"
    ]  # it costs itself alone
    export = {
        "info": {"id": "ses_1", "version": "1.0"},
        "messages": [{"info": info, "parts": PARTS[str(info["id"])]} for info in reversed(INFOS)],
    }
    exported = only(read_all(write_lines("e.json", [json.dumps(export, indent=2)])), "opencode")
    assert (shown(exported), exported.id) == (OPENCODE_SHOWN, traces[0].id)
    write_lines("storage.json", [export])
    assert read(tmp_path).report.traces == 0
    result = read(tmp_path)
    assert (len(list(result.once())), result.report.twice) == (2, 2)


def test_the_stream_of_opencode_is_a_run_without_its_question(read_all: Read, write_lines: WriteLines) -> None:
    kinds = {
        "tool": "tool_use",
        "text": "text",
        "step-start": "step_start",
        "step-finish": "step_finish",
        "reasoning": "reasoning",
    }
    events = [
        {"type": kinds[str(part["type"])], "timestamp": 1730000002000, "sessionID": "ses_1", "part": part}
        for part in PARTS["msg_2"]
    ]
    assert shown(only(read_all(write_lines("r.jsonl", events)), "opencode")) == OPENCODE_SHOWN[2:-1]


def copilot(kind: str, number: int, **data: object) -> dict[str, object]:
    return {"type": kind, "data": data, "id": f"e{number}", "timestamp": f"t{number}", "parentId": f"e{number - 1}"}


COPILOT = [
    copilot("session.start", 0, sessionId="k", copilotVersion="1.0", selectedModel="gpt-x"),
    copilot("user.message", 1, content="Mend it", transformedContent="<reminder>x</reminder> Mend it"),
    copilot("assistant.message", 2, content="now", model="gpt-x", toolRequests=[{"toolCallId": "c1", "name": "bash", "arguments": {"command": "ls x"}}]),
    copilot("tool.execution_start", 3, toolCallId="c1", toolName="bash", arguments={"command": "ls x"}),
    copilot("tool.execution_complete", 4, toolCallId="c1", success=True, result={"content": "ls: no such file\n<exited with exit code 2>"}),
    copilot("tool.execution_start", 5, toolCallId="c2", toolName="view", arguments={"path": "a"}, parentToolCallId="task-1"),
    copilot("tool.execution_complete", 6, toolCallId="c2", success=False, error={"message": "Path does not exist"}, parentToolCallId="task-1"),
    copilot("hook.end", 7, success=True),
    copilot("session.error", 8, message="Overloaded"),
    copilot("assistant.message", 9, content="done", toolRequests=[]),
]  # fmt: skip


def test_copilot_cli_sessions_and_their_resumed_copies(read_all: Read, write_lines: WriteLines) -> None:
    path = write_lines("session-state/k/events.jsonl", [*COPILOT, "{torn"])
    (trace,), report = read_all(path)
    assert report.lost == 1
    assert shown(trace) == [
        ("user", "Mend it"),
        ("assistant", "now", 'c1 bash {"command": "ls x"}'),
        ("tool", "ls: no such file\nExit code: 2", "c1 True"),
        ("assistant", "", 'c2 view {"path": "a"}'),
        ("tool", "Path does not exist", "c2 True"),
        ("system", "[error] Overloaded"),
        ("assistant", "done"),
    ]
    assert [step.agent for step in trace.steps] == [None, None, None, "task-1", "task-1", None, None]
    assert (trace.meta["model"], failed_calls(trace)) == ("gpt-x", 2)
    write_lines(
        "session-state/l/events.jsonl",
        [copilot("session.start", 0, sessionId="l"), *COPILOT[1:], copilot("user.message", 10, content="And now?")],
    )
    traces, _ = read_all(path.parent.parent)
    assert [len(trace.steps) for trace in traces] == [7, 1]


def test_chats_of_vs_code_as_a_document_and_as_a_log_of_changes(read_all: Read, write_lines: WriteLines) -> None:
    rounds = [
        {"response": "now", "toolCalls": [{"id": "c1", "name": "run_in_terminal", "arguments": '{"command": "ls x"}'}]},
        {"response": "done", "toolCalls": []},
    ]
    results = {"c1": {"content": [{"value": "ls: no such file\nExit code: 2"}]}}
    response = [
        {"value": "now"},
        {
            "kind": "toolInvocationSerialized",
            "toolId": "copilot_runInTerminal",
            "toolCallId": "x",
            "toolSpecificData": {"kind": "terminal", "command": "ls x"},
        },
    ]
    request = {
        "requestId": "r1",
        "message": {"text": "Mend it"},
        "response": response,
        "modelId": "copilot/x",
        "timestamp": 1.7e12,
    }
    result = {"metadata": {"toolCallRounds": rounds, "toolCallResults": results}}
    whole = only(
        read_all(
            write_lines("c.json", [{"version": 3, "sessionId": "s", "requests": [{**request, "result": result}]}])
        ),
        "vscode_chat",
    )
    assert shown(whole) == [
        ("user", "Mend it"),
        ("assistant", "now", 'c1 run_in_terminal {"command": "ls x"}'),
        ("tool", "ls: no such file\nExit code: 2", "c1 None"),
        ("assistant", "done"),
    ]
    log = [
        {"kind": 0, "v": {"version": 3, "sessionId": "s", "requests": []}},
        {"kind": 2, "k": ["requests"], "v": [{**request, "response": []}]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": response},
        {"kind": 1, "k": ["requests", 0, "result"], "v": result},
    ]
    assert only(read_all(write_lines("c.jsonl", log)), "vscode_chat").steps == whole.steps
    (shorter,), report = read_all(write_lines("d.jsonl", [*log[:3], {"kind": 1, "k": ["requests", 7, "x"], "v": 1}]))
    assert shown(shorter)[1:] == [("assistant", "now", 'x copilot_runInTerminal {"command": "ls x"}')]
    assert report.lost == 1


STATE = {"type": "text", "text": "<environment_details>\n# Current Time\nnow\n</environment_details>"}


def cline_said(*said: str, ts: int = 1_700_000_000_000) -> dict[str, object]:
    return {"role": "user", "ts": ts, "content": [*({"type": "text", "text": each} for each in said), STATE]}


CLINE_SHOWN = [
    ("user", "Mend it"),
    ("assistant", "now", 'CALL execute_command {"command": "ls x"}'),
    ("tool", "Command executed.\nExit code: 2\nOutput:\nls: no such file", "CALL None"),
    ("assistant", "", 'CALL read_file {"path": "a"}'),
    ("tool", "The tool execution failed with the following error:\n<error>gone</error>", "CALL True"),
    ("system", "# TODO LIST RECOMMENDED"),
    ("assistant", "", 'CALL attempt_completion {"result": "done"}'),
    ("user", "No, use make"),
]


def cline_shown(trace: Trace) -> list[tuple[str, ...]]:
    names = {call.id for step in trace.steps for call in step.tool_calls}
    assert len(names) == 3
    return [
        tuple(each if each.split(" ")[0] not in names else f"CALL {each.partition(' ')[2]}" for each in step)
        for step in shown(trace)
    ]


def test_cline_and_roo_with_calls_as_blocks_and_as_tags_are_the_same_run(
    read_all: Read, write_lines: WriteLines
) -> None:
    ls_text = "Command executed.\nExit code: 2\nOutput:\nls: no such file"
    failed = "The tool execution failed with the following error:\n<error>gone</error>"
    blocks = [
        cline_said("<task>\nMend it\n</task>"),
        {
            "role": "assistant",
            "modelInfo": {"modelId": "m"},
            "content": [
                {"type": "text", "text": "now"},
                {"type": "tool_use", "id": "t1", "name": "execute_command", "input": {"command": "ls x"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": ls_text}, STATE]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t2", "name": "read_file", "input": {"path": "a"}}],
        },
        cline_said(
            "[read_file for 'a'] Result:", failed, "# TODO LIST RECOMMENDED"
        ),  # newer ones too answer a block with text
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t3", "name": "attempt_completion", "input": {"result": "done"}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t3",
                    "content": "<user_message>\nNo, use make\n</user_message>",
                },
                STATE,
            ],
        },
    ]
    tags = [
        cline_said("<task>\nMend it\n</task>"),
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "now"},
                {"type": "text", "text": "<execute_command>\n<command>ls x</command>\n</execute_command>"},
            ],
        },
        cline_said("[execute_command for 'ls x'] Result:", ls_text),
        {"role": "assistant", "content": "<read_file>\n<path>a</path>\n</read_file>"},
        cline_said(f"[read_file for 'a'] Result:\n{failed}", "# TODO LIST RECOMMENDED"),
        {"role": "assistant", "content": "<attempt_completion>\n<result>\ndone\n</result>\n</attempt_completion>"},
        cline_said("[attempt_completion] Result:", "The user has feedback:\n<feedback>\nNo, use make\n</feedback>"),
    ]
    path = write_lines("tasks/17/api_conversation_history.json", [json.dumps(blocks, indent=1)])
    write_lines("tasks/17/ui_messages.json", [[{"ts": 1, "type": "say", "say": "task", "text": "Mend it"}]])
    trace = only(read_all(path.parent), "cline")
    found = cline_shown(trace)
    assert found[-2:] == [("tool", "<user_message>\nNo, use make\n</user_message>", "CALL None"), CLINE_SHOWN[-1]]
    assert [*found[:-2], found[-1]] == CLINE_SHOWN
    assert (trace.task, trace.meta["model"], trace.meta["session"], failed_calls(trace)) == ("Mend it", "m", "17", 2)
    old = cline_shown(
        only(read_all(write_lines("tasks/18/api_conversation_history.json", [json.dumps(tags, indent=1)])), "cline")
    )
    assert [step[0] for step in old] == [step[0] for step in [*CLINE_SHOWN[:7], ("tool",), CLINE_SHOWN[-1]]]
    assert [step[-1] for step in old if step[0] in {"user", "assistant"}] == [
        step[-1] for step in CLINE_SHOWN if step[0] in {"user", "assistant"}
    ]
    (screen,) = read_all(
        write_lines("only/ui_messages.json", [[{"ts": 1, "type": "say", "say": "task", "text": "x"}]])
    )[1].skipped
    assert "api_conversation_history.json" in str(screen)


def test_grok_lines_name_the_role_as_their_type(read_all: Read, write_lines: WriteLines) -> None:
    lines = [
        {"type": "system", "content": "Be short."},
        {"type": "user", "content": [{"type": "text", "text": "macos"}], "synthetic_reason": "environment_context"},
        {"type": "user", "content": [{"type": "text", "text": "Mend it"}], "prompt_index": 0},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "assistant", "content": "now", "tool_calls": [{"id": "c", "name": "run_terminal_cmd", "arguments": '{"command": "ls x"}'}]},
        {"type": "tool_result", "tool_call_id": "c", "content": "ls: no such file"},
    ]  # fmt: skip
    trace = only(read_all(write_lines("chat_history.jsonl", lines)), "openai_chat")
    assert shown(trace) == [
        ("system", "Be short."),
        ("system", "macos"),
        ("user", "Mend it"),
        ("assistant", "now", 'c run_terminal_cmd {"command": "ls x"}'),
        ("tool", "ls: no such file", "c None"),
    ]
    assert trace.task == "Mend it"


def test_kimi_joins_what_went_between_its_parts(read_all: Read, write_lines: WriteLines) -> None:
    def message(said: str, origin: str) -> dict[str, object]:
        content = [{"type": "text", "text": said}]
        return {
            "type": "context.append_message",
            "message": {"role": "user", "content": content, "toolCalls": [], "origin": {"kind": origin}},
            "time": 1784950605094,
        }

    def event(kind: str, **more: object) -> dict[str, object]:
        return {
            "type": "context.append_loop_event",
            "event": {"type": kind, **more},
            "time": 1784950605095,
            "agentId": "main",
        }

    lines = [
        {"type": "metadata", "protocol_version": "1.4", "created_at": 1784950509920},
        {"type": "config.update", "modelAlias": "kimi-x", "time": 1784950509920},
        {"type": "turn.prompt", "input": [{"type": "text", "text": "Mend it"}], "time": 1784950605093},
        message("Mend it", "user"),
        message("Plan mode is active", "injection"),
        event("step.begin", step=1),
        event("content.part", part={"type": "think", "think": "hm"}),
        event("content.part", part={"type": "text", "text": "now"}),
        event("tool.call", toolCallId="c", name="Bash", args={"command": "ls x"}),
        event("tool.result", toolCallId="c", result={"output": "ls: no such file", "isError": True}),
        {**event("content.part", part={"type": "text", "text": "seen"}), "agentId": "agent-0"},
        {"type": "context.apply_compaction", "summary": "so far", "time": 1784950605099},
    ]
    trace = only(read_all(write_lines("wire.jsonl", lines)), "kimi_cli")
    assert shown(trace) == [
        ("user", "Mend it"),
        ("system", "Plan mode is active"),
        ("assistant", "[thinking] hm\n"),
        ("assistant", "now"),
        ("assistant", "", 'c Bash {"command": "ls x"}'),
        ("tool", "ls: no such file", "c True"),
        ("assistant", "seen"),
        ("system", "[compaction] so far"),
    ]
    assert (trace.meta["model"], [step.agent for step in trace.steps if step.agent]) == ("kimi-x", ["agent-0"])


def test_every_start_of_aider_in_which_something_was_asked_is_a_run(read_all: Read, write_lines: WriteLines) -> None:
    lines = [
        "",
        "# aider chat started at 2026-01-01 10:00:00",
        "",
        "> Aider v0.80  ",
        "> Main model: m-x with diff edit format  ",
        "",
        "#### Mend the build,  ",
        "#### please  ",
        "",
        "I will.",
        "# A heading of the model",
        "",
        "> Applied edit to a.py  ",
        "#### /run make  ",
        "> make: *** No rule to make target 'all'.  ",
        "",
        "# aider chat started at 2026-01-02 10:00:00",
        "> Aider v0.80  ",
    ]
    trace = only(read_all(write_lines(".aider.chat.history.md", lines)), "aider")
    assert shown(trace) == [
        ("system", "Aider v0.80\nMain model: m-x with diff edit format"),
        ("user", "Mend the build,\nplease"),
        ("assistant", "I will.\n# A heading of the model"),
        ("system", "Applied edit to a.py"),
        ("system", "[the user ran] /run make"),
        ("system", "make: *** No rule to make target 'all'."),
    ]
    assert (trace.meta["model"], trace.meta["session"]) == ("m-x", "2026-01-01 10:00:00")
    traces, report = read_all(write_lines("b.md", [*lines, "#### again", "no"]))
    assert (len(traces), report.lost) == (2, 0)
    assert traces[0].id == trace.id


def test_a_database_is_refused_with_what_to_do(read_all: Read, tmp_path: Path) -> None:
    (tmp_path / "opencode.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    _, report = read_all(tmp_path)
    assert "export its sessions as JSON" in str(report.skipped[0])


def test_what_pydantic_ai_itself_dumps(read_all: Read, tmp_path: Path) -> None:
    kit = pytest.importorskip("pydantic_ai.messages", reason="an extra")
    returned = kit.ToolReturnPart
    messages = [
        kit.ModelRequest(parts=[kit.SystemPromptPart("Be short."), kit.UserPromptPart("Mend it")]),
        kit.ModelResponse(
            parts=[
                kit.TextPart("now"),
                kit.ToolCallPart("bash", {"command": "ls x"}, tool_call_id="c1"),
                kit.ToolCallPart("look", "{}", tool_call_id="c2"),
            ]
        ),
        kit.ModelRequest(
            parts=[
                returned("bash", "no such file", tool_call_id="c1", outcome="failed"),
                returned("look", {"a": [1]}, tool_call_id="c2"),
            ]
        ),
        kit.ModelResponse(parts=[kit.TextPart("done")]),
    ]
    path = tmp_path / "messages.json"
    path.write_bytes(kit.ModelMessagesTypeAdapter.dump_json(messages))
    assert shown(only(read_all(path), "openai_chat")) == [
        ("system", "Be short."),
        ("user", "Mend it"),
        ("assistant", "now", 'c1 bash {"command": "ls x"}', "c2 look {}"),
        ("tool", "no such file", "c1 True"),
        ("tool", '{"a": [1]}', "c2 None"),
        ("assistant", "done"),
    ]
