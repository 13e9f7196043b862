"""Reads what an OpenAI-compatible endpoint sent back: a usable `Response` or a typed `Fault`.

Endpoints fail in many shapes: statuses, HTML pages, errors inside a 200, errors inside the content, nothing at all.
Each shape is recognised here and nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from combee.errors import CallErrorKind
from combee.model.outcome import Fault
from combee.model.types import FinishReason, Response, Usage

__all__ = ["read_reply", "read_status", "retry_after_seconds", "shorten", "strip_thinking"]

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
# A proxy's error served as if the model had said it. Certain forms count whatever the usage says; loose ones only
# where the endpoint itself says that no token was generated.
_SURE_ERROR = re.compile(r"\s*(API Error: \d{3}\b|upstream connect error or disconnect)", re.IGNORECASE)
_LIKE_ERROR = re.compile(
    r"error|overloaded|rate.?limit|too many requests|unavailable|timed? ?out|exceeded|try again", re.IGNORECASE
)
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|maximum context|too many (input )?tokens|prompt is too long|"
    r"exceeds? the (maximum|model|available)|reduce the length",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(r"model.{0,80}(not (found|exist)|does ?n.t exist|unknown|invalid)|unknown model", re.IGNORECASE)
_BUSY = re.compile(r"overload|rate.?limit|too many requests|capacity|busy|429|529|503", re.IGNORECASE)


def shorten(text: str, limit: int = 300) -> str:
    """Return `text` on one line, cut to `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def retry_after_seconds(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return what `Retry-After` (seconds or an HTTP date) or `retry-after-ms` asks for, in seconds from now."""
    milliseconds = headers.get("retry-after-ms")
    try:
        if milliseconds:
            return max(0.0, float(milliseconds) / 1000)
    except ValueError:
        pass  # unreadable: the plain header may still be good
    value = headers.get("retry-after")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
        except ValueError:
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        seconds = (when - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if seconds == seconds and seconds < 1e9 else None  # noqa: PLR0124 - NaN is not itself


def strip_thinking(text: str) -> str:
    """Return the answer without a leading `<think>` block (also where only its end was sent)."""
    end = text.rfind("</think>")
    if end < 0:
        return "" if text.lstrip().startswith("<think>") else text
    opened = text.find("<think>")
    # A tag that is opened after real text is part of the answer, not thinking.
    return text if opened >= 0 and text[:opened].strip() else text[end + 8 :].lstrip()


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def read_usage(raw: object) -> Usage | None:
    """Return the tokens that the endpoint counted, or None where it did not (all zero counts as not said)."""
    if not isinstance(raw, dict):
        return None
    details = raw.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    cached = cached or _count(raw.get("prompt_cache_hit_tokens")) or _count(raw.get("cached_tokens"))
    usage = Usage(_count(raw.get("prompt_tokens")), _count(raw.get("completion_tokens")), cached)
    return usage if usage.prompt or usage.completion else None


def _error_of(body: object) -> tuple[str, str]:
    """Return (message, code) of an error body in any of the shapes in use; empty strings where there is none."""
    if not isinstance(body, dict):
        return "", ""
    error = body.get("error")
    if isinstance(error, dict):
        code = error.get("code") or error.get("type") or ""
        return str(error.get("message") or error), str(code)
    if error:
        return str(error), ""
    if "choices" not in body and (body.get("message") or body.get("detail")):
        return str(body.get("message") or body.get("detail")), str(body.get("code") or body.get("type") or "")
    return "", ""


def _load(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _text_of(content: object) -> str:
    """Return the text of a message's content: a string, or a list of parts of which the text ones count."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") in {None, "text"}]
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
        return _error_in_body(data)
    choice = cast("dict[str, Any]", choices[0])
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    raw_usage = data.get("usage")
    usage = read_usage(raw_usage)
    text = _text_of(message.get("content"))
    finish = _FINISH.get(str(choice.get("finish_reason") or ""), "unknown")
    error, code = _error_of(data) if "error" in data else _error_of(choice) if "error" in choice else ("", "")
    if error:
        return _said_error(error, code, usage)
    no_completion = isinstance(raw_usage, dict) and raw_usage.get("completion_tokens") == 0
    if text and len(text) < 600 and (_SURE_ERROR.match(text) or (no_completion and _LIKE_ERROR.search(text))):
        return Fault(CallErrorKind.ERROR_IN_BODY, f"the reply is an error message: {shorten(text)}", usage=usage)
    text = strip_thinking(text) if "</think>" in text or text.lstrip().startswith("<think>") else text
    if finish == "content_filter":
        return Fault(CallErrorKind.CONTENT_FILTER, "the endpoint's content filter withheld the reply", usage=usage)
    if not text.strip():
        return _empty(finish, message, usage)
    return Response(text=text, usage=usage, finish=finish, model=str(data.get("model") or model))


def _empty(finish: FinishReason, message: Mapping[str, Any], usage: Usage | None) -> Fault:
    if finish == "length":
        thought = " (all of it went into thinking)" if message.get("reasoning_content") else ""
        return Fault(
            CallErrorKind.LENGTH,
            f"the reply reached max_tokens before it said anything{thought}",
            hint="Raise max_tokens.",
            usage=usage,
        )
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
            hint="Check the base URL: it usually ends with /v1. A proxy in between may also send such pages.",
            paid="no",
        )
    if start.startswith((b"{", b"[")):
        return Fault(CallErrorKind.TRUNCATED_BODY, f"the reply is broken JSON of {len(body)} bytes")
    if start.startswith(b"data:"):
        return Fault(CallErrorKind.NOT_JSON, "the endpoint streams although it was not asked to")
    return Fault(CallErrorKind.NOT_JSON, f"the reply is not JSON: {shorten(body[:400].decode(errors='replace'))!r}")


def _error_in_body(data: object) -> Fault:
    error, code = _error_of(data)
    if error:
        return _said_error(error, code, read_usage(data.get("usage")) if isinstance(data, dict) else None)
    return Fault(CallErrorKind.ERROR_IN_BODY, f"the reply holds no choices: {shorten(json.dumps(data))}")


def _said_error(error: str, code: str, usage: Usage | None) -> Fault:
    """Return the fault for an error told inside a 200, in the kind that the same error has as a status."""
    status = int(code) if code.isdigit() else 0
    if status >= 400 or _TOO_LONG.search(error) or _NO_MODEL.search(error) or "api key" in error.lower():
        fault = read_status(status or 400, {}, json.dumps({"error": {"message": error, "code": code}}).encode())
        if fault.kind is not CallErrorKind.BAD_REQUEST:
            return fault
    return Fault(
        CallErrorKind.ERROR_IN_BODY,
        f"the endpoint answered 200 with an error: {shorten(error)}",
        usage=usage,
        code=code,
        overloaded=_BUSY.search(f"{error} {code}") is not None,
    )


def read_status(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """Return the fault of an HTTP status that is not 200."""
    message, code = _error_of(_load(body[:65536]))
    said = shorten(message) if message else ""
    after = retry_after_seconds(headers)
    tail = f": {said}" if said else ""
    lowered = f"{message} {code}".lower()
    if status == 429:
        if "insufficient_quota" in lowered or "exceeded your current quota" in lowered:
            return _auth(status, tail, code, "The account has no quota left: add credit, or use another key.")
        return Fault(CallErrorKind.RATE_LIMIT, f"HTTP 429, too many requests{tail}", None, after, None, status)
    if status >= 500:
        busy = status in {503, 529} or "overload" in lowered
        return Fault(CallErrorKind.SERVER, f"HTTP {status}{tail}", None, after, None, status, busy, code)
    if status in {408, 409, 425}:
        kind = CallErrorKind.TIMEOUT if status == 408 else CallErrorKind.SERVER
        return Fault(kind, f"HTTP {status}{tail}", None, after, None, status, code=code)
    if status in {401, 403, 407}:
        return _auth(status, tail, code, _AUTH_HINTS[status])
    if status == 402:
        return _auth(status, tail, code, "The account has no balance left: add credit, or use another key.")
    return _refused(status, message, code, tail)


_AUTH_HINTS = {
    401: "The endpoint does not accept the key. Check the environment variable that holds it.",
    403: "The key may not use this model or endpoint. Check its rights (and whether a proxy blocks the request).",
    407: "The proxy asks for a login: put it into HTTPS_PROXY.",
}


def _auth(status: int, tail: str, code: str, hint: str) -> Fault:
    return Fault(CallErrorKind.AUTH, f"HTTP {status}{tail}", hint, status=status, code=code)


def _refused(status: int, message: str, code: str, tail: str) -> Fault:
    """Return the fault of a 3xx or 4xx that means the request itself."""
    lowered = f"{message} {code}".lower()
    if status == 413 or "context_length" in lowered or "exceed_context" in lowered or _TOO_LONG.search(message):
        return Fault(
            CallErrorKind.CONTEXT_TOO_LONG,
            f"the request is longer than the model's context{tail}",
            hint="Use smaller groups, a smaller playbook budget, or a model with a larger window.",
            status=status,
            code=code,
        )
    if "content_filter" in lowered or "content management policy" in lowered:
        return Fault(
            CallErrorKind.CONTENT_FILTER, f"the endpoint's content filter refused the request{tail}", code=code
        )
    if "model_not_found" in lowered or (status in {400, 404} and _NO_MODEL.search(message)):
        return Fault(
            CallErrorKind.NO_SUCH_MODEL,
            f"the endpoint has no such model{tail}",
            hint="`combee doctor` lists the models that the endpoint offers.",
            status=status,
            code=code,
        )
    if status in {404, 405} or 300 <= status < 400:
        return Fault(
            CallErrorKind.BAD_REQUEST,
            f"HTTP {status}: there is no chat endpoint at this URL{tail}",
            hint="Check the base URL: it usually ends with /v1, and chat/completions is added to it.",
            status=status,
            code=code,
            fatal=True,
        )
    return Fault(
        CallErrorKind.BAD_REQUEST,
        f"HTTP {status}, the endpoint refused the request{tail}",
        None,
        status=status,
        code=code,
    )
