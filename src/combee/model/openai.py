"""A model behind any OpenAI-compatible chat endpoint: DeepSeek, OpenAI, vLLM, SGLang, llama.cpp, Ollama, OpenRouter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from combee.errors import CallErrorKind, UsageError
from combee.model.dialect import Capabilities, adapt, to_bytes, write_body
from combee.model.endpoint import Endpoint
from combee.model.engine import Engine
from combee.model.outcome import Fault
from combee.model.prices import Price, find_price, price_hint
from combee.model.reply import read_reply, read_status
from combee.model.types import Request, Response

__all__ = ["OpenAIModel"]


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
        engine: Engine | None = None,
        price: Price | None = None,
        capabilities: Capabilities | None = None,
    ) -> OpenAIModel:
        """Return another model (or this one) on the same connections; `engine` defaults to the shared one."""
        same = model is None or model == self._model
        return OpenAIModel(
            model=model or self._model,
            endpoint=self.endpoint,
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
        return await self.engine.complete(request, self._send, model=self._model, price=self.price)

    async def _send(self, request: Request) -> Response | Fault:
        """Make one attempt."""
        can = self._can
        reply = await self.endpoint.post(to_bytes(write_body(request, self._model, can, self._extra)))
        if isinstance(reply, Fault):
            return reply
        outcome = (
            read_reply(reply.body, self._model)
            if reply.status == 200
            else read_status(reply.status, reply.headers, reply.body)
        )
        if isinstance(outcome, Fault):
            return self._faulty(request, outcome, can)
        if outcome.finish == "length" and not request.accept_cut:
            return Fault(
                CallErrorKind.LENGTH,
                f"the reply was cut off at max_tokens={request.max_tokens}",
                hint="Raise max_tokens.",
                usage=outcome.usage,
            )
        if can.usage is None:
            self._can = replace(self._can, usage=outcome.usage is not None)
        return outcome

    def _faulty(self, request: Request, fault: Fault, can: Capabilities) -> Fault:
        """Give up what the endpoint refuses, and clear the message of keys that it quotes."""
        if fault.status == 401 and not self.endpoint.has_key:
            return self.endpoint.without_key(fault.status)
        fault = replace(fault, message=self.endpoint.scrub(fault.message))
        if fault.kind is CallErrorKind.BAD_REQUEST and not fault.fatal:
            left = adapt(request, can, fault)
            if left is not None:
                if self._can == can or replace(self._can, usage=can.usage) == can:  # nobody else was quicker
                    self._can = replace(left, usage=self._can.usage)
                return replace(fault, adapt=True)
        return fault
