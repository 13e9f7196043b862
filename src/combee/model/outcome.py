"""What a call came to, what to do about it (one table of rules, one rule a kind of failure), and what it was charged.

Inside the engine a failure is data (`Fault`), not an exception: nothing with a request or a key in it is ever chained
to an error that a user sees. `CallError` is made from a fault after the last retry.

Endpoints count tokens in many forms; where parts and total differ, the dearer holds. Thinking is output and is billed:
OpenAI counts it inside `completion_tokens`, xAI and Gemini beside it, and some servers show it in the total alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from combee.errors import CallError, CallErrorKind, RunError
from combee.model.types import Request, Usage

Paid = Literal["yes", "no", "unknown"]


class StoppedError(RunError):
    """The run was stopped because no call can succeed: `kind` is what the last failed call came to."""

    def __init__(self, message: str, *, kind: CallErrorKind, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Rule:
    """How a kind of failure is treated.

    `retries`: tries after the first, for this kind within one call. `wait` and `cap`: first and longest back-off, in
    units of the engine's `backoff` (seconds at 1.0); it doubles each time. `paid`: whether the endpoint charged for it
    when the reply does not say. `stop`: whether such a failure stops the run. `slow`: whether the limiter slows down.
    """

    retries: int
    wait: float
    cap: float
    paid: Paid
    stop: Literal["never", "in a row", "at once"]
    slow: bool = False


_KIND = CallErrorKind

RULES: dict[CallErrorKind, Rule] = {
    # The server is busy or broken: patience. A 429 is part of finding the limit, so it is tried longest.
    _KIND.RATE_LIMIT: Rule(40, 0.5, 30, "no", "in a row", slow=True),
    _KIND.SERVER: Rule(6, 0.5, 30, "no", "in a row"),
    _KIND.CONNECTION: Rule(6, 0.5, 20, "unknown", "in a row"),
    _KIND.TIMEOUT: Rule(2, 0.5, 10, "unknown", "in a row", slow=True),
    _KIND.ERROR_IN_BODY: Rule(6, 0.5, 30, "no", "in a row"),
    # The reply was made but is of no use: paid, so tried less often.
    _KIND.TRUNCATED_BODY: Rule(4, 0.2, 5, "unknown", "in a row"),
    _KIND.NOT_JSON: Rule(4, 0.5, 10, "unknown", "in a row"),
    _KIND.EMPTY: Rule(5, 0.2, 2, "yes", "in a row"),
    _KIND.LENGTH: Rule(1, 0.0, 0, "yes", "never"),  # tried again with twice the room
    # The same request would fail the same way.
    _KIND.CONTENT_FILTER: Rule(0, 0.0, 0, "yes", "never"),
    _KIND.CONTEXT_TOO_LONG: Rule(0, 0.0, 0, "no", "never"),
    _KIND.SCHEMA: Rule(0, 0.0, 0, "unknown", "never"),  # re-asked once by `complete_json`
    _KIND.AGENT: Rule(0, 0.0, 0, "unknown", "never"),
    _KIND.BAD_REQUEST: Rule(0, 0.0, 0, "no", "in a row"),
    # Nothing will succeed until the user mends it.
    _KIND.AUTH: Rule(0, 0.0, 0, "no", "at once"),
    _KIND.QUOTA: Rule(0, 0.0, 0, "no", "at once"),
    _KIND.NO_SUCH_MODEL: Rule(0, 0.0, 0, "no", "at once"),
}


_URL = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What an error says, whatever its shape.

    `message`: its sentences, the outer ones first. `codes`: its words and numbers for programs. `fields`: names that
    stand as a parameter or in quotes, of which some may be fields of the request. `wait`: seconds, where it asks to
    come back. `status`: a status that stands in the body (0: none). `usage`: what was charged, where it says so.
    """

    message: str = ""
    codes: tuple[str, ...] = ()
    fields: frozenset[str] = frozenset()
    wait: float | None = None
    status: int = 0
    usage: Usage | None = None

    @property
    def words(self) -> str:
        """Sentences and codes in lower case without links, to look for words in."""
        return _URL.sub(" ", f"{self.message} {' '.join(self.codes)}").lower()

    def names(self, name: str) -> bool:
        """Whether a field of the request is named: as a parameter, in quotes, or as a word in any spelling."""
        if name in self.fields:
            return True
        spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", _URL.sub(" ", self.message)).lower()
        return re.search(rf"(?<![\w-]){name.replace('_', '[_ -]?')}(?![\w-])", spelled) is not None


LONG_WAIT = 60.0
"""Seconds; a longer wait that an endpoint asks for is said."""


def spelled(seconds: float) -> str:
    """Return a time as people say it: 45 s, 12 min, 5 h 3 min, 3 days."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours // 24:,} days"


@dataclass(frozen=True, slots=True)
class Fault:
    """One attempt that gave nothing usable.

    `retry_after` is in seconds, as the endpoint asked; `resets_in` are those until a used-up limit is free again, where
    it says so. `usage` is what the endpoint charged for, where it said so.
    `status` is the HTTP status (0: none). `overloaded` marks a server failure that asks for less load. `code` is the
    endpoint's own word for it. `adapt` says that the same request may work in another form at once (a parameter that
    the endpoint does not take was dropped). `fatal` stops the run whatever the kind's rule says (a wrong URL).
    `unreached` says that there is no connection and that nothing ever answered at that endpoint: after a few tries the
    run stops. `paid` overrides the rule's. `body` is what the endpoint said, where it said something. `instead` is the
    request to send in place of this one (the same in another form): for this call alone.
    """

    kind: CallErrorKind
    message: str
    hint: str | None = None
    retry_after: float | None = None
    usage: Usage | None = None
    status: int = 0
    overloaded: bool = False
    code: str = ""
    adapt: bool = False
    fatal: bool = False
    unreached: bool = False
    paid: Paid | None = None
    body: ErrorBody | None = None
    instead: Request | None = None
    resets_in: float | None = None

    def error(self, tries: int = 1) -> CallError:
        """Return the typed error for the caller; `tries` is how often it was tried."""
        said = self.message if tries == 1 else f"{self.message} (tried {tries} times)"
        if self.retry_after is not None and self.retry_after >= LONG_WAIT:
            said = f"{said}; it asks to come back in {spelled(self.retry_after)}"
        return CallError(said, kind=self.kind, hint=self.hint)


_PROMPT = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_token_count", "prompt_eval_count",
           "inputTokens")  # fmt: skip
_COMPLETION = ("completion_tokens", "output_tokens", "candidatesTokenCount", "candidates_token_count", "eval_count",
               "outputTokens")  # fmt: skip
_TOTAL = ("total_tokens", "totalTokenCount", "total_token_count", "totalTokens")
_INSIDE = ("completion_tokens_details", "output_tokens_details")
_BESIDE = ("thoughtsTokenCount", "thoughts_token_count")
_CACHED = ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens", "cachedContentTokenCount",
           "cacheReadInputTokens")  # fmt: skip
_CACHED_IN = ("prompt_tokens_details", "input_tokens_details")
_COUNTS = ("usageMetadata", "usage_metadata")
_AROUND = ("error", "metadata", "x_groq", "response", "detail", "result", "choices")
_MOST = 1e12


def _count(value: object) -> int:
    """Return a number of tokens; 0 for what is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < _MOST else 0


def _first(raw: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        if name in raw and (count := _count(raw[name])):
            return count
    return 0


def _inside(raw: Mapping[str, Any], places: tuple[str, ...], name: str) -> int:
    most = 0
    for place in places:
        part = raw.get(place)
        if isinstance(part, dict):
            most = max(most, _count(part.get(name)))
    return most


def read_usage(raw: object) -> Usage | None:
    """Return the tokens that the endpoint counted, or None where it did not (all zero counts as not said)."""
    if isinstance(raw, list) and len(raw) == 1:
        raw = raw[0]
    if not isinstance(raw, dict):
        return None
    raw = raw["tokens"] if isinstance(raw.get("tokens"), dict) else raw  # Cohere, beside what it bills
    prompt = _count(raw.get("prompt_tokens")) or _first(raw, _PROMPT)
    completion = _count(raw.get("completion_tokens")) or _first(raw, _COMPLETION)
    total = _count(raw.get("total_tokens")) or _first(raw, _TOTAL)
    cached = _inside(raw, _CACHED_IN, "cached_tokens") or _first(raw, _CACHED)
    if "input_tokens" in raw and "prompt_tokens" not in raw:  # Anthropic counts what a cache read or took beside
        prompt += _count(raw.get("cache_read_input_tokens")) + _count(raw.get("cache_creation_input_tokens"))
    if cached > prompt:  # so it is counted beside
        prompt += cached
    thinking = max(_inside(raw, _INSIDE, "reasoning_tokens"), _inside(raw, _INSIDE, "thinking_tokens"))
    thinking = thinking or _count(raw.get("reasoning_tokens"))
    beside = _first(raw, _BESIDE)
    if not prompt and total > completion + beside and completion:
        prompt = total - completion - beside
    if beside or thinking > completion or not total:
        completion += beside or thinking
    if prompt or not completion:
        completion = max(completion, total - prompt)
    usage = Usage(prompt, completion, cached)
    return usage if usage.prompt or usage.completion else None


def find_usage(data: object, depth: int = 3) -> Usage | None:
    """Return the usage that stands anywhere an endpoint puts it: in a reply, an error, or beside one."""
    if isinstance(data, list):
        return next((usage for usage in (find_usage(part, depth - 1) for part in data[:8]) if usage), None)
    if not isinstance(data, dict) or depth < 0:
        return None
    usual = read_usage(data.get("usage"))
    if usual is not None:
        return usual
    stated = (read_usage(data.get(name)) for name in _COUNTS)
    around = (find_usage(data.get(name), depth - 1) for name in _AROUND)
    return next((usage for found in (stated, around) for usage in found if usage is not None), None)
