"""The loop around one call: slot, budget, try, ledger, retry by the rule of what happened, breaker.

It knows no HTTP: a `send` function makes one attempt and returns a `Response` or a `Fault`. So the HTTP client, the
local model and a user's own function (`CallableModel`) are retried, counted and limited in the same way. Only this file
retries.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from combee.errors import BudgetError, CallError, CallErrorKind
from combee.kernel.journal import current_purchase
from combee.kernel.playbook.counting import narrow_length
from combee.model.answer_text import is_error_text, strip_thinking
from combee.model.budget import Budget, Reservation
from combee.model.ledger import CallRow, Ledger, prompt_characters
from combee.model.limiter import Limiter, Ticket
from combee.model.outcome import LONG_WAIT, RULES, Fault, Paid, StoppedError, spelled
from combee.model.prices import Price
from combee.model.types import Request, Response, Timing, Usage

_LOG = logging.getLogger("combee.model")
_PATIENCE = 900.0  # seconds in which every call was refused, without a word of how long, that stop the run
_OUTAGE = 120.0  # seconds in which an endpoint that has answered before is waited for, where every call fails
_FIRST = 30.0  # seconds, where it has not
_DOWN = frozenset({0, 502, 503, 521, 522, 523, 530})  # statuses of nobody there; a prompt may be the cause of others
_UNREACHED_RETRIES = 2  # of a call to an endpoint where nothing ever answered: it may just be starting

LATER = "Run again later: what was paid for is kept."
_LOOK = "See what the endpoint says with `combee doctor`, then run again: nothing paid is lost."
Send = Callable[[Request], Awaitable[Response | Fault]]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How patient a run is.

    `backoff`: seconds that one unit of the rules' waits is. `max_tries`: tries of one call, whatever goes wrong.
    `spare` and `per_call`: the run's retry budget, `spare` retries plus `per_call` for each finished call (429s are
    free: they are how the limit is found). `stop_after`: failed calls in a row that stop the run. `longest_wait`: an
    endpoint that asks for more seconds than this, or refuses every call for as long, stops the run.
    """

    backoff: float = 1.0
    max_tries: int = 60
    spare: int = 200
    per_call: float = 1.0
    stop_after: int = 20
    longest_wait: float = 86_400.0


class Engine:
    """What models of one run share: limiter, ledger, budget, retries, breaker."""

    def __init__(
        self,
        *,
        limiter: Limiter | None = None,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        retry: RetryPolicy | None = None,
        seed: int = 0,
    ) -> None:
        self.limiter = limiter or Limiter()
        self.ledger = ledger or Ledger()
        self.budget = budget or Budget()
        self.retry = retry or RetryPolicy()
        self._random = random.Random(seed)
        self._retries = 0
        self._finished = 0
        self._failed_in_a_row = 0
        self._stopped: StoppedError | None = None
        self._too_late = ""
        self._waits_until = 0.0
        self._sleepers: set[asyncio.Future[None]] = set()

    @property
    def stopped(self) -> StoppedError | None:
        """Why no further call is sent, or None."""
        return self._stopped

    async def complete(
        self, request: Request, send: Send, *, model: str, price: Price | None, where: str = "the endpoint"
    ) -> Response:
        """Return a usable reply to `request`; `where` is how messages call the endpoint.

        Raises:
            CallError: This call failed, after its retries.
            StoppedError: The run is stopped: nothing will succeed.
            BudgetError: A limit is used up.
        """
        queued = 0.0
        tries = 0
        by_kind: dict[CallErrorKind, int] = {}
        purchase = current_purchase()
        if purchase is not None:
            purchase.wait()
        while True:
            self._check_stopped()
            outcome, row = await self._attempt(request, send, model, price, tries)
            if isinstance(outcome, Fault):
                outcome = self._waited(outcome, where)
            queued += row.queued
            tries += 1
            if isinstance(outcome, Response):
                self._finished += 1
                self._failed_in_a_row = 0
                timing = Timing(queued, row.wire, tries - 1)
                return Response(outcome.text, row.usage, outcome.finish, timing, outcome.model, row.cost)
            self._check_stopped()
            wait = self._next_wait(outcome, by_kind, tries)
            if wait is None:
                break
            if outcome.instead is not None:
                request = outcome.instead
            elif outcome.kind is CallErrorKind.LENGTH:
                request = replace(request, max_tokens=2 * request.max_tokens)
            if wait:
                began = time.monotonic()
                await self._sleep(wait)
                queued += time.monotonic() - began
        self._failed(outcome)
        raise outcome.error(tries)

    def _check_stopped(self) -> None:
        """Raise where the run is stopped: a fresh error each time, since many tasks raise it."""
        if self._too_late:
            raise BudgetError(self._too_late, hint="Go on after that time: what was paid for is kept.")
        if self._stopped is not None:
            raise StoppedError(self._stopped.message, kind=self._stopped.kind, hint=self._stopped.hint)

    async def _sleep(self, seconds: float) -> None:
        """Wait, but not beyond the limit in minutes, and not where the run is stopped meanwhile."""
        left = self.budget.seconds_left()
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds if left is None else min(seconds, left), _wake, woken)
        self._sleepers.add(woken)
        try:
            await woken
        finally:
            timer.cancel()
            self._sleepers.discard(woken)

    async def _slot(self, tokens: int, *, again: bool) -> Ticket:
        """Wait for a slot, no longer than the run may last."""
        left = self.budget.seconds_left()
        if left is None:
            return await self.limiter.acquire(tokens, again=again, check=self._check_stopped)
        try:
            async with asyncio.timeout(left):
                return await self.limiter.acquire(tokens, again=again, check=self._check_stopped)
        except TimeoutError:
            raise BudgetError(
                "the limit in minutes is reached: a call still waited for its turn",
                hint="Raise the limit and run again: what was paid for is kept.",
            ) from None

    async def _attempt(
        self, request: Request, send: Send, model: str, price: Price | None, tries: int
    ) -> tuple[Response | Fault, CallRow]:
        """Make one attempt: returns what it came to and its row in the ledger."""
        began = time.monotonic()
        characters = prompt_characters(request)
        expected = self.ledger.expect(model, request)
        ticket = await self._slot(expected.prompt + expected.completion, again=tries > 0)
        held: Reservation | None = None
        outcome: Response | Fault | None = None
        started = time.monotonic()
        try:
            self._check_stopped()  # it may have waited for long
            expected = self.ledger.expect(model, request)  # replies may have told more while it waited
            held = await self.budget.reserve(expected, price.cost(expected) if price else None)
            started = time.monotonic()
            purchase = current_purchase()
            if purchase is not None:
                purchase.send()  # on disk before the request goes out: a kill may leave it paid
            outcome = await send(request)
        finally:
            ended = time.monotonic()
            if held is None:
                self.limiter.release(ticket, ok=None, sent=False)
            else:
                row = self._row(
                    request=request,
                    outcome=outcome,
                    model=model,
                    price=price,
                    tries=tries,
                    times=(started - began, ended - started),
                    characters=characters,
                )
                self._give_back(ticket, held, outcome, row)
                self.ledger.record(row, characters)
        return outcome, row

    def _give_back(self, ticket: Ticket, held: Reservation, outcome: Response | Fault | None, row: CallRow) -> None:
        ok: bool | None = True if isinstance(outcome, Response) else None
        after, load = None, 1.0
        if isinstance(outcome, Fault):
            after = outcome.resets_in if outcome.retry_after is None else outcome.retry_after
            if RULES[outcome.kind].slow or outcome.overloaded:
                ok, load = False, 1.0 if outcome.kind is CallErrorKind.RATE_LIMIT else 0.5
            elif self._is_down(outcome):
                ok, load = False, 0.0
            elif row.paid == "yes":
                ok = True  # it was served; that the reply is of no use says nothing about load
        took = row.usage.prompt + row.usage.completion if row.usage else 0
        self.limiter.release(ticket, ok=ok, load=load, retry_after=after, tokens=took)
        self.budget.settle(held, row.usage, row.cost, counted=row.paid != "no")

    def _row(
        self,
        *,
        request: Request,
        outcome: Response | Fault | None,
        model: str,
        price: Price | None,
        tries: int,
        times: tuple[float, float],
        characters: int,
    ) -> CallRow:
        usage = outcome.usage if outcome is not None else None
        paid: Paid = "yes"
        name = "ok"
        if outcome is None:
            name, paid = "cancelled", "unknown"
        elif isinstance(outcome, Fault):
            name = str(outcome.kind)
            paid = "yes" if usage is not None else outcome.paid or RULES[outcome.kind].paid
        if usage is None and paid != "no":
            said = (
                self.ledger.tokens_of(narrow_length(outcome.text))
                if isinstance(outcome, Response)
                else self.ledger.longest_reply(model, request.role)  # what a reply that never came was charged at most
            )
            usage = Usage(self.ledger.tokens_of(characters), said, estimated=True)
        cost = price.cost(usage) if price and usage else 0.0 if paid == "no" else None
        return CallRow(
            model, request.role, request.item, request.attempt, tries, name, paid, usage, cost, *times, time.time()
        )

    def _next_wait(self, fault: Fault, by_kind: dict[CallErrorKind, int], tries: int) -> float | None:
        """Return the seconds to wait before the next try, or None where there is none."""
        if fault.adapt or fault.instead is not None:
            return 0.0 if tries < self.retry.max_tries else None
        if self._stopped is not None:
            return None
        kind = CallErrorKind.RATE_LIMIT if fault.overloaded else fault.kind
        if kind is CallErrorKind.RATE_LIMIT and self.limiter.is_blocked and not fault.fatal:
            return fault.retry_after or 0.0  # it probed for all: no try of its own, and the limiter says when
        rule = RULES[kind]
        before = by_kind.get(kind, 0)
        others_probe = 0 < self.limiter.blocked < _OUTAGE
        is_down = bool(self._finished) and others_probe and self._is_down(fault)
        by_kind[kind] = before + (not is_down)
        retries = _UNREACHED_RETRIES if fault.unreached else rule.retries
        if fault.fatal or (before >= retries and not is_down) or tries >= self.retry.max_tries:
            return None
        if kind is not CallErrorKind.RATE_LIMIT and not is_down:
            if self._retries >= self.retry.spare + self.retry.per_call * self._finished:
                return None
            self._retries += 1
        wait = self.retry.backoff * min(rule.cap, rule.wait * 2.0 ** min(tries - 1 if is_down else before, 12))
        jitter = self._random.random()
        if fault.retry_after is not None:
            # Never earlier than asked; later by a little, so that not all come back at once.
            return fault.retry_after + min(wait, 0.25 * fault.retry_after + 0.05 * self.retry.backoff) * jitter
        return wait * (0.5 + 0.5 * jitter)

    def _waited(self, fault: Fault, where: str) -> Fault:
        """Return the fault with a wait that makes sense, or as one that stops the run.

        A long wait is said as soon as it is asked for, once; one longer than the minutes left ends the calls now.
        """
        asked, left = fault.retry_after, self.budget.seconds_left()
        if asked is None:
            refused = self.limiter.blocked
            is_limit = fault.kind is CallErrorKind.RATE_LIMIT or fault.overloaded
            patience = _PATIENCE if fault.kind is CallErrorKind.RATE_LIMIT or self._finished else _OUTAGE
            if not is_limit:
                patience = _OUTAGE if self._finished else _FIRST
            if refused > min(patience, self.retry.longest_wait) and (is_limit or self._is_down(fault)):
                said = f"{where} has refused every call for {spelled(refused)}: {fault.message}"
                return replace(fault, message=said, hint=LATER if self._finished or is_limit else _LOOK, fatal=True)
            return fault
        if left is not None and asked > left:
            asks = f"{where} asks to come back in {spelled(asked)}"
            self._too_late = f"{fault.message}; {asks}, and {spelled(left)} of the minutes that are allowed are left"
            self._wake_all()
            return fault
        if asked > self.retry.longest_wait:
            said = f"stopped: {fault.message}; {where} asks to come back in {spelled(asked)}"
            self._stop(said, fault.kind, "Go on after that time: what was paid for is kept.")
            return fault
        now = time.monotonic()
        if asked >= LONG_WAIT and now >= self._waits_until:
            self._waits_until = now + asked
            _LOG.warning("%s; waiting %s, as %s asks.", fault.message, spelled(asked), where)
        return fault

    def _is_down(self, fault: Fault) -> bool:
        """Whether the endpoint is gone, as far as one failure can say it."""
        is_bad = fault.kind in {CallErrorKind.SERVER, CallErrorKind.CONNECTION} and not fault.adapt
        return is_bad and (fault.status in _DOWN or not self._finished)

    def _failed(self, fault: Fault) -> None:
        """Count a failed call; trip the breaker where the rule says so."""
        rule = RULES[fault.kind]
        if rule.stop == "never":
            return
        self._failed_in_a_row += 1
        if rule.stop == "at once" or fault.fatal or fault.unreached:
            self._stop(f"stopped: {fault.message}", fault.kind, fault.hint)
        elif self._failed_in_a_row >= self.retry.stop_after:
            said = f"stopped: {self._failed_in_a_row} calls in a row failed; the last one: {fault.message}"
            self._stop(said, fault.kind, fault.hint or _LOOK)

    def _stop(self, message: str, kind: CallErrorKind, hint: str | None) -> None:
        """Send no further call."""
        self._stopped = StoppedError(message, kind=kind, hint=hint)
        self._wake_all()

    def _wake_all(self) -> None:
        """Tell all who wait that they wait in vain."""
        for woken in self._sleepers:
            _wake(woken)
        self.limiter.look_again()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


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
