"""Reads the body of a 200: a usable `Response`, or the typed `Fault` that hides in it.

Endpoints fail in many shapes: errors inside a 200, errors inside the content, half a reply, nothing at all. What an
error says is read by `provider_errors`; what of a text is its answer, by `answer_text`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from combee.errors import CallErrorKind
from combee.model.answer_text import is_error_text, strip_thinking
from combee.model.outcome import Fault
from combee.model.provider_errors import fault_of, shorten
from combee.model.types import FinishReason, Response, Usage
from combee.model.usage import find_usage

# What endpoints call the end of a reply, in lower case. Any other word means that the reply is not whole.
_FINISH: dict[str, FinishReason] = {
    **dict.fromkeys(
        ("stop", "eos", "eos_token", "eos_found", "stop_sequence", "stop_token", "end_turn", "end"), "stop"
    ),
    **dict.fromkeys(("complete", "completed", "finished", "done", "normal"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length", "limit"), "length"),
    "model_context_window_exceeded": "length",
    **dict.fromkeys(("content_filter", "content_filtered", "safety", "recitation", "sensitive"), "content_filter"),
    **dict.fromkeys(("prohibited_content", "blocklist", "spii", "error_toxic", "refusal"), "content_filter"),
    "guardrail_intervened": "content_filter",
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
}
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
        kinds = {None, "text", "output_text"}
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") in kinds]
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def read_reply(body: bytes, model: str) -> Response | Fault:
    """Return the response in the body of a 200, or the fault that hides in it."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return _not_json(body)
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return _without_choices(data)
    choice = cast("dict[str, Any]", choices[0])
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
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
    if finish is None:
        said = f"the endpoint ended the reply with {shorten(str(ended), 60)!r}, so it is not whole"
        return Fault(CallErrorKind.ERROR_IN_BODY, said, usage=usage, code=shorten(str(ended), 60))
    if finish == "content_filter":
        return Fault(CallErrorKind.CONTENT_FILTER, "the endpoint's content filter withheld the reply", usage=usage)
    answer = strip_thinking(text)
    if not answer.strip():
        return _empty(finish, message, usage, thought=bool(text.strip()))
    return Response(text=answer, usage=usage, finish=finish, model=str(data.get("model") or model))


def _empty(finish: FinishReason, message: Mapping[str, Any], usage: Usage | None, *, thought: bool) -> Fault:
    if finish == "length":
        thought = thought or any(message.get(name) for name in ("reasoning_content", "reasoning", "thinking"))
        why = " (all of it went into thinking)" if thought else ""
        said = f"the reply reached max_tokens before it said anything{why}"
        return Fault(CallErrorKind.LENGTH, said, "Raise max_tokens.", usage=usage)
    refusal = message.get("refusal")
    if refusal:
        return Fault(CallErrorKind.CONTENT_FILTER, f"the model refused: {shorten(str(refusal))}", usage=usage)
    return Fault(CallErrorKind.EMPTY, "the reply has no content", usage=usage)


def _not_json(body: bytes) -> Fault:
    start = body[:400].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return Fault(
            CallErrorKind.NOT_JSON,
            "the endpoint answered with a web page instead of JSON",
            hint="Check the base URL; a proxy in between may also send such pages.",
            paid="no",
        )
    if start.startswith((b"{", b"[")):
        return Fault(CallErrorKind.TRUNCATED_BODY, f"the reply is broken JSON of {len(body)} bytes")
    if start.startswith(b"data:"):
        return Fault(CallErrorKind.NOT_JSON, "the endpoint streams although it was not asked to")
    return Fault(CallErrorKind.NOT_JSON, f"the reply is not JSON: {shorten(body[:400].decode(errors='replace'))!r}")


def _without_choices(data: object) -> Fault:
    """Return the fault of a 200 without a choice: an error in any shape, or nothing at all."""
    usage = find_usage(data)
    said = data if isinstance(data, str | list) and data else data if isinstance(data, dict) else None
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
