"""Codex rollouts: JSON lines `{timestamp, type, payload}`, and the older form whose lines are the items themselves.

What user and agent say is recorded twice (`event_msg` and `response_item`); it is read once, as the item where there
is one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from combee.redaction import ToolCall, Trace
from combee.traces.readers.draft import TraceDraft
from combee.traces.readers.messages import Piece, call_of, content_text, pieces, role_of
from combee.traces.readers.source import Source
from combee.traces.readers.values import compact, flag, number, rows, table, text, when

__all__ = ["CodexReader"]

_KINDS = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_ITEMS = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "local_shell_call", "custom_tool_call",
     "custom_tool_call_output", "web_search_call"}
)  # fmt: skip
_SPOKEN = {"user_message": "user", "agent_message": "assistant"}
_CONTEXT = ("<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md instructions",
            "<turn_aborted>", "<skill")  # fmt: skip
_TROUBLE = {"error": "message", "stream_error": "message", "turn_aborted": "reason"}


@dataclass(slots=True)
class _Event:
    line: int
    time: str | None
    kind: str
    payload: dict[str, object]


class CodexReader:
    """Reads one session a file."""

    name = "codex"

    def sniff(self, source: Source) -> float:
        """Look for typed payloads, or for the head line of the older form."""
        records = [table(value) for value in source.first]
        if any(text(value.get("type")) in _KINDS and isinstance(value.get("payload"), dict) for value in records):
            return 1.0
        head = records[0] if records else {}
        old = "id" in head and "timestamp" in head and ("instructions" in head or "git" in head)
        return 0.9 if old and any(text(value.get("type")) in _ITEMS for value in records[1:]) else 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the session."""
        events = list(_events(source))
        start = _own_start(events)
        spoken = Counter(_said(event) for event in events if event.kind == "message")
        draft = TraceDraft(source)
        thought = any(event.kind == "reasoning" for event in events)
        task: str | None = None
        for event in events:
            if event.kind == "session_meta":
                _identify(draft, event.payload)
            elif event.kind == "turn_context":
                draft.meta.setdefault("model", text(event.payload.get("model")))
            if number(event.payload.get("ordinal")) is not None and (number(event.payload["ordinal"]) or 0) < start:
                continue
            for piece in _pieces(event, spoken, thought):
                draft.add(piece, timestamp=event.time, line=event.line)
                if task is None and piece.role == "user":
                    task = piece.text
        yield from draft.trace(task=task)


def _events(source: Source) -> Iterator[_Event]:
    for line, value in source.records():
        record = table(value)
        kind = text(record.get("type"))
        payload = record.get("payload")
        time = when(record.get("timestamp"))
        if isinstance(payload, dict):
            inner = text(payload.get("type"))
            named = kind if kind in {"session_meta", "turn_context", "compacted"} else inner
            event = _Event(line, time, named if kind != "event_msg" else f"event:{inner}", payload)
            if record.get("ordinal") is not None:
                event.payload = {**payload, "ordinal": record["ordinal"]}
            yield event
        elif kind in _ITEMS:
            yield _Event(line, time, kind, record)
        elif "instructions" in record or "git" in record:
            yield _Event(line, time, "session_meta", record)
        elif "record_type" not in record:
            source.skip(f"not a line of a rollout (type {kind or 'missing'})"[:120], line)


def _own_start(events: list[_Event]) -> float:
    """Return the ordinal at which a sub-agent's own history starts; before it stands a copy of its parent's."""
    for event in events:
        if event.kind == "session_meta":
            return number(event.payload.get("subagent_history_start_ordinal")) or 0.0
    return 0.0


def _identify(draft: TraceDraft, payload: dict[str, object]) -> None:
    spawn = table(table(table(payload.get("source")).get("subagent")).get("thread_spawn"))
    found = {
        "agent": "codex",
        "session": text(payload.get("id")),
        "version": text(payload.get("cli_version")),
        "parent": text(spawn.get("parent_thread_id")),
    }
    for key, value in found.items():
        draft.meta.setdefault(key, value)


def _said(event: _Event) -> tuple[str, str]:
    return role_of(event.payload.get("role")), content_text(event.payload.get("content")).strip()


def _pieces(event: _Event, spoken: Counter[tuple[str, str]], thought: bool) -> list[Piece]:
    payload, kind = event.payload, event.kind
    if kind.startswith("event:"):
        return _from_event(kind.removeprefix("event:"), payload, spoken, thought)
    if kind == "message":
        found = pieces(payload)
        for piece in found:
            if piece.role == "user" and piece.text.lstrip().startswith(_CONTEXT):
                piece.role = "system"
        return found
    if kind == "reasoning":
        thinking = content_text(payload.get("summary")).strip()
        return [Piece("assistant", f"[thinking] {thinking}")] if thinking else []
    if kind in {"function_call", "custom_tool_call"}:
        return [Piece("assistant", calls=(call_of(payload),))]
    if kind == "local_shell_call":
        action = table(payload.get("action"))
        call = ToolCall(
            text(payload.get("call_id")) or text(payload.get("id")), "shell", compact(action.get("command"))
        )
        return [Piece("assistant", calls=(call,))]
    if kind == "web_search_call":
        call = ToolCall(text(payload.get("id")), "web_search", compact(payload.get("action")))
        return [Piece("assistant", calls=(call,))]
    if kind in {"function_call_output", "custom_tool_call_output"}:
        said, failed = _output(payload.get("output"))
        return [Piece("tool", said, answers=text(payload.get("call_id")) or None, is_error=failed)]
    if kind == "compacted":
        return [Piece("system", f"[compacted] {text(payload.get('message'))}")]
    return []


def _from_event(kind: str, payload: dict[str, object], spoken: Counter[tuple[str, str]], thought: bool) -> list[Piece]:
    if kind in _SPOKEN:
        key = (_SPOKEN[kind], text(payload.get("message")).strip())
        if spoken[key] > 0:
            spoken[key] -= 1
            return []
        return [Piece(role_of(key[0]), key[1])]
    if kind == "agent_reasoning" and not thought:
        return [Piece("assistant", f"[thinking] {text(payload.get('text'))}")]
    if kind in _TROUBLE:
        return [Piece("system", f"[{kind.replace('_', ' ')}] {text(payload.get(_TROUBLE[kind]))}")]
    return []


def _output(value: object) -> tuple[str, bool | None]:
    """Return an output's text and whether it failed; it is a text, an object, a list, or an object written as text."""
    if isinstance(value, str) and value.startswith("{") and '"output"' in value:
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict) and isinstance(parsed.get("output"), str):
            value = parsed
    record = table(value)
    if not record:
        return (value if isinstance(value, str) else content_text(rows(value))), None
    code = number(table(record.get("metadata")).get("exit_code"))
    worked = flag(record.get("success"))
    failed = code != 0 if code is not None else (None if worked is None else not worked)
    body = record.get("output", record.get("content", record.get("body")))
    return content_text(body if body is not None else record), failed
