"""Any async function as a model: a client of the user's own under our limits, retries and ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from combee.errors import CallError, CallErrorKind
from combee.model.answer_text import is_error_text, strip_thinking
from combee.model.engine import Engine
from combee.model.outcome import Fault
from combee.model.prices import Price
from combee.model.types import Request, Response


class CallableModel:
    """Any async function from a request to text as a model, under the engine's limits, retries and ledger.

    For providers whose API is another: `CallableModel(ask, name="claude-opus")`. The function raises `CallError` with
    the kind that fits; what else it raises passes through.

    Args:
        function: Returns the text, or a `Response` with usage.
        name: The model's name in ledger and reports.
        engine: Limiter, ledger, budget, retries.
        price: US dollars per million tokens.
    """

    def __init__(
        self,
        function: Callable[[Request], Awaitable[str | Response]],
        *,
        name: str,
        engine: Engine | None = None,
        price: Price | None = None,
    ) -> None:
        self._function = function
        self._name = name
        self._price = price
        self.engine = engine or Engine()
        if price is None:
            self.engine.budget.refuse_unknown_price(name, "Give price=Price(prompt, completion).")

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    async def complete(self, request: Request) -> Response:
        """Return a usable reply; see `Engine.complete` for what it raises."""
        return await self.engine.complete(request, self._send, model=self._name, price=self._price)

    async def _send(self, request: Request) -> Response | Fault:
        try:
            said = await self._function(request)
        except CallError as error:
            return Fault(error.kind, error.message, error.hint)
        response = said if isinstance(said, Response) else Response(said, model=self._name)
        text = strip_thinking(response.text)
        if is_error_text(text):
            return Fault(CallErrorKind.ERROR_IN_BODY, f"the reply is an error message: {text}", usage=response.usage)
        if not text.strip():
            return Fault(CallErrorKind.EMPTY, "the reply has no content", usage=response.usage)
        return replace(response, text=text)
