"""Why an endpoint refused or failed: one reader for every shape that providers send, and the `Fault` it comes to.

Shapes in the field: an object, a list of objects (Gemini), a string (Ollama, xAI), FastAPI's list under `detail`
(Mistral, vLLM), JSON or a Python repr inside a string (OpenRouter's `metadata.raw`, proxies), inner errors (Azure), web
pages, plain text, and any of these inside a 200. What an endpoint echoes of the request is never read as its words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeGuard

from combee.errors import CallErrorKind
from combee.model.outcome import ErrorBody, Fault, find_usage

_LONGEST = 1e9  # seconds; a larger number means the same
_DEPTH = 8
_MOST = 65_536  # characters of a body that are looked at
_TEXTS = frozenset({
    "message", "msg", "error", "errors", "detail", "details", "error_description", "error_message", "error_msg",
    "errormessage", "status_msg", "description", "title", "raw", "innererror", "inner_error", "text",
})  # fmt: skip
_CODES = frozenset({"code", "type", "status", "reason", "error_code", "errorcode", "statuscode", "status_code"})
_NAMES = frozenset({"param", "field", "parameter", "name", "property", "argument", "path", "pointer"})
_BY_FIELD = frozenset({"errors", "fields", "field_errors"})
_WAITS = frozenset({
    "retrydelay", "retry_after", "retryafter", "retry-after", "retry_after_seconds", "retry_after_ms", "estimated_time",
})  # fmt: skip
_RESET = "x-ratelimit-reset"
_EPOCH = 1e9  # a larger number of a reset is a moment in seconds, and 1000 times that one in milliseconds
# What an error repeats of the request, or of the model's own text; and links with words about rate limits.
_ECHOES = frozenset({"input", "ctx", "failed_generation", "choices", "messages", "links", "usage", "prompt", "url"})
_UNITS = {"ms": 0.001, "m": 60.0, "h": 3600.0, "d": 86400.0, "s": 1.0, "秒": 1.0, "分": 60.0}
_PART = r"\d+(?:\.\d+)?\s*(?:ms|milli\w*|s(?:ec\w*)?|m(?:in\w*)?|h(?:ours?|rs?)?|d(?:ays?)?|秒|分钟?)(?![a-z])\s*"
_SOON = re.compile(
    r"(?:try again|retry|retrying|resets?|replenish\w*|wait|available|back|重试|等待|请在)"
    rf"[^.\n\d]{{0,60}}?((?:{_PART})+)",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\b(?:in|after) (\d{1,3}):(\d\d):(\d\d)\b")  # a time span, as API gateways write it
_MOMENT = re.compile(
    r"\b(?:resets?|available|again|until)\b[^.\n\d]{0,30}(?:(\d{4}-\d\d-\d\d)[T ])?"
    r"(\d\d:\d\d(?::\d\d)?)(?:\.\d+)? ?(Z|UTC|GMT|[+-]\d\d:\d\d)?",
    re.IGNORECASE,
)
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h|d|秒|分)", re.IGNORECASE)
_QUOTED = re.compile(r"[`'\"“‘«]([A-Za-z_][\w.\[\]-]*)[`'\"”’»]")
_PAGE = re.compile(r"\s*(?:<!doctype|<html|<\?xml|<head|<body)", re.IGNORECASE)
_HEADING = re.compile(r"<(title|h1)[^>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)


def shorten(text: str, limit: int = 300) -> str:
    """Return `text` on one line, cut to `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


@dataclass(slots=True)
class _Found:
    """What was collected of one body so far."""

    texts: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    fields: set[str] = field(default_factory=set)
    waits: list[float] = field(default_factory=list)
    status: int = 0

    def text(self, said: str) -> None:
        line = " ".join(said.split())
        if line and not any(line in other for other in self.texts):
            self.texts.append(line)

    def code(self, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | str) or value in ("", 0):
            return
        word = str(value)
        if word not in self.codes:
            self.codes.append(word[:80])
        if word.isdigit() and 400 <= int(word) < 600 and not self.status:
            self.status = int(word)


def read_error(body: object) -> ErrorBody | None:
    """Return what an error body says, or None where there is no error in it.

    Args:
        body: Bytes or text as they came, or JSON that was read already.
    """
    if isinstance(body, bytes):
        body = body[:_MOST].decode("utf-8", "replace")
    data = body
    if isinstance(body, str):
        data = _loaded(body)
        if data is None:
            return _of_text(body)
    found = _Found()
    if isinstance(data, str):
        _take_text(data, found, 0)
    else:
        _walk(data, found, 0)
    if not found.texts and not found.codes:
        return None
    if not found.texts:
        found.text(" ".join(found.codes))
    message = ": ".join(found.texts)
    return ErrorBody(
        message,
        tuple(found.codes),
        frozenset(found.fields) | frozenset(_names_in(message)),
        max([*found.waits, *(part for part in [seconds_in(message)] if part is not None)], default=None),
        found.status,
        find_usage(data),
    )


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _of_text(text: str) -> ErrorBody | None:
    """Return what plain text or a web page says."""
    said = text
    if _PAGE.match(text):
        heads = dict.fromkeys(re.sub(r"<[^>]+>", " ", part[1]).strip() for part in _HEADING.findall(text))
        said = " ".join(heads) or re.sub(r"<[^>]*>", " ", text[:4000])  # XML has no headings
    found = _Found()
    _take_text(said, found, 0)
    message = shorten(": ".join(found.texts), 1000)
    if not message:
        return None
    fields = frozenset(found.fields) | frozenset(_names_in(message))
    return ErrorBody(message, tuple(found.codes), fields, seconds_in(message), found.status)


def _walk(node: object, found: _Found, depth: int, around: str = "") -> None:
    """Collect from JSON; `around` is the key that it stands under."""
    if depth > _DEPTH:
        return
    if isinstance(node, list):
        for part in node:
            _take_text(part, found, depth + 1) if isinstance(part, str) else _walk(part, found, depth + 1, around)
    elif isinstance(node, dict):
        for key, value in node.items():
            if str(key).lower() not in _ECHOES:
                _take(str(key).lower(), value, found, depth, around)


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(part, str) for part in value)


def _take(key: str, value: object, found: _Found, depth: int, around: str) -> None:
    if key in _CODES:
        found.code(value)
    if key in _NAMES and isinstance(value, str):
        found.fields.add(_top(value))
    elif around in _BY_FIELD and key not in _TEXTS | _CODES | _WAITS and (isinstance(value, str) or _is_texts(value)):
        found.fields.add(_top(key))  # {"errors": {"seed": ["is not allowed"]}}
        for said in [value] if isinstance(value, str) else value:
            _take_text(said, found, depth)
    elif key == "loc" and isinstance(value, list):
        found.fields.update(_top(str(part)) for part in value[:2] if part != "body")
    elif key in _WAITS:
        _take_wait(key, value, found)
    elif key == _RESET:
        _take_reset(value, found)
    elif isinstance(value, dict | list):
        _walk(value, found, depth + 1, key)
    elif isinstance(value, str) and key in _TEXTS:
        _take_text(value, found, depth)


def _take_text(said: str, found: _Found, depth: int) -> None:
    """Take a sentence; one that holds JSON, as proxies send it, gives way to what is inside."""
    start = min((at for at in (said.find("{"), said.find("[{")) if at >= 0), default=-1)
    inner = None
    if start >= 0 and depth <= _DEPTH:
        try:
            inner, _ = json.JSONDecoder(strict=False).raw_decode(said, start)
        except (ValueError, RecursionError):
            inner = None
    if isinstance(inner, dict | list) and inner:
        before = len(found.texts), len(found.codes)
        if said[:start].strip(" \n:-"):
            found.text(said[:start].strip(" \n:-"))
        _walk(inner, found, depth + 1)
        if (len(found.texts) - bool(said[:start].strip(" \n:-")), len(found.codes)) != before:
            return
        del found.texts[before[0] :]
    found.text(said[:4000])


def _take_wait(key: str, value: object, found: _Found) -> None:
    seconds = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value) / (1000 if key.endswith("_ms") else 1)
    elif isinstance(value, str):
        seconds = seconds_in(f"retry in {value if value[-1:].isalpha() else value + 's'}")
    if seconds is not None and seconds >= 0:
        found.waits.append(min(seconds, _LONGEST))


def _take_reset(value: object, found: _Found) -> None:
    """Take when a limit ends: seconds from now, or a moment in seconds or milliseconds (OpenRouter's bodies)."""
    try:
        number = float(str(value))
    except ValueError:
        _take_wait(_RESET, value, found)
        return
    moment = number / 1000 if number > 1000 * _EPOCH else number
    seconds = moment - datetime.now(UTC).timestamp() if moment > _EPOCH else moment
    if seconds > 0:
        found.waits.append(min(seconds, _LONGEST))


def _top(name: str) -> str:
    """Return the field at the top of a path: `response_format` of `response_format.json_schema.schema`."""
    return re.split(r"[.\[/]", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().lstrip("#/$."))[0]


def _names_in(text: str) -> Iterator[str]:
    return (_top(name) for name in _QUOTED.findall(text))


def seconds_in(text: str) -> float | None:
    """Return the seconds that a sentence asks to wait: "try again in 7m12s", "Please retry after 26 seconds"."""
    asked = [
        sum(float(number) * _UNITS["ms" if unit.lower() in {"ms", "milli"} else unit.lower()] for number, unit in parts)
        for parts in (_PIECE.findall(found[1]) for found in _SOON.finditer(text))
    ]
    asked += [int(hours) * 3600.0 + int(minutes) * 60 + int(rest) for hours, minutes, rest in _CLOCK.findall(text)]
    asked += [left for found in _MOMENT.finditer(text) if (left := _left_until(*found.groups())) is not None]
    return min(max(asked), _LONGEST) if asked else None


def _left_until(day: str | None, clock: str, zone: str | None) -> float | None:
    """Return the seconds until a moment; without a day it is the next such time, and then the zone must be named."""
    now = datetime.now(UTC)
    if day is None and zone is None:
        return None
    offset = zone if zone and zone[0] in "+-" else "+00:00"
    try:
        left = (datetime.fromisoformat(f"{day or now.date()}T{clock}{offset}") - now).total_seconds()
    except ValueError:
        return None
    if day is None:
        left %= 86_400
    return left if left > 0 else None


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
            return seconds_in(f"retry in {value}")  # "20s", as some gateways write it
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        seconds = (when - (now or datetime.now(UTC))).total_seconds()
    return min(max(0.0, seconds), _LONGEST) if seconds == seconds and seconds < 1e30 else None  # noqa: PLR0124 - NaN


# --- what it comes to -------------------------------------------------------------------------------------------------

_KIND = CallErrorKind
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size|limit)|context_length|maximum context|too many (input )?tokens|exceed_context|"
    r"(prompt|input|request|message)\w* (is|are|was|were) (too|longer)|(prompt|input) token count|"
    r"maximum prompt length|"
    r"(token|prompt|input|length).{0,80}exceeds? (the )?(maximum|model|available|limit)|n_ctx|reduce the (length|size)|"
    r"exceed\w* .{0,30}token limit|less than max_(seq|model|input|prompt)|超长|过长|超(出|过).{0,12}(长度|上下文)|"
    r"range of input length|maxlength: \d+, actual|(prompt|input|request) .{0,40}\b(is|are) (too long|longer than)|"
    r"string_above_max_length|request too large|must be at least 1, got -|tokens\W.{0,40}must be <=|"
    r"inputs?\W{1,3}must have less than",
    re.IGNORECASE,
)
_REPLY_TOO_LONG = re.compile(
    r"max_(completion_)?tokens\W{0,3} (must be|should be|cannot be|is limited)|maximum tokens you requested",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model.{0,80}(not (found|exist)|does ?n.t exist|is (unknown|invalid|not available))|"
    r"(unknown|invalid|no such|non-serverless) model|model_not_\w+|no endpoints found for|deploymentnotfound|"
    r"model identifier is invalid|not a valid model|model.{0,80}not supported by any|llm provider not provided|"
    r"on-demand throughput isn|endpoint.{0,80}is not running|"
    r"deployment.{0,60}(not found|does not exist)",
    re.IGNORECASE,
)
_NO_CHAT = re.compile(r"not a chat model|only supported in v1/(responses|completions)", re.IGNORECASE)
_NO_ROUTE = re.compile(
    r"no (endpoints|providers?) found|no allowed providers|no available (providers?|channel)", re.IGNORECASE
)
_FILTERED = re.compile(
    r"content[_ ]filter|content management policy|content_policy|responsibleai|data_inspection|prohibited_content|"
    r"flagged (by|as|for)|moderation|safety (system|filter|settings)|safety_check|sensitive_content|"
    r"violat\w+ .{0,30}(polic|guideline|terms)|"
    r"inappropriate content|sensitive ?(content|information|word)|"
    r"_sensitive\b|considered high risk|censorship|guardrail|敏感|不安全|违规",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"api[ _-]?key.{0,40}(not valid|invalid|incorrect|missing|expired|required|not found|wrong|revoked|not provided)|"
    r"(invalid|incorrect|missing|wrong|expired|no|bad)[ _](x-)?(api|subscription|auth\w*|access)[ _-]?"
    r"(key|token|\w*cred)|"
    r"invalid_api_key|api_key_invalid|unauthori[sz]ed|unauthenticated|authentication (error|fail|required|param)|"
    r"no cookie auth|login fail|access denied due to invalid",
    re.IGNORECASE,
)
_BARRED = re.compile(r"(country|region|location|territory)\b.{0,30}not supported", re.IGNORECASE)
_SPENT = re.compile(
    r"insufficient[_ ]?(quota|balance|credit|fund)|exceeded your current quota|billing|credit balance|"
    r"balance is (insufficient|not enough|too low)|(service|model) has been paused|"
    r"(no|any|out of|more|purchase\w*|all available|add) credits?\b|payment required|spend\w* limit|arrear|overdue|"
    r"top[ -]?up|monthly.{0,20}(limit|quota|cap\b)|hard limit|usage limit|"
    r"quota (is |was )?(used up|exhausted|depleted)|budget\w* (has been )?exceeded|budget_exceeded|over budget|"
    r"free (tier|quota)\b.{0,40}(exhausted|used)|credit card|payment method|余额|欠费|额度",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(r"(insufficient|not enough)[_ ](balance|credit|fund)", re.IGNORECASE)
_WINDOW = re.compile(
    r"per[ _-]?(second|minute|hour|day)|concurren|"
    r"\b([rt]p[smhd]|qps|rate[_ -]?limit\w*|too many requests|resets?|throttl\w*)\b",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"\brate[_ -]?limit|userratelimit|too many requests|throttl|\bqps\b.{0,20}limit|quota will be replenished|"
    r"限频|限流|速率限制|请求频率|频率(过高|限制)|并发数?(过|超)|请求过(多|于频繁)",
    re.IGNORECASE,
)
_BUSY = re.compile(r"overload|rate.?limit|too many requests|capacity|busy|429|529|503", re.IGNORECASE)
_UNFIT = re.compile(
    r"json_validate_failed|failed to (generate|validate)\b.{0,40}json|generated json|failed_generation|"
    r"failed to parse .{0,30}(output|generat|model|reply).{0,30}json|"
    r"(output|response|reply|generation) (is|was|does|did) not\b.{0,30}(json|schema)",
    re.IGNORECASE,
)
_CALLED_TOOL = re.compile(
    r"tool_use_failed|model called a tool|failed to call a function|tool call validation failed", re.IGNORECASE
)
# A server whose parser fails over the markup that the model wrote.
_UNREAD = re.compile(
    r"tokens remaining in message header|unknown role: \S*(<\||assistant)|while expecting start token|"
    r"no channel value found|failed to parse input at pos",
    re.IGNORECASE,
)
_CRASHED = re.compile(r"model (has )?(crashed|unloaded)|channel error|operation cancell?ed", re.IGNORECASE)
_NO_ROOM = re.compile(r"output limit was reached|try again with (a )?higher max", re.IGNORECASE)
_REQUESTED = re.compile(r"limit:? ~?(\d+).{0,60}requested:? ~?(\d+)", re.IGNORECASE | re.DOTALL)

_ADD_CREDIT = "The account has no quota left: add credit, or use another key."
_AUTH_HINTS = {
    401: "The endpoint does not accept the key. Check the environment variable that holds it.",
    403: "The key may not use this model or endpoint. Check its rights and region (and whether a proxy blocks it).",
    407: "The proxy asks for a login: put it into HTTPS_PROXY.",
}
_OTHER_ROUTE = "Loosen the router's settings (providers, data policy, required parameters), or take another model."
_SHORTER = "Use smaller groups, a smaller playbook budget, or a model with a larger window."


def fault_of(status: int, headers: Mapping[str, str], body: object) -> Fault:
    """Return the fault of a status that is not 200, or of an error told inside a 200 (status 200)."""
    said = read_error(body) or ErrorBody()
    code = next((word for word in said.codes if not word.isdigit()), said.codes[0] if said.codes else "")
    shown = shorten(said.message)
    after = retry_after_seconds(headers)
    told = status == 200
    status = said.status if told and said.status else status
    kind, sentence, hint = _classify(status, said, after)
    prefix = "the endpoint answered 200 with an error" if kind is _KIND.ERROR_IN_BODY else sentence
    return Fault(
        kind,
        f"{prefix}: {shown}" if shown else prefix,
        hint,
        retry_after=said.wait if after is None else after,
        usage=said.usage,
        status=0 if status == 200 else status,
        overloaded=kind in {_KIND.SERVER, _KIND.ERROR_IN_BODY}
        and (status in {503, 529} or _BUSY.search(said.words) is not None),
        code=code,
        fatal=not told and kind is _KIND.BAD_REQUEST and (status in {404, 405} or 300 <= status < 400),
        body=said,
    )


def _classify(status: int, said: ErrorBody, after: float | None) -> tuple[CallErrorKind, str, str | None]:
    """Return the kind, a sentence that says it, and what to do."""
    words = said.words
    head = f"HTTP {status}"
    of_reply = _about_reply(status, words, head)
    if of_reply is not None:
        return of_reply
    if (status in {200, 403, 446, 451} and _FILTERED.search(words)) or status == 446:
        return _FILTER
    if status in {200, 400, 401, 402, 403, 420, 429} or (status >= 500 and _NO_MONEY.search(words)):
        limited = _limited(status, said, after)
        if limited is not None:
            return limited
    if status in {401, 403, 407}:
        return _KIND.AUTH, head, _AUTH_HINTS[status]
    if status in {200, 400} and (_BAD_KEY.search(words) or _BARRED.search(words)):
        return _KIND.AUTH, head, _AUTH_HINTS[403 if _BARRED.search(words) else 401]
    about_reply = status == 400 and _REPLY_TOO_LONG.search(words) and "got -" not in words
    if status == 413 or (status not in {404, 405} and _TOO_LONG.search(words) and not about_reply):
        return _KIND.CONTEXT_TOO_LONG, "the request is longer than the model's context", _SHORTER
    if status == 200 or status >= 500 or status in _PASSING or _CRASHED.search(words):
        kind = _KIND.TIMEOUT if status == 408 else _KIND.ERROR_IN_BODY if status == 200 else _KIND.SERVER
        if status == 200 and _NO_MODEL.search(words):
            return _NO_SUCH_MODEL
        return kind, head, None
    if _FILTERED.search(words):
        return _FILTER
    return _refused(status, words)


# Not the request's fault: a timeout, a conflict, what it stands on failed, too early, no capacity, the caller was gone.
_PASSING = {408, 409, 424, 425, 449, 460, 498, 499}
_FILTER = (_KIND.CONTENT_FILTER, "the endpoint's content filter refused the request", None)
_NO_SUCH_MODEL = (
    _KIND.NO_SUCH_MODEL,
    "the endpoint has no such model",
    "`combee doctor` lists the models that the endpoint offers.",
)


def _limited(status: int, said: ErrorBody, after: float | None) -> tuple[CallErrorKind, str, str | None] | None:
    """Return what a limit comes to (wait where it has a window, add credit where not); None where it is no limit."""
    words = said.words
    asked = _REQUESTED.search(words)
    if status not in {401, 402} and asked is not None and int(asked[2]) > int(asked[1]):  # no wait makes room for it
        hint = (
            "One call asks for more tokens than the endpoint allows in a minute: smaller groups, or max_output_tokens."
        )
        return _KIND.CONTEXT_TOO_LONG, f"the request asks for {asked[2]} tokens where {asked[1]} are allowed", hint
    spent = _SPENT.search(words) is not None
    nothing = "limit: 0" in words and not re.search(r"limit: ?[1-9]", words)  # a plan without this model
    window = after is not None or said.wait is not None or _WINDOW.search(words) is not None
    if nothing or ((spent or status == 402) and not window):
        return _KIND.QUOTA, f"HTTP {status}", _ADD_CREDIT
    if status in {402, 420, 429} or spent or (status != 401 and _RATE.search(words)):
        return _KIND.RATE_LIMIT, f"HTTP {status}, too many requests", None
    return None


def _about_reply(status: int, words: str, head: str) -> tuple[CallErrorKind, str, str | None] | None:
    """Return what an error comes to that blames what the model wrote, which the same request may write better."""
    if _CALLED_TOOL.search(words):  # none was offered
        return _KIND.EMPTY, f"{head}, the model called a tool instead of answering", None
    if _UNREAD.search(words):
        return _KIND.EMPTY, f"{head}, the server could not read what the model wrote", None
    if status == 400 and _NO_ROOM.search(words):
        return _KIND.LENGTH, f"{head}, the reply reached max_tokens before it said anything", "Raise max_tokens."
    if _UNFIT.search(words) and "schema for" not in words:
        return _KIND.SCHEMA, f"{head}, the model's reply was not in the form that was asked for", None
    return None


def _refused(status: int, words: str) -> tuple[CallErrorKind, str, str | None]:
    """Return what a 3xx or 4xx that means the request itself comes to."""
    if "parameter" not in words and _NO_MODEL.search(words):
        return _NO_SUCH_MODEL
    if _NO_CHAT.search(words):
        return _KIND.NO_SUCH_MODEL, "the model is not one to chat with", _NO_SUCH_MODEL[2]
    if _NO_ROUTE.search(words):
        return _KIND.BAD_REQUEST, f"HTTP {status}, the router has nobody who takes this request", _OTHER_ROUTE
    if status in {404, 405} or 300 <= status < 400:
        hint = "Check the base URL: chat/completions is added to it."
        return _KIND.BAD_REQUEST, f"HTTP {status}: there is no chat endpoint at this URL", hint
    return _KIND.BAD_REQUEST, f"HTTP {status}, the endpoint refused the request", None
