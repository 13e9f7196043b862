"""OpenTelemetry spans with `gen_ai.*` attributes: the SDK's JSON (a span a line, or printed) and OTLP `resourceSpans`.

Messages are read from attributes (current and older names, OpenInference's), from span events, and from numbered
attributes. Spans of one trace are joined; model calls that repeat the conversation add only what is new.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from combee.redaction import Outcome, ToolCall, Trace
from combee.traces.readers.draft import Conversation, TraceDraft, graded
from combee.traces.readers.messages import Piece, pieces, role_of
from combee.traces.readers.openinference import as_gen_ai
from combee.traces.readers.source import RecordGroup, Source, grouped
from combee.traces.readers.values import compact, number, objects, rows, table, text, when

_NUMBERED = re.compile(r"\.(\d{1,6})\.([\w.]{1,100})\Z")
_DEEPEST = 40


def _plain(value: object, depth: int = 0) -> object:
    """Return the value inside OTLP's typed wrapper."""
    typed = table(value)
    if not typed or depth > _DEEPEST:
        return value
    if "arrayValue" in typed:
        return [_plain(item, depth + 1) for item in rows(table(typed["arrayValue"]).get("values"))]
    if "kvlistValue" in typed:
        listed = objects(table(typed["kvlistValue"]).get("values"))
        return {text(item.get("key")): _plain(item.get("value"), depth + 1) for item in listed}
    if "intValue" in typed:
        return number(typed["intValue"])
    for key in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if key in typed:
            return typed[key]
    return value


def attributes_of(value: object) -> dict[str, object]:
    """Return attributes by name."""
    if isinstance(value, list):
        return {text(item.get("key")): _plain(item.get("value")) for item in objects(value)}
    return table(value)


def span_events(value: object) -> list[tuple[str, dict[str, object]]]:
    """Return the name and the attributes of every event of a span."""
    return [(text(event.get("name")), attributes_of(event.get("attributes"))) for event in objects(value)]


def numbered_messages(attributes: dict[str, object], prefix: str) -> list[dict[str, object]]:
    """Return messages that are spread over attributes like `gen_ai.prompt.0.content`, with their calls."""
    found: dict[int, dict[str, object]] = {}
    calls: dict[int, dict[int, dict[str, object]]] = {}
    for name, value in attributes.items():
        if not name.startswith(prefix + "."):
            continue
        match = _NUMBERED.match(name, len(prefix))
        if match is None:
            continue
        at, key = int(match[1]), match[2]
        if key.startswith("tool_calls."):
            _, which, part = (key + ".").split(".", 2)
            if which.isdigit():
                calls.setdefault(at, {}).setdefault(int(which), {})[part.strip(".")] = value
        else:
            found.setdefault(at, {})[key] = value
    for at, made in calls.items():
        found.setdefault(at, {})["tool_calls"] = [made[which] for which in sorted(made)]
    return [found[at] for at in sorted(found)]


_CHAT = frozenset({"chat", "text_completion", "generate_content", "completion"})


@dataclass(slots=True)
class _Span:
    line: int
    name: str
    id: str
    parent: str
    start: str
    end: str
    error: str
    attributes: dict[str, object]
    events: list[tuple[str, dict[str, object]]]


def _is_span(value: object) -> bool:
    record = table(value)
    sdk = "span_id" in table(record.get("context")) and "attributes" in record
    return sdk or ("spanId" in record and "traceId" in record)


def _otlp(value: object) -> list[dict[str, object]]:
    return list(objects(table(value).get("resourceSpans") or table(value).get("resource_spans")))


class OtelReader:
    """Reads one trace a trace id."""

    name = "otel_genai"
    fields = ("trace_id", "span_id", "attributes", "context")

    def sniff(self, source: Source) -> float:
        """Look for spans; those without `gen_ai` attributes are named when read."""
        for value in source.first:
            if _is_span(value) or _otlp(value) or any(_is_span(item) for item in rows(value)[:3]):
                return 0.95
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the traces."""
        for group in grouped(source, _spans(source), "a span"):
            yield from _trace(source, group)


def _spans(source: Source) -> Iterator[tuple[int, str, dict[str, object], int]]:
    for line, value in source.records():
        batches = _otlp(value)
        found: list[dict[str, object]] = []
        for batch in batches:
            for scope in objects(
                batch.get("scopeSpans") or batch.get("scope_spans") or batch.get("instrumentationLibrarySpans")
            ):
                found += objects(scope.get("spans"))
        for item in found or rows(value) or [value]:
            record = table(item)
            if not _is_span(record):
                if not batches:
                    source.skip("not a span", line)
                continue
            key = text(table(record.get("context")).get("trace_id")) or text(record.get("traceId"))
            yield line, key, record, 400 + len(compact(record.get("attributes")))


def _span(line: int, record: dict[str, object]) -> _Span:
    context = table(record.get("context"))
    status = table(record.get("status"))
    code = text(status.get("status_code")) or text(status.get("code"))
    kind, name = text(record.get("span_kind")), text(record.get("name"))
    attributes = as_gen_ai(attributes_of(record.get("attributes")), kind, name)
    code = code or text(record.get("status_code"))
    failed = code in {"ERROR", "2", "STATUS_CODE_ERROR"}
    message = text(status.get("description")) or text(status.get("message"))
    message = message or text(record.get("status_message")) or text(attributes.get("error.type"))
    return _Span(
        line=line,
        name=name,
        id=text(context.get("span_id")) or text(record.get("spanId")),
        parent=text(record.get("parent_id")) or text(record.get("parentSpanId")),
        start=when(record.get("start_time") or record.get("startTimeUnixNano")) or "",
        end=when(record.get("end_time") or record.get("endTimeUnixNano")) or "",
        error=(message or "error") if failed else "",
        attributes=attributes,
        events=span_events(record.get("events")),
    )


def _trace(source: Source, group: RecordGroup) -> Iterator[Trace]:
    spans = [_span(line, record) for line, record in group.records]
    spans.sort(key=lambda span: (span.start, span.end))
    if not any(key.startswith(("gen_ai.", "llm.")) for span in spans for key in span.attributes) and not any(
        name.startswith("gen_ai.") for span in spans for name, _ in span.events
    ):
        source.skip("spans without attributes of GenAI or OpenInference", spans[0].line)
        return
    known = {span.id for span in spans}
    root = next((span for span in spans if span.parent not in known), spans[0])
    draft = TraceDraft(source)
    talk = Conversation(draft)
    for span in spans:
        _add_span(talk, span)
    meta = {
        "agent": next((name for span in spans if (name := text(span.attributes.get("gen_ai.agent.name")))), ""),
        "model": next((name for span in spans if (name := _model(span))), ""),
        "provider": next((name for span in spans if (name := _provider(span))), ""),
        "trace_id": group.key,
        "session": next((name for span in spans if (name := text(span.attributes.get("gen_ai.conversation.id")))), ""),
    }
    yield from draft.trace(outcome=_outcome(root, spans), meta=meta, line=root.line)


def _model(span: _Span) -> str:
    return text(span.attributes.get("gen_ai.response.model")) or text(span.attributes.get("gen_ai.request.model"))


def _provider(span: _Span) -> str:
    return text(span.attributes.get("gen_ai.provider.name")) or text(span.attributes.get("gen_ai.system"))


def _loaded(value: object) -> list[object]:
    """Return messages that are a list, or a list written as text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [{"role": "user", "content": value}]
    return rows(value)


def _messages(span: _Span, *keys: str) -> list[Piece]:
    for key in keys:
        places = [span.attributes, *(attributes for _, attributes in span.events)]
        for place in places:
            if place.get(key):
                return [piece for message in _loaded(place[key]) for piece in pieces(message)]
    return []


def _instructions(span: _Span) -> list[Piece]:
    value = span.attributes.get("gen_ai.system_instructions") or span.attributes.get("gen_ai.system.instructions")
    parts = _loaded(value) if value else []
    if not parts:
        return []
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [Piece("system", value)]
    return pieces({"role": "system", "parts": parts})


def _add_span(talk: Conversation, span: _Span) -> None:
    attributes = span.attributes
    operation = text(attributes.get("gen_ai.operation.name"))
    if operation == "execute_tool" or (not operation and "gen_ai.tool.name" in attributes):
        _add_tool(talk, span)
        return
    given = _instructions(span) + _messages(span, "gen_ai.input.messages", "gen_ai.prompt")
    made = _messages(span, "gen_ai.output.messages", "gen_ai.completion")
    if not given and not made:
        given = [piece for message in numbered_messages(attributes, "gen_ai.prompt") for piece in pieces(message)]
        answered = numbered_messages(attributes, "gen_ai.completion")
        made = [piece for message in answered for piece in pieces({"role": "assistant", **message})]
    if not given and not made:
        given, made = _from_events(span)
    talk.heard(given, timestamp=span.start, line=span.line)
    if operation in _CHAT or not operation:
        talk.said(made, timestamp=span.end, line=span.line)
    else:  # an agent's span repeats what its model calls said
        talk.heard(made, timestamp=span.end, line=span.line)
    if span.error and (operation in _CHAT or not operation):
        talk.said([Piece("system", f"[error] {span.error}")], timestamp=span.end, line=span.line)


def _from_events(span: _Span) -> tuple[list[Piece], list[Piece]]:
    """Return messages of the older events `gen_ai.user.message`, `gen_ai.choice` and their like."""
    given: list[Piece] = []
    made: list[Piece] = []
    for name, attributes in span.events:
        if name == "gen_ai.choice":
            message = attributes.get("message", attributes)
            loaded = _loaded(f"[{message}]") if isinstance(message, str) and message.startswith("{") else [message]
            made += [piece for each in loaded for piece in pieces({"role": "assistant", **table(each)})]
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            role = name.split(".")[1]
            calls = attributes.get("tool_calls")
            listed = _loaded(calls) if isinstance(calls, str) else rows(calls)
            name_of = attributes.get("id")
            given += pieces({"role": role_of(role), "tool_call_id": name_of, **attributes, "tool_calls": listed})
    return given, made


def _add_tool(talk: Conversation, span: _Span) -> None:
    attributes = span.attributes
    name = text(attributes.get("gen_ai.tool.call.id")) or talk.open_call(text(attributes.get("gen_ai.tool.name")))
    name = name or span.id
    arguments = attributes.get("gen_ai.tool.call.arguments", attributes.get("tool_arguments"))
    if not talk.has_call(name):
        call = ToolCall(name, text(attributes.get("gen_ai.tool.name")), compact(arguments))
        talk.said([Piece("assistant", calls=(call,))], timestamp=span.start, line=span.line)
    result = attributes.get("gen_ai.tool.call.result", attributes.get("tool_response"))
    if result is not None or span.error:
        said = compact(result) if result is not None else span.error
        piece = Piece("tool", said, answers=name, is_error=True if span.error else None)
        talk.said([piece], timestamp=span.end, line=span.line)


def _outcome(root: _Span, spans: list[_Span]) -> Outcome | None:
    """Return the score of an evaluation event, else a failure where the root span failed."""
    scores: dict[str, float] = {}
    for span in spans:
        for name, attributes in span.events:
            score = number(attributes.get("gen_ai.evaluation.score.value"))
            if name == "gen_ai.evaluation.result" and score is not None:
                scores[text(attributes.get("gen_ai.evaluation.name"))] = score
    if scores:
        return graded(scores, next(iter(scores)), root.error)
    return Outcome(success=False, detail=root.error) if root.error else None
