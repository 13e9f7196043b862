"""OpenAI chat JSON lines: `{"messages": [...]}`, request and response pairs (chat or Responses), a bare message list.

Requests of one agent loop repeat the whole conversation: they are joined into one trace as long as each begins with
the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from combee.redaction import Outcome, Trace
from combee.traces.readers.draft import TraceDraft, failure_detail, recorded
from combee.traces.readers.messages import Piece, pieces
from combee.traces.readers.source import Source
from combee.traces.readers.values import objects, rows, table, text

__all__ = ["OpenAIChatReader", "is_messages"]

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def is_messages(value: object) -> bool:
    """Whether it is a list of chat messages (or items of the Responses form)."""
    items = rows(value)
    spoken = [isinstance(item, dict) and text(item.get("role")) in _ROLES for item in items]
    return any(spoken) and all(
        known or (isinstance(item, dict) and "type" in item) for known, item in zip(spoken, items, strict=True)
    )


def _is_pair(value: dict[str, object]) -> bool:
    request = table(value.get("request")) or table(value.get("body"))
    return bool(request) and ("messages" in request or "input" in request)


def _is_record(value: object) -> bool:
    if isinstance(value, list):
        return is_messages(value)
    return isinstance(value, dict) and (is_messages(value.get("messages")) or _is_pair(value))


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
        known = [value for value in source.first if _is_record(value)]
        return 0.6 if known else 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield one trace for each conversation."""
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
    if not is_messages(value.get("messages")):
        return _pair(source, value, line)
    said = [piece for item in rows(value["messages"]) for piece in pieces(item)]
    answer = table(value.get("response"))
    if answer:
        said += _answer(answer)
    meta = {"model": text(value.get("model")), "task_id": text(value.get("task_id")) or text(value.get("instance_id"))}
    return _Conversation(line, said, meta, recorded(value) or recorded(table(value.get("metadata"))))


def _pair(source: Source, value: dict[str, object], line: int) -> _Conversation:
    request = table(value.get("request")) or table(value.get("body"))
    response = table(value.get("response"))
    response = table(response.get("body")) or response
    said: list[Piece] = []
    if text(request.get("instructions")):
        said.append(Piece("system", text(request["instructions"])))
    given = request.get("messages", request.get("input"))
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
    if "output" in response:
        return [piece for item in rows(response["output"]) for piece in pieces(item)]
    return pieces(response) if "role" in response else []
