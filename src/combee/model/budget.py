"""Limits on a run: money, calls, tokens, minutes. They hold with hundreds of calls in flight.

What a call may cost is reserved before it starts and settled after; where the reservations of calls in flight leave no
room, the next call waits until they settle, and fails only when what was really spent leaves none. A call that a killed
process had under way counts once more: it may have been paid for then too.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from combee.errors import BudgetError, UsageError
from combee.kernel.journal import current_purchase
from combee.model.types import Usage


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one call in flight may take: tokens, US dollars, and calls (more than one after a kill)."""

    tokens: int
    cost: float
    calls: int = 1


class Budget:
    """Limits that several models share; None means no limit.

    Args:
        max_cost: US dollars.
        max_calls: Calls that the endpoint answered or may have answered (a refused one, like a 429, is not counted).
        max_tokens: Prompt and completion tokens together.
        max_minutes: Minutes since the first call; those of earlier parts of a run come from `spent_before`.

    Raises:
        UsageError: A limit is zero or less.
    """

    def __init__(
        self,
        *,
        max_cost: float | None = None,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_minutes: float | None = None,
    ) -> None:
        limits = {"max_cost": max_cost, "max_calls": max_calls, "max_tokens": max_tokens, "max_minutes": max_minutes}
        for name, value in limits.items():
            if value is not None and not value > 0:
                raise UsageError(f"{name} is {value}", hint="A budget must be above zero; leave it out for no limit.")
        self.max_cost, self.max_calls = max_cost, max_calls
        self.max_tokens, self.max_minutes = max_tokens, max_minutes
        self.cost = 0.0
        self.calls = 0
        self.tokens = 0
        self._held_cost = 0.0
        self._held_tokens = 0
        self._held = 0
        self._started: float | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def in_flight(self) -> int:
        """Calls that are held by reservations."""
        return self._held

    def spent_before(self, *, cost: float = 0.0, calls: int = 0, tokens: int = 0, minutes: float = 0.0) -> None:
        """Count what an earlier part of the run has spent (when a run goes on)."""
        self.cost += cost
        self.calls += calls
        self.tokens += tokens
        if minutes:
            self._started = time.monotonic() - 60 * minutes

    def seconds_left(self) -> float | None:
        """Return the seconds until `max_minutes` are over; None where there is no such limit."""
        if self.max_minutes is None:
            return None
        worked = 0.0 if self._started is None else time.monotonic() - self._started
        return max(0.0, 60 * self.max_minutes - worked)

    def refuse_unknown_price(self, model: str, hint: str) -> None:
        """Raise where a budget in money meets a model without a price."""
        if self.max_cost is not None:
            raise BudgetError(f"the price of {model!r} is not known, so a budget in money cannot be held", hint=hint)

    async def reserve(self, expected: Usage, cost: float | None) -> Reservation:
        """Hold what a call may take; wait for calls in flight where only their reservations leave no room.

        Raises:
            BudgetError: A limit is used up, or this call alone would break it.
        """
        if self._started is None:
            self._started = time.monotonic()
        tokens, price, calls = expected.prompt + expected.completion, cost or 0.0, 1
        purchase = current_purchase()
        if purchase is not None and purchase.lost:
            calls += purchase.lost
            tokens, price = calls * tokens, calls * price
        while True:
            self._check(tokens, price, calls)
            if self._fits(tokens, price, calls):
                break
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            try:
                await future
            except asyncio.CancelledError:
                self._wake()
                raise
        self._held += calls
        self._held_tokens += tokens
        self._held_cost += price
        return Reservation(tokens, price, calls)

    def settle(self, held: Reservation, usage: Usage | None, cost: float | None, *, counted: bool = True) -> None:
        """Turn a reservation into what was really spent; not `counted` where the endpoint charged nothing.

        A reservation for several calls counts as so many, each at what this one took.
        """
        self._held -= held.calls
        self._held_tokens -= held.tokens
        self._held_cost -= held.cost
        if counted:
            self.calls += held.calls
        if usage is not None:
            self.tokens += held.calls * (usage.prompt + usage.completion)
        if cost is not None:
            self.cost += held.calls * cost
        self._wake()

    def lend(self, share: float, least: Reservation) -> Reservation:
        """Hold `least` and a share of what is free besides, for calls that are made elsewhere; never waits.

        Without a limit of a kind nothing of it is held. `settle` gives it back.
        """
        held = Reservation(
            least.tokens + int(share * _free(self.max_tokens, self.tokens + self._held_tokens + least.tokens)),
            least.cost + share * _free(self.max_cost, self.cost + self._held_cost + least.cost),
            least.calls + math.ceil(share * _free(self.max_calls, self.calls + self._held + least.calls)),
        )
        self._held += held.calls
        self._held_tokens += held.tokens
        self._held_cost += held.cost
        return held

    def _wake(self) -> None:
        """Let the waiting calls look again; all of them, since a small one may fit where a large one does not."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _fits(self, tokens: int, cost: float, calls: int) -> bool:
        if self.max_calls is not None and self.calls + self._held + calls > self.max_calls:
            return False
        if self.max_tokens is not None and self.tokens + self._held_tokens + tokens > self.max_tokens:
            return False
        return self.max_cost is None or self.cost + self._held_cost + cost <= self.max_cost + 1e-12

    def _check(self, tokens: int, cost: float, calls: int) -> None:
        """Raise where no waiting can help: what is spent and this one reservation break a limit."""
        after = "the next call may" if calls == 1 else "the next call, under way before when a process was killed, may"
        hint = "Raise the limit and run again: what was paid for is kept."
        if self.max_minutes is not None and self._started is not None:
            minutes = (time.monotonic() - self._started) / 60
            if minutes >= self.max_minutes:
                raise BudgetError(f"the limit of {self.max_minutes:g} minutes is reached", hint=hint)
        if self.max_calls is not None and self.calls + calls > self.max_calls:
            most = "1 call" if self.max_calls == 1 else f"{self.max_calls} calls"
            raise BudgetError(f"the limit of {most} is reached", hint=hint)
        if self.max_tokens is not None and self.tokens + tokens > self.max_tokens:
            raise BudgetError(
                f"the limit of {self.max_tokens} tokens is reached: {self.tokens} are used, {after} take {tokens}",
                hint=hint,
            )
        if self.max_cost is not None and self.cost + cost > self.max_cost + 1e-12:
            raise BudgetError(
                f"the limit of ${self.max_cost:g} is reached: ${self.cost:.4f} is spent, {after} cost ${cost:.4f}",
                hint=hint,
            )


def _free(limit: float | None, taken: float) -> float:
    return 0.0 if limit is None else max(0.0, limit - taken)


class RoleBudget(Budget):
    """Limits of one role; see `Budget` for their names. `parent` is the budget of the run.

    Raises:
        UsageError: A limit is zero or less.
    """

    def __init__(self, parent: Budget, **limits: Any) -> None:
        super().__init__(**limits)
        self._parent = parent

    def refuse_unknown_price(self, model: str, hint: str) -> None:
        """Raise where a budget in money, its own or the run's, meets a model without a price."""
        super().refuse_unknown_price(model, hint)
        self._parent.refuse_unknown_price(model, hint)

    def seconds_left(self) -> float | None:
        """Return the seconds until `max_minutes` of the role or of the run are over; None without such a limit."""
        known = [left for left in (super().seconds_left(), self._parent.seconds_left()) if left is not None]
        return min(known, default=None)

    async def reserve(self, expected: Usage, cost: float | None) -> Reservation:
        """Hold what a call may take, here and in the run.

        Raises:
            BudgetError: A limit of either is used up.
        """
        held = await super().reserve(expected, cost)
        try:
            await self._parent.reserve(expected, cost)
        except BaseException:
            super().settle(held, None, None, counted=False)
            raise
        return held

    def settle(self, held: Reservation, usage: Usage | None, cost: float | None, *, counted: bool = True) -> None:
        """Turn a reservation into what was really spent, here and in the run."""
        super().settle(held, usage, cost, counted=counted)
        self._parent.settle(held, usage, cost, counted=counted)
