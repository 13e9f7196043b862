"""Samples under way: started with the book of their step, taken in by that step or, when they are late, by a later one.

The loop names every reflection after its sample and epoch. So names are known before a sample is worked on, groups can
be laid out early, and they do not depend on what an agent calls its reflections.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from combee.errors import CallError, RunError
from combee.kernel.journal import Scope
from combee.kernel.learn.events import Event, SampleDone
from combee.kernel.learn.roles import Reflection
from combee.kernel.learn.sampling import Sample, Sampled, SampleMap
from combee.kernel.playbook import Playbook
from combee.kernel.runner import Runner

__all__ = ["Arrival", "Intake", "MapStoppedError", "Ticket", "reflection_name"]

S = TypeVar("S", bound=Sample)

_REASONS = 3  # that an error names


def reflection_name(sample: str, epoch: int) -> str:
    """Return what the reflection on a sample is called in one epoch: unique in a run, and known in advance."""
    return f"{sample}~{epoch}"


class MapStoppedError(Exception):
    """Carries what ended the work on all samples past the aggregation, which must not take it for its own failure."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Ticket(Generic[S]):
    """A sample under way: what its reflection will be called, how often it failed before, and where it began."""

    name: str
    sample: S
    tries: int
    scope: Scope
    step: int


@dataclass(frozen=True, slots=True)
class Arrival(Generic[S]):
    """A sample that was worked on, or that failed for an outside reason (`error`)."""

    ticket: Ticket[S]
    sampled: Sampled | None
    error: str | None = None


class Intake(Generic[S]):
    """The samples under way in one run. A sample that the journal says failed here is not called again.

    `reasons` counts why samples failed; `failed_now` says whether one did in this process.
    """

    def __init__(
        self, sample_map: SampleMap[S], runner: Runner, *, limit: int, observe: Callable[[Event], None]
    ) -> None:
        self.pending: dict[str, Ticket[S]] = {}
        self.reasons: Counter[str] = Counter()
        self.failed_now = False
        self._map = sample_map
        self._runner = runner
        self._limit = limit
        self._observe = observe
        self._inbox: asyncio.Queue[Arrival[S] | BaseException] = asyncio.Queue()
        self._early: dict[str, Arrival[S]] = {}
        self._pumps: set[asyncio.Task[None]] = set()
        self._closing = False

    def start(self, batch: Sequence[tuple[S, int]], book: Playbook, scope: Scope, *, epoch: int, step: int) -> None:
        """Begin to work on samples, each with the number of times it failed before."""
        waiting: list[Ticket[S]] = []
        for sample, tries in batch:
            ticket = Ticket(reflection_name(sample.id, epoch), sample, tries, scope, step)
            self.pending[ticket.name] = ticket
            known = scope.peek(f"failed/{sample.id}")
            if known is None:
                waiting.append(ticket)
            else:
                self._deliver(Arrival(ticket, None, str(known)))
        if waiting:
            pump = asyncio.create_task(self._pump(waiting, book))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def take(self, wanted: set[str]) -> Arrival[S]:
        """Return the next arrival among the wanted; others wait for the step that wants them.

        Raises:
            MapStoppedError: Something other than a `CallError` ended the work on a sample, and with it on all.
        """
        for name in [name for name in self._early if name in wanted]:
            return self._taken(self._early.pop(name))
        while True:
            arrival = await self._inbox.get()
            if isinstance(arrival, BaseException):
                raise MapStoppedError(arrival)
            if arrival.ticket.name in wanted:
                return self._taken(arrival)
            self._early[arrival.ticket.name] = arrival

    async def close(self) -> None:
        """Stop what is still under way."""
        self._closing = True
        pumps = list(self._pumps)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    def nothing_worked(self, samples: int) -> RunError:
        """Return the error of a run in which no sample could be worked on; it names the most frequent reasons."""
        reasons = [f"{why} ({times} times)" if times > 1 else why for why, times in self.reasons.most_common(_REASONS)]
        if more := len(self.reasons) - len(reasons):
            reasons.append(f"and {more} more {'reasons' if more > 1 else 'reason'}")
        which = f"None of the {samples} samples could" if samples > 1 else "The only sample could not"
        return RunError(f"{which} be worked on: {'; '.join(reasons)}")

    def _taken(self, arrival: Arrival[S]) -> Arrival[S]:
        del self.pending[arrival.ticket.name]
        return arrival

    async def _pump(self, tickets: Sequence[Ticket[S]], book: Playbook) -> None:
        async def one(ticket: Ticket[S]) -> Sampled:
            return await self._map(ticket.sample, book, ticket.scope, ticket.tries)

        try:
            # A runner's stream is an async generator; closing it cancels what is still under way.
            async with aclosing(cast("Any", self._runner.stream(one, tickets, limit=self._limit))) as stream:
                async for done in stream:
                    ticket = tickets[done.index]
                    if done.value is not None:
                        self._deliver(Arrival(ticket, _named(done.value, ticket.name)))
                    else:
                        reason, self.failed_now = _reason(done.error), True
                        ticket.scope.decide(f"failed/{ticket.sample.id}", reason)
                        self._deliver(Arrival(ticket, None, reason))
        except BaseException as error:
            if self._closing:
                raise
            self._inbox.put_nowait(error)  # to the step that waits, whatever it is

    def _deliver(self, arrival: Arrival[S]) -> None:
        ticket, sampled = arrival.ticket, arrival.sampled
        if arrival.error is not None:
            self.reasons[arrival.error] += 1
        score = sampled.score if sampled else None
        reflection = sampled.reflection if sampled else None
        hits, total = (score.hits, score.total) if score else (0, 0)
        lessons = len(reflection.lessons) if reflection else 0
        self._observe(SampleDone(ticket.step, ticket.sample.id, hits, total, lessons, arrival.error))
        self._inbox.put_nowait(arrival)


def _named(sampled: Sampled, name: str) -> Sampled:
    reflection: Reflection | None = sampled.reflection
    if reflection is None:
        return sampled
    votes = tuple(replace(vote, reflection=name) for vote in reflection.votes)
    return replace(sampled, reflection=replace(reflection, id=name, votes=votes))


def _reason(error: CallError | None) -> str:
    return error.message if error is not None else "it gave no result"
