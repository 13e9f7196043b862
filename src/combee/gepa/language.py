"""Any language model as a Combee model: a plain function from prompt to text, an async one, or a name for gepa's own.

Functions that block run in threads, a bounded number at once. Every call is booked with its time and tokens.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, cast

from combee.errors import CallError, CallErrorKind, CombeeError, UsageError
from combee.kernel.playbook import narrow_length
from combee.model import (
    CallRow,
    ChatModel,
    Fault,
    Ledger,
    Price,
    Request,
    Response,
    StoppedError,
    Timing,
    Usage,
)
from combee.model.asking import request_hash
from combee.model.ledger import prompt_characters
from combee.model.prices import price_at_provider
from combee.model.provider_errors import fault_of
from combee.model.reply import read_reply

__all__ = ["Booked", "FunctionModel", "LanguageModel", "as_model"]

LanguageModel = ChatModel | Callable[[str], str] | Callable[[str], Awaitable[str]] | str

_STOP_AFTER = 20  # failed calls in a row
_FIRST = 64  # calls in flight until the first answer: a dead endpoint is not asked hundreds of times
_AFTER_STOP = 4  # both limits after a stop
# Failures that say something of this one call, not of the endpoint.
_OF_THE_CALL = frozenset(
    {CallErrorKind.SCHEMA, CallErrorKind.LENGTH, CallErrorKind.CONTENT_FILTER, CallErrorKind.CONTEXT_TOO_LONG}
)


class FunctionModel:
    """A function from a prompt to a text as a model. What it raises becomes a `CallError` of that call alone."""

    def __init__(
        self, function: Callable[[str], Any], *, name: str = "", concurrency: int = 64, price: Price | None = None
    ) -> None:
        self.function = function
        self._name = name or str(getattr(function, "model", "") or getattr(function, "__name__", "function"))
        self._concurrency = concurrency
        self._price = price
        self._pool: ThreadPoolExecutor | None = None
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - asks whether its call is async, not whether it has one
        )

    @property
    def name(self) -> str:
        """The name of the function's model where it has one, else the function's own."""
        return self._name

    @property
    def price(self) -> Price | None:
        """The price of its tokens, where one is known."""
        return self._price

    @property
    def knows_cost(self) -> bool:
        """Whether what was spent can be known: from a price, or because the function counts it itself.

        gepa's `LM` counts too, but a model that litellm has no price of adds nothing.
        """
        if self._price is not None or not hasattr(self.function, "total_cost"):
            return self._price is not None
        return not type(self.function).__module__.startswith("gepa.") or _litellm_knows(self._name)

    async def complete(self, request: Request) -> Response:
        """Return a usable reply.

        Raises:
            CallError: The function raised, or gave nothing usable.
        """
        prompt = "\n\n".join(message.content for message in request.messages)
        began = time.monotonic()
        started = began

        def call() -> Any:
            nonlocal started
            started = time.monotonic()
            return self.function(prompt)

        try:
            if self._is_async:
                reply = await self.function(prompt)
            else:
                reply = await asyncio.get_running_loop().run_in_executor(self._threads(), call)
                reply = await reply if inspect.isawaitable(reply) else reply
        except CombeeError:
            raise
        except Exception as error:  # a foreign function may raise anything; it costs its call alone
            message = f"the language model raised {type(error).__name__}: {error}"
            raise CallError(message, kind=_kind_of(error)) from error
        ended = time.monotonic()
        return self._read(reply, request, Timing(started - began, ended - started))

    def _read(self, reply: Any, request: Request, timing: Timing) -> Response:
        if not isinstance(reply, str):
            kind = CallErrorKind.EMPTY if reply is None else CallErrorKind.AGENT
            raise CallError(f"the language model returned {type(reply).__name__} instead of text", kind=kind)
        # Read as an endpoint's reply is read: thoughts are cut off, error texts and empty replies are found.
        body = {"choices": [{"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}]}
        usable = read_reply(json.dumps(body).encode(), self.name)
        if isinstance(usable, Fault):
            raise usable.error()
        usage = Usage(prompt_characters(request) // 4 + 1, narrow_length(reply) // 4 + 1, estimated=True)
        cost = self._price.cost(usage) if self._price is not None else None
        return Response(usable.text, usage, "stop", timing, self.name, cost)

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix="combee-lm")
        return self._pool

    def close(self) -> None:
        """End the threads; a later call starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def _litellm_knows(name: str) -> bool:
    try:
        prices = import_module("litellm").model_cost
    except ImportError:
        return False
    return name in prices or name.partition("/")[2] in prices


def _kind_of(error: Exception) -> CallErrorKind:
    """Return the kind of a foreign error where it is about this one call, else `AGENT`."""
    kind = fault_of(400, {}, {"error": {"message": str(error)}}).kind
    return kind if kind in _OF_THE_CALL else CallErrorKind.AGENT


def as_model(
    given: object, *, concurrency: int, price: Price | None = None, settings: Mapping[str, Any] | None = None
) -> ChatModel:
    """Return a model for what a user gives: a Combee model as it is, a function, or a name that gepa's `LM` knows.

    Raises:
        UsageError: It is none of these.
    """
    if isinstance(given, str):
        from gepa.lm import LM

        price = price or price_at_provider(given)
        return FunctionModel(LM(given, **dict(settings or {})), name=given, concurrency=concurrency, price=price)
    if isinstance(given, ChatModel):
        return given
    if callable(given):
        return FunctionModel(given, concurrency=concurrency, price=price)
    raise UsageError(
        f"{type(given).__name__} is no language model",
        hint="Give a Combee model, a function from prompt to text, or a name like openai/gpt-5-mini.",
    )


class Booked:
    """A model whose calls are booked, and which stops asking after 20 failed calls in a row (4 after a stop).

    Where the model books its calls itself (an engine's ledger), that book is used and nothing is booked twice. With
    `remember` replies are kept until `forget`, so that a reflection that ended early and is tried again pays no call
    twice; where there is a journal, that does it.
    """

    def __init__(self, model: ChatModel, ledger: Ledger | None = None, *, remember: bool = False) -> None:
        engine = getattr(model, "engine", None)
        kept = ledger or cast("Ledger | None", getattr(engine, "ledger", None))
        self.model = model
        self.ledger = kept or Ledger()
        self._books = kept is None
        self._failed = 0
        self._why = ""
        self._answered = False
        self._most, self._stop_at = _FIRST, _STOP_AFTER
        self._under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._memory: dict[tuple[str, str, str], Response] | None = {} if remember else None

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self.model.name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The inner model's further parameters: part of what makes a reply what it is."""
        parameters: Mapping[str, Any] = getattr(self.model, "parameters", {})
        return parameters

    def try_again(self) -> None:
        """Take calls again after a stop, a few at first: a new reflection begins."""
        if self._failed >= self._stop_at:
            self._answered, self._most, self._stop_at = False, _AFTER_STOP, _AFTER_STOP
        self._failed = 0

    def forget(self) -> None:
        """Drop the replies that are kept: the reflection they belong to is done."""
        if self._memory is not None:
            self._memory = {}

    async def complete(self, request: Request) -> Response:
        """Return the inner model's reply.

        Raises:
            StoppedError: Too many calls in a row failed.
        """
        memory = self._memory
        key = ("", "", "") if memory is None else (request.role, request.item, request_hash(request, self.model))
        if memory is not None and key in memory:
            return memory[key]
        await self._turn()
        began = time.monotonic()
        self._under_way += 1
        try:
            response = await self.model.complete(request)
        except CallError as error:
            about_call = error.kind in _OF_THE_CALL
            self._failed += not about_call
            self._answered |= about_call
            self._why = error.message
            self._book(request, None, str(error.kind), Timing(0.0, time.monotonic() - began))
            raise
        else:
            self._answered = True
            self._failed, self._stop_at = 0, _STOP_AFTER
        finally:
            self._under_way -= 1
            while self._waiting and (self._answered or self._under_way < self._most or self._failed >= self._stop_at):
                waiting = self._waiting.popleft()
                if not waiting.done():
                    waiting.set_result(None)
                    if not self._answered and self._failed < self._stop_at:
                        break
        timing = response.timing if response.timing.wire else Timing(0.0, time.monotonic() - began)
        self._book(request, response, "ok", timing)
        if memory is not None:
            memory[key] = response
        return response

    async def _turn(self) -> None:
        """Wait until an endpoint that never answered has few calls under way. Raises `StoppedError` after a stop."""
        while not self._answered and self._failed < self._stop_at and self._under_way >= self._most:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        if self._failed >= self._stop_at:
            raise StoppedError(
                f"stopped: {self._failed} calls of the reflection model in a row failed, the last one: {self._why}",
                kind=CallErrorKind.AGENT,
                hint="Try one call by hand and see what the model answers; nothing paid for is lost.",
            )

    def _book(self, request: Request, response: Response | None, outcome: str, timing: Timing) -> None:
        if self._books:
            row = CallRow(
                model=self.name,
                role=request.role,
                item=request.item,
                attempt=request.attempt,
                tries=0,
                outcome=outcome,
                paid="unknown" if response is None else "yes",
                usage=None if response is None else response.usage,
                cost=0.0 if response is None else response.cost,
                queued=timing.queued,
                wire=timing.wire,
                at=time.time(),
            )
            self.ledger.record(row)
