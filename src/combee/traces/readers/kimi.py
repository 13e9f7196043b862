"""Kimi CLI: the `wire.jsonl` of a session, one record of what went between its parts a line.

Of a step of the model the parts, the calls and their results are records of their own; what is repeated for the model
(requests, tools, usage) is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import ToolCall, Trace
from combee.traces.readers.draft import TraceDraft
from combee.traces.readers.messages import Piece, content_text, pieces
from combee.traces.readers.source import Source
from combee.traces.readers.values import compact, flag, table, text, when


class KimiReader:
    """Reads one session a file; what a sub-agent did is marked with its name."""

    name = "kimi_cli"
    fields = ("type", "time", "event", "message", "agentId")

    def sniff(self, source: Source) -> float:
        """Look for the version of the protocol, or for what was added to the context."""
        for record in map(table, source.first):
            if record.get("type") == "metadata" and "protocol_version" in record:
                return 0.95
            if text(record.get("type")).startswith("context.append_") and "time" in record:
                return 0.9
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the session."""
        draft = TraceDraft(source)
        draft.meta["agent"] = "kimi-cli"
        for line, value in source.records():
            record = table(value)
            kind, stamp = text(record.get("type")), when(record.get("time"))
            if not kind:
                source.skip("not a record of a session (no type)", line)
                continue
            draft.meta["model"] = text(record.get("modelAlias")) or draft.meta.get("model", "")
            name = text(record.get("agentId"))
            agent = None if name in {"", "main"} else name
            if kind == "context.append_message":
                draft.pieces(_message(table(record.get("message"))), timestamp=stamp, agent=agent, line=line)
            elif kind == "context.append_loop_event":
                draft.add(_event(table(record.get("event"))), timestamp=stamp, agent=agent, line=line)
            elif kind == "context.apply_compaction":
                said = f"[compaction] {text(record.get('summary'))}"
                draft.add(Piece("system", said), timestamp=stamp, agent=agent, line=line)
        yield from draft.trace()


def _message(message: dict[str, object]) -> list[Piece]:
    found = pieces(message)
    origin = text(table(message.get("origin")).get("kind"))
    for piece in found:
        if piece.role == "user" and origin not in {"", "user"}:  # a reminder, a hook, a task that ended
            piece.role = "system"
    return found


def _event(event: dict[str, object]) -> Piece:
    kind, name = text(event.get("type")), text(event.get("toolCallId"))
    if kind == "content.part":
        return next(iter(pieces({"role": "assistant", "content": [event.get("part")]})), Piece("assistant"))
    if kind == "tool.call":
        return Piece("assistant", calls=(ToolCall(name, text(event.get("name")), compact(event.get("args"))),))
    if kind == "tool.result":
        result = table(event.get("result"))
        failed = flag(result.get("isError"))
        return Piece("tool", content_text(result.get("output") or ""), answers=name, is_error=failed)
    return Piece("system")
