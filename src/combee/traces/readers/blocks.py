"""What one block of a message holds, in every vendor's form: text, a call, a result, or a call and its result.

Anthropic and OpenAI blocks, Google's parts (`functionCall`), and those of goose, opencode, pydantic-ai and the AI SDK.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from combee.redaction import Role, ToolCall
from combee.traces.readers.values import compact, flag, number, table, text

CALLS = frozenset(
    {
        "tool_use",
        "toolcall",
        "tool_call",
        "function_call",
        "server_tool_use",
        "custom_tool_call",
        "mcp_call",
        "builtin_tool_call",
    }
)
RESULTS = frozenset(
    {"tool_result", "tool_call_response", "function_call_output", "custom_tool_call_output", "toolresult",
     "web_search_tool_result", "local_shell_call_output"}
)  # fmt: skip
_THINKING = frozenset({"thinking", "reasoning", "think"})
_HIDDEN = frozenset(
    {"redacted_thinking", "redactedthinking", "cache_point", "step_start", "step_finish", "snapshot", "patch"}
)
_MEDIA = frozenset(
    {"image", "image_url", "input_image", "audio", "input_audio", "file", "input_file", "document", "video", "blob",
     "uri"}
)  # fmt: skip


_EXIT_CODE = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)
_BEFORE = re.compile(r"\A(?:Command: .*?\n(?:Directory: .*?\n)?)?(?:Stdout|Output): ", re.DOTALL)
_AFTER = re.compile(
    r"^(?:Error: \(none\)|(?:Signal|Background PIDs|Process Group PGID|Exit Code): .*)(?:\n|\Z)", re.MULTILINE
)


@dataclass(slots=True)
class Piece:
    """What becomes one step."""

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    is_error: bool | None = None


@dataclass(slots=True)
class Block:
    """What one block holds; a call stands before its result."""

    text: str = ""
    call: ToolCall | None = None
    result: Piece | None = None


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


def thinking_of(block: dict[str, object]) -> str:
    """Return what a block of reasoning says, marked as such."""
    for key in ("thinking", "text", "content", "reasoning", "think", "summary"):
        found = content_text(block.get(key)).strip()
        if found:
            return f"[thinking] {found}\n"
    return ""


def _plain_block(block: dict[str, object], kind: str) -> str:
    if kind in _THINKING:
        return thinking_of(block)
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


def result_of(block: dict[str, object]) -> Piece:
    """Return the result of a call in any vendor's form."""
    value = _present(block, ("content", "output", "response", "result"))
    answers = first_text(block, ("tool_use_id", "tool_call_id", "call_id", "toolCallId", "id"))
    error = flag(_present(block, ("is_error", "isError")))
    typed = table(value)
    if "type" in typed and "value" in typed:  # the AI SDK states by the type whether the call failed
        value = typed["value"]
        error = True if text(typed["type"]).startswith("error") else error
    return Piece("tool", content_text(value), answers=answers or None, is_error=error)


def kind_of(block: dict[str, object]) -> str:
    """Return the kind that a block states."""
    return (text(block.get("type")) or text(block.get("part_kind"))).lower().replace("-", "_")


def read_block(block: dict[str, object]) -> Block:
    """Return what a block holds."""
    kind = kind_of(block)
    if kind in CALLS:
        return Block(call=call_of(block))
    if kind in RESULTS:
        return Block(result=result_of(block))
    found = None
    if not kind:
        found = _google(block)
    elif kind in {"toolrequest", "toolresponse"}:
        found = _goose(block, kind)
    elif kind.endswith("tool_return"):
        return Block(result=_returned(block))
    elif kind.startswith("tool") or kind == "dynamic_tool":
        found = _call_and_result(block)
    elif kind == "retry_prompt":
        found = _retry(block)
    return found or Block(_plain_block(block, kind))


def _google(block: dict[str, object]) -> Block | None:
    """Read a part of Google's form; a call without an id is known by its name."""
    call = table(block.get("functionCall")) or table(block.get("function_call"))
    if call:
        return Block(call=ToolCall(text(call.get("id")) or text(call.get("name")), text(call.get("name")),
                                   compact(call.get("args"))))  # fmt: skip
    result = table(block.get("functionResponse")) or table(block.get("function_response"))
    if result:
        said, failed = _google_response(result.get("response"))
        if result.get("name") == "run_shell_command":
            said, failed = _printed(said, failed)
        return Block(result=Piece("tool", said, answers=text(result.get("id")) or text(result.get("name")),
                                  is_error=failed))  # fmt: skip
    if block.get("thought") is True:
        return Block(thinking_of(block))
    for key in ("inlineData", "inline_data", "fileData", "file_data"):
        if block.get(key):
            return Block(_media(table(block[key]), "file"))
    return None


def _google_response(value: object) -> tuple[str, bool | None]:
    """Return what a `functionResponse` says, and True where it states an error."""
    response = table(value)
    if response.get("error") and not response.get("output"):
        return content_text(response["error"]), True
    for key in ("output", "result"):
        if set(response) == {key}:
            return content_text(response[key]), None
    return content_text(value if value is not None else ""), None


def _printed(said: str, failed: bool | None) -> tuple[str, bool | None]:
    """Return what a command of Gemini CLI printed, and whether its exit code says that it failed.

    A code of 0 is not written by newer versions, so its absence says nothing.
    """
    code = _EXIT_CODE.search(said)
    shown = _AFTER.sub("", _BEFORE.sub("", said, count=1)).rstrip("\n")
    if code is None:
        return shown, failed
    return f"{shown}\nExit code: {code[1]}", code[1] != "0"


def _goose(block: dict[str, object], kind: str) -> Block:
    name = text(block.get("id"))
    if kind == "toolrequest":
        asked = table(block.get("toolCall"))
        call = table(asked.get("value"))
        if not call:  # the model's call could not be read
            return Block(f"[error] {text(asked.get('error'))}" if asked.get("error") else "")
        return Block(call=ToolCall(name, text(call.get("name")), compact(call.get("arguments"))))
    answer = table(block.get("toolResult"))
    if answer.get("status") == "error":
        return Block(result=Piece("tool", content_text(answer.get("error") or ""), answers=name, is_error=True))
    value = answer.get("value")
    failed = flag(table(value).get("isError"))
    said = content_text(table(value).get("content") or "") if isinstance(value, dict) else content_text(value or "")
    return Block(result=Piece("tool", said, answers=name, is_error=failed or None))


def _call_and_result(block: dict[str, object]) -> Block | None:
    """Read a block that holds a call and how it ended: a tool part of opencode, or of a UI message of the AI SDK."""
    state = table(block.get("state"))
    given = table(block.get("toolInvocation")) or block
    name = text(block.get("callID")) or text(given.get("toolCallId"))
    if not name:
        return None
    if state:
        exit_code = number(table(state.get("metadata")).get("exit"))
        failed = True if state.get("status") == "error" else None if exit_code is None else exit_code != 0
        said = state.get("error") if state.get("status") == "error" else state.get("output")
        call = ToolCall(name, text(block.get("tool")), compact(state.get("input")))
    else:
        trouble = given.get("errorText")
        failed, said = True if trouble else None, trouble or _present(given, ("output", "result"))
        tool = text(given.get("toolName")) or text(block.get("type")).removeprefix("tool-")
        call = ToolCall(name, tool, compact(_present(given, ("input", "args", "rawInput"))))
    if said is None:  # it had not ended
        return Block(call=call)
    return Block(call=call, result=Piece("tool", content_text(said), answers=name, is_error=failed))


def _returned(block: dict[str, object]) -> Piece:
    """Read pydantic-ai's return of a tool; that it is a success says only that the tool ran."""
    piece = result_of(block)
    if text(block.get("outcome")) in {"failed", "denied", "interrupted", "retried"}:
        piece.is_error = True
    return piece


def _retry(block: dict[str, object]) -> Block:
    """Read pydantic-ai's request to try again: it answers a call that failed, or a reply that was not valid."""
    said = content_text(block.get("content") or "")
    if not text(block.get("tool_name")):
        return Block(said)
    return Block(result=Piece("tool", said, answers=text(block.get("tool_call_id")) or None, is_error=True))
