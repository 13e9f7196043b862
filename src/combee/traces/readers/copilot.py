"""GitHub Copilot: the CLI's `session-state/<id>/events.jsonl` and `--output-format json`, and VS Code's chat sessions.

That a call ran is recorded as success, whatever a command returned: only a failure is taken from that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from combee.redaction import ToolCall, Trace
from combee.traces.readers.draft import TraceDraft, failure_detail
from combee.traces.readers.messages import Piece, content_text
from combee.traces.readers.source import Source
from combee.traces.readers.values import compact, objects, rows, table, text, when

_EXIT_CODE = re.compile(r"<[^<>\n]{0,60}exit(?:ed with)? code (-?\d+)>\s*\Z")
_SAID = frozenset({"user.message", "assistant.message", "tool.execution_start", "tool.execution_complete"})


class CopilotReader:
    """Reads one session a file; what a sub-agent did is marked with the call that started it."""

    name = "copilot_cli"
    fields = ("type", "data", "id", "timestamp", "parentId")

    def sniff(self, source: Source) -> float:
        """Look for events with their data."""
        for record in map(table, source.first):
            kind = text(record.get("type"))
            if isinstance(record.get("data"), dict) and (kind in _SAID or kind == "session.start"):
                return 0.95
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the session."""
        draft = TraceDraft(source)
        draft.meta["agent"] = "copilot-cli"
        session = ""
        made: set[str] = set()
        for line, value in source.records():
            record = table(value)
            kind, data = text(record.get("type")), table(record.get("data"))
            if "." not in kind and not data:
                if kind != "result":
                    source.skip("not an event of a session", line)
                continue
            name, stamp = text(record.get("id")), text(record.get("timestamp")) or None
            if kind == "session.start":
                session = text(data.get("sessionId"))
                draft.meta |= {"session": session, "version": text(data.get("copilotVersion"))}
            draft.meta["model"] = text(data.get("newModel")) or text(data.get("model")) or draft.meta.get("model", "")
            found = _pieces(kind, data, made)
            if not found or (name and draft.copied(session, f"copilot {name} {stamp}")):
                continue
            agent = text(record.get("agentId")) or text(data.get("parentToolCallId"))
            agent = agent or text(data.get("parentAgentTaskId"))
            draft.pieces(found, timestamp=stamp, agent=agent or None, line=line)
        if not draft.only_copies():
            yield from draft.trace()


def _call(asked: dict[str, object], name: str) -> ToolCall:
    return ToolCall(text(asked.get(name)), text(asked.get("name")), compact(asked.get("arguments")))


def _pieces(kind: str, data: dict[str, object], made: set[str]) -> list[Piece]:
    """Return what an event adds; `made` are the calls that are known."""
    if kind == "user.message":
        return [Piece("user", content_text(data.get("content") or ""))]
    if kind == "assistant.message":
        asked = list(objects(data.get("toolRequests")))
        calls = tuple(
            ToolCall(text(e.get("toolCallId")), text(e.get("name")), compact(e.get("arguments"))) for e in asked
        )
        made |= {call.id for call in calls}
        return [Piece("assistant", text(data.get("content")), calls)]
    name = text(data.get("toolCallId"))
    if kind == "tool.execution_start" and name not in made:
        made.add(name)
        return [Piece("assistant", calls=(ToolCall(name, text(data.get("toolName")), compact(data.get("arguments"))),))]
    if kind == "tool.execution_complete":
        said = content_text(table(data.get("result")).get("content") or "") or failure_detail(data.get("error"))
        code = _EXIT_CODE.search(said)
        failed = True if data.get("success") is False else None if code is None else code[1] != "0"
        return [Piece("tool", _EXIT_CODE.sub(r"Exit code: \1", said), answers=name, is_error=failed)]
    if kind in {"system.message", "system.notification"}:
        return [Piece("system", text(data.get("content")))]
    if kind == "session.error":
        return [Piece("system", f"[error] {text(data.get('message'))}")]
    return []


class CopilotChatReader:
    """Reads a chat of VS Code: exported, or from `chatSessions` (one document, or a log of changes to it)."""

    name = "vscode_chat"
    fields = ("requests", "responderUsername", "version")

    def sniff(self, source: Source) -> float:
        """Look for requests with a message and a response, or for the first state of a log of changes."""
        for value in map(table, source.first):
            if value.get("kind") == 0 and "requests" in table(value.get("v")):
                return 0.9
            for request in objects(rows(value.get("requests"))[:3]):
                if isinstance(request.get("message"), dict | str) and isinstance(request.get("response"), list):
                    return 0.9
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the chat."""
        state: object = None
        for line, value in source.records():
            record = table(value)
            if "requests" in record:
                yield from _chat(source, record, line)
            elif record.get("kind") == 0:
                state = record.get("v")
            elif not _change(state, rows(record.get("k")), record):
                source.skip("a change of what is not there", line)
        if state is not None:
            yield from _chat(source, table(state), None)


def _change(state: object, way: list[object], record: dict[str, object]) -> bool:
    """Apply a change: 1 sets a value, 2 lengthens a list (from place `i` on), 3 takes a value away."""
    for key in way[:-1]:
        state = _inside(state, key)
    last, value = way[-1] if way else None, record.get("v")
    known = _inside(state, last)
    if record.get("kind") == 2:
        if known is None and isinstance(state, dict) and isinstance(last, str):
            known = state[last] = []
        if not isinstance(known, list):
            return False
        place = record.get("i")
        if isinstance(place, int):
            del known[place:]
        known += rows(value)
        return True
    if isinstance(state, dict) and isinstance(last, str):
        state[last] = value
        return True
    if isinstance(state, list) and isinstance(last, int) and 0 <= last < len(state):
        state[last] = value
        return True
    return False


def _inside(state: object, key: object) -> object:
    if isinstance(state, dict) and isinstance(key, str):
        return state.get(key)
    return state[key] if isinstance(state, list) and isinstance(key, int) and 0 <= key < len(state) else None


def _chat(source: Source, chat: dict[str, object], line: int | None) -> Iterator[Trace]:
    draft = TraceDraft(source)
    draft.run = text(chat.get("sessionId"))
    for request in objects(chat.get("requests")):
        stamp = when(request.get("timestamp"))
        name = text(request.get("requestId"))
        if name and draft.copied(draft.run, f"vscode {name}"):
            continue
        draft.meta["model"] = text(request.get("modelId")) or draft.meta.get("model", "")
        message = request.get("message")
        draft.add(Piece("user", text(message) or text(table(message).get("text"))), timestamp=stamp, line=line)
        draft.pieces(_rounds(request) or _response(request), timestamp=stamp, line=line)
        trouble = failure_detail(table(request.get("result")).get("errorDetails"))
        draft.add(Piece("system", f"[error] {trouble}" if trouble else ""), timestamp=stamp, line=line)
    if not draft.only_copies():
        yield from draft.trace(meta={"agent": "copilot-chat", "session": draft.run}, line=line)


def _rounds(request: dict[str, object]) -> list[Piece]:
    """Return the rounds of calls with their results, where the result holds them: the response only shows them."""
    kept = table(table(request.get("result")).get("metadata"))
    results = table(kept.get("toolCallResults"))
    found: list[Piece] = []
    for turn in objects(kept.get("toolCallRounds")):
        calls = tuple(_call(asked, "id") for asked in objects(turn.get("toolCalls")))
        found.append(Piece("assistant", text(turn.get("response")), calls))
        for call in calls:
            if call.id in results:
                parts = (
                    content_text(part.get("value") or "") for part in objects(table(results[call.id]).get("content"))
                )
                found.append(Piece("tool", "\n".join(parts), answers=call.id))
    return found


def _response(request: dict[str, object]) -> list[Piece]:
    """Return what was shown: texts, and the calls as far as they are told."""
    said: list[str] = []
    calls: list[ToolCall] = []
    for part in objects(request.get("response")):
        if part.get("kind") == "toolInvocationSerialized":
            shown = table(part.get("toolSpecificData"))
            line = table(shown.get("commandLine"))
            command = text(line.get("original")) or text(shown.get("command"))
            told = part.get("pastTenseMessage") or part.get("invocationMessage")
            arguments = {"command": command} if command else {"shown": text(told) or text(table(told).get("value"))}
            calls.append(ToolCall(text(part.get("toolCallId")), text(part.get("toolId")), compact(arguments)))
        elif text(part.get("kind")) in {"", "markdownContent"}:
            said.append(text(part.get("value")) or text(table(part.get("content")).get("value")))
    return [Piece("assistant", "".join(said), tuple(calls))]
