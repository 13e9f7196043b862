"""What platforms that watch models keep: OpenInference spans (Phoenix) and the observations of Langfuse."""

# ruff: noqa: E501 - records stand on one line, as they are written

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from combee.redaction import Trace
from combee.traces.mining import failed_calls
from combee.traces.readers import Report

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


EXPECTED = [
    ("system", "Be short."),
    ("user", "Mend it"),
    ("assistant", "now", 'c1 bash {"command": "ls x"}'),
    ("tool", "ls: no such file", "c1 True"),
    ("assistant", "done"),
]


def span(name: str, at: int, kind: str, attributes: dict[str, object], **more: object) -> dict[str, object]:
    head = {
        "name": name,
        "context": {"trace_id": "t", "span_id": name},
        "parent_id": "root" if name != "root" else None,
    }
    times = {"start_time": f"2026-01-01T00:00:0{at}Z", "end_time": f"2026-01-01T00:00:0{at + 1}Z"}
    return {**head, **times, "attributes": {"openinference.span.kind": kind, **attributes}, **more}


def spoken(where: str, *messages: dict[str, str]) -> dict[str, object]:
    return {
        f"llm.{where}_messages.{at}.message.{key}": value
        for at, message in enumerate(messages)
        for key, value in message.items()
    }


CALL = {
    "role": "assistant", "contents.0.message_content.type": "text", "contents.0.message_content.text": "now", "tool_calls.0.tool_call.id": "c1",
    "tool_calls.0.tool_call.function.name": "bash", "tool_calls.0.tool_call.function.arguments": '{"command": "ls x"}',
}  # fmt: skip
ASKED = ({"role": "system", "content": "Be short."}, {"role": "user", "content": "Mend it"})
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "ls: no such file"}
SPANS = [
    span("root", 0, "AGENT", {"input.value": "Mend it"}),
    span("llm-1", 1, "LLM", {"llm.model_name": "m", **spoken("input", *ASKED), **spoken("output", CALL)}),
    span("bash", 3, "TOOL", {"tool.name": "bash", "input.value": '{"command": "ls x"}', "output.value": "ls: no such file"}, status_code="ERROR"),
    span("llm-2", 5, "LLM", {**spoken("input", *ASKED, CALL, TOLD), **spoken("output", {"role": "assistant", "content": "done"})}),
]  # fmt: skip


def test_openinference_spans_join_the_tools_with_the_calls_of_the_model(
    read_all: Read, write_lines: WriteLines
) -> None:
    trace = only(read_all(write_lines("s.jsonl", SPANS)), "otel_genai")
    assert shown(trace) == EXPECTED
    assert (trace.meta["model"], trace.meta["trace_id"], failed_calls(trace)) == ("m", "t", 1)
    nested = {
        "llm": {
            "input_messages": [{"message": {"role": "user", "content": "Mend it"}}],
            "output_messages": [{"message": {"role": "assistant", "content": "done"}}],
        }
    }
    alone = {**span("a", 1, "", {}), "span_kind": "LLM", "attributes": nested}
    assert shown(only(read_all(write_lines("n.json", [alone])), "otel_genai")) == [
        ("user", "Mend it"),
        ("assistant", "done"),
    ]
    raw = span("b", 1, "LLM", {"input.value": json.dumps({"messages": ASKED}), "output.value": "done"})
    assert shown(only(read_all(write_lines("r.json", [raw])), "otel_genai")) == [*EXPECTED[:2], ("assistant", "done")]


def observation(name: str, at: int, kind: str, given: object, made: object, **more: object) -> dict[str, object]:
    times = {"startTime": f"2026-01-01T00:00:0{at}.000Z", "endTime": f"2026-01-01T00:00:0{at + 1}.000Z"}
    return {
        "id": name,
        "traceId": "t",
        "type": kind,
        "name": name,
        "input": given,
        "output": made,
        "level": "DEFAULT",
        **times,
        **more,
    }


def test_langfuse_traces_and_loose_observations_are_the_same_run(read_all: Read, write_lines: WriteLines) -> None:
    call = {
        "role": "assistant",
        "content": "now",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls x"}'}}
        ],
    }
    told = {"role": "tool", "tool_call_id": "c1", "content": "ls: no such file"}
    observations = [
        observation("llm-2", 5, "GENERATION", [*ASKED, call, told], {"role": "assistant", "content": "done"}),
        observation("work", 0, "SPAN", {"q": "Mend it"}, None),
        observation("llm-1", 1, "GENERATION", {"messages": ASKED}, call, model="m"),
        observation(
            "bash", 3, "TOOL", '{"command": "ls x"}', "ls: no such file", level="ERROR", statusMessage="exit 2"
        ),
    ]
    whole = {
        "id": "t",
        "name": "agent",
        "sessionId": "s",
        "input": "Mend it",
        "scores": [{"name": "toxic", "value": 0}],
        "observations": observations,
    }
    trace = only(read_all(write_lines("t.json", [json.dumps(whole, indent=1)])), "langfuse")
    assert shown(trace) == EXPECTED
    assert trace.outcome is not None
    assert (trace.outcome.success, trace.outcome.detail) == (None, "exit 2")  # what a score of 0 means is not known
    assert (trace.meta["agent"], trace.meta["model"], trace.meta["session"]) == ("agent", "m", "s")
    written = [
        {**each, "input": json.dumps(each["input"]), "output": json.dumps(each["output"])} for each in observations[:3]
    ]
    loose = only(read_all(write_lines("o.jsonl", [*written, observations[3]])), "langfuse")
    assert shown(loose) == EXPECTED
    assert loose.id == trace.id
