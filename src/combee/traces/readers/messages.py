"""Chat messages of every vendor's form to steps: OpenAI (chat and Responses items), Anthropic, Google, LangChain.

One message may hold text, calls and several tool results; it becomes one or more pieces, in the recorded order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from combee.redaction import Role, ToolCall
from combee.traces.readers.blocks import (
    CALLS,
    RESULTS,
    Piece,
    call_of,
    content_text,
    first_text,
    kind_of,
    read_block,
    result_of,
    thinking_of,
)
from combee.traces.readers.values import flag, objects, rows, table, text

__all__ = ["OpenCalls", "Piece", "call_of", "content_text", "first_text", "pieces", "role_of"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "agent": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "toolresult": "tool",
    "environment": "tool",
    "ipython": "tool",
    "exit": "system",
    "response": "assistant",
}
_PARTS: dict[str, Role] = {
    "user_prompt": "user", "system_prompt": "system", "retry_prompt": "system", "retry_feedback": "system",
    "tool_return": "tool", "builtin_tool_return": "tool",
}  # fmt: skip
"""Of a request of pydantic-ai; its other parts are changes of settings."""


@dataclass(slots=True)
class _Open:
    """The piece that is being gathered."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)


@dataclass(slots=True)
class OpenCalls:
    """The calls that wait for their results, where one of both has no id: results come in the order of the calls."""

    calls: list[str] = field(default_factory=list)
    made: int = 0

    def paired(self, piece: Piece) -> Piece:
        """Give calls without an id one, and a result that answers none of those known the oldest."""
        named = []
        for call in piece.calls:
            self.made += 1
            named.append(call if call.id else ToolCall(f"call-{self.made}", call.name, call.arguments))
        piece.calls = tuple(named)
        self.calls += [call.id for call in named]
        if piece.role == "tool" and self.calls:
            at = self.calls.index(piece.answers) if piece.answers in self.calls else 0
            piece.answers = self.calls.pop(at)
        return piece


def role_of(value: object, default: Role = "user") -> Role:
    """Return our role of a vendor's role name."""
    return _ROLES.get(text(value).lower().replace("_", ""), default)


def _gather(content: object, role: Role) -> Iterator[Piece]:
    """Yield the pieces of a list of blocks; text and calls between two results stay together."""
    current = _Open()
    for block in rows(content):
        if not isinstance(block, dict):
            current.texts.append(content_text(block))
            continue
        found = read_block(block)
        if found.call is not None:
            current.calls.append(found.call)
        if found.text:
            current.texts.append(found.text)
        if found.result is not None:
            if current.texts or current.calls:
                yield Piece(role, "\n".join(filter(None, current.texts)), tuple(current.calls))
                current = _Open()
            yield found.result
    if current.texts or current.calls:
        yield Piece(role, "\n".join(filter(None, current.texts)), tuple(current.calls))


def _unwrapped(message: dict[str, object]) -> dict[str, object]:
    """Return the message itself where LangChain wrapped it (`kwargs` of a constructor, or `data`)."""
    for key in ("kwargs", "data"):
        inner = message.get(key)
        if isinstance(inner, dict) and ("content" in inner or "tool_calls" in inner):
            named = rows(message.get("id"))
            kind = text(named[-1]) if named else text(message.get("type"))
            role = kind.removesuffix("Chunk").removesuffix("Message").lower()
            return {"role": role or inner.get("type"), **inner}
    return message


def _outer_calls(message: dict[str, object]) -> list[ToolCall]:
    extra = table(message.get("additional_kwargs"))
    listed = message.get("tool_calls") or message.get("toolCalls") or extra.get("tool_calls")
    calls = [call_of(call) for call in objects(listed)]
    legacy = message.get("function_call") or extra.get("function_call")
    if not calls and isinstance(legacy, dict):
        calls.append(call_of(legacy))
    return calls


def _tool_error(message: dict[str, object]) -> bool | None:
    for key in ("is_error", "isError"):
        known = flag(message.get(key))
        if known is not None:
            return known
    status = text(message.get("status")).lower()
    if status in {"error", "failed"} or (message.get("error") and not isinstance(message.get("error"), bool)):
        return True
    return False if status == "success" else None


def pieces(value: object) -> list[Piece]:
    """Return the pieces of one message (or one item of the Responses form); nothing for what is no message."""
    if not isinstance(value, dict):
        return []
    message = _unwrapped(value)
    kind = text(message.get("type")).lower()
    if kind in CALLS and "role" not in message:
        return [Piece("assistant", calls=(call_of(message),))]
    if kind in RESULTS and "role" not in message:
        return [result_of(message)]
    if kind == "reasoning" and "role" not in message:
        thought = thinking_of(message)
        return [Piece("assistant", thought)] if thought else []
    parts = rows(message.get("parts"))
    if kind_of(message) == "" and message.get("kind") == "request" and parts:
        known = [(part, _PARTS[kind_of(part)]) for part in objects(parts) if kind_of(part) in _PARTS]
        return [piece for part, role in known for piece in _gather([part], role)]
    role = role_of(message.get("role") or kind or message.get("kind"))
    content = parts or message.get("content")
    found = list(_gather(content, role)) if isinstance(content, list) else [Piece(role, content_text(content))]
    if role == "tool" and not any(piece.answers for piece in found):
        return [_tool_message(message, found)]
    _add_outer(message, role, found)
    return found


def _add_outer(message: dict[str, object], role: Role, found: list[Piece]) -> None:
    """Add the calls and the reasoning that stand beside the content."""
    thinking = first_text(message, ("reasoning_content", "reasoning", "thinking")).strip()
    known = {call.id for piece in found for call in piece.calls if call.id}
    calls = [call for call in _outer_calls(message) if not call.id or call.id not in known]
    if not calls and not thinking:
        return
    if not found or found[-1].role != role:
        found.append(Piece(role))
    last = found[-1]
    last.calls = (*last.calls, *calls)
    if thinking:
        last.text = f"[thinking] {thinking}\n{last.text}"


def _tool_message(message: dict[str, object], found: list[Piece]) -> Piece:
    listed = rows(message.get("tool_call_ids"))
    answers = first_text(message, ("tool_call_id", "toolCallId", "tool_use_id", "call_id"))
    answers = answers or (text(listed[0]) if listed else "")
    said = "\n".join(piece.text for piece in found if piece.text)
    error = message.get("error")
    trouble = text(table(error).get("message")) or (error if isinstance(error, str) else "")
    if trouble and trouble not in said:
        said = f"{said}\n{trouble}" if said else trouble
    return Piece("tool", said, answers=answers or None, is_error=_tool_error(message))
