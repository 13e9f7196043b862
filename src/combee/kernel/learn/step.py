"""One step's share of the samples: who is in, what they gave, how long it took.

Everything that depends on time or on the outside world is a decision in the journal, so a replay takes the same path
and buys nothing again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from combee.kernel.aggregate import Absent
from combee.kernel.journal import JSON, Journal, Scope
from combee.kernel.learn.intake import Arrival, Intake, Ticket
from combee.kernel.learn.roles import Reflection
from combee.kernel.learn.sampling import Sample, Sampled

__all__ = ["Clock", "Gathering", "Mapped"]

S = TypeVar("S", bound=Sample)


@dataclass(frozen=True, slots=True)
class Mapped(Generic[S]):
    """What the map gave. `failed` holds the samples to try again, with their tries; `worked` the others, in order."""

    worked: tuple[tuple[S, Sampled], ...]
    failed: tuple[tuple[S, int], ...]

    @property
    def reflections(self) -> tuple[Reflection, ...]:
        """All reflections, in the order of the samples."""
        return tuple(sampled.reflection for _, sampled in self.worked if sampled.reflection is not None)

    @property
    def hits(self) -> int:
        """Right parts over the scored samples, with the playbook from before the step."""
        return sum(sampled.score.hits for _, sampled in self.worked if sampled.score)

    @property
    def total(self) -> int:
        """All parts over the scored samples."""
        return sum(sampled.score.total for _, sampled in self.worked if sampled.score)

    @property
    def used(self) -> frozenset[str]:
        """Bullets that at least one sample used."""
        return frozenset(name for _, sampled in self.worked for name in sampled.used)


class Gathering(Generic[S]):
    """Takes in the samples that are under way: all of them, a quorum, or those that an earlier run took in here."""

    def __init__(self, intake: Intake[S], scope: Scope, quorum: float) -> None:
        self._intake = intake
        self._scope = scope
        self._tickets: dict[str, Ticket[S]] = dict(intake.pending)
        self._got: dict[str, Arrival[S]] = {}
        self._limited = quorum < 1
        recorded = scope.peek("late") if self._limited else None
        self._late = None if recorded is None else set(cast("list[str]", recorded))
        self.quorum = quorum if self._late is None else 1.0
        """Share to wait for; 1 where it is recorded who was in."""

    @property
    def names(self) -> tuple[str, ...]:
        """The reflections that may come, in the order of their samples."""
        return tuple(self._tickets)

    async def arrivals(self) -> AsyncGenerator[Arrival[S], None]:
        """Yield everything that may come, or exactly what is recorded; stop reading when enough is in."""
        wanted = set(self._tickets) - (self._late or set()) - self._got.keys()
        while wanted:
            arrival = await self._intake.take(wanted)
            wanted.discard(arrival.ticket.name)
            self._got[arrival.ticket.name] = arrival
            yield arrival

    async def reflections(self, *, early: bool) -> AsyncGenerator[Reflection | Absent, None]:
        """Yield reflections, or `Absent` for samples that gave none: as they come, or (not `early`) those that are in.

        The names that are late are not absent: no step before theirs may say anything about them.
        """
        if early:
            async for arrival in self.arrivals():
                yield _given(arrival)
        else:
            for name in self._tickets:
                if name in self._got:
                    yield _given(self._got[name])

    async def enough(self) -> None:
        """Wait for the quorum."""
        need = math.ceil(self.quorum * len(self._tickets) - 1e-9)
        arrivals = self.arrivals()
        async for _ in arrivals:
            if self._late is None and len(self._got) >= need:
                break
        await arrivals.aclose()

    def mapped(self) -> Mapped[S]:
        """Return what came, and record who is late. Call it when no more is read in this step."""
        if self._limited:
            late = [name for name in self._tickets if name not in self._got]
            self._scope.decide("late", cast("JSON", late))
        got = [(ticket, self._got[name]) for name, ticket in self._tickets.items() if name in self._got]
        return Mapped(
            tuple((ticket.sample, arrival.sampled) for ticket, arrival in got if arrival.sampled is not None),
            tuple((ticket.sample, ticket.tries) for ticket, arrival in got if arrival.sampled is None),
        )


def _given(arrival: Arrival[S]) -> Reflection | Absent:
    reflection = arrival.sampled.reflection if arrival.sampled is not None else None
    return Absent(arrival.ticket.name) if reflection is None else reflection


class Clock:
    """Measures a step's delay once: a replay returns the recorded value; a step with replayed parts has none."""

    def __init__(self, scope: Scope, journal: Journal | None) -> None:
        self._scope = scope
        self._journal = journal
        self._reused = journal.stats().reused if journal is not None else 0
        # The event loop's clock: that of the process, or a simulated one.
        self._time = asyncio.get_running_loop().time
        self._start = self._time()

    def seconds(self) -> float | None:
        """Return the seconds since the start, or None where results of the step came from the journal."""
        measured: float | None = round(self._time() - self._start, 6)
        if self._journal is not None and self._journal.stats().reused > self._reused:
            measured = None
        return cast("float | None", self._scope.decide("seconds", measured))
