"""A model behind any OpenAI-compatible chat endpoint: DeepSeek, OpenAI, vLLM, SGLang, llama.cpp, Ollama, OpenRouter.

When a used-up limit is free again, providers write in a dozen ways: `x-ratelimit-reset-requests: 6m0s`,
`x-ratelimit-reset: 1767225600` (or in milliseconds), `ratelimit-reset: 12`, `ratelimit: "burst";r=0;t=12`,
`anthropic-ratelimit-requests-reset: 2026-...Z`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

from combee.errors import CallErrorKind, UsageError
from combee.model.dialect import (
    Capabilities,
    adapt,
    in_another_form,
    next_form,
    plain,
    to_bytes,
    what_changed,
    write_body,
)
from combee.model.endpoint import Endpoint
from combee.model.engine import Engine
from combee.model.ledger import prompt_characters
from combee.model.outcome import Fault
from combee.model.prices import Price, find_price, price_hint
from combee.model.provider_errors import fault_of
from combee.model.reply import read_reply
from combee.model.types import Request, Response

_LOG = logging.getLogger("combee.model")
_MOST_UNFIT = 8  # replies in a row that the endpoint threw away since they were not in the form
# A prompt counts as cut where it is long, and fewer tokens than this were read: no tokenizer joins so many characters.
_LONG, _MOST_PER_TOKEN, _CUT = 6_000, 6.5, 0.65


class OpenAIModel:
    """One model at one endpoint; use it as an async context manager, or call `aclose`.

    Args:
        base_url: See `Endpoint`; ignored where `endpoint` is given.
        model: The model's name at the endpoint.
        api_key_env: Environment variable that holds the key.
        endpoint: An endpoint to share (other options of the connection are its own).
        engine: Limiter, ledger, budget and retries to share with the run's other models.
        price: Overrides the list price.
        extra: Body parameters to add, like `{"reasoning_effort": "low"}`; they win over ours.
        capabilities: What is known of the model already.

    Raises:
        UsageError: No model name, base URL or key.
        BudgetError: The engine has a budget in money and the price is not known.
    """

    def __init__(
        self,
        base_url: str | None = None,
        model: str = "",
        api_key_env: str | None = "OPENAI_API_KEY",
        *,
        endpoint: Endpoint | None = None,
        engine: Engine | None = None,
        price: Price | None = None,
        extra: Mapping[str, Any] | None = None,
        capabilities: Capabilities | None = None,
        **connection: Any,
    ) -> None:
        if not model:
            raise UsageError("no model is named", hint="Give model, like deepseek-chat or gpt-5-mini.")
        self.endpoint = endpoint or Endpoint(base_url, api_key_env=api_key_env, **connection)
        self.engine = engine or Engine()
        self.price = price
        self._model = model
        self._extra = dict(extra or {})
        self._can = capabilities or Capabilities()
        self._worked = self._cut_said = False
        self._full: Capabilities | None = None  # what was given up on trial, since a refusal named nothing
        self._unfit = 0
        if price is None:
            self.price = find_price(model, self.endpoint.base_url)
        if self.price is None:
            money = self.engine.budget.max_cost is not None
            self.engine.budget.refuse_unknown_price(model, price_hint(model if money else None))

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r}, {self.endpoint!r})"

    @property
    def name(self) -> str:
        """The model's name at the endpoint."""
        return self._model

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The extra body parameters: part of what makes a reply what it is."""
        return self._extra

    @property
    def capabilities(self) -> Capabilities:
        """What is known of the model so far."""
        return self._can

    def sibling(
        self,
        model: str | None = None,
        *,
        endpoint: Endpoint | None = None,
        engine: Engine | None = None,
        price: Price | None = None,
        capabilities: Capabilities | None = None,
    ) -> OpenAIModel:
        """Return another model (or this one) on the same connections; what is not given is this one's."""
        same = model is None or model == self._model
        return OpenAIModel(
            model=model or self._model,
            endpoint=endpoint or self.endpoint,
            engine=engine or self.engine,
            price=price or (self.price if same else None),
            extra=self._extra,
            capabilities=capabilities or (self._can if same else None),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the endpoint's connections."""
        await self.endpoint.aclose()

    async def complete(self, request: Request) -> Response:
        """Return a usable reply; see `Engine.complete` for what it raises."""
        return await self.engine.complete(
            request, self._send, model=self._model, price=self.price, where=self.endpoint.host
        )

    async def _send(self, request: Request) -> Response | Fault:
        """Make one attempt."""
        can = self._can
        body = write_body(request, self._model, can, self._extra)
        reply = await self.endpoint.post(to_bytes(body))
        if isinstance(reply, Fault):
            return reply
        outcome = (
            read_reply(reply.body, self._model)
            if 200 <= reply.status < 300  # 201 and gateways' own, like 246
            else fault_of(reply.status, reply.headers, reply.body)
        )
        if isinstance(outcome, Fault):
            if outcome.kind is CallErrorKind.RATE_LIMIT and outcome.retry_after is None:
                outcome = replace(outcome, resets_in=reset_seconds(reply.headers))
            return self._faulty(request, outcome, can, body)
        self._note_success(request, outcome)
        if outcome.finish == "length" and not request.accept_cut:
            return Fault(
                CallErrorKind.LENGTH,
                f"the reply was cut off at max_tokens={request.max_tokens}",
                hint="Raise max_tokens.",
                usage=outcome.usage,
            )
        return outcome

    def _note_success(self, request: Request, reply: Response) -> None:
        """Remember that the form works, and look whether the endpoint read all that was sent."""
        self._worked = True
        if self._full is not None:
            full, self._full = self._full, None
            self._say(full)
        if request.schema is not None:
            self._unfit = 0
        if self._can.usage is None:
            self._can = replace(self._can, usage=reply.usage is not None)
        if reply.usage is None or self._cut_said:
            return
        characters, read = prompt_characters(request), reply.usage.prompt
        expected = self.engine.ledger.tokens_of(characters)
        if read and characters >= _LONG and characters / read > _MOST_PER_TOKEN and read < _CUT * expected:
            self._cut_said = True
            _LOG.warning(
                "%s counts %s prompt tokens where about %s were sent: the endpoint cuts long prompts without a word. "
                "Give it a larger window (Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx), or make groups smaller.",
                self._model, f"{read:,}", f"{expected:,}",
            )  # fmt: skip

    def _faulty(self, request: Request, fault: Fault, can: Capabilities, sent: Mapping[str, Any]) -> Fault:
        """Give up what the endpoint refuses, and clear the message of keys that it quotes."""
        if fault.status == 401 and not self.endpoint.has_key:
            return self.endpoint.without_key(fault.status)
        fault = replace(fault, message=self.endpoint.scrub(fault.message))
        if fault.kind is CallErrorKind.BAD_REQUEST and fault.status in {404, 405}:
            fault = replace(fault, hint=self.endpoint.what_to_check())
        left = adapt(request, can, fault, sent)
        if left is None and fault.kind is CallErrorKind.BAD_REQUEST and not self._worked:
            return self._try_plain(fault, can)
        if left is not None:
            self._narrow(left)
            return replace(fault, adapt=True, fatal=False)
        instead = in_another_form(request, fault)
        if fault.kind is CallErrorKind.SCHEMA:
            self._unfit += 1
            if self._unfit >= _MOST_UNFIT:  # not a slip: the model cannot keep to this form
                self._unfit = 0
                self._narrow(next_form(can))
        return fault if instead is None else replace(fault, instead=instead)

    def _try_plain(self, fault: Fault, can: Capabilities) -> Fault:
        """Send the plainest request after a refusal that names nothing; refused too, it was not the form."""
        if fault.status not in {400, 422} or can == plain(can):
            if self._full is not None:
                self._can, self._full = self._full, None
            return fault
        if self._full is None:
            self._full = self._can
        self._can = self._can.narrowed(plain(can))
        return replace(fault, adapt=True)

    def _narrow(self, left: Capabilities) -> None:
        old, self._can = self._can, self._can.narrowed(left)
        self._say(old)

    def _say(self, old: Capabilities) -> None:
        said = what_changed(old, self._can)
        if said:
            _LOG.warning("%s at %s does not take %s.", self._model, self.endpoint.base_url, said)


_LONGEST = 600.0  # seconds; for what lies further off single calls ask from time to time
_FIELD = re.compile(r"(?:x-|anthropic-)?rate-?limit-(?:(\w+)-)?(remaining|reset)(?:-after)?(?:-(\w+))?")
_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_UNITS = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_PART = re.compile(r"\b(r|remaining|t|reset)\s*=\s*(\d+(?:\.\d+)?)")


def reset_seconds(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds until all limits of which nothing remains are free again; None where no field says so.

    Args:
        headers: The header fields of a refusal; their names in any case.
        now: The time that dates are counted from.
    """
    remaining: dict[str, float | None] = {}
    resets: dict[str, float | None] = {}
    today = now or datetime.now(UTC)
    for name, value in headers.items():
        found = _FIELD.fullmatch(name.lower())
        if found is not None:
            (remaining if found[2] == "remaining" else resets)[found[1] or found[3] or ""] = _read(value, today)
        elif name.lower() == "ratelimit":
            for key, number in _PART.findall(value.lower()):
                (remaining if key in {"r", "remaining"} else resets)["*"] = float(number)
    spent = [resets.get(limit) for limit, left in remaining.items() if left is not None and left <= 0]
    known = [seconds for seconds in spent if seconds is not None and seconds <= _LONGEST]
    return max(known, default=None)


def _read(value: str, today: datetime) -> float | None:
    """Return a number, or the seconds of a span or until a time."""
    text = value.strip()
    try:
        number = float(text)
    except ValueError:
        span = _SPAN.fullmatch(text) if text else None
        if span is not None:
            return sum(float(part) * unit for part, unit in zip(span.groups(), _UNITS, strict=True) if part)
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            return None
        return max(0.0, ((when if when.tzinfo else when.replace(tzinfo=UTC)) - today).total_seconds())
    if number > 1e9:  # seconds or milliseconds since 1970
        return max(0.0, (number / 1000 if number > 1e11 else number) - today.timestamp())
    return number
