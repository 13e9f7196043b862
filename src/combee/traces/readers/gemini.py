"""Sessions of Gemini CLI (`chats/session-*.json` and `.jsonl`), its `--output-format stream-json`, and of Google's ADK.

All speak in Google's parts. In a file of lines a record of a known id takes its place, `$set` may give all messages
anew, and `$rewindTo` takes back a message and what came after it. That a tool ran is recorded as success, whatever a
command returned: only an error is taken from the status.
"""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import Outcome, ToolCall, Trace
from combee.traces.readers.draft import TraceDraft, failure_detail
from combee.traces.readers.messages import Piece, content_text, pieces
from combee.traces.readers.source import Source
from combee.traces.readers.values import compact, objects, rows, table, text, when

_FAILED = frozenset({"error", "cancelled"})
_STREAM = frozenset({"init", "message", "tool_use", "tool_result", "error", "result"})


class GeminiReader:
    """Reads one session a file; a sub-agent's session is marked as such."""

    name = "gemini_cli"
    fields = ("sessionId", "projectHash", "startTime", "lastUpdated", "messages")

    def sniff(self, source: Source) -> float:
        """Look for the head of a session."""
        heads = (table(value) for value in source.first)
        return 0.95 if any("projectHash" in head and "sessionId" in head for head in heads) else 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the session."""
        draft = TraceDraft(source)
        draft.meta["agent"] = "gemini-cli"
        known: dict[str, tuple[int, dict[str, object]]] = {}
        agent = None
        for line, value in source.records():
            record = table(value)
            if "$rewindTo" in record:
                _rewind(known, text(record["$rewindTo"]))
                continue
            head = table(record.get("$set")) or record
            draft.meta["session"] = text(head.get("sessionId")) or draft.meta.get("session", "")
            agent = "subagent" if head.get("kind") == "subagent" else agent
            if "messages" in head:
                known.clear()
                known |= {
                    text(m.get("id")) or f"{line} {at}": (line, m) for at, m in enumerate(objects(head["messages"]))
                }
            elif "type" in record and "id" in record:
                known[text(record["id"])] = (line, record)
            elif head is record and "projectHash" not in record:
                source.skip("not a record of a session", line)
        for name, (line, message) in known.items():
            stamp = text(message.get("timestamp")) or None
            if not draft.copied(draft.meta["session"], f"gemini {name} {stamp}"):
                draft.meta["model"] = text(message.get("model")) or draft.meta.get("model", "")
                draft.pieces(_said(message), timestamp=stamp, agent=agent, line=line)
        if not draft.only_copies():
            yield from draft.trace()


def _rewind(known: dict[str, tuple[int, dict[str, object]]], to: str) -> None:
    names = list(known)
    for name in names[names.index(to) if to in known else 0 :]:
        del known[name]


def _said(message: dict[str, object]) -> list[Piece]:
    kind = text(message.get("type"))
    content = message.get("content") or message.get("parts") or ""
    if kind in {"error", "warning", "info"}:
        return [Piece("system", f"[{kind}] {content_text(content)}")] if kind == "error" else []
    listed = content if isinstance(content, list) else [{"text": text(content) or content_text(content)}]
    found = pieces({"role": "model" if kind in {"gemini", "model"} else "user", "parts": listed})
    asked = list(objects(message.get("toolCalls")))
    calls = [ToolCall(text(each.get("id")), text(each.get("name")), compact(each.get("args"))) for each in asked]
    if calls:
        found.append(Piece("assistant", calls=tuple(calls)))
    for each in asked:
        if each.get("result") is None and text(each.get("status")) not in {"success", *_FAILED}:
            continue  # it had not ended
        results = [piece for part in rows(each.get("result")) for piece in pieces({"role": "user", "parts": [part]})]
        said = "\n".join(piece.text for piece in results) or content_text(each.get("resultDisplay") or "")
        failed = any(piece.is_error for piece in results) or text(each.get("status")) in _FAILED
        found.append(Piece("tool", said, answers=text(each.get("id")), is_error=failed or None))
    return found


class GeminiStreamReader:
    """Reads what `gemini --output-format stream-json` prints: one run a file."""

    name = "gemini_stream"
    fields = ("type", "timestamp", "tool_name", "tool_id", "parameters")

    def sniff(self, source: Source) -> float:
        """Look for the head of a stream, or for a call in its form."""
        for record in map(table, source.first):
            kind = text(record.get("type"))
            if kind == "init" and "session_id" in record and "model" in record:
                return 0.95
            if kind in {"tool_use", "tool_result"} and "tool_id" in record:
                return 0.9
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the run: pieces of one answer are joined."""
        draft = TraceDraft(source)
        draft.meta["agent"] = "gemini-cli"
        outcome: Outcome | None = None
        parts: list[str] = []
        for line, value in source.records():
            record = table(value)
            kind, stamp = text(record.get("type")), text(record.get("timestamp")) or None
            if kind == "message" and record.get("role") == "assistant":
                parts.append(text(record.get("content")))
                continue
            draft.add(Piece("assistant", "".join(parts)), timestamp=stamp, line=line)
            parts.clear()
            if kind == "init":
                draft.meta |= {"session": text(record.get("session_id")), "model": text(record.get("model"))}
            elif kind == "result":
                outcome = Outcome(detail=failure_detail(record.get("error"))) if record.get("error") else None
            elif kind in _STREAM:
                draft.add(_event(record, kind), timestamp=stamp, line=line)
            else:
                source.skip(f"not an event of a stream (type {kind or 'missing'})"[:120], line)
        draft.add(Piece("assistant", "".join(parts)))
        yield from draft.trace(outcome=outcome)


def _event(record: dict[str, object], kind: str) -> Piece:
    if kind == "tool_use":
        call = ToolCall(text(record.get("tool_id")), text(record.get("tool_name")), compact(record.get("parameters")))
        return Piece("assistant", calls=(call,))
    if kind == "tool_result":
        failed = True if record.get("status") == "error" else None
        said = text(record.get("output")) or failure_detail(record.get("error"))
        return Piece("tool", said, answers=text(record.get("tool_id")), is_error=failed)
    if kind == "error":
        return Piece("system", f"[error] {text(record.get('message'))}")
    return Piece("user", text(record.get("content")))


def _is_adk_event(value: object) -> bool:
    record = table(value)
    spoken = isinstance(record.get("content"), dict) and "parts" in table(record["content"])
    return "author" in record and spoken and ("invocation_id" in record or "invocationId" in record)


class AdkReader:
    """Reads sessions of Google's Agent Development Kit: `{"events": [...]}`, or an event a line."""

    name = "google_adk"
    fields = ("author", "content", "invocation_id", "timestamp")

    def sniff(self, source: Source) -> float:
        """Look for events with an author and an invocation."""
        for value in source.first:
            if any(map(_is_adk_event, [value, *rows(table(value).get("events"))[:5], *rows(value)[:5]])):
                return 0.9
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield one run a session; the events of a file of lines are one."""
        loose: list[tuple[int, dict[str, object]]] = []
        for line, value in source.records():
            events = rows(table(value).get("events")) or rows(value)
            if events:
                yield from _adk(source, [(line, table(event)) for event in events], table(value))
            elif _is_adk_event(value):
                loose.append((line, table(value)))
            else:
                source.skip("no event of a session", line)
        if loose:
            yield from _adk(source, loose, {})


def _adk(source: Source, events: list[tuple[int, dict[str, object]]], session: dict[str, object]) -> Iterator[Trace]:
    draft = TraceDraft(source)
    draft.run = text(session.get("id"))
    first = ""
    for line, event in events:
        author = text(event.get("author"))
        stamp = when(event.get("timestamp"))
        if event.get("partial"):
            continue  # the whole text follows
        first = first or (author if author != "user" else "")
        content = table(event.get("content"))
        agent = author if author not in {"user", first} else None
        role = text(content.get("role")) or ("user" if author == "user" else "model")
        draft.pieces(pieces({**content, "role": role}), timestamp=stamp, agent=agent, line=line)
        trouble = text(event.get("errorMessage")) or text(event.get("error_message"))
        draft.add(Piece("system", f"[error] {trouble}" if trouble else ""), timestamp=stamp, agent=agent, line=line)
    meta = {"agent": text(session.get("app_name")) or text(session.get("appName")) or first, "session": draft.run}
    yield from draft.trace(meta=meta, line=events[0][0])
