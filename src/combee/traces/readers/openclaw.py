"""Sessions of OpenClaw and of pi, on which it stands: JSON lines `type: session | message | custom ...`.

They are chained by `parentId`, except in the first version of pi. What a fork repeats of a session that was read
counts once.
"""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import Trace
from combee.traces.readers.draft import TraceDraft
from combee.traces.readers.messages import Piece, content_text, pieces
from combee.traces.readers.source import Source
from combee.traces.readers.values import number, table, text, when


class OpenClawReader:
    """Reads one session a file; a branch that was given up is marked as a side chain."""

    name = "openclaw"
    fields = ("type", "id", "parentId", "timestamp", "message")

    def sniff(self, source: Source) -> float:
        """Look for the session line, or for messages with a parentId."""
        for value in source.first:
            record = table(value)
            kind = text(record.get("type"))
            if kind == "session" and "id" in record and ("version" in record or "cwd" in record):
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
        session = ""
        for line, record in events:
            kind = text(record.get("type"))
            stamp = when(record.get("timestamp"))
            name = text(record.get("id"))
            if kind == "session":
                session = name
                draft.meta.setdefault("session", name)
                draft.meta.setdefault("agent", "openclaw" if "openclaw" in text(record.get("cwd")) else "pi")
            elif kind == "message" and name and draft.copied(session, f"pi {name} {stamp}"):
                continue
            elif kind == "message":
                agent = None if not name or name in active else "abandoned"
                _message(draft, table(record.get("message")), stamp, agent, line)
            elif kind in {"compaction", "branch_summary"}:
                draft.add(Piece("system", f"[{kind}] {text(record.get('summary'))}"), timestamp=stamp, line=line)
            elif kind == "custom_message":
                draft.add(Piece("system", content_text(record.get("content") or "")), timestamp=stamp, line=line)
            elif kind == "model_change":
                draft.meta.setdefault("model", text(record.get("modelId")))
        if not draft.only_copies():
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
    if message.get("role") == "bashExecution":  # the user's own shell, beside the agent's
        shown = f"[the user ran] {text(message.get('command'))}\n{text(message.get('output'))}"
        draft.add(Piece("system", shown), timestamp=stamp, agent=agent, line=line)
        return
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
