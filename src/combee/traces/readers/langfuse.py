"""Langfuse: traces with their observations (as the API and its exports give them), or observations a line.

Generations give the messages, observations of type TOOL the calls and results. Scores are kept out: what a score of 0
or 1 means is not recorded with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from combee.redaction import Outcome, ToolCall, Trace
from combee.traces.readers.draft import Conversation, TraceDraft
from combee.traces.readers.messages import Piece, content_text, pieces
from combee.traces.readers.source import Source, grouped
from combee.traces.readers.values import compact, objects, rows, table, text

_TYPES = frozenset(
    {"GENERATION", "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EMBEDDING", "EVALUATOR", "GUARDRAIL"}
)
_TOOLS = frozenset({"TOOL", "RETRIEVER"})


def _is_observation(value: object) -> bool:
    record = table(value)
    return text(record.get("type")).upper() in _TYPES and "startTime" in record and "input" in record


def _observations(value: object) -> list[object]:
    return rows(table(value).get("observations"))


class LangfuseReader:
    """Reads one run a trace."""

    name = "langfuse"
    fields = ("traceId", "type", "startTime", "parentObservationId", "input", "output")

    def sniff(self, source: Source) -> float:
        """Look for observations, alone or in their trace."""
        for value in source.first:
            listed = rows(value) or rows(table(value).get("data")) or [value]
            if any(_is_observation(item) and "traceId" in table(item) for item in listed[:3]):
                return 0.9
            if any(_is_observation(each) for item in listed[:3] for each in _observations(item)[:3]):
                return 0.9
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the traces."""
        for group in grouped(source, _records(source), "an observation"):
            heads = [record for _, record in group.records if not _is_observation(record)]
            found = [(line, record) for line, record in group.records if _is_observation(record)]
            if not found:
                source.skip("a trace without observations", group.records[0][0])
                continue
            found.sort(key=lambda pair: text(pair[1].get("startTime")))
            yield from _trace(source, heads[0] if heads else {}, found, group.key)


def _records(source: Source) -> Iterator[tuple[int, str, dict[str, object], int]]:
    for line, value in source.records():
        for item in rows(value) or rows(table(value).get("data")) or [value]:
            record = table(item)
            inside = list(objects(_observations(record)))
            if inside:
                key = text(record.get("id"))
                yield line, key, {name: each for name, each in record.items() if name != "observations"}, 400
                for each in inside:
                    yield line, key, each, 400 + len(compact(each.get("input")))
            elif _is_observation(record):
                key = text(record.get("traceId")) or text(record.get("trace_id"))
                yield line, key, record, 400 + len(compact(record.get("input")))
            else:
                source.skip("neither a trace nor an observation", line)


def _loaded(value: object) -> object:
    """Return a value that an export wrote as text."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _trace(
    source: Source, head: dict[str, object], found: list[tuple[int, dict[str, object]]], name: str
) -> Iterator[Trace]:
    draft = TraceDraft(source)
    draft.run = name
    talk = Conversation(draft)
    trouble = ""
    for line, each in found:
        start, end = text(each.get("startTime")) or None, text(each.get("endTime")) or None
        failed = text(each.get("level")).upper() == "ERROR"
        kind, said = text(each.get("type")).upper(), text(each.get("statusMessage"))
        if kind == "GENERATION":
            draft.meta.setdefault("model", text(each.get("model")) or text(each.get("providedModelName")))
            talk.heard(_messages(each.get("input"), "user"), timestamp=start, line=line)
            talk.said(_messages(each.get("output"), "assistant"), timestamp=end, line=line)
        elif kind in _TOOLS:
            tool = text(each.get("name"))
            call = talk.open_call(tool) or text(each.get("id"))
            if not talk.has_call(call):
                made = ToolCall(call, tool, compact(_loaded(each.get("input"))))
                talk.said([Piece("assistant", calls=(made,))], timestamp=start, line=line)
            shown = content_text(_loaded(each.get("output")) or "") or said
            result = Piece("tool", shown, answers=call, is_error=True if failed else None)
            talk.said([result], timestamp=end, line=line)
        trouble = said if failed and said else trouble
    task = content_text(_loaded(head.get("input")) or "")
    if not draft.steps and task:
        draft.add(Piece("user", task))
    meta = {"agent": text(head.get("name")), "session": text(head.get("sessionId")), "trace_id": name}
    yield from draft.trace(outcome=Outcome(detail=trouble) if trouble else None, meta=meta, line=found[0][0])


def _messages(value: object, role: str) -> list[Piece]:
    """Return the messages of a generation's input or output: a list, an object that holds one, a message or a text."""
    loaded = _loaded(value)
    record = table(loaded)
    for key in ("messages", "choices", "output"):
        if isinstance(record.get(key), list):
            return [
                piece
                for item in rows(record[key])
                for piece in pieces({"role": role, **(table(table(item).get("message")) or table(item))})
            ]
    if isinstance(loaded, list) and loaded and all(isinstance(item, dict) for item in loaded):
        given = (item if "type" in item else {"role": role, **item} for item in objects(loaded))
        return [piece for item in given for piece in pieces(item)]
    if record and ({"role", "content", "parts", "tool_calls"} & record.keys()):
        return pieces({"role": role, **record})
    said = content_text(loaded if loaded is not None else "")
    return pieces({"role": role, "content": said}) if said else []
