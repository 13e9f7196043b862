"""Reads the body of a 200: a usable `Response`, or the typed `Fault` that hides in it.

Endpoints fail in many shapes: errors inside a 200, errors inside the content, half a reply, nothing at all. What an
error says is read by `provider_errors`; what of a text is its answer, by `answer_text`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from combee.errors import CallErrorKind
from combee.model.answer_text import is_error_text, strip_thinking
from combee.model.outcome import Fault, find_usage
from combee.model.provider_errors import fault_of, shorten
from combee.model.types import FinishReason, Response, Usage

# What endpoints call the end of a reply, in lower case. Any other word means that the reply is not whole.
_FINISH: dict[str, FinishReason] = {
    **dict.fromkeys(
        ("stop", "eos", "eos_token", "eos_found", "stop_sequence", "stop_token", "end_turn", "end"), "stop"
    ),
    **dict.fromkeys(("complete", "completed", "finished", "done", "normal"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length", "limit", "token_limit"), "length"),
    **dict.fromkeys(("max_completion_tokens", "max_length", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("content_filter", "content_filtered", "safety", "recitation", "sensitive"), "content_filter"),
    **dict.fromkeys(("prohibited_content", "blocklist", "spii", "error_toxic", "refusal"), "content_filter"),
    "guardrail_intervened": "content_filter",
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
}
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_WRAPPERS = ("data", "result", "response", "output")
_WITHHELD = re.compile(r'"filtered": ?true|block_?reason"?: ?"', re.IGNORECASE)
# A loose sign of an error served as an answer: believed only where the endpoint says that no token was generated.
_LIKE_ERROR = re.compile(
    r"error|overloaded|rate.?limit|too many requests|unavailable|timed? ?out|exceeded|try again", re.IGNORECASE
)


def _finish_of(raw: object) -> FinishReason | None:
    """Return how a reply ended; None for a word that is not known. No word at all counts as "unknown"."""
    if raw is None or raw == "":
        return "unknown"
    if raw == "stop":  # the usual case, and quick
        return "stop"
    word = str(raw).rpartition(".")[2].strip().lower().removeprefix("finish_reason_")
    return _FINISH.get(word) or _FINISH.get(re.split(r"[:\s]", word)[0])


def _text_of(content: object) -> str:
    """Return the text of a message's content: a string, or a list of parts of which the text ones count."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_text_of, content))
    if isinstance(content, dict) and content.get("type") in {None, "text", "output_text"}:
        return _text_of(content.get("text"))
    return ""


def _choices_of(data: object) -> list[Any]:
    """Return what stands under `choices`, where each has the form of an object."""
    choices = data.get("choices") if isinstance(data, dict) else None
    return choices if isinstance(choices, list) and choices and isinstance(choices[0], dict) else []


def read_reply(body: bytes, model: str) -> Response | Fault:
    """Return the response in the body of a 200, or the fault that hides in it."""
    try:
        data = read_json(body)
    except (ValueError, RecursionError):
        return _not_json(body)
    choices = _choices_of(data)
    if not choices and isinstance(data, dict):  # gateways that wrap what they pass on
        data = next((data[name] for name in _WRAPPERS if _choices_of(data.get(name))), data)
        choices = _choices_of(data)
    if not choices:
        return _without_choices(data)
    choice = cast("dict[str, Any]", choices[0])
    message = choice.get("message") or choice.get("delta")
    message = message if isinstance(message, dict) else {"content": choice.get("text")}
    usage = find_usage(data)
    for place in (data, choice, message):
        if place.get("error"):
            return _told({"error": place["error"]}, usage)
    text, ended = _text_of(message.get("content")), choice.get("finish_reason")
    finish = _finish_of(ended)
    counted = data.get("usage")
    nothing = isinstance(counted, dict) and counted.get("completion_tokens") == 0
    if is_error_text(text, generated=usage is not None and usage.completion > 0) or (
        nothing and text and len(text) < 600 and _LIKE_ERROR.search(text)
    ):
        return Fault(CallErrorKind.ERROR_IN_BODY, f"the reply is an error message: {shorten(text)}", usage=usage)
    native = _finish_of(choice.get("native_finish_reason")) if finish == "stop" else None
    if native in {"length", "content_filter"}:  # a router that calls every end `stop`
        finish = native
    if finish is None:
        said = f"the endpoint ended the reply with {shorten(str(ended), 60)!r}, so it is not whole"
        return Fault(CallErrorKind.ERROR_IN_BODY, said, usage=usage, code=shorten(str(ended), 60))
    if finish == "content_filter":
        return Fault(CallErrorKind.CONTENT_FILTER, "the endpoint's content filter withheld the reply", usage=usage)
    answer = strip_thinking(text)
    if not answer.strip():
        if ended == "model_context_window_exceeded":
            said = "the prompt left no room for a reply in the model's window"
            return Fault(CallErrorKind.CONTEXT_TOO_LONG, said, usage=usage, paid="yes")
        return _empty(finish, message, usage, thought=bool(text.strip()))
    return Response(text=answer, usage=usage, finish=finish, model=str(data.get("model") or model))


def read_json(body: bytes) -> Any:
    """Return the JSON of a body, from between what gateways put around it; a stream as the reply that it adds up to.

    Bytes that are no UTF-8 and bare control characters inside strings cost nothing else.

    Raises:
        ValueError, RecursionError: There is none.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        lines = body.decode("utf-8-sig", "replace").split("\n")
    while lines and (not lines[0].strip() or lines[0].startswith(":")):  # comments that keep a connection open
        del lines[0]
    text = "\n".join(lines).strip(" \t\r\n\0")
    if text.startswith(("data:", "event:", "id:", "retry:", "error:")):
        return _of_stream(lines)
    data, end = json.JSONDecoder(strict=False, parse_int=_int).raw_decode(text)
    rest = text[end:].strip()
    if rest.startswith("{") and any("delta" in choice for choice in _choices_of(data)):  # chunks, one a line
        return _of_stream(f"data: {line}" for line in lines)
    if rest and not rest.startswith("data:"):
        raise ValueError("something else follows")
    return data


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) < 4000 else float(digits)  # Python refuses to read longer ones


def _of_stream(lines: Iterable[str]) -> Any:
    """Return the reply that the chunks of a stream add up to, with how it ended; the first error, where one came."""
    text, finish, usage, last, event = "", None, None, {}, ""
    for line in lines:
        field, _, part = (piece.strip() for piece in line.partition(":"))
        if field == "event":
            event = part
        if field not in {"data", "error"}:
            continue
        if part == "[DONE]":
            finish = finish or "stop"
            continue
        try:
            last = json.loads(part)
        except ValueError:
            continue
        if isinstance(last, dict) and (last.get("error") or "error" in {field, event}):
            return last if last.get("error") else {"error": last}
        usage = (find_usage(last) and last.get("usage")) or usage
        for choice in _choices_of(last)[:1]:
            said = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
            text += _text_of(said.get("content"))
            finish = choice.get("finish_reason") or finish
    ended = finish or "the end of the connection"
    return {"choices": [{"message": {"content": text}, "finish_reason": ended}], "usage": usage}


def _empty(finish: FinishReason, message: Mapping[str, Any], usage: Usage | None, *, thought: bool) -> Fault:
    if finish == "length":
        thought = thought or any(message.get(name) for name in _THOUGHTS)
        why = " (all of it went into thinking)" if thought else ""
        said = f"the reply reached max_tokens before it said anything{why}"
        return Fault(CallErrorKind.LENGTH, said, "Raise max_tokens.", usage=usage)
    refusal = message.get("refusal")
    if refusal:
        return Fault(CallErrorKind.CONTENT_FILTER, f"the model refused: {shorten(str(refusal))}", usage=usage)
    thinks = thought or any(message.get(name) for name in _THOUGHTS)
    why = ": all of it stands where thinking belongs" if thinks else ""
    return Fault(CallErrorKind.EMPTY, f"the reply has no content{why}", usage=usage)


def _not_json(body: bytes) -> Fault:
    start = body[:400].lstrip(b" \t\r\n\xef\xbb\xbf").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return Fault(
            CallErrorKind.NOT_JSON,
            "the endpoint answered with a web page instead of JSON",
            hint="Check the base URL; a proxy in between may also send such pages.",
            paid="no",
        )
    if start.startswith((b"{", b"[")):
        return Fault(CallErrorKind.TRUNCATED_BODY, f"the reply is broken JSON of {len(body)} bytes")
    return Fault(CallErrorKind.NOT_JSON, f"the reply is not JSON: {shorten(body[:400].decode(errors='replace'))!r}")


def _without_choices(data: object) -> Fault:
    """Return the fault of a 200 without a choice: an error in any shape, or nothing at all."""
    usage = find_usage(data)
    said = data if isinstance(data, str | list) and data else data if isinstance(data, dict) else None
    if _WITHHELD.search(json.dumps(data)):
        return Fault(CallErrorKind.CONTENT_FILTER, "the endpoint's content filter refused the request", usage=usage)
    fault = _told(said, usage) if said else None
    if fault is not None and fault.body is not None and fault.body.message:
        return fault
    return Fault(CallErrorKind.ERROR_IN_BODY, f"the reply holds no choices: {shorten(json.dumps(data))}", usage=usage)


def _told(error: object, usage: Usage | None) -> Fault:
    """Return the fault of an error told inside a 200, in the kind that the same error has as a status."""
    fault = fault_of(200, {}, error)
    if usage is None or fault.usage is not None:
        return fault
    return replace(fault, usage=usage)
