"""OpenClaw sessions: JSON lines `type: session | message | custom ...`, chained by `parentId`."""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import Trace
from combee.traces.readers.draft import TraceDraft
from combee.traces.readers.messages import Piece, pieces
from combee.traces.readers.source import Source
from combee.traces.readers.values import number, table, text, when

__all__ = ["OpenClawReader"]


class OpenClawReader:
    """Reads one session a file; a branch that was given up is marked as a side chain."""

    name = "openclaw"
    fields = ("type", "id", "parentId", "timestamp", "message")

    def sniff(self, source: Source) -> float:
        """Look for the session line, or for messages with a parentId."""
        for value in source.first:
            record = table(value)
            kind = text(record.get("type"))
            if kind == "session" and "version" in record and "id" in record:
                return 0.95
            if kind == "message" and "parentId" in record and isinstance(record.get("message"), dict):
                return 0.9
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the session."""
        draft = TraceDraft(source)
        events: list[tuple[int, dict[str, object]]] = []
        for line, value in source.records():
            record = table(value)
            if "type" in record:
                events.append((line, record))
            else:
                source.skip("not a line of a session (no type)", line)
        active = _active(events)
        for line, record in events:
            kind = text(record.get("type"))
            stamp = when(record.get("timestamp"))
            if kind == "session":
                draft.meta.setdefault("session", text(record.get("id")))
                draft.meta.setdefault("agent", "openclaw")
            elif kind == "message":
                agent = None if text(record.get("id")) in active else "abandoned"
                _message(draft, table(record.get("message")), stamp, agent, line)
            elif kind in {"compaction", "branch_summary"}:
                draft.add(Piece("system", f"[{kind}] {text(record.get('summary'))}"), timestamp=stamp, line=line)
        yield from draft.trace()


def _active(events: list[tuple[int, dict[str, object]]]) -> set[str]:
    """Return the ids on the way from the last message up to the first."""
    parents = {
        text(record.get("id")): text(record.get("parentId")) for _, record in events if record.get("type") != "session"
    }
    last = next((text(record.get("id")) for _, record in reversed(events) if record.get("type") == "message"), "")
    found: set[str] = set()
    while last and last not in found:
        found.add(last)
        last = parents.get(last, "")
    return found


def _message(draft: TraceDraft, message: dict[str, object], stamp: str | None, agent: str | None, line: int) -> None:
    details = table(message.get("details"))
    code = number(details.get("exitCode"))
    failed = text(details.get("status")) == "error" or (code is not None and code != 0)
    if text(message.get("role")) == "assistant" and text(message.get("provider")) != "openclaw":
        draft.meta["model"] = draft.meta.get("model") or text(message.get("model"))
    for piece in pieces(message):
        if piece.role == "tool" and failed:
            piece.is_error = True
        draft.add(piece, timestamp=stamp, agent=agent, line=line)
    if text(message.get("stopReason")) == "error" and text(message.get("errorMessage")):
        draft.add(Piece("system", f"[error] {text(message['errorMessage'])}"), timestamp=stamp, agent=agent, line=line)
