"""How many calls one endpoint gets at once, and how fast they start.

The limit is unknown. What the limiter holds, in ten lines:
- `limit`: calls in flight at most. Starts are paced at limit / latency, so that nothing gets bursts; below 1 it is one
  call at a time with pauses.
- `ceiling`: what the endpoint took when it last refused. Far below it the limit doubles each latency, around it it
  creeps, and above it, where nothing is refused, it climbs faster and faster: the endpoint allows more than before.
- `share`: the recent share of refusals. Above 8 % the limit is cut to what got through; rarer ones are chance.
- A block: nothing that starts gets through (an outage, or a window that is used up). Single calls probe at a growing
  distance, not before the time that the endpoint asked for; the first that gets through ends it, and the limit goes
  back up to what went through in the second before.
- `rhythm`: seconds between the last ends of blocks, where they come as a beat. The next end is awaited without probes.
Where the limit is known (calls or tokens a minute), a token bucket keeps it. A call that backs off holds no slot.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from combee.errors import UsageError

_CREEP, _CLIMB = 0.02, 0.5  # growth of the limit a latency: around the ceiling, and above it at most
_LATENCY = 0.2  # seconds that a latency counts at least there: quick calls are no reason to double sooner
_ROUND = 16  # and replies, around the ceiling: at tiny limits it would be a sawtooth of refusals
_FEWEST = 4  # of them, where so many do not come in two seconds
_RECENT = 1 / 64  # weight of one reply in the share of refusals
_FADES = 10.0  # seconds in which it fades where replies are few, if that is no less than so many calls take
_RARE = 0.08  # refusals rarer than this are chance: cutting at each would starve a run whose endpoint drops some
_CLEAN = 0.015  # share of refusals up to which the limit grows; above twice that it shrinks
_CUT = 0.8  # where it is cut before enough refusals are in to say how deep
_DEEPEST = 0.1  # of one cut
_MANY = 3  # refusals from which their share is believed
_LATELY = 32  # replies from which it is counted what gets through: no cut goes far below it
_SLOWEST = 5.0  # seconds between two starts at the lowest limit
_RUN = 5  # calls refused one after another from which nothing gets through; at low limits fewer
_ALL = 0.9  # share of the calls started meanwhile that must be known to be refused
_FEW = 8  # calls got through in the second before the first block: too few to go by
_PROBE = (0.1, 5.0, 60.0)  # seconds to the next probe: at first, within the first minute at most, and ever
_TICK = 0.001  # seconds of the shortest timer: some loops count in these, and would turn a shorter one into a busy wait
_SLACK = 0.004  # seconds of lateness that starts may catch up: the event loop's timers are about this exact
_LATE = 0.05  # more, where the loop is known to be late, up to this


@dataclass(slots=True)
class Ticket:
    """The right to have one call in flight."""

    number: int
    round: int
    started: float
    tokens: int
    probes: bool


@dataclass(slots=True)
class _Round:
    """Calls started under one limit: how many, how many of them before one was refused, and how many were."""

    number: int
    limit: float
    started: int = 0
    clean: int = 0
    rejected: int = 0

    def refuse(self) -> None:
        if not self.rejected:
            self.clean = self.started - 1
        self.rejected += 1

    @property
    def kept(self) -> float:
        return 1 - self.rejected / max(self.started, 1)

    @property
    def is_past(self) -> bool:
        """Whether more of the calls since the first refusal were refused than chance explains."""
        return self.rejected >= max(_MANY, (self.started - self.clean) / 4)


@dataclass(slots=True)
class _Run:
    """Refusals since the last start that got through: how many, and the calls that started since the first of them."""

    length: int = 0
    first: int = 0
    starts: deque[float] = field(default_factory=deque)
    known: int = 0  # of them, those started long enough ago that their refusal would be here


@dataclass(frozen=True, slots=True)
class LimiterState:
    """What the limiter does now: for progress lines, events and tests.

    `latency` is in seconds (0: not known yet); `blocked` says for how many seconds nothing got through.
    """

    limit: float
    in_flight: int
    waiting: int
    peak: int
    latency: float
    cuts: int
    rejected: int
    blocked: float


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
        self._ceiling = self._maximum
        self._paced = concurrency is None
        self._buckets = (Bucket(rpm, burst) if rpm else None, Bucket(tpm, None) if tpm else None)
        self._waiters: deque[tuple[asyncio.Future[Ticket | None], int]] = deque()
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0  # kept here: not every loop's handle can say
        self._timer_loop: asyncio.AbstractEventLoop | None = None
        self._next_start = self._late = 0.0
        self._in_flight = self._peak = 0
        self._number = 0  # of the last start
        self._first = 0.0  # when it all began
        self._starts: deque[float] = deque()  # of the last second
        self._replies: deque[float] = deque(maxlen=_LATELY)
        self._latency = self._refusal = 0.0  # seconds until a reply, and until a refusal
        self._share = self._share_at = 0.0
        self._rejected = self._cuts = 0
        self._cut_at = -1e9
        self._cut = _Round(0, self._limit)
        self._round = _Round(1, self._limit)
        self._was_full = False
        self._run = _Run()
        self._blocked_at: float | None = None
        self._before = self._limit  # what the limit goes back to
        self._is_known = False  # whether there was anything to go by
        self._asked_until = 0.0
        self._probe_at = self._probe_first = 0.0
        self._probes = 0
        self._is_probing = False
        self._freed_at = 0.0
        self._period = self._rhythm = 0.0

    @property
    def state(self) -> LimiterState:
        """A snapshot of the limiter."""
        waiting = sum(not future.done() for future, _ in self._waiters)
        return LimiterState(
            self._limit, self._in_flight, waiting, self._peak, self._latency, self._cuts, self._rejected, self.blocked
        )

    @property
    def blocked(self) -> float:
        """For how many seconds nothing has got through; the time that the endpoint asked to wait is not counted."""
        if self._blocked_at is None or self._timer_loop is None:
            return 0.0
        return max(_TICK, self._timer_loop.time() - max(self._blocked_at, self._asked_until))

    @property
    def is_blocked(self) -> bool:
        """Whether nothing gets through at present."""
        return self._blocked_at is not None

    # --- taking and giving back -------------------------------------------------------------------------------

    async def acquire(self, tokens: int = 0, *, again: bool = False, check: Callable[[], None] | None = None) -> Ticket:
        """Wait for a slot; a retry (`again`) goes before calls that were never started.

        `check` is called after `look_again`, and raises where the slot is not wanted any more.
        """
        loop = asyncio.get_running_loop()
        if not self._waiters:
            now = loop.time()
            if self._wait(tokens, now) == 0.0:
                return self._start(tokens, now)
        while True:
            future: asyncio.Future[Ticket | None] = loop.create_future()
            if again:
                self._waiters.appendleft((future, tokens))
            else:
                self._waiters.append((future, tokens))
            self._dispatch(loop)
            try:
                ticket = await future
            except asyncio.CancelledError:
                if future.done() and not future.cancelled():
                    ticket = future.result()
                    if ticket is not None:  # the slot was already ours
                        self.release(ticket, ok=None, sent=False)
                raise
            if ticket is not None:
                return ticket
            if check is not None:
                check()

    def look_again(self) -> None:
        """Let all who wait see whether they still want a slot: the run may have been stopped meanwhile."""
        waiters, self._waiters = self._waiters, deque()
        for future, _ in waiters:
            if not future.done():
                future.set_result(None)

    def release(
        self,
        ticket: Ticket,
        *,
        ok: bool | None,
        sent: bool = True,
        load: float = 1.0,
        retry_after: float | None = None,
        tokens: int | None = None,
    ) -> None:
        """Give the slot back.

        `ok`: True for a reply, False for "slow down", None for anything else. `sent`: whether there was a call at all.
        `load`: how much of a 429 a refusal weighs (0.5 for a sign of overload that may have another cause, like a
        timeout; 0 for a failure that tells of no load, though where all fail the endpoint is down). `retry_after` is
        what the endpoint asked for, in
        seconds; `tokens` what the call really took.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._in_flight -= 1
        bucket = self._buckets[1]
        if bucket is not None and tokens is not None:
            bucket.take(tokens - ticket.tokens)
        if ticket.probes:
            self._is_probing = False
        if ok:
            self._succeeded(ticket, now)
        elif ok is False:
            self._refused(ticket, now, retry_after or 0.0, load * _RECENT)
        else:
            self._share *= 1 - _RECENT
            if ticket.probes and sent:
                self._probe_later(now)
        if self._waiters:
            self._dispatch(loop)

    def _wait(self, tokens: int, now: float) -> float:
        """Return the seconds until a call may start; infinity where a slot must come free first."""
        if self._blocked_at is not None:
            if self._is_probing:
                return float("inf")
            wait = self._probe_at - now
        elif self._in_flight >= self._limit and self._in_flight > 0:
            self._was_full = True
            return float("inf")
        else:
            wait = self._next_start - now
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
        self._number += 1
        if self._number == 1:
            self._first = self._freed_at = now
        self._round.started += 1
        self._starts.append(now)
        while self._starts[0] < now - 1:
            self._starts.popleft()
        if self._run.length:
            self._run.starts.append(now)
        if self._paced and self._latency:
            gap = self._latency / self._limit / (1 + self._growth**2 * min(1.0, self._limit))
            self._next_start = max(self._next_start, now - _SLACK - self._late) + gap
        for bucket, amount in zip(self._buckets, (1, tokens), strict=True):
            if bucket is not None:
                bucket.take(amount)
        self._is_probing = self._blocked_at is not None
        return Ticket(self._number, self._round.number, now, tokens, self._is_probing)

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
        self._late = min(_LATE, max(0.0, loop.time() - self._timer_at))
        self._dispatch(loop)

    # --- adapting ---------------------------------------------------------------------------------------------

    def _succeeded(self, ticket: Ticket, now: float) -> None:
        took = max(now - ticket.started, _TICK)
        self._replies.append(now)
        self._latency += (took - self._latency) * (0.125 if self._latency else 1.0)
        self._fade(now)
        self._share *= 1 - _RECENT
        if self._run.length and ticket.number > self._run.first:
            self._run = _Run()
            if self._blocked_at is not None:
                self._unblock(self._blocked_at, now)
        is_used = self._was_full and self._in_flight + 1 >= self._limit / 2
        if not is_used or self._blocked_at is not None:
            return
        if self._share > 2 * _CLEAN:
            self._limit = max(self._floor, self._limit - _CREEP * min(1.0, self._limit))
        elif self._share <= _CLEAN:
            replies = max(1.0, self._limit * max(1.0, _LATENCY / self._latency))
            if self._limit > 0.9 * self._ceiling:
                replies = max(replies, min(_ROUND, max(_FEWEST, 2 * self._limit / self._latency)))
            self._limit = min(self._maximum, self._limit * (1 + self._growth / replies))

    @property
    def _growth(self) -> float:
        """Growth of the limit a latency: 1 is doubling; a little more while nothing was ever refused."""
        place = self._limit / self._ceiling
        return max(_CREEP, min(1.0 if self._cuts else 1.5, 3 * (0.95 - place)), min(_CLIMB, place - 1.05))

    @property
    def _floor(self) -> float:
        """The lowest limit of a cut."""
        return min(1.0, self._limit, self._latency / _SLOWEST)

    def _fade(self, now: float) -> None:
        """Forget refusals of long ago."""
        if self._share > 1e-6:
            self._share *= math.exp((self._share_at - now) / max(_FADES, self._latency / self._limit / _RECENT))
        self._share_at = now

    def _refused(self, ticket: Ticket, now: float, retry_after: float, weight: float) -> None:
        self._rejected += 1
        self._paced = True
        took = max(now - ticket.started, _TICK)
        self._refusal += (took - self._refusal) * (0.125 if self._refusal else 1.0)
        self._latency = self._latency or min(1.0, took)
        if retry_after:
            self._asked_until = max(self._asked_until, now + retry_after)
        if self._blocked_at is not None:
            if ticket.probes:
                self._probe_later(now)
            return
        self._fade(now)
        self._share += (1 - self._share) * weight
        if self._nothing_gets_through(ticket, now):
            self._block(now)
        elif not weight:
            self._share *= 1 - _RECENT
        elif ticket.round == self._round.number:
            self._round.refuse()
            is_high = self._growth > 0.5 or self._share >= _RARE or self._round.is_past
            if is_high and now >= self._cut_at + self._latency:
                self._lower(now)
        elif ticket.round == self._cut.number:  # started before the last cut: they tell how deep it should have been
            self._cut.refuse()
            if self._cut.rejected >= _MANY and self._cut.kept < _CUT:
                kept = self._cut.limit * max(self._cut.kept, _DEEPEST)
                self._ceiling = min(self._ceiling, max(kept, self._least(now)))
                self._limit = max(self._floor, min(self._limit, self._ceiling))

    def _lower(self, now: float) -> None:
        """Lower the limit: once a latency, because what is in flight cannot know of the cut yet."""
        done = self._round
        deepest = _DEEPEST if self._limit > 1 else _CUT  # single calls are too few to say
        kept = max(done.kept, deepest) if done.rejected >= _MANY else _CUT
        done.limit = self._limit
        self._ceiling = max(self._limit * kept, self._least(now))
        self._limit = max(self._floor, min(self._ceiling, 0.95 * self._limit))
        self._cut = done
        self._anew(now)

    def _least(self, now: float) -> float:
        """Return the limit under which less than four fifths of what got through lately would."""
        if not self._replies:
            return 0.0
        rate = len(self._replies) / max(now - self._replies[0], self._latency)
        return min(0.9 * self._limit, 0.8 * rate * self._latency)

    def _anew(self, now: float) -> None:
        """Count calls and refusals from here, as those of another limit."""
        self._cuts += 1
        self._cut_at = now
        self._share = 0.0
        self._was_full = False
        self._round = _Round(self._round.number + 1, self._limit)

    # --- where nothing gets through ---------------------------------------------------------------------------

    def _nothing_gets_through(self, ticket: Ticket, now: float) -> bool:
        """Return whether all that started since the first refusal of a run was refused, as far as it can be known."""
        run = self._run
        if not run.length:
            run.first = ticket.number
            run.starts.append(ticket.started)
        run.length += ticket.number >= run.first
        while run.starts and run.starts[0] <= now - 1.25 * self._refusal:
            run.starts.popleft()
            run.known += 1
        return run.length >= max(2, min(_RUN, self._limit), _ALL * run.known)

    def _block(self, now: float) -> None:
        self._blocked_at = now
        while self._starts and self._starts[0] < now - 1:
            self._starts.popleft()
        went = len(self._starts) - self._run.length
        self._is_known = self._freed_at > self._first or went >= _FEW
        self._before = min(self._limit, max(went / min(1.0, now - self._first) * self._latency, self._limit / 4))
        self._probe_first = min(max(_PROBE[0], self._latency / self._before), _PROBE[1])
        self._probes = 0
        self._probe_later(now)

    def _probe_later(self, now: float) -> None:
        lasted = now - (self._blocked_at or now)
        wait = max(self._probe_first, min(lasted / 4, max(_PROBE[1], lasted / 12), _PROBE[2]))
        if self._rhythm:
            end = self._freed_at + 0.97 * self._rhythm
            wait = max(wait, end - now) if not self._probes else min(wait, max(_PROBE[0], self._rhythm / 32))
        self._probe_at = max(now + wait, self._asked_until)
        self._probes += 1

    def _unblock(self, blocked_at: float, now: float) -> None:
        """Go on: after a short block a little slower than before it, after a long one in steps up to that."""
        lasted, period = now - blocked_at, now - self._freed_at
        is_short = lasted < max(2 * self._probe_first, period / 2)
        is_beat = not is_short and 0.9 < self._period / period < 1.1
        self._rhythm = period if is_beat else 0.0
        self._period = 0.0 if is_short else period
        self._ceiling = self._before if self._is_known else self._maximum
        self._limit = self._before * (0.9 if is_short else 0.25)
        self._blocked_at, self._freed_at = None, now
        self._next_start = now
        self._anew(now)


class Bucket:
    """A token bucket that may go into debt for one request larger than itself."""

    __slots__ = ("_at", "_level", "capacity", "rate")

    def __init__(self, per_minute: float, burst: float | None) -> None:
        self.rate = per_minute / 60
        self.capacity = max(1.0, self.rate if burst is None else burst)
        self._level = self.capacity
        self._at: float | None = None

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds until `amount` may be taken."""
        if self._at is not None:
            self._level = min(self.capacity, self._level + (now - self._at) * self.rate)
        self._at = now
        missing = min(amount, self.capacity) - self._level
        return missing / self.rate if missing > 1e-9 else 0.0

    def take(self, amount: float) -> None:
        """Take `amount` now (or give back, where it is negative)."""
        self._level -= amount
