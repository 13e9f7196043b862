"""opencode: a session exported (`opencode export`), its storage of one file a message and part, `run --format json`.

A message holds parts; a part of a tool holds the call and how it ended. In the storage `message/<session>/*.json` names
the messages and `part/<message>/*.json` their parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from combee.redaction import Trace
from combee.traces.readers.draft import TraceDraft, failure_detail
from combee.traces.readers.messages import Piece, pieces
from combee.traces.readers.source import Source
from combee.traces.readers.values import number, objects, rows, table, text, when

_SHOWN = frozenset({"text", "reasoning", "tool", "file"})
_RECORD = 16 << 20
_STREAM = frozenset({"text", "tool_use", "step_start", "step_finish", "reasoning", "error"})
Message = tuple[dict[str, object], list[object]]
"""What is known of a message, and its parts."""


def _is_message(value: object) -> bool:
    record = table(value)
    return isinstance(record.get("parts"), list) and "role" in table(record.get("info"))


def _is_event(value: object) -> bool:
    record = table(value)
    return "sessionID" in record and text(record.get("type")) in _STREAM and ("part" in record or "error" in record)


class OpenCodeReader:
    """Reads one run a session; that of a sub-agent (`parentID`) is marked as such."""

    name = "opencode"
    fields = ("info", "messages", "parts", "sessionID")

    def sniff(self, source: Source) -> float:
        """Look for the folders of a storage, for messages with their parts, or for events of a run."""
        if source.folder:
            return 0.9 if {"message", "part", "session"} <= set(source.names) else 0.0
        for value in source.first:
            if any(map(_is_message, [value, *rows(table(value).get("messages"))[:3], *rows(value)[:3]])):
                return 0.95
            if _is_event(value):
                return 0.9
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the sessions."""
        if source.folder:
            yield from _storage(source)
            return
        loose: list[Message] = []
        for line, value in source.records():
            record = table(value)
            listed = [_message(each) for each in rows(record.get("messages")) or rows(value) if _is_message(each)]
            if listed:
                yield from _session(source, table(record.get("info")), listed, line)
            elif _is_message(value):
                loose.append(_message(value))
            elif _is_event(value):
                loose.append(_of_event(record))
            else:
                source.skip("neither a session nor a message of one", line)
        if loose:
            yield from _session(source, {"id": loose[0][0].get("sessionID")}, loose, None)


def _message(value: object) -> Message:
    return table(table(value).get("info")), rows(table(value).get("parts"))


def _of_event(event: dict[str, object]) -> Message:
    """Return an event of a run as a message; what the user asked is not in the stream."""
    info: dict[str, object] = {"role": "assistant", "sessionID": event.get("sessionID"), "error": event.get("error")}
    return {**info, "time": {"created": event.get("timestamp")}}, [event.get("part")]


def _storage(source: Source) -> Iterator[Trace]:
    known: dict[str, dict[str, object]] = {}
    for folder in (source.child(f"session/{name}") for name in source.child("session").names):
        for entry in _json_files(folder) if folder.folder else ():
            session = table(entry.read_json(_RECORD))
            known[text(session.get("id"))] = session
    messages = source.child("message")
    for name in messages.names:
        listed: list[tuple[float, str, dict[str, object]]] = []
        for entry in _json_files(messages.child(name)):
            info = table(entry.read_json(_RECORD))
            listed.append((number(table(info.get("time")).get("created")) or 0.0, text(info.get("id")), info))
        listed.sort(key=lambda each: each[:2])
        found = ((info, _parts(source, message)) for _, message, info in listed)
        yield from _session(messages.child(name), known.get(name, {"id": name}), found, None)


def _json_files(folder: Source) -> Iterator[Source]:
    return (folder.child(name) for name in folder.names if name.endswith(".json"))


def _parts(source: Source, message: str) -> list[object]:
    if not message or "/" in message or "\\" in message or message.startswith("."):
        return []
    return [entry.read_json(_RECORD) for entry in _json_files(source.child(f"part/{message}"))]


def _session(
    source: Source, session: dict[str, object], messages: Iterable[Message], line: int | None
) -> Iterator[Trace]:
    draft = TraceDraft(source)
    name = text(session.get("id"))
    agent = "subagent" if session.get("parentID") else None
    for info, parts in messages:
        stamp = when(table(info.get("time")).get("created"))
        record = text(info.get("id"))
        if record and draft.copied(name, f"opencode {record}"):
            continue
        draft.meta["model"] = text(info.get("modelID")) or draft.meta.get("model", "")
        for part in objects(parts):
            if text(part.get("type")) not in _SHOWN:
                continue
            # the program adds to what the user wrote: files that were named, reminders
            added = info.get("role") == "user" and (part.get("synthetic") or part.get("ignored"))
            role = "system" if added or info.get("summary") is True else text(info.get("role"))
            draft.pieces(pieces({"role": role, "parts": [part]}), timestamp=stamp, agent=agent, line=line)
        if info.get("error"):
            fault = table(info["error"])
            said = failure_detail(table(fault.get("data"))) or text(fault.get("name"))
            draft.add(Piece("system", f"[error] {said}"), timestamp=stamp, agent=agent, line=line)
    if not draft.only_copies():
        meta = {"agent": "opencode", "session": name, "version": text(session.get("version"))}
        yield from draft.trace(meta=meta, line=line)
