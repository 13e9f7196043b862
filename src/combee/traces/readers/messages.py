"""Chat messages of every vendor's form to steps: OpenAI (chat and Responses items), Anthropic, LangChain, GenAI parts.

One message may hold text, calls and several tool results; it becomes one or more pieces, in the recorded order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from combee.redaction import Role, ToolCall
from combee.traces.readers.values import compact, flag, objects, rows, table, text

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
}
_CALLS = frozenset(
    {"tool_use", "toolcall", "tool_call", "function_call", "server_tool_use", "custom_tool_call", "mcp_call"}
)
_RESULTS = frozenset(
    {"tool_result", "tool_call_response", "function_call_output", "custom_tool_call_output", "toolresult",
     "web_search_tool_result", "local_shell_call_output"}
)  # fmt: skip
_THINKING = frozenset({"thinking", "reasoning"})
_HIDDEN = frozenset({"redacted_thinking", "cache_point"})
_MEDIA = frozenset(
    {"image", "image_url", "input_image", "audio", "input_audio", "file", "input_file", "document", "video", "blob",
     "uri"}
)  # fmt: skip


@dataclass(slots=True)
class Piece:
    """What becomes one step."""

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    is_error: bool | None = None


@dataclass(slots=True)
class _Open:
    """The piece that is being gathered."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)


def role_of(value: object, default: Role = "user") -> Role:
    """Return our role of a vendor's role name."""
    return _ROLES.get(text(value).lower().replace("_", ""), default)


def first_text(value: dict[str, object], keys: tuple[str, ...]) -> str:
    """Return the first text under one of the keys, or an empty one."""
    for key in keys:
        if key in value and (found := text(value[key])):
            return found
    return ""


def _present(value: dict[str, object], keys: tuple[str, ...]) -> object:
    """Return the first value under one of the keys that is not None."""
    for key in keys:
        if value.get(key) is not None:
            return value[key]
    return None


def call_of(value: dict[str, object]) -> ToolCall:
    """Return the call in any vendor's form; arguments stay text, or become one line of JSON."""
    function = value.get("function")
    inner = function if isinstance(function, dict) else value
    name = text(function) or first_text(inner, ("name", "function_name", "tool_name", "tool", "toolName"))
    arguments = _present(inner, ("arguments", "input", "args", "parameters", "params", "action", "kwargs"))
    return ToolCall(first_text(value, ("tool_call_id", "call_id", "id", "toolCallId")), name, compact(arguments))


def _media(block: dict[str, object], kind: str) -> str:
    source = table(block.get("source")) or table(block.get(kind)) or block
    media_type = text(source.get("media_type")) or text(source.get("mime_type")) or text(source.get("mimeType"))
    data = text(source.get("data")) or text(source.get("content"))
    size = f", {len(data) * 3 // 4} bytes" if data else ""
    url = text(source.get("url")) or text(source.get("uri")) or text(block.get(kind)) or text(source.get("path"))
    if url.startswith("data:"):
        media_type = media_type or url[5:].partition(";")[0][:60]
        size, url = f", {len(url.partition(',')[2]) * 3 // 4} bytes", ""
    return f"[{media_type or kind}{size}{', ' + url[:200] if url else ''}]"


def _thinking(block: dict[str, object]) -> str:
    for key in ("thinking", "text", "content", "reasoning", "summary"):
        found = content_text(block.get(key)).strip()
        if found:
            return f"[thinking] {found}\n"
    return ""


def _plain_block(block: dict[str, object], kind: str) -> str:
    if kind in _THINKING:
        return _thinking(block)
    if kind in _HIDDEN:
        return ""
    if kind in _MEDIA:
        return _media(block, kind)
    for key in ("text", "content", "refusal", "output_text"):
        value = block.get(key)
        if isinstance(value, str):
            return value
    nested = block.get("content")
    return content_text(nested) if isinstance(nested, list) else compact(block)


def content_text(value: object, depth: int = 0) -> str:
    """Return the text of a message's content: a text, a list of blocks, or an object; media become placeholders."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and depth < 8:
        parts = [content_text(part, depth + 1) for part in value]
        return "\n".join(part for part in parts if part)
    if isinstance(value, dict) and depth < 8:
        kind = text(value.get("type")).lower()
        if kind or isinstance(value.get("text"), str):
            return _plain_block(value, kind)
    return compact(value)


def _result(block: dict[str, object]) -> Piece:
    value = _present(block, ("content", "output", "response", "result"))
    answers = first_text(block, ("tool_use_id", "tool_call_id", "call_id", "toolCallId", "id"))
    error = flag(_present(block, ("is_error", "isError")))
    return Piece("tool", content_text(value), answers=answers or None, is_error=error)


def _gather(content: object, role: Role) -> Iterator[Piece]:
    """Yield the pieces of a list of blocks; text and calls between two results stay together."""
    current = _Open()
    for block in rows(content):
        if not isinstance(block, dict):
            current.texts.append(content_text(block))
            continue
        kind = text(block.get("type")).lower()
        if kind in _CALLS:
            current.calls.append(call_of(block))
        elif kind in _RESULTS:
            if current.texts or current.calls:
                yield Piece(role, "\n".join(filter(None, current.texts)), tuple(current.calls))
                current = _Open()
            yield _result(block)
        else:
            current.texts.append(_plain_block(block, kind))
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
    if kind in _CALLS and "role" not in message:
        return [Piece("assistant", calls=(call_of(message),))]
    if kind in _RESULTS and "role" not in message:
        return [_result(message)]
    if kind == "reasoning" and "role" not in message:
        thought = _thinking(message)
        return [Piece("assistant", thought)] if thought else []
    role = role_of(message.get("role") or kind)
    content = message.get("content", message.get("parts"))
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
