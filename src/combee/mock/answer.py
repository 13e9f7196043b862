"""What a mock endpoint answers to one request: checks, limits, a fault or a reply, and what it charges and counts."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, cast

from combee.kernel.playbook.counting import narrow_length
from combee.mock.config import FAULTS, MockConfig
from combee.mock.providers import PLAIN, THINKING, THOUGHT, Provider, Rejection
from combee.mock.script import Scripted, last_message, sample, whole_prompt


@dataclass(slots=True)
class MockStats:
    """Counts since the start.

    `requests`: chat completions that came in. `by_outcome`: how each was answered ("ok" or the fault's name). `paid`:
    calls that the endpoint charges for, of which `undelivered` broke off before the client saw what they cost; tokens
    are those of paid calls, `delivered_*` those that a client could read.
    """

    requests: int = 0
    paid: int = 0
    undelivered: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    delivered_prompt: int = 0
    delivered_completion: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    by_outcome: dict[str, int] = field(default_factory=dict)

    def count(self, outcome: str) -> None:
        """Count one answered request."""
        self.by_outcome[outcome] = self.by_outcome.get(outcome, 0) + 1

    def charge(self, prompt: int, completion: int, cached: int, *, delivered: bool) -> None:
        """Charge one call."""
        self.paid += 1
        self.prompt += prompt
        self.completion += completion
        self.cached += cached
        if delivered:
            self.delivered_prompt += prompt
            self.delivered_completion += completion
        else:
            self.undelivered += 1

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain JSON data."""
        return asdict(self)


_ITEM = re.compile(r"^\s*(?:\[|-|\d+[.)])", re.MULTILINE)
_PAGE = b"<!DOCTYPE html><html><body><h1>Bad gateway</h1></body></html>"
_PROSE = "Of course. Here is what I think about that, in my own words."


@dataclass(slots=True)
class Answer:
    """One HTTP answer: sent after `delay` seconds; `cut` breaks it off after so many bytes, `breaks` before any."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delay: float = 0.0
    cut: int | None = None
    breaks: bool = False
    done: Callable[[], None] = lambda: None

    @classmethod
    def json(cls, data: object, status: int = 200) -> Answer:
        """Return an answer with a JSON body."""
        return cls(status, json.dumps(data).encode())

    @classmethod
    def error(
        cls, said: Rejection, provider: Provider | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return an error in a provider's shape (None: OpenAI's)."""
        return cls(said.status, json.dumps((provider or PLAIN).error(said)).encode(), headers or {})


class Answerer:
    """Answers chat completions as a `MockConfig` says."""

    def __init__(self, config: MockConfig, reply: Scripted | None, stats: MockStats) -> None:
        self.config = config
        self._reply = reply
        self._stats = stats
        self._random = random.Random(config.seed)
        self._level = config.burst
        self._level_at: float | None = None
        self._number = 0

    def change(self, config: MockConfig) -> None:
        """Behave differently from now on; a full bucket stays no fuller than the new one."""
        self.config = config
        self._level = min(self._level, config.burst)

    def models(self, headers: Mapping[str, str]) -> Answer:
        """Answer GET /v1/models."""
        refused = self._check_key(headers)
        if refused is not None:
            return self._error(refused)
        names = self.config.models or ("mock",)
        return Answer.json({"object": "list", "data": [{"id": name, "object": "model"} for name in names]})

    def chat(self, headers: Mapping[str, str], raw: bytes) -> Answer:
        """Answer one chat completion."""
        self._stats.requests += 1
        try:
            body = json.loads(raw)
            refused = self._check(headers, body)
        except (ValueError, TypeError, AttributeError):
            said = Rejection(400, "the body is not a chat completion in JSON")
            refused = ("bad_request", self._error(said))
        if refused is not None:
            self._stats.count(refused[0])
            return refused[1]
        stats = self._stats
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        fault = self._pick_fault()
        stats.count(fault or "ok")
        prompt = whole_prompt(body)
        tokens = self._read(narrow_length(prompt) // 4 + 1)
        answer = self._fault(fault, body, tokens) if fault else self._say(body, tokens, self._text(body), "stop")
        if fault not in {"rate_limit", "reset", "timeout"}:
            law = self.config.latency
            answer.delay = law.seconds(len(_ITEM.findall(prompt)) if law.per == "items" else tokens, self._random)
        answer.done = self._finished
        return answer

    def _finished(self) -> None:
        self._stats.in_flight -= 1

    # --- refusals ---------------------------------------------------------------------------------------------

    def _error(self, said: Rejection, headers: Mapping[str, str] | None = None) -> Answer:
        return Answer.error(said, self.config.provider, headers)

    def _check_key(self, headers: Mapping[str, str]) -> Rejection | None:
        provider = self.config.provider
        sent = headers.get(provider.key_header, "").removeprefix("Bearer ")
        if self.config.key is None:  # any key is accepted, but only in the provider's own header
            elsewhere = provider.key_header != "authorization" and "authorization" in headers
            return provider.bad_key if elsewhere and not sent else None
        if self.config.like is None:
            sent = sent or headers.get("api-key", "")
            said = f"Incorrect API key provided: {sent}." if sent else "You did not send an API key."
            return None if sent == self.config.key else Rejection(401, said, "invalid_api_key")
        return None if sent == self.config.key else provider.bad_key

    def _check(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[str, Answer] | None:
        config = self.config
        refused = self._check_key(headers)
        if refused is not None:
            return "auth", self._error(refused)
        name = str(body.get("model"))
        if config.models and name not in config.models:
            said = config.provider.no_model
            return "no_such_model", self._error(replace(said, message=said.message.format(name=name)))
        kind = (body.get("response_format") or {}).get("type")
        if (kind == "json_schema" and config.schema == "refuse") or (
            kind == "json_object" and config.json_mode == "refuse"
        ):
            return "bad_request", self._error(Rejection(400, f"response_format of type {kind} is not supported"))
        refusal = self._check_fields(body) or self._check_length(body)
        if refusal is not None:
            return refusal
        wait = self._limit()
        return None if wait is None else ("limited", self._too_many(wait))

    def _check_fields(self, body: Mapping[str, Any]) -> tuple[str, Answer] | None:
        """Refuse fields that the provider does not accept, one at a time as providers do."""
        provider = self.config.provider
        roles = {message.get("role") for message in body.get("messages") or ()}
        kind = (body.get("response_format") or {}).get("type")
        for name, said in provider.refuses.items():
            sent = {
                "system": "system" in roles,
                "json_schema": kind == "json_schema",
                "temperature": body.get("temperature") not in {None, 1},
            }.get(name, name in body)
            if sent:
                message = said.format(value=body.get(name)) if "{value}" in said else said
                param = None if name in {"system", "json_schema"} else name
                return "bad_request", self._error(Rejection(provider.status, message, "unsupported_parameter", param))
        return None

    def _check_length(self, body: Mapping[str, Any]) -> tuple[str, Answer] | None:
        provider = self.config.provider
        window = self.config.context
        if window is None or provider.cuts:
            return None
        read = narrow_length(whole_prompt(body)) // 4 + 1
        room = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        both = read + room if self.config.like is not None and "{room}" in provider.too_long.message else read
        if max(read, both) <= window:
            return None
        said = provider.too_long
        numbers = {"window": window, "read": read, "room": room, "all": read + room}
        return "context_too_long", self._error(replace(said, message=said.message.format(**numbers)))

    def _read(self, tokens: int) -> int:
        """Return the tokens of a prompt that are read: a provider may cut what is longer than its window."""
        provider = self.config.provider
        window = self.config.context or provider.window
        return tokens if window is None or not provider.cuts or tokens <= window else window // 2 + 2

    def _limit(self) -> float | None:
        """Take one call from the bucket; returns the seconds to wait where it is empty."""
        config = self.config
        if config.max_in_flight is not None and self._stats.in_flight >= config.max_in_flight:
            return 0.1
        if config.rate is None:
            return None
        now = asyncio.get_running_loop().time()
        if self._level_at is not None:
            self._level = min(config.burst, self._level + (now - self._level_at) * config.rate)
        self._level_at = now
        if self._level < 1:
            return (1 - self._level) / config.rate
        self._level -= 1
        return None

    def _too_many(self, wait: float) -> Answer:
        when = datetime.fromtimestamp(math.ceil(time.time() + wait), UTC)
        headers = {
            "seconds": {"Retry-After": str(math.ceil(wait))},
            "date": {"Retry-After": format_datetime(when, usegmt=True)},
            "milliseconds": {"retry-after-ms": f"{math.ceil(1000 * wait)}"},
            "none": {},
        }[self.config.retry_after]
        return self._error(Rejection(429, "Rate limit reached, slow down", "rate_limit_exceeded", wait=wait), headers)

    # --- replies ----------------------------------------------------------------------------------------------

    def _text(self, body: Mapping[str, Any]) -> str:
        form = body.get("response_format") or {}
        mode = {"json_schema": self.config.schema, "json_object": self.config.json_mode}.get(str(form.get("type")))
        if mode == "ignore":
            return _PROSE
        if self._reply is not None:
            return self._reply(body)
        if mode == "obey" and form["type"] == "json_schema":
            return json.dumps(sample(form["json_schema"]["schema"]))
        return '{"ok": true}' if mode == "obey" else f"ok: {last_message(body)[:40]}"

    def _say(
        self, body: Mapping[str, Any], tokens: int, text: str | None, finish: str, *, delivered: bool = True
    ) -> Answer:
        """Return a reply that is charged."""
        config, provider = self.config, self.config.provider
        limit = body.get("max_tokens") or body.get("max_completion_tokens")
        completion = narrow_length(text) // 4 + 1 if text else 0
        if text and isinstance(limit, int) and completion > limit:
            text, completion, finish = text[: 4 * limit], limit, "length"
        thinking = 0 if provider.thoughts == "none" else THINKING
        cached = int(tokens * config.cached)
        self._stats.charge(tokens, completion + thinking, cached, delivered=delivered)
        self._number += 1
        reply: dict[str, Any] = {
            "id": f"mock-{self._number}",
            "object": "chat.completion",
            "model": body.get("model"),
            "choices": [{"index": 0, "message": self._message(text), "finish_reason": finish}],
        }
        if config.usage:
            reply["usage"] = _usage(provider, tokens, completion, thinking, cached)
        often = next((word for each, word in provider.every.items() if self._number % each == 0), None)
        return self._spoilt(often, body, reply) if often and finish == "stop" else Answer.json(reply)

    def _message(self, text: str | None) -> dict[str, Any]:
        """Return a message with the thoughts where the provider has them."""
        said: Any = text
        thoughts = {"field": "reasoning_content", "tag": "tag"}.get(self.config.thinking, self.config.provider.thoughts)
        if thoughts == "tag" and text:
            said = f"<think>\n{THOUGHT}\n</think>\n{text}"
        elif thoughts == "channel" and text:
            start = f"<|channel|>analysis<|message|>{THOUGHT}<|end|>"
            said = f"{start}<|start|>assistant<|channel|>final<|message|>{text}"
        elif thoughts == "parts":
            parts = [{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}]
            said = [*parts, {"type": "text", "text": text or ""}]
        message = {"role": "assistant", "content": said}
        return {**message, thoughts: THOUGHT} if thoughts in {"reasoning_content", "reasoning"} else message

    def _spoilt(self, how: str, body: Mapping[str, Any], reply: dict[str, Any]) -> Answer:
        """Return a reply as the provider now and then spoils one: it was charged all the same."""
        if how == "unfit" and not body.get("response_format"):
            return Answer.json(reply)
        self._stats.count(how)
        choice = reply["choices"][0]
        whole = choice["message"]["content"]
        if how == "unfit":
            error = {"message": "Failed to generate JSON. See 'failed_generation'.", "type": "invalid_request_error"}
            made = {"code": "json_validate_failed", "failed_generation": str(whole)[:-1]}
            return Answer.json({"error": {**error, **made}, "usage": reply["usage"]}, 400)
        if how == "upstream":
            lost = Rejection(502, "upstream connection lost", "server_error")
            return Answer.json({**cast("dict[str, Any]", self.config.provider.error(lost)), "usage": reply["usage"]})
        if isinstance(whole, str):
            choice["message"]["content"] = whole[: len(whole) // 2]
        choice["finish_reason"] = how
        if how == "error":
            choice["error"] = {"code": 502, "message": "Provider disconnected"}
        return Answer.json(reply)

    def _pick_fault(self) -> str | None:
        faults = self.config.faults
        if not faults:
            return None
        drawn = self._random.random()
        for name, share in faults.items():
            drawn -= share
            if drawn < 0:
                return name
        return None

    def _fault(self, name: str, body: Mapping[str, Any], tokens: int) -> Answer:
        """Return the answer of one fault; those that `FAULTS` marks are charged."""
        if name in {"truncated", "bad_json", "timeout"}:
            answer = self._say(body, tokens, self._text(body), "stop", delivered=False)
            if name == "timeout":
                answer.delay, answer.breaks = self.config.hang, True
            elif name == "truncated":
                answer.cut = max(1, len(answer.body) // 2)
            else:
                answer.body = answer.body[: len(answer.body) // 2]
            return answer
        if FAULTS[name]:
            text = {"empty": "", "null": None, "length": self._text(body)[:8], "content_filter": ""}[name]
            return self._say(body, tokens, text, name if name in {"length", "content_filter"} else "stop")
        if name == "error_text":
            said = "API Error: 529 overloaded"
            choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
            return Answer.json({"choices": [choice], "usage": {"prompt_tokens": 0, "completion_tokens": 0}})
        simple = {
            "rate_limit": lambda: self._too_many(0.0),
            "server": lambda: self._error(Rejection(500, "Internal error")),
            "overloaded": lambda: self._error(Rejection(529, "Overloaded", "overloaded_error")),
            "html": lambda: Answer(200, _PAGE, content_type="text/html"),
            "html_502": lambda: Answer(502, _PAGE, content_type="text/html"),
            "reset": lambda: Answer(200, breaks=True),
            "error_in_body": lambda: Answer.json({"error": {"message": "upstream failed", "code": "server_error"}}),
        }
        return simple[name]()


def _usage(provider: Provider, prompt: int, completion: int, thinking: int, cached: int) -> dict[str, Any]:
    """Return the tokens of a reply as the provider counts them."""
    whole = completion + thinking
    counted: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": whole, "total_tokens": prompt + whole}
    if provider.counting in {"beside", "total"}:
        counted["completion_tokens"] = completion
    if provider.counting in {"inside", "beside"}:
        counted["prompt_tokens_details"] = {"cached_tokens": cached}
        if thinking:
            counted["completion_tokens_details"] = {"reasoning_tokens": thinking}
    return counted
