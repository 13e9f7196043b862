"""Each format of an agent's own records, from a small sample with what is odd about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from combee.redaction import Outcome, Step, Trace, to_jsonl
from combee.traces.readers import Report

Read = Callable[[Path], tuple[list[Trace], Report]]
WriteLines = Callable[[str, Sequence[object]], Path]


def shown(trace: Trace) -> list[tuple[str, str]]:
    """Return (role, text or calls) of each step: what a test compares."""
    return [
        (step.role, step.text or " ".join(f"{call.name}({call.arguments})" for call in step.tool_calls))
        for step in trace.steps
    ]


def only(result: tuple[list[Trace], Report], form: str) -> Trace:
    traces, report = result
    assert [str(notice) for notice in report.skipped] == []
    assert len(traces) == 1
    assert traces[0].meta["format"] == form
    return traces[0]


def test_our_own_lines(read_all: Read, tmp_path: Path) -> None:
    trace = Trace("kept-id", "do", (Step(3, "user", "hi"),), Outcome(True), {"tenant": "a"})
    path = tmp_path / "x.jsonl"
    path.write_text("".join(to_jsonl([trace])) + "{}\n", encoding="utf-8")
    (found,), report = read_all(path)
    assert (found.id, found.steps, found.outcome, found.labels) == (trace.id, trace.steps, trace.outcome, trace.labels)
    assert [(n.line, n.reason) for n in report.skipped] == [(2, "not a combee trace: no combee_trace version")]


def test_atif_with_copied_context_sub_agents_and_media(read_all: Read, write_lines: WriteLines) -> None:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
    sub = {
        "schema_version": "ATIF-v1.7",
        "trajectory_id": "helper",
        "agent": {"name": "h", "version": "1"},
        "steps": [{"step_id": 1, "source": "agent", "message": "inside"}],
    }
    result = {
        "source_call_id": "c1",
        "content": [
            {"type": "text", "text": "a.py"},
            {"type": "image", "source": {"media_type": "image/png", "path": "x.png"}},
        ],
        "subagent_trajectory_ref": [{"trajectory_id": "helper"}],
    }
    value = {
        "schema_version": "ATIF-v1.8",
        "agent": {"name": "terminus", "version": "2", "model_name": "m"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "old", "is_copied_context": True},
            {"step_id": 2, "source": "user", "message": "list"},
            {
                "step_id": 3,
                "source": "agent",
                "message": "",
                "reasoning_content": "hm",
                "tool_calls": [call],
                "observation": {"results": [result]},
            },
        ],
        "subagent_trajectories": [sub],
    }
    trace = only(read_all(write_lines("t.json", [value])), "atif")
    assert shown(trace) == [
        ("user", "list"),
        ("assistant", "[thinking] hm"),
        ("tool", "a.py\n[image/png, x.png]"),
        ("assistant", "inside"),
    ]
    assert [step.agent for step in trace.steps] == [None, None, None, "helper"]
    assert (trace.task, trace.meta["model"], trace.outcome) == ("list", "m", None)


def test_loose_atif_its_success_is_a_claim_and_results_come_after_their_calls(
    read_all: Read, write_lines: WriteLines
) -> None:
    value = {
        "schema_version": "1.4",
        "success": True,
        "steps": [
            {"source": "user", "message": "go"},
            {"source": "environment", "tool_call_id": "z", "message": "done"},
            {"source": "agent", "tool_calls": [{"id": "z", "function": {"name": "run", "arguments": '{"x": 1}'}}]},
            {
                "source": "agent",
                "message": "m",
                "tool_calls": [{"call_id": "y", "tool": "look", "args": {}}],
                "observation": "seen",
            },
        ],
    }
    traces, report = read_all(write_lines("t.json", [value]))
    (trace,) = traces
    assert shown(trace)[1:3] == [("assistant", 'run({"x": 1})'), ("tool", "done")]
    assert [(step.index, step.answers) for step in trace.steps] == [(0, None), (1, None), (2, "z"), (3, None), (4, "y")]
    assert trace.outcome == Outcome(success=True, claimed=True)
    assert [notice.reason for notice in report.notes] == ["results recorded before their calls were put after them"]


def test_swe_agent_history_only_with_a_demonstration(read_all: Read, write_lines: WriteLines) -> None:
    history = [
        {"role": "system", "content": "s", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "demo", "agent": "main", "is_demo": True},
        {"role": "user", "content": "issue", "agent": "main"},
        {"role": "assistant", "content": "look", "action": "ls\n", "thought": "look", "agent": "main"},
        {"role": "user", "content": "a.py", "agent": "main"},
    ]
    trace = only(
        read_all(write_lines("a.traj", [{"history": history, "info": {"exit_status": "exit_cost"}}])), "swe_agent"
    )
    assert shown(trace) == [("system", "s"), ("user", "issue"), ("assistant", "look"), ("tool", "a.py")]
    assert trace.steps[2].tool_calls[0].arguments == "ls"
    assert trace.outcome == Outcome(detail="exit_cost")


def test_swe_agent_trajectory_without_history(read_all: Read, write_lines: WriteLines) -> None:
    steps = [
        {"action": "ls", "observation": "a", "response": "look", "thought": "t"},
        {"action": "submit", "observation": ""},
    ]
    trace = only(
        read_all(write_lines("a.traj", [{"trajectory": steps, "info": {"exit_status": "submitted"}}])), "swe_agent"
    )
    assert shown(trace) == [("assistant", "look"), ("tool", "a"), ("assistant", "bash(submit)")]
    assert trace.outcome == Outcome(success=True, claimed=True, detail="submitted")


def test_mini_swe_agent_with_items_of_the_responses_form(read_all: Read, write_lines: WriteLines) -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "false"}'}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "try"}]}
    messages = [
        {"role": "user", "content": "task"},
        {
            "object": "response",
            "output": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, said, item],
            "extra": {"actions": [{"command": "false", "tool_call_id": "c1"}], "timestamp": 1795963966.1},
        },
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": "<returncode>1</returncode>",
            "extra": {"returncode": 1},
        },
        {"role": "exit", "content": "", "extra": {"exit_status": "LimitsExceeded"}},
    ]
    value = {"trajectory_format": "mini-swe-agent-1.1", "messages": messages, "info": {"exit_status": "LimitsExceeded"}}
    trace = only(read_all(write_lines("a.traj.json", [json.dumps(value, indent=1)])), "mini_swe_agent")
    assert [(step.role, len(step.tool_calls), step.is_error) for step in trace.steps] == [
        ("user", 0, None),
        ("assistant", 0, None),
        ("assistant", 0, None),
        ("assistant", 1, None),
        ("tool", 0, True),
    ]
    assert trace.steps[4].answers == "c1"
    assert (trace.steps[3].timestamp or "").startswith("2026-11-29T")
    assert trace.outcome == Outcome(detail="LimitsExceeded")


def test_the_older_openhands_form_links_results_by_cause(read_all: Read, write_lines: WriteLines) -> None:
    events = [
        {
            "id": 0,
            "source": "user",
            "action": "message",
            "args": {"content": "fix"},
            "timestamp": "2024-05-01T00:00:00",
        },
        {
            "id": 1,
            "source": "environment",
            "observation": "agent_state_changed",
            "content": "",
            "extras": {"agent_state": "running"},
        },
        {"id": 2, "source": "agent", "action": "run", "args": {"command": "make", "thought": "build it"}},
        {
            "id": 3,
            "source": "agent",
            "cause": 2,
            "observation": "run",
            "content": "no rule",
            "extras": {"metadata": {"exit_code": 2}},
        },
        {"id": 4, "source": "agent", "action": "finish", "args": {"final_thought": "done", "task_completed": "true"}},
    ]
    row = {"instance_id": "x__1", "history": events, "test_result": {"report": {"resolved": False}}}
    listed = only(read_all(write_lines("t.json", [json.dumps(events, indent=1)])), "openhands")
    assert listed.outcome == Outcome(success=True, claimed=True, detail="done")
    assert shown(listed)[:3] == [("user", "fix"), ("assistant", "build it"), ("tool", "no rule")]
    assert (listed.steps[2].answers, listed.steps[2].is_error) == ("event-2", True)
    graded = only(read_all(write_lines("output.jsonl", [row])), "openhands")
    assert graded.outcome == Outcome(success=False)
    assert graded.meta["task_id"] == "x__1"


def test_a_folder_of_openhands_events_is_one_trace_and_other_files_are_read_apart(
    read_all: Read, write_lines: WriteLines, tmp_path: Path
) -> None:
    for at in (10, 2, 1):
        event = {
            "id": str(at),
            "source": "user",
            "kind": "MessageEvent",
            "llm_message": {"role": "user", "content": f"m{at}"},
        }
        write_lines(f"c/events/event-{at:05d}-ab.json", [event])
    write_lines("c/events/event-00011-ab.json", ['{"kind": "MessageEvent", '])
    write_lines("c/events/other.jsonl", [{"messages": [{"role": "user", "content": "x"}]}])
    traces, report = read_all(tmp_path)
    assert [shown(trace) for trace in traces] == [[("user", "m1"), ("user", "m2"), ("user", "m10")], [("user", "x")]]
    assert [notice.path for notice in report.skipped] == ["c/events/event-00011-ab.json"]


def claude(uuid: str, parent: str | None, kind: str, content: object, **more: object) -> dict[str, object]:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s1",
        "isSidechain": False,
        "timestamp": "2026-01-01T00:00:00Z",
        "message": {"role": kind, "content": content, "id": f"m-{uuid}"},
        **more,
    }


def test_claude_code_branches_parallel_results_side_chains_and_summaries(
    read_all: Read, write_lines: WriteLines
) -> None:
    use = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}
    lines = [
        {"type": "summary", "summary": "of another session", "leafUuid": "elsewhere"},
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        claude("u0", None, "user", "<command-name>/clear</command-name>"),
        claude("u1", "u0", "user", "first wording"),
        claude("a1", "u1", "assistant", [{"type": "text", "text": "given up"}]),
        claude("u2", "u0", "user", "better wording"),
        claude("a2", "u2", "assistant", [{"type": "thinking", "thinking": "hm"}, {**use, "id": "t1"}]),
        claude("a3", "a2", "assistant", [{**use, "id": "t2"}]),
        claude(
            "r1",
            "a2",
            "user",
            [{"type": "tool_result", "tool_use_id": "t1", "content": "", "is_error": True}],
            toolUseResult="Error: no",
        ),
        claude(
            "r2",
            "a3",
            "user",
            [{"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "b"}]}],
            toolUseResult={"stdout": "b", "stderr": ""},
        ),
        {**claude("x1", None, "user", "sub task"), "isSidechain": True, "agentId": "sub1"},
        claude("a4", "r2", "assistant", [{"type": "text", "text": "done"}]),
        claude("a4", "r2", "assistant", [{"type": "text", "text": "done"}]),
        {"type": "summary", "summary": "of this one", "leafUuid": "a4"},
    ]
    traces, report = read_all(write_lines("s1.jsonl", lines))
    (trace,) = traces
    assert trace.task == "better wording"
    assert [(step.text, step.agent) for step in trace.steps] == [
        ("<command-name>/clear</command-name>", None),
        ("first wording", "abandoned"),
        ("given up", "abandoned"),
        ("better wording", None),
        ("[thinking] hm\n", None),
        ("", None),
        ("Error: no", None),
        ("b", None),
        ("sub task", "sub1"),
        ("done", None),
        ("[summary] of this one", None),
    ]
    assert [(step.answers, step.is_error) for step in trace.steps if step.answers] == [("t1", True), ("t2", None)]
    assert [notice.reason for notice in report.notes] == ["a line that is there twice is read once"]


def test_a_claude_code_sub_agents_file_is_read_with_its_session_else_alone(
    read_all: Read, write_lines: WriteLines, tmp_path: Path
) -> None:
    side = {**claude("x", None, "user", "help"), "isSidechain": True, "agentId": "h1"}
    write_lines("p/s1.jsonl", [claude("u", None, "user", "task")])
    write_lines("p/s1/subagents/agent-h1.jsonl", [side])
    write_lines("p/agent-h2.jsonl", [{**side, "agentId": "h2", "uuid": "y"}])
    write_lines("q/agent-h3.jsonl", [{**side, "agentId": "h3"}])
    traces, report = read_all(tmp_path)
    assert report.skipped == ()
    assert [[(step.text, step.agent) for step in trace.steps] for trace in traces] == [
        [("task", None), ("help", "h1"), ("help", "h2")],
        [("help", "h3")],
    ]


def test_several_claude_code_sessions_in_one_file_are_several_traces(read_all: Read, write_lines: WriteLines) -> None:
    lines = [{**claude(f"u{at}", None, "user", f"t{at}"), "sessionId": f"s{at}"} for at in range(3)]
    traces, _ = read_all(write_lines("all.jsonl", lines))
    assert [trace.meta["session"] for trace in traces] == ["s0", "s1", "s2"]


def test_codex_says_nothing_twice_and_reads_every_form_of_output(read_all: Read, write_lines: WriteLines) -> None:
    def item(**payload: object) -> dict[str, object]:
        return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload}

    def event(**payload: object) -> dict[str, object]:
        return {"timestamp": "2026-01-01T00:00:00Z", "type": "event_msg", "payload": payload}

    failed = json.dumps({"output": "boom", "metadata": {"exit_code": 3}})
    lines = [
        {"timestamp": "t", "type": "session_meta", "payload": {"id": "s", "cli_version": "1"}},
        {"timestamp": "t", "type": "turn_context", "payload": {"model": "gpt-x"}},
        item(
            type="message",
            role="user",
            content=[{"type": "input_text", "text": "<environment_context>x</environment_context>"}],
        ),
        item(type="message", role="user", content=[{"type": "input_text", "text": "fix it"}]),
        event(type="user_message", message="fix it"),
        event(type="user_message", message="only an event"),
        event(type="agent_reasoning", text="hm"),
        item(type="reasoning", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="x"),
        item(type="function_call", name="shell", arguments='{"command":["ls"]}', call_id="c1"),
        item(type="function_call_output", call_id="c1", output=failed),
        item(type="custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        item(type="custom_tool_call_output", call_id="c2", output={"content": "ok", "success": True}),
        item(type="local_shell_call", call_id="c3", action={"type": "exec", "command": ["pwd"]}),
        item(type="function_call_output", call_id="c3", output=[{"type": "input_text", "text": "/app"}]),
        event(type="agent_message", message="done"),
        item(type="message", role="assistant", content=[{"type": "output_text", "text": "done"}]),
        event(type="token_count", info={}),
        event(type="turn_aborted", reason="interrupted"),
    ]
    trace = only(read_all(write_lines("rollout.jsonl", lines)), "codex")
    assert shown(trace) == [
        ("system", "<environment_context>x</environment_context>"),
        ("user", "fix it"),
        ("user", "only an event"),
        ("assistant", "[thinking] hm"),
        ("assistant", 'shell({"command":["ls"]})'),
        ("tool", "boom"),
        ("assistant", "apply_patch(*** Begin)"),
        ("tool", "ok"),
        ("assistant", 'shell(["pwd"])'),
        ("tool", "/app"),
        ("assistant", "done"),
        ("system", "[turn aborted] interrupted"),
    ]
    assert [step.is_error for step in trace.steps if step.answers] == [True, False, None]
    assert (trace.task, trace.meta["model"]) == ("fix it", "gpt-x")


def test_the_older_codex_form_and_a_sub_agents_copied_history(read_all: Read, write_lines: WriteLines) -> None:
    old = [
        {"id": "s", "timestamp": "2025-05-01T00:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    ]
    assert shown(only(read_all(write_lines("old.jsonl", old)), "codex")) == [("user", "hi")]
    meta = {
        "id": "c",
        "subagent_history_start_ordinal": 2,
        "source": {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}},
    }
    new = [{"type": "session_meta", "ordinal": 0, "payload": meta}] + [
        {"type": "response_item", "ordinal": at, "payload": {"type": "message", "role": "user", "content": f"m{at}"}}
        for at in (1, 2)
    ]
    trace = only(read_all(write_lines("new.jsonl", new)), "codex")
    assert (shown(trace), trace.meta["parent"]) == ([("user", "m2")], "p")


def test_openclaw_branches_and_failures_in_details(read_all: Read, write_lines: WriteLines) -> None:
    def message(name: str, parent: str | None, **inner: object) -> dict[str, object]:
        return {
            "type": "message",
            "id": name,
            "parentId": parent,
            "timestamp": "2026-01-01T00:00:00Z",
            "message": inner,
        }

    call = {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"command": "ls"}}
    lines = [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z"},
        message("1", None, role="user", content=[{"type": "text", "text": "old try"}]),
        message("2", None, role="user", content="go"),
        message("3", "2", role="assistant", content=[call], model="m", provider="p"),
        message("4", "3", role="toolResult", toolCallId="c1", content="x", details={"exitCode": 2}, isError=False),
        {"type": "compaction", "id": "5", "parentId": "4", "summary": "short"},
    ]
    trace = only(read_all(write_lines("s.jsonl", lines)), "openclaw")
    assert [(step.role, step.agent, step.is_error) for step in trace.steps] == [
        ("user", "abandoned", None),
        ("user", None, None),
        ("assistant", None, None),
        ("tool", None, True),
        ("system", None, None),
    ]
    assert trace.meta["model"] == "m"


def test_openai_chat_lists_nulls_verdicts_and_growing_requests(read_all: Read, write_lines: WriteLines) -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]
    talk = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ]
    graded = only(read_all(write_lines("a.jsonl", [{"messages": talk, "reward": 1, "model": "m"}])), "openai_chat")
    assert shown(graded) == [("user", "look\n[image/png, 3 bytes]"), ("assistant", 'f({"a": 1})'), ("tool", "1")]
    assert graded.outcome == Outcome(success=True, score=1.0)

    def pair(messages: list[object], answer: Mapping[str, object]) -> dict[str, object]:
        return {"request": {"model": "m", "messages": messages}, "response": {"choices": [{"message": answer}]}}

    first = {"role": "assistant", "content": None, "tool_calls": calls, "refusal": None}
    lines = [
        pair([talk[0]], first),
        pair([talk[0], first, talk[2]], {"role": "assistant", "content": "end"}),
        pair([{"role": "user", "content": "new"}], {"role": "assistant", "content": "x"}),
    ]
    traces, _ = read_all(write_lines("b.jsonl", lines))
    assert [len(trace.steps) for trace in traces] == [4, 2]
    response = {
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}]
    }
    items = {"request": {"instructions": "be brief", "input": "hello"}, "response": response}
    trace = only(read_all(write_lines("c.jsonl", [items])), "openai_chat")
    assert shown(trace) == [("system", "be brief"), ("user", "hello"), ("assistant", "ok")]


def test_clawteam_reads_the_talk_of_each_team(read_all: Read, write_team: Callable[..., Path]) -> None:
    root = write_team()
    write_team("data", "other", seed=1, done=False)
    traces, report = read_all(root)
    assert report.skipped == ()
    open_one, done = traces
    assert done.task == "Make the tests of calc pass"
    assert done.outcome == Outcome(success=True, claimed=True, detail="2 of 2 tasks marked completed")
    assert open_one.outcome == Outcome(success=False, claimed=True, detail="1 of 2 tasks marked completed")
    assert [step.agent for step in done.steps[:3]] == [None, "python-dev", "python-dev"]
    assert "fails: no such option" in done.steps[2].text
    assert done.steps[-1].text == "[task completed] Run the tests (owner: qa-dev)"
    assert (done.meta["lead"], done.meta["cost_cents"]) == ("tech-lead", "12.5")


def test_mini_swe_agent_keeps_each_result_with_its_call_where_one_has_no_code(
    read_all: Read, write_lines: WriteLines
) -> None:
    def ran(code: int, said: str) -> dict[str, str]:
        return {"role": "user", "content": f"<returncode>{code}</returncode>\n<output>\n{said}</output>"}

    def does(*commands: str) -> dict[str, str]:
        return {"role": "assistant", "content": "\n".join(f"```bash\n{each}\n```" for each in commands)}

    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "task"},
        does("sleep 99"),
        {"role": "user", "content": "The last command <command>sleep 99</command> timed out and has been killed.\n"},
        does("ls", "pwd"),
        {"role": "user", "content": "Please always provide EXACTLY ONE action in triple backticks, found 2 actions."},
        does("true"),
        ran(0, "fine"),
        does("false"),
        ran(1, "bad"),
        does("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"),
        {"role": "user", "content": "diff --git a/x b/x"},
    ]
    value = {"trajectory_format": "mini-swe-agent-1", "messages": messages, "info": {"mini_version": "1.16.0"}}
    trace = only(read_all(write_lines("a.traj.json", [json.dumps(value, indent=1)])), "mini_swe_agent")
    calls = {call.id: call.arguments for step in trace.steps for call in step.tool_calls}
    told = {calls[step.answers]: step.text.split("\n")[0] for step in trace.steps if step.answers is not None}
    assert {key: value[:30] for key, value in told.items()} == {
        "sleep 99": "The last command <command>slee",
        "true": "<returncode>0</returncode>",
        "false": "<returncode>1</returncode>",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff": "diff --git a/x b/x",
    }
