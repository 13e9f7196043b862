"""tau-bench and tau2, pi, the OpenAI Agents SDK, LangGraph; voided samples; one run in two formats."""

# ruff: noqa: E501 - records stand on one line, as they are written

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from combee.redaction import Trace
from combee.traces.mining import survey, users_of
from combee.traces.readers import Report

Read = Callable[[Path], tuple[list[Trace], Report]]
WriteLines = Callable[[str, Sequence[object]], Path]


def only(read: tuple[list[Trace], Report], kind: str) -> Trace:
    (trace,), report = read
    assert (dict(report.formats), report.lost) == ({kind: 1}, 0), report
    return trace


def shown(trace: Trace) -> list[tuple[str, str]]:
    return [
        (step.role, step.text or "; ".join(f"{call.name} {call.arguments}" for call in step.tool_calls))
        for step in trace.steps
    ]


CALL = {"id": "c1", "type": "function", "function": {"name": "cancel_order", "arguments": '{"order": "#W1"}'}}


def test_tau_bench_trials_with_their_reward(read_all: Read, write_lines: WriteLines) -> None:
    def trial(number: int, reward: float) -> dict[str, object]:
        messages = [
            {"role": "system", "content": "# Retail agent policy"},
            {"role": "user", "content": "cancel my order"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "name": "cancel_order", "content": "Error: order is not pending"},
            {"role": "user", "content": "No, that's all. ###STOP###"},
        ]
        return {
            "task_id": 4,
            "trial": number,
            "reward": reward,
            "info": {"task": {"instruction": "x"}},
            "traj": messages,
        }

    traces, report = read_all(write_lines("r.json", [json.dumps([trial(0, 1.0), trial(1, 0.0)])]))
    assert (dict(report.formats), report.lost) == ({"tau_bench": 2}, 0)
    assert [trace.outcome and trace.outcome.success for trace in traces] == [True, False]
    assert traces[0].id != traces[1].id
    assert (traces[0].meta["task_id"], users_of(traces[0])) == ("4", "customers")
    assert survey(traces).support() == {}


def test_tau2_simulations_keep_the_customers_own_tools_apart(read_all: Read, write_lines: WriteLines) -> None:
    messages = [
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": "no data", "timestamp": "2026-01-01T00:00:00"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a1", "name": "get_line", "arguments": {"id": "L1"}, "requestor": "assistant"}],
        },
        {"id": "a1", "role": "tool", "content": "active", "requestor": "assistant", "error": False},
        {
            "role": "user",
            "content": None,
            "tool_calls": [{"id": "u1", "name": "toggle_data", "arguments": {}, "requestor": "user"}],
        },
        {"id": "u1", "role": "tool", "content": "Error: no sim", "requestor": "user", "error": True},
    ]
    run = {
        "id": "sim-1",
        "task_id": "t1",
        "trial": 0,
        "messages": messages,
        "termination_reason": "user_stop",
        "reward_info": {"reward": 1.0},
    }
    info = {"environment_info": {"domain_name": "telecom"}, "agent_info": {"llm": "m"}}
    trace = only(
        read_all(
            write_lines("r.json", [json.dumps({"timestamp": "t", "info": info, "tasks": [], "simulations": [run]})])
        ),
        "tau_bench",
    )
    assert (trace.meta["task_id"], trace.meta["model"]) == ("telecom/t1", "m")
    assert [step.agent for step in trace.steps] == [None, None, None, None, "customer", "customer"]
    assert [step.is_error for step in trace.steps if step.role == "tool"] == [False, True]
    assert trace.outcome is not None
    assert trace.outcome.success is True
    alone = only(read_all(write_lines("one/sim.json", [json.dumps(run)])), "tau_bench")
    assert len(alone.steps) == 6


def test_sessions_of_pi_old_and_new_and_their_forks(tmp_path: Path, read_all: Read, write_lines: WriteLines) -> None:
    def message(name: str, parent: str | None, **inner: object) -> dict[str, object]:
        return {
            "type": "message",
            "id": name,
            "parentId": parent,
            "timestamp": "2026-01-01T00:00:00Z",
            "message": inner,
        }

    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "make"}}
    lines: list[object] = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": "t", "cwd": "/home/me/app"},
        {"type": "model_change", "id": "m1", "parentId": None, "timestamp": "t", "provider": "x", "modelId": "m-1"},
        message("a1", "m1", role="user", content=[{"type": "text", "text": "build it"}]),
        message("a2", "a1", role="assistant", content=[call]),
        message(
            "a3",
            "a2",
            role="toolResult",
            toolCallId="c1",
            toolName="bash",
            isError=True,
            content=[{"type": "text", "text": "make: *** No rule"}],
        ),
        message("a4", "a3", role="bashExecution", command="ls", output="a", exitCode=0),
    ]
    trace = only(read_all(write_lines("one/a.jsonl", lines)), "openclaw")
    assert shown(trace) == [
        ("user", "build it"),
        ("assistant", 'bash {"command": "make"}'),
        ("tool", "make: *** No rule"),
        ("system", "[the user ran] ls\na"),
    ]
    assert (trace.meta["agent"], trace.meta["model"]) == ("pi", "m-1")
    fork = [{**table, "id": "s2"} if at == 0 and isinstance(table, dict) else table for at, table in enumerate(lines)]
    write_lines("two/a.jsonl", lines)
    write_lines("two/b.jsonl", [*fork, message("a5", "a4", role="user", content="now test")])
    traces, _ = read_all(tmp_path / "two")
    assert [len(each.steps) for each in traces] == [4, 1]
    old = [
        {"type": "session", "id": "s", "timestamp": "t", "cwd": "/x"},
        {"type": "message", "timestamp": "t", "message": {"role": "user", "content": "hi"}},
    ]
    assert [step.agent for step in only(read_all(write_lines("old.jsonl", old)), "openclaw").steps] == [None]


def test_traces_of_the_openai_agents_sdk(read_all: Read, write_lines: WriteLines) -> None:
    def span(at: int, **data: object) -> dict[str, object]:
        return {"object": "trace.span", "id": f"span_{at}", "trace_id": "trace_1", "parent_id": None, "started_at": f"2026-01-01T00:00:0{at}Z",
                "ended_at": f"2026-01-01T00:00:0{at}Z", "span_data": data, "error": None}  # fmt: skip

    head = {"object": "trace", "id": "trace_1", "workflow_name": "helper", "group_id": "g", "metadata": None}
    asked = [{"role": "system", "content": "help"}, {"role": "user", "content": "cancel it"}]
    made = [{"role": "assistant", "content": None, "tool_calls": [CALL]}]
    told = [*asked, *made, {"role": "tool", "tool_call_id": "c1", "content": "done"}]
    spans = [
        span(1, type="agent", name="helper"),
        span(2, type="generation", input=asked, output=made, model="m"),
        span(3, type="function", name="cancel_order", input='{"order": "#W1"}', output="done"),
        span(4, type="generation", input=told, output=[{"role": "assistant", "content": "Cancelled."}], model="m"),
    ]
    expected = [
        ("system", "help"),
        ("user", "cancel it"),
        ("assistant", 'cancel_order {"order": "#W1"}'),
        ("tool", "done"),
        ("assistant", "Cancelled."),
    ]
    trace = only(read_all(write_lines("a.jsonl", [head, *spans])), "openai_agents")
    assert shown(trace) == expected
    assert (trace.meta["agent"], trace.meta["model"]) == ("helper", "m")
    assert (
        shown(only(read_all(write_lines("b.json", [json.dumps({"data": [head, *spans]})])), "openai_agents"))
        == expected
    )
    failed = {
        **span(3, type="function", name="cancel_order", input="{}", output=None),
        "error": {"message": "no such order"},
    }
    bare = only(
        read_all(write_lines("c.jsonl", [head, span(2, type="response", response_id="r"), failed])), "openai_agents"
    )
    assert [(step.role, step.is_error) for step in bare.steps] == [("assistant", None), ("tool", True)]


def test_states_checkpoints_and_updates_of_langgraph(read_all: Read, write_lines: WriteLines) -> None:
    human = {"type": "human", "content": "cancel it", "id": "h1"}
    ai = {
        "type": "ai",
        "content": "",
        "id": "a1",
        "tool_calls": [{"name": "cancel_order", "args": {"order": "#W1"}, "id": "c1"}],
    }
    tool = {"type": "tool", "content": "Error: not pending", "tool_call_id": "c1", "id": "t1", "status": "error"}
    end = {"type": "ai", "content": "I cannot.", "id": "a2"}
    expected = [
        ("user", "cancel it"),
        ("assistant", 'cancel_order {"order": "#W1"}'),
        ("tool", "Error: not pending"),
        ("assistant", "I cannot."),
    ]

    def constructed(message: Mapping[str, object], kind: str) -> dict[str, object]:
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", kind], "kwargs": message}

    config = {"configurable": {"thread_id": "th"}}
    state = {
        "values": {"messages": [human, ai, tool, end]},
        "next": [],
        "config": config,
        "created_at": "2026-01-01T00:00:00Z",
    }
    history = [state, {**state, "values": {"messages": [human, ai]}}, {**state, "values": {"messages": [human]}}]
    listed = [
        constructed(human, "HumanMessage"),
        constructed(ai, "AIMessage"),
        constructed(tool, "ToolMessage"),
        constructed(end, "AIMessage"),
    ]
    checkpoint = {"v": 1, "ts": "2026-01-01T00:00:00Z", "channel_values": {"messages": listed}}
    updates = [{"agent": {"messages": [human, ai]}}, {"tools": {"messages": [tool]}}, {"agent": {"messages": [end]}}]
    forms: dict[str, list[object]] = {
        "state": [state],
        "history": [json.dumps(history)],
        "checkpoint": [checkpoint],
        "updates": updates,
    }
    for name, lines in forms.items():
        trace = only(read_all(write_lines(f"{name}.jsonl", lines)), "langgraph")
        assert shown(trace) == expected, name
    assert trace.steps[2].is_error is True


@pytest.mark.parametrize("where", ["sample", "log"])
def test_a_sample_of_inspect_that_was_voided_is_no_success(read_all: Read, write_lines: WriteLines, where: str) -> None:
    sample: dict[str, object] = {
        "id": 1,
        "epoch": 1,
        "input": "q",
        "target": "a",
        "messages": [{"role": "user", "content": "q"}],
        "scores": {"m": {"value": "C"}},
    }
    log: dict[str, object] = {"version": 2, "eval": {"task": "t"}, "plan": {}, "samples": [sample]}
    plain = only(read_all(write_lines("a.json", [json.dumps(log)])), "inspect_ai")
    assert plain.outcome is not None
    assert plain.outcome.success is True
    if where == "sample":
        sample["invalidation"] = {"author": "me", "reason": "the sandbox was down"}
    else:
        log["invalidated"] = True
    voided = only(read_all(write_lines("b.json", [json.dumps(log)])), "inspect_ai")
    assert voided.outcome is not None
    assert voided.outcome.success is None
    assert voided.outcome.score is None
    assert voided.outcome.detail.startswith("invalidated")


def test_a_run_of_swe_agent_teaches_the_same_in_each_of_its_formats(read_all: Read, write_lines: WriteLines) -> None:
    bad, good = "return 1", "        return 1"
    said = (
        "Your proposed edit has introduced new syntax error(s).\nERRORS:\n- E999 IndentationError: unexpected indent\n"
    )

    def traj(*actions: tuple[str, str]) -> dict[str, object]:
        history: list[dict[str, object]] = [
            {"role": "system", "content": "s", "agent": "main"},
            {"role": "user", "content": "fix", "agent": "main"},
        ]
        for action, seen in actions:
            history += [
                {"role": "assistant", "content": "now", "action": action, "agent": "main"},
                {"role": "user", "content": seen, "agent": "main"},
            ]
        return {
            "trajectory": [{"action": action, "observation": seen, "response": "now"} for action, seen in actions],
            "history": history,
            "info": {},
        }

    def calls(*made: tuple[str, dict[str, object], str]) -> dict[str, object]:
        history: list[dict[str, object]] = [{"role": "user", "content": "fix", "agent": "main"}]
        for at, (name, arguments, seen) in enumerate(made):
            call = {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            history += [
                {"role": "assistant", "content": "now", "tool_calls": [call], "agent": "main", "action": name},
                {"role": "tool", "content": seen, "tool_call_ids": [f"c{at}"], "agent": "main"},
            ]
        return {"trajectory": [], "history": history, "info": {}}

    def atif(*actions: tuple[str, str]) -> dict[str, object]:
        steps: list[dict[str, object]] = [
            {"step_id": at, "source": "agent", "message": "now", "tool_calls": [{"tool_call_id": f"c{at}", "function_name": "swe_agent_action", "arguments": {"raw_action": action}}],
             "observation": {"results": [{"source_call_id": f"c{at}", "content": seen}]}}
            for at, (action, seen) in enumerate(actions, 1)
        ]  # fmt: skip
        return {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"name": "swe-agent"}, "steps": steps}

    def edit(text: str) -> str:
        return f"edit 3:3\n{text}\nend_of_edit"

    def given(text: str) -> dict[str, object]:
        return {"replacement_text": text, "start_line": 3, "end_line": 3}

    runs = [
        traj((edit(bad), said), (edit(good), "File updated.")),
        calls(("edit", given(bad), said), ("edit", given(good), "File updated.")),
        atif((edit(bad), said), (edit(good), "File updated.")),
    ]
    taught = [
        list(survey(read_all(write_lines(f"{at}.json", [json.dumps(run)]))[0]).support()) for at, run in enumerate(runs)
    ]
    assert (
        taught
        == [
            [
                "The tool `edit` failed with `- E999 IndentationError: unexpected indent`; it worked when `replacement_text` was given with its 8 leading blanks."
            ]
        ]
        * 3
    )


def test_the_log_of_a_terminal_bench_run_is_no_unknown_file(tmp_path: Path, read_all: Read) -> None:
    (tmp_path / "run.log").write_text("Starting harness run\nRun ID: x\nRunning task: a\n")
    traces, report = read_all(tmp_path)
    assert (traces, report.lost) == ([], 0)
    assert "read from the trials' own folders" in str(report.notes[0])
    (tmp_path / "run.log").write_text("some other log\n")
    assert read_all(tmp_path)[1].lost == 1


def test_an_aide_journal(read_all: Read, write_lines: WriteLines) -> None:
    missing = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'lightgbm'"
    nodes = [
        {"code": "import lightgbm", "plan": "Boost it.", "_term_out": [missing], "exc_type": "ModuleNotFoundError",
         "is_buggy": True, "metric": {"value": None}},
        {"code": "print(0.9)", "plan": "Do without.", "_term_out": ["0.9", "done"], "exc_type": None,
         "is_buggy": False, "metric": {"value": 0.9, "maximize": True}},
    ]  # fmt: skip
    journal = {"nodes": nodes, "node2parent": {}, "__version": "2"}
    trace = only(read_all(write_lines("journal.json", [json.dumps(journal)])), "aide")
    assert [(step.role, step.is_error) for step in trace.steps] == [
        ("assistant", None), ("tool", True), ("assistant", None), ("tool", False),
    ]  # fmt: skip
    assert trace.outcome is not None
    assert (trace.outcome.success, trace.outcome.claimed) == (True, True)
    assert trace.outcome.detail == "1 of 2 programs ran; metrics [0.9]"
    failed = only(read_all(write_lines("failed.json", [json.dumps({"nodes": nodes[:1]})])), "aide")
    (text,) = survey([replace(failed, id=str(number)) for number in range(3)]).support()
    assert text.startswith("The Python module `lightgbm` was missing")
