"""How many calls one endpoint gets at once, and how fast they start.

The limit is unknown: it is found by slow start, cut when the endpoint says 429, and raised by 5 % after each clean
round (a round is at least one latency long). Starts are paced, so that a bucket on the other side is not hit by bursts.
Where the limit is known (calls or tokens a minute), a token bucket keeps it. A call that backs off holds no slot.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from combee.errors import UsageError
from combee.model.bucket import Bucket

__all__ = ["Limiter", "LimiterState", "Ticket"]

_CUT = 0.8
_STEP = 0.05
_SS_PACE = 2.0  # starts in slow start come this much faster than the limit itself says, or it could not be reached
_RECENT = 1 / 64  # weight of one reply in the recent share of refusals
_RARE = 0.08  # refusals rarer than this are chance: cutting at each would starve a run whose endpoint drops some
_CLEAN = 0.02  # share of refusals up to which a round is clean
_MOST = 0.3
_MANY = 3  # refusals in a round from which their share is believed
_FLOOR = 0.05  # below 1 the limit means one call at a time with pauses: here one start in 20 latencies
_ROUND = 16  # a clean round has at least so many replies: at tiny limits 5 % per reply would be a sawtooth of 429s
_TICK = 0.001  # seconds of the shortest timer: some loops count in these, and would turn a shorter one into a busy wait
_SLACK = 0.004  # seconds of lateness that starts may catch up: the event loop's timers are about this exact


class Ticket:
    """The right to have one call in flight."""

    __slots__ = ("round", "started", "tokens")

    def __init__(self, round_: int, started: float, tokens: int) -> None:
        self.round = round_
        self.started = started
        self.tokens = tokens


@dataclass(frozen=True, slots=True)
class LimiterState:
    """What the limiter does now: for progress lines, events and tests. `latency` is in seconds (0: not known yet)."""

    limit: float
    in_flight: int
    waiting: int
    peak: int
    latency: float
    cuts: int
    rejected: int


class Limiter:
    """Gives out slots for one endpoint.

    Args:
        concurrency: Calls in flight at most; calls start at this number at once (None: found by slow start).
        start: Calls in flight in the first round; defaults to `concurrency`, or 8.
        rpm: Requests a minute that the endpoint allows, where known.
        tpm: Tokens a minute that the endpoint allows, where known.
        burst: Requests that may start at once under `rpm` (default: one second's worth).
    """

    def __init__(
        self,
        concurrency: int | None = None,
        *,
        start: int | None = None,
        rpm: float | None = None,
        tpm: float | None = None,
        burst: float | None = None,
    ) -> None:
        for name, value in (("concurrency", concurrency), ("start", start), ("rpm", rpm), ("tpm", tpm)):
            if value is not None and not value > 0:
                raise UsageError(f"{name} is {value}", hint="Give a number above zero, or leave it out.")
        self._maximum = float(concurrency or 8192)
        self._limit = float(min(start or concurrency or 8, self._maximum))
        self._slow_start = self._limit < self._maximum
        self._paced = concurrency is None
        self._buckets = (Bucket(rpm, burst) if rpm else None, Bucket(tpm, None) if tpm else None)
        self._in_flight = 0
        self._peak = 0
        self._waiters: deque[tuple[asyncio.Future[Ticket], int]] = deque()
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0  # kept here: not every loop's handle can say
        self._timer_loop: asyncio.AbstractEventLoop | None = None
        self._next_start = 0.0
        self._paused_until = 0.0
        self._latency = 0.0
        self._ceiling = self._maximum
        self._step = _STEP
        self._cuts = 0
        self._rejected = 0
        self._last_cut = -1e9
        self._barren = 0  # cuts since the last reply to a call that was started after one
        self._share = 0.0
        self._cut_round = self._cut_started = self._cut_rejected = -1
        self._round = -1
        self._new_round()

    def _new_round(self) -> None:
        self._round += 1
        self._round_limit = self._limit
        self._round_started = 0
        self._round_ok = 0
        self._round_rejected = 0
        self._was_full = False

    @property
    def state(self) -> LimiterState:
        """A snapshot of the limiter."""
        waiting = sum(not future.done() for future, _ in self._waiters)
        return LimiterState(
            self._limit, self._in_flight, waiting, self._peak, self._latency, self._cuts, self._rejected
        )

    # --- taking and giving back -------------------------------------------------------------------------------

    async def acquire(self, tokens: int = 0, *, again: bool = False) -> Ticket:
        """Wait for a slot; a retry (`again`) goes before calls that were never started."""
        loop = asyncio.get_running_loop()
        if not self._waiters:
            now = loop.time()
            if self._wait(tokens, now) == 0.0:
                return self._start(tokens, now)
        future: asyncio.Future[Ticket] = loop.create_future()
        if again:
            self._waiters.appendleft((future, tokens))
        else:
            self._waiters.append((future, tokens))
        self._dispatch(loop)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # the slot was already ours
                self.release(future.result(), ok=None)
            raise

    def release(
        self,
        ticket: Ticket,
        *,
        ok: bool | None,
        soft: bool = False,
        retry_after: float | None = None,
        tokens: int | None = None,
    ) -> None:
        """Give the slot back.

        `ok`: True for a reply, False for "slow down", None for anything else. `soft`: a sign of overload that may
        have another cause (503, timeout), so it weighs half of a 429. `retry_after` is what the endpoint asked for, in
        seconds; `tokens` what the call really took.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._in_flight -= 1
        bucket = self._buckets[1]
        if bucket is not None and tokens is not None:
            bucket.take(tokens - ticket.tokens)
        if ok:
            self._succeeded(ticket, now)
        elif ok is False:
            self._refused(ticket, now, retry_after or 0.0, _RECENT / 2 if soft else _RECENT)
        else:
            self._share *= 1 - _RECENT
        if self._waiters:
            self._dispatch(loop)

    def _wait(self, tokens: int, now: float) -> float:
        """Return the seconds until a call may start; infinity where a slot must come free first."""
        if self._in_flight >= self._limit and self._in_flight > 0:
            self._was_full = True
            return float("inf")
        wait = max(self._paused_until, self._next_start) - now
        requests, budget = self._buckets
        if requests is not None:
            wait = max(wait, requests.wait(1, now))
        if budget is not None:
            wait = max(wait, budget.wait(tokens, now))
        if wait <= 0:
            return 0.0
        self._was_full = True
        return wait

    def _start(self, tokens: int, now: float) -> Ticket:
        self._in_flight += 1
        self._peak = max(self._peak, self._in_flight)
        self._round_started += 1
        if self._paced and self._latency:
            gap = self._latency / self._limit / (_SS_PACE if self._slow_start else 1.0)
            self._next_start = max(self._next_start, now - _SLACK) + gap
        for bucket, amount in zip(self._buckets, (1, tokens), strict=True):
            if bucket is not None:
                bucket.take(amount)
        return Ticket(self._round, now, tokens)

    def _dispatch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand free slots to waiting calls; a slot is taken here, before the waiting task runs again."""
        now = loop.time()
        if self._timer_loop is not loop:
            # A loop that has ended took its timer along; the limiter goes on in the next one.
            self._timer, self._timer_loop = None, loop
        while self._waiters:
            future, tokens = self._waiters[0]
            if future.done():
                self._waiters.popleft()
                continue
            wait = self._wait(tokens, now)
            if wait == 0.0:
                self._waiters.popleft()
                future.set_result(self._start(tokens, now))
                continue
            if wait != float("inf") and (self._timer is None or self._timer_at > now + wait):
                if self._timer is not None:
                    self._timer.cancel()
                wait = max(wait, _TICK)
                self._timer_at = now + wait
                self._timer = loop.call_later(wait, self._on_timer, loop)
            return

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._dispatch(loop)

    # --- adapting ---------------------------------------------------------------------------------------------

    def _succeeded(self, ticket: Ticket, now: float) -> None:
        took = now - ticket.started
        self._latency += (took - self._latency) * (0.125 if self._latency else 1.0)
        self._share *= 1 - _RECENT
        if self._slow_start and self._was_full:
            self._limit = min(self._maximum, self._limit + 1)
        if ticket.round != self._round:
            return
        self._round_ok += 1
        self._barren = 0
        if self._slow_start:
            if self._round_ok >= self._round_limit:
                self._new_round()
        elif self._round_ok >= max(_ROUND, int(self._limit)):
            share = self._round_rejected / self._round_started
            if share > _RARE:  # within one latency of a cut, which was not deep enough
                self._limit = max(self._floor, self._limit * (1 - share))
            elif share <= _CLEAN and self._was_full:
                # Far from the last known ceiling the step doubles: the limit has moved, or the cut was too deep.
                near = 0.75 * self._ceiling <= self._limit <= 1.1 * self._ceiling
                self._step = _STEP if near else min(1.0, self._step * 2)
                self._limit = min(self._maximum, self._limit * (1 + self._step))
            self._new_round()

    @property
    def _floor(self) -> float:
        """The lowest limit of a cut: pauses between single calls only where one cut after another helps nothing."""
        return _FLOOR if self._barren > 1 or self._share > _MOST else min(1.0, self._limit)

    def _refused(self, ticket: Ticket, now: float, retry_after: float, weight: float) -> None:
        self._rejected += 1
        self._paced = True
        self._share += (1 - self._share) * weight
        if not self._latency:
            self._latency = min(1.0, now - ticket.started)
        if ticket.round == self._cut_round:  # started before the last cut: they tell how deep it should have been
            self._cut_rejected += 1
            kept = max(1 - self._cut_rejected / self._cut_started, 1 / self._cut_started)
            if self._cut_rejected >= _MANY and kept < _CUT:
                self._limit = max(self._floor, min(self._limit, self._ceiling * kept))
        if ticket.round != self._round:
            return
        self._round_rejected += 1
        if self._round_ok == 0 and self._round_rejected >= max(2.0, self._limit):
            # Nothing of a whole round got through: the endpoint means it, so everybody waits as long as it asked.
            self._paused_until = max(self._paused_until, now + retry_after)
        if (self._slow_start or self._share >= _RARE) and now >= self._last_cut + self._latency:
            self._cut(now)

    def _cut(self, now: float) -> None:
        """Lower the limit: once a latency, because what is in flight cannot know of the cut yet."""
        kept = 1 - self._round_rejected / self._round_started
        factor = _CUT if self._barren == 0 else 0.5
        self._barren += 1
        self._cuts += 1
        self._last_cut = now
        self._ceiling = self._limit
        self._cut_round, self._cut_started, self._cut_rejected = self._round, self._round_started, self._round_rejected
        if self._round_rejected >= _MANY:
            factor = min(factor, max(0.1, kept))
        self._limit = max(self._floor, self._limit * factor)
        self._slow_start = False
        self._step = _STEP
        self._paused_until = max(self._paused_until, now + self._latency / 4)
        self._new_round()
