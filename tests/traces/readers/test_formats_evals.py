"""Formats of evaluations and observability: Harbor, Terminal-Bench, Inspect AI, LangSmith, OpenTelemetry."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from combee.redaction import Outcome, Trace
from combee.traces.readers import ReadLimits, Report, read

Read = Callable[[Path], tuple[list[Trace], Report]]
WriteLines = Callable[[str, Sequence[object]], Path]

TASK_STEP = {"step_id": 1, "source": "user", "message": "the task"}
ATIF: dict[str, object] = {
    "schema_version": "ATIF-v1.6",
    "agent": {"name": "terminus-2", "version": "2"},
    "steps": [TASK_STEP, {"step_id": 2, "source": "agent", "message": "a"}],
}
RESULT = {
    "id": "5f9c",
    "task_name": "hello",
    "trial_name": "hello__x",
    "agent_info": {"name": "terminus-2", "version": "2"},
    "verifier_result": {"rewards": {"reward": 1.0}},
}


def test_a_harbor_trial_has_its_reward_tests_and_continuations(
    read_all: Read, write_lines: WriteLines, tmp_path: Path
) -> None:
    write_lines("job/hello__x/result.json", [json.dumps(RESULT, indent=2)])
    write_lines("job/hello__x/agent/trajectory.json", [ATIF])
    copied = {**TASK_STEP, "is_copied_context": True}
    continued = {**ATIF, "steps": [copied, {"step_id": 2, "source": "agent", "message": "b"}]}
    write_lines("job/hello__x/agent/trajectory.cont-1.json", [continued])
    write_lines("job/hello__x/agent/trajectory.summarization-1-summary.json", [ATIF])
    tests = {"results": {"tests": [{"name": "t1", "status": "passed"}, {"name": "t2", "status": "failed"}]}}
    write_lines("job/hello__x/verifier/ctrf.json", [tests])
    (trace,), report = read_all(tmp_path)
    assert report.skipped == ()
    assert [(step.text, step.agent) for step in trace.steps] == [
        ("the task", None),
        ("a", None),
        ("b", None),
        ("the task", "summarization-1-summary"),
        ("a", "summarization-1-summary"),
    ]
    assert trace.outcome == Outcome(success=True, score=1.0, tests={"t1": True, "t2": False})
    assert (trace.meta["task_id"], trace.meta["format"]) == ("hello", "harbor")


def test_a_harbor_trial_without_atif_uses_the_agents_session_or_its_log(
    read_all: Read, write_lines: WriteLines, tmp_path: Path
) -> None:
    failed = {
        **RESULT,
        "verifier_result": None,
        "exception_info": {"exception_type": "AgentTimeoutError", "exception_message": "late"},
    }
    turn = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "go"}}
    write_lines("a/result.json", [failed])
    write_lines("a/agent/sessions/projects/-app/s.jsonl", [turn])
    write_lines("b/result.json", [{**RESULT, "verifier_result": {"rewards": {"x": 0.0, "y": 0.5}}}])
    write_lines("b/agent/oracle.txt", ["$ make"])
    write_lines("c/result.json", [RESULT])
    first, second, third = read_all(tmp_path)[0]
    assert (first.steps[0].text, first.outcome) == ("go", Outcome(detail="AgentTimeoutError: late"))
    assert (second.steps[0].text, second.task) == ("$ make\n", "hello")
    assert second.outcome == Outcome(score=0.25, detail="x=0, y=0.5")
    assert (third.steps, third.task) == ((), "hello")


def test_a_harbor_session_beside_a_result_that_is_no_text_is_read(
    read_all: Read, write_lines: WriteLines, tmp_path: Path
) -> None:
    odd = {"exception_type": "Error", "exception_message": "half \ud800"}
    write_lines("a/result.json", [{**RESULT, "trial_name": "x\ud800", "exception_info": odd}])
    turn = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "go"}}
    write_lines("a/agent/s.jsonl", [turn])
    (trace,), report = read_all(tmp_path)
    assert (trace.task, trace.outcome and trace.outcome.detail) == ("go", "Error: half \ufffd")
    assert "lone surrogates were replaced" in str(report)


def test_a_terminal_bench_trial_is_cut_at_its_prompts(read_all: Read, write_lines: WriteLines, tmp_path: Path) -> None:
    results = {
        "trial_name": "t.1",
        "task_id": "t",
        "instruction": "say hi",
        "is_resolved": False,
        "failure_mode": "agent_timeout",
        "parser_results": {"test_a": "passed", "test_b": "failed"},
        "uuid": "1",
    }
    write_lines("run/t.1/results.json", [json.dumps(results, indent=1)])
    log = "\x1b[?2004hroot@ab12:/app# asciinema rec x\r\n"
    log += "root@ab12:/app# \x1b[1mmkae\x1b[0m all\r\nbash: mkae: command not found\r\n"
    log += (
        "root@ab12:/app# make all; tmux wait -S done\r\nok\r\nroot@ab12:/app# bash /tests/run-tests.sh\r\n1 failed\r\n"
    )
    path = tmp_path / "run/t.1/sessions/agent.log"
    path.parent.mkdir()
    path.write_text(log, newline="")
    (trace,), report = read_all(tmp_path)
    assert report.skipped == ()
    assert [(step.role, step.text, [call.arguments for call in step.tool_calls]) for step in trace.steps] == [
        ("user", "say hi", []),
        ("assistant", "", ["mkae all"]),
        ("tool", "bash: mkae: command not found", []),
        ("assistant", "", ["make all"]),
        ("tool", "ok", []),
    ]
    assert trace.outcome == Outcome(False, 0.0, tests={"test_a": True, "test_b": False}, detail="agent_timeout")


def test_trials_of_a_run_are_not_read_twice(read_all: Read, write_lines: WriteLines, tmp_path: Path) -> None:
    trials = [
        {"task_id": "t", "trial_name": f"t.{at}", "instruction": "x", "is_resolved": True, "parser_results": {}}
        for at in range(3)
    ]
    trials.append({**trials[0], "trial_name": "../../x"})
    write_lines("run/results.json", [json.dumps({"results": trials, "n_resolved": 3}, indent=1)])
    write_lines("run/t/t.1/results.json", [json.dumps(trials[1])])
    traces, report = read_all(tmp_path)
    assert [trace.meta["trial"] for trace in traces] == ["t.0", "t.2", "../../x", "t.1"]
    assert "trials that are read from their own folders" in {notice.reason for notice in report.notes}


def test_a_terminal_bench_trial_without_log_uses_its_commands(
    read_all: Read, write_lines: WriteLines, tmp_path: Path
) -> None:
    results = {"instruction": "x", "is_resolved": True, "parser_results": None, "task_id": "t"}
    write_lines("t/results.json", [results])
    write_lines(
        "t/commands.txt",
        ["['clear', 'Enter']", "['ls -l', 'Enter']", "not a list", "['bash ', '/tests/run-tests.sh']", "['x']"],
    )
    (trace,), report = read_all(tmp_path)
    assert [call.arguments for step in trace.steps for call in step.tool_calls] == ["ls -l"]
    assert [(notice.path, notice.line) for notice in report.skipped] == [("t/commands.txt", 3)]


def a_sample(name: str, value: object, epoch: int = 1, **more: object) -> dict[str, object]:
    key = "0123456789abcdef0123456789abcdef"
    messages = [
        {"role": "user", "content": f"attachment://{key}", "id": "1"},
        {
            "role": "assistant",
            "content": "x",
            "tool_calls": [{"id": "c", "function": "add", "arguments": {"x": 1}, "type": "function"}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "", "error": {"type": "timeout", "message": "too slow"}},
    ]
    return {
        "id": name,
        "epoch": epoch,
        "input": "question",
        "target": "2",
        "messages": messages,
        "scores": {"includes": {"value": value, "explanation": "because"}},
        "attachments": {key: "the long text"},
        **more,
    }


def test_inspect_ai_scores_epochs_and_attachments_in_both_containers(
    read_all: Read, write_lines: WriteLines, tmp_path: Path
) -> None:
    samples = [
        a_sample("s1", "C"),
        a_sample("s1", "I", 2),
        a_sample("s2", 0.5),
        a_sample("s3", {"a": True, "b": False}),
    ]
    header = {"version": 2, "status": "success", "eval": {"task": "math", "model": "m"}, "plan": {}}
    log = write_lines("log.json", [json.dumps({**header, "samples": samples}, indent=1)])
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(header))
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        archive.writestr("samples/../../evil.json", json.dumps(samples[0]))
        archive.writestr("samples/broken_epoch_1.json", "{")
    from_json, report = read_all(log)
    assert report.skipped == ()
    from_zip, report = read_all(tmp_path / "log.eval")
    assert [notice.reason.split(":")[0] for notice in report.skipped] == [
        "member 'samples/../../evil.json'",
        "member 'samples/broken_epoch_1.json'",
    ]
    assert [trace.id for trace in from_json] == [trace.id for trace in from_zip]
    assert len({trace.id for trace in from_json}) == 4
    first = from_json[0]
    assert [(step.role, step.text, step.is_error) for step in first.steps] == [
        ("user", "the long text", None),
        ("assistant", "x", None),
        ("tool", "too slow", True),
    ]
    assert [trace.outcome.score if trace.outcome else None for trace in from_json] == [1.0, 0.0, 0.5, 0.5]
    assert first.outcome == Outcome(True, 1.0, detail="because")
    assert (first.task, first.meta["task_id"], first.meta["epoch"], first.meta["target"]) == (
        "question",
        "math/s1",
        "1",
        "2",
    )
    assert not (tmp_path.parent / "evil.json").exists()


def test_langsmith_nested_langchain_messages_feedback_and_errors(read_all: Read, write_lines: WriteLines) -> None:
    def run(name: str, kind: str, parent: str | None, order: str, **more: object) -> dict[str, object]:
        return {
            "id": name,
            "run_type": kind,
            "parent_run_id": parent,
            "trace_id": order[:1],
            "dotted_order": order,
            "name": name,
            **more,
        }

    human = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "HumanMessage"],
        "kwargs": {"content": "sum?"},
    }
    asked = {
        "lc": 1,
        "id": ["x", "AIMessage"],
        "kwargs": {"content": "", "tool_calls": [{"name": "add", "args": {"x": 1}, "id": "k1"}]},
    }
    answer = {"lc": 1, "id": ["x", "AIMessage"], "kwargs": {"content": "two"}}
    result = {"lc": 1, "id": ["x", "ToolMessage"], "kwargs": {"content": "2", "tool_call_id": "k1"}}
    runs = [
        run(
            "root",
            "chain",
            None,
            "A",
            inputs={"input": "sum?"},
            outputs={"output": "two"},
            feedback_stats={"correctness": {"n": 1, "avg": 1.0}},
        ),
        run(
            "m2",
            "llm",
            "root",
            "A.3",
            inputs={"messages": [[human, asked, result]]},
            outputs={"generations": [[{"message": answer}]]},
        ),
        run("tool", "tool", "root", "A.2", inputs={"x": 1}, outputs={"output": result}),
        run(
            "m1",
            "llm",
            "root",
            "A.1",
            inputs={"messages": [[human]]},
            outputs={"generations": [[{"message": asked, "text": ""}]]},
        ),
        run("other", "chain", None, "B", inputs={"q": "x"}, outputs=None, error="ValueError('no')"),
    ]
    (good, bad), report = read_all(write_lines("runs.jsonl", runs))
    assert report.skipped == ()
    assert [(step.role, step.text, [call.name for call in step.tool_calls]) for step in good.steps] == [
        ("user", "sum?", []),
        ("assistant", "", ["add"]),
        ("tool", "2", []),
        ("assistant", "two", []),
    ]
    assert good.outcome == Outcome(True, 1.0)
    assert bad.outcome == Outcome(False, detail="ValueError('no')")
    apart = [*runs[4:], {"run_id": "other", "key": "score", "score": 0.0}]
    (graded,), _ = read_all(write_lines("feedback.jsonl", apart))
    assert graded.outcome == Outcome(False, 0.0, detail="ValueError('no')")


def otlp(name: str, span: str, parent: str, start: int, attributes: Mapping[str, object]) -> dict[str, object]:
    def typed(value: object) -> dict[str, object]:
        if isinstance(value, bool):
            return {"boolValue": value}
        if isinstance(value, int):
            return {"intValue": str(value)}
        if isinstance(value, list):
            return {"arrayValue": {"values": [typed(item) for item in value]}}
        return {"stringValue": str(value)}

    listed = [{"key": key, "value": typed(value)} for key, value in attributes.items()]
    return {
        "traceId": "t1",
        "spanId": span,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(start * 10**18),
        "endTimeUnixNano": str(start * 10**18 + 1),
        "attributes": listed,
        "status": {},
    }


def test_opentelemetry_joins_a_loop_of_model_and_tool_spans(read_all: Read, write_lines: WriteLines) -> None:
    user = {"role": "user", "parts": [{"type": "text", "content": "sum?"}]}
    made = {"role": "assistant", "parts": [{"type": "tool_call", "id": "k1", "name": "add", "arguments": {"x": 1}}]}
    got = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "k1", "response": "2"}]}
    end = {"role": "assistant", "parts": [{"type": "text", "content": "two"}]}
    first = {
        "gen_ai.operation.name": "chat",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps([user]),
        "gen_ai.output.messages": json.dumps([made]),
    }
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "k1",
        "gen_ai.tool.call.result": "2",
    }
    second = {
        **first,
        "gen_ai.input.messages": json.dumps([user, made, got]),
        "gen_ai.output.messages": json.dumps([end]),
    }
    spans = [
        otlp("chat m", "c", "r", 5, second),
        otlp("execute_tool add", "b", "r", 4, tool),
        otlp("chat m", "a", "r", 3, first),
        otlp("invoke_agent x", "r", "", 2, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "x"}),
    ]
    value = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}
    (trace,), report = read_all(write_lines("otlp.json", [json.dumps(value, indent=1)]))
    assert report.skipped == ()
    assert [(step.role, step.text, [call.name for call in step.tool_calls], step.answers) for step in trace.steps] == [
        ("user", "sum?", [], None),
        ("assistant", "", ["add"], None),
        ("tool", "2", [], "k1"),
        ("assistant", "two", [], None),
    ]
    assert (trace.meta["provider"], trace.meta["agent"], trace.meta["model"]) == ("openai", "x", "m")


def test_opentelemetry_older_names_events_numbers_and_printed_spans(read_all: Read, write_lines: WriteLines) -> None:
    def span(
        name: str, attributes: Mapping[str, object], events: Sequence[object] | None = None, **more: object
    ) -> dict[str, object]:
        return {
            "name": "chat",
            "context": {"trace_id": name, "span_id": name},
            "parent_id": None,
            "start_time": "2026-01-01T00:00:00Z",
            "end_time": "2026-01-01T00:00:01Z",
            "status": {"status_code": "UNSET"},
            "attributes": attributes,
            "events": events or [],
            **more,
        }

    numbered = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "hi",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "",
        "gen_ai.completion.0.tool_calls.0.name": "f",
        "gen_ai.completion.0.tool_calls.0.arguments": "{}",
        "gen_ai.completion.0.tool_calls.0.id": "c",
    }
    events = [
        {"name": "gen_ai.user.message", "attributes": {"content": "hi"}},
        {"name": "gen_ai.choice", "attributes": {"index": 0, "message": '{"role": "assistant", "content": "yo"}'}},
        {
            "name": "gen_ai.evaluation.result",
            "attributes": {"gen_ai.evaluation.name": "ok", "gen_ai.evaluation.score.value": 0.0},
        },
    ]
    failed = {"status_code": "ERROR", "description": "rate limit"}
    spans = [
        span("a", numbered),
        span("b", {"gen_ai.system": "openai"}, events),
        span("c", {"gen_ai.system": "openai", "gen_ai.prompt": "raw text"}, status=failed),
        span("d", {"http.method": "GET"}),
    ]
    traces, report = read_all(write_lines("console.txt", [json.dumps(each, indent=4) for each in spans]))
    assert [[(step.role, step.text, len(step.tool_calls)) for step in trace.steps] for trace in traces] == [
        [("user", "hi", 0), ("assistant", "", 1)],
        [("user", "hi", 0), ("assistant", "yo", 0)],
        [("user", "raw text", 0), ("system", "[error] rate limit", 0)],
    ]
    assert [trace.outcome for trace in traces] == [None, Outcome(False, 0.0), Outcome(False, detail="rate limit")]
    assert [notice.reason for notice in report.skipped] == ["spans without attributes of GenAI or OpenInference"]
    assert report.skipped[0].line is not None
    assert report.skipped[0].line > 50


def test_mixed_traces_are_joined_within_the_bytes_that_may_be_held(write_lines: WriteLines) -> None:
    def chat(trace: int, at: int) -> dict[str, object]:
        said = [{"role": "user", "parts": [{"type": "text", "content": f"{trace} {at}"}]}]
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(said)}
        return {
            "name": "chat",
            "context": {"trace_id": str(trace), "span_id": f"{trace}.{at}"},
            "start_time": f"2026-01-01T00:00:{at:02d}Z",
            "attributes": attributes,
            "status": {},
            "events": [],
        }

    path = write_lines("spans.jsonl", [chat(trace, at) for at in range(10) for trace in range(5)])
    whole = list(read(path))
    assert [len(trace.steps) for trace in whole] == [10] * 5
    result = read(path, limits=ReadLimits(held=5000))
    kept = sum(len(trace.steps) for trace in result)
    assert kept + result.report.lost == 50
    assert result.report.lost > 0
