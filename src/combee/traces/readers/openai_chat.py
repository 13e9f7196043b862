"""Chats: `{"messages": [...]}`, requests with their responses, a bare list of messages, a message a line.

The messages may be those of OpenAI (chat or Responses), Anthropic, Google, pydantic-ai, the AI SDK or goose (its
`conversation` too). Also the traces of the OpenAI Agents SDK.

Requests of one agent loop repeat the whole conversation: they are joined into one trace as long as each begins with
the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from combee.redaction import Outcome, ToolCall, Trace
from combee.traces.readers.draft import Conversation, TraceDraft, failure_detail, recorded
from combee.traces.readers.messages import OpenCalls, Piece, pieces
from combee.traces.readers.source import Source, grouped
from combee.traces.readers.values import compact, objects, rows, table, text, when

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function", "model"})
_BODIES = ("request", "body", "request_body", "requestBody")
_REPLIES = ("response", "response_body", "responseBody")
_GIVEN = ("messages", "input", "contents")
_HEADS = ("working_dir", "session_meta")
"""What stands in the first line of a file of messages, beside names that begin with `_`."""
_NO_MESSAGE = frozenset({"notification", "complete", "turn_ended", "reasoning"})
_QUERY = re.compile(r"</?user_query>\n?")


def is_messages(value: object) -> bool:
    """Whether it is a list of chat messages (or items of the Responses form)."""
    items = rows(value)
    spoken = [isinstance(item, dict) and (text(item.get("role")) in _ROLES or _has_parts(item)) for item in items]
    return any(spoken) and all(
        known or (isinstance(item, dict) and "type" in item) for known, item in zip(spoken, items, strict=True)
    )


def _has_parts(item: dict[str, object]) -> bool:
    """Whether it is a message of pydantic-ai."""
    return text(item.get("kind")) in {"request", "response"} and isinstance(item.get("parts"), list)


def _first(value: dict[str, object], keys: tuple[str, ...]) -> dict[str, object]:
    return next((table(value[key]) for key in keys if table(value.get(key))), {})


def _listed(value: dict[str, object]) -> list[object] | None:
    return next((rows(value[key]) for key in ("messages", "conversation") if is_messages(value.get(key))), None)


def _is_record(value: object) -> bool:
    if isinstance(value, list):
        return is_messages(value)
    if not isinstance(value, dict):
        return False
    return _listed(value) is not None or any(key in _first(value, _BODIES) for key in _GIVEN)


def _message(value: object) -> dict[str, object]:
    """Return the message of a line that holds one (also as its `message`), or nothing."""
    record = table(value)
    inner = table(record.get("message"))
    found = {**inner, "role": inner.get("role") or record.get("role")} if inner else record
    if "role" not in record and not inner and text(record.get("type")) in _ROLES:  # as Grok's CLI writes them
        found = {**record, "role": "system" if record.get("synthetic_reason") else record["type"]}
    if text(record.get("type")) == "tool_result" and "tool_call_id" in record:
        found = {**record, "role": "tool"}
    spoken = text(found.get("role")) in _ROLES and ("content" in found or "tool_calls" in found or "parts" in found)
    return found if spoken and not ({"uuid", "parentId"} & record.keys()) else {}


@dataclass(slots=True)
class _Conversation:
    """A conversation that the next record may go on with."""

    line: int
    said: list[Piece]
    meta: dict[str, str] = field(default_factory=dict)
    outcome: Outcome | None = None


class OpenAIChatReader:
    """Reads chat messages as used for fine-tuning and as logged by proxies."""

    name = "openai_chat"
    fields = ("messages", "role", "content")

    def sniff(self, source: Source) -> float:
        """Look for messages or a request; other formats that hold messages are surer of theirs."""
        if any(map(_is_record, source.first)):
            return 0.6
        if source.kind != "lines":
            return 0.0
        odd = [value for value in source.first if not _message(value) and not _passed_over(table(value))]
        return 0.55 if any(map(_message, source.first)) and 4 * len(odd) <= len(source.first) else 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield one trace for each conversation; a file with a message a line is one."""
        if source.kind == "lines" and not any(map(_is_record, source.first)):
            yield from _of_lines(source)
            return
        last: _Conversation | None = None
        for line, value in source.records():
            items = [value]
            if isinstance(value, list) and not is_messages(value):
                items = value
            for item in items:
                found = _conversation(source, item, line)
                if found is None:
                    continue
                if last is not None and _goes_on(last, found):
                    found.line = last.line
                elif last is not None:
                    yield from _finished(source, last)
                last = found
        if last is not None:
            yield from _finished(source, last)


def _passed_over(record: dict[str, object]) -> bool:
    """Whether it is a line that stands beside messages and holds none: a head, a checkpoint, the end of a stream."""
    beside = any(key in record for key in _HEADS) or text(record.get("role")).startswith("_")
    return beside or text(record.get("type")) in _NO_MESSAGE


def _of_lines(source: Source) -> Iterator[Trace]:
    draft = TraceDraft(source)
    open_calls = OpenCalls()
    for line, value in source.records():
        record, message = table(value), _message(value)
        if message:
            stamp = when(next(filter(None, (record.get(key) for key in ("timestamp", "created", "createdAt"))), None))
            for piece in map(open_calls.paired, pieces(message)):
                if piece.role == "user":
                    piece.text = _QUERY.sub("", piece.text)
                draft.add(piece, timestamp=stamp, line=line)
        elif _passed_over(record):
            draft.run = draft.run or text(record.get("id"))
        else:
            source.skip("no chat message in it", line)
    yield from draft.trace()


def _goes_on(last: _Conversation, found: _Conversation) -> bool:
    return "request" in found.meta and len(found.said) > len(last.said) and found.said[: len(last.said)] == last.said


def _finished(source: Source, conversation: _Conversation) -> Iterator[Trace]:
    draft = TraceDraft(source)
    draft.pieces(conversation.said, line=conversation.line)
    meta = {key: value for key, value in conversation.meta.items() if key != "request"}
    yield from draft.trace(outcome=conversation.outcome, meta=meta, line=conversation.line)


def _conversation(source: Source, value: object, line: int) -> _Conversation | None:
    if isinstance(value, list) and is_messages(value):
        return _Conversation(line, [piece for item in value for piece in pieces(item)])
    if not isinstance(value, dict) or not _is_record(value):
        source.skip("no chat messages in it", line)
        return None
    listed = _listed(value)
    if listed is None:
        return _pair(source, value, line)
    said = [piece for item in listed for piece in pieces(item)]
    answer = _first(value, _REPLIES)
    if answer:
        said += _answer(answer)
    meta = {"model": text(value.get("model")), "task_id": text(value.get("task_id")) or text(value.get("instance_id"))}
    return _Conversation(line, said, meta, recorded(value) or recorded(table(value.get("metadata"))))


def _pair(source: Source, value: dict[str, object], line: int) -> _Conversation:
    request, response = _first(value, _BODIES), _first(value, _REPLIES)
    response = table(response.get("body")) or response
    said: list[Piece] = []
    for key in ("instructions", "system", "systemInstruction", "system_instruction"):
        if request.get(key):
            said += pieces({"role": "system", "parts": table(request[key]).get("parts"), "content": request[key]})
    given = next((request[key] for key in _GIVEN if key in request), None)
    if isinstance(given, str):
        said.append(Piece("user", given))
    said += [piece for item in rows(given) for piece in pieces(item)]
    said += _answer(response)
    if response.get("error"):
        source.note(f"the call failed: {failure_detail(response['error'])[:200]}", line)
    meta = {"request": "1", "model": text(response.get("model")) or text(request.get("model"))}
    return _Conversation(line, said, meta, recorded(value))


def _answer(response: dict[str, object]) -> list[Piece]:
    """Return what the model said: the first choice, or every item of a Responses output."""
    for choice in objects(response.get("choices")):
        return pieces(choice.get("message"))
    for candidate in objects(response.get("candidates")):
        return pieces({"role": "model", **table(candidate.get("content"))})
    if "output" in response:
        return [piece for item in rows(response["output"]) for piece in pieces(item)]
    return pieces(response) if "role" in response else []


class OpenAIAgentsReader:
    """Reads traces of the OpenAI Agents SDK: a `trace` and its `trace.span` objects, a line each or in batches."""

    name = "openai_agents"
    fields = ("object", "id", "trace_id", "span_data", "started_at")

    def sniff(self, source: Source) -> float:
        """Look for spans with their data."""
        for value in source.first:
            if any(map(_is_agent_span, [value, *rows(value)[:3], *rows(table(value).get("data"))[:3]])):
                return 0.95
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield one trace for each trace id."""
        for group in grouped(source, _agent_spans(source), "a span"):
            spans = [(line, record) for line, record in group.records if "span_data" in record]
            heads = [record for _, record in group.records if "span_data" not in record]
            if not spans:
                source.skip("a trace without spans", group.records[0][0])
                continue
            spans.sort(key=lambda pair: (text(pair[1].get("started_at")), text(pair[1].get("ended_at"))))
            yield from _agent_trace(source, spans, heads[0] if heads else {}, group.key)


def _is_agent_span(value: object) -> bool:
    record = table(value)
    known = text(record.get("object")) in {"trace.span", "trace"} and "id" in record
    return known and ("span_data" in record or "workflow_name" in record)


def _agent_spans(source: Source) -> Iterator[tuple[int, str, dict[str, object], int]]:
    for line, value in source.records():
        for item in rows(value) or rows(table(value).get("data")) or [value]:
            record = table(item)
            if not _is_agent_span(record):
                source.skip("neither a trace nor a span", line)
                continue
            key = text(record.get("trace_id")) or text(record.get("id"))
            yield line, key, record, 400 + len(compact(record.get("span_data")))


def _agent_trace(
    source: Source, spans: list[tuple[int, dict[str, object]]], head: dict[str, object], name: str
) -> Iterator[Trace]:
    draft = TraceDraft(source)
    talk = Conversation(draft)
    trouble = ""
    spoken = any(table(span.get("span_data")).get("output") and _speaks(span) for _, span in spans)
    for line, span in spans:
        data = table(span.get("span_data"))
        start, end = when(span.get("started_at")), when(span.get("ended_at"))
        error = failure_detail(span.get("error"))
        trouble = error or trouble
        if _speaks(span):
            draft.meta.setdefault("model", text(data.get("model")))
            given, made = data.get("input"), data.get("output") or table(data.get("response")).get("output")
            heard = [Piece("user", given)] if isinstance(given, str) else [p for m in rows(given) for p in pieces(m)]
            talk.heard(heard, timestamp=start, line=line)
            talk.said([p for m in rows(made) for p in pieces(_of_assistant(m))], timestamp=end, line=line)
        elif data.get("type") == "function" and not spoken:  # else the model's calls hold it, with their ids
            call = ToolCall(text(span.get("id")), text(data.get("name")), compact(data.get("input")))
            said = compact(data.get("output")) or error
            talk.said([Piece("assistant", calls=(call,))], timestamp=start, line=line)
            talk.said(
                [Piece("tool", said, answers=call.id, is_error=True if error else None)], timestamp=end, line=line
            )
        elif data.get("type") == "handoff":
            shown = f"[handoff] {text(data.get('from_agent'))} to {text(data.get('to_agent'))}"
            draft.add(Piece("system", shown), timestamp=start, line=line)
    meta = {"agent": text(head.get("workflow_name")), "trace_id": name, "session": text(head.get("group_id"))}
    outcome = Outcome(detail=trouble) if trouble else None
    yield from draft.trace(outcome=outcome, meta=meta, line=spans[0][0])


def _speaks(span: dict[str, object]) -> bool:
    return text(table(span.get("span_data")).get("type")) in {"generation", "response"}


def _of_assistant(message: object) -> object:
    record = table(message)
    return {"role": "assistant", **record} if record and "role" not in record and "type" not in record else message
