"""Samples in flight, and the collector of one step: who is in, and what they gave.

A sample is worked on with the book of the step that started it, and taken in by that step or, when it is late, by a
later one. Every reflection is named after its sample and epoch: so names are known before a sample is worked on, groups
can be laid out early, and nothing depends on what an agent calls its reflections. What depends on time or on the
outside world (who failed, who was late) is a decision in the journal, so a replay takes the same path.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from combee.errors import RunError
from combee.kernel.aggregate import Absent
from combee.kernel.journal import JSON, Scope
from combee.kernel.learn.events import Event, SampleDone
from combee.kernel.learn.roles import Reflection
from combee.kernel.learn.sampling import Sample, Sampled, SampleMap
from combee.kernel.playbook import Playbook, Vote
from combee.kernel.runner import Runner

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
class _Pending(Generic[S]):
    """A sample under way: what its reflection will be called, how often it failed before, and where it began."""

    name: str
    sample: S
    tries: int
    scope: Scope
    step: int


@dataclass(frozen=True, slots=True)
class _Result(Generic[S]):
    """A sample that was worked on, or that failed for an outside reason (`error`)."""

    pending: _Pending[S]
    sampled: Sampled | None
    error: str | None = None


class SamplesInFlight(Generic[S]):
    """The samples under way in one run. A sample that the journal says failed here is not called again.

    `reasons` counts why samples failed; `failed_now` says whether one did in this process.
    """

    def __init__(
        self, sample_map: SampleMap[S], runner: Runner, *, limit: int, observe: Callable[[Event], None]
    ) -> None:
        self.pending: dict[str, _Pending[S]] = {}
        self.reasons: Counter[str] = Counter()
        self.failed_now = False
        self._map = sample_map
        self._runner = runner
        self._limit = limit
        self._observe = observe
        self._inbox: asyncio.Queue[_Result[S] | BaseException] = asyncio.Queue()
        self._early: dict[str, _Result[S]] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._closing = False

    def start(self, batch: Sequence[tuple[S, int]], book: Playbook, scope: Scope, *, epoch: int, step: int) -> None:
        """Begin to work on samples, each with the number of times it failed before."""
        waiting: list[_Pending[S]] = []
        for sample, tries in batch:
            pending = _Pending(reflection_name(sample.id, epoch), sample, tries, scope, step)
            self.pending[pending.name] = pending
            failure = scope.peek(f"failed/{sample.id}")
            if failure is None:
                waiting.append(pending)
            else:
                self._deliver(_Result(pending, None, str(failure)), is_news=False)
        if waiting:
            task = asyncio.create_task(self._work(waiting, book))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def take(self, wanted: set[str]) -> _Result[S]:
        """Return the next result among the wanted; others wait for the step that wants them.

        Raises:
            MapStoppedError: Something other than a `CallError` ended the work on a sample, and with it on all.
        """
        for name in [name for name in self._early if name in wanted]:
            del self.pending[name]
            return self._early.pop(name)
        while True:
            result = await self._inbox.get()
            if isinstance(result, BaseException):
                raise MapStoppedError(result)
            name = result.pending.name
            if name in wanted:
                del self.pending[name]
                return result
            self._early[name] = result

    async def close(self) -> None:
        """Stop what is still under way."""
        self._closing = True
        working = list(self._working)
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)

    def nothing_worked(self, samples: int) -> RunError:
        """Return the error of a run in which no sample could be worked on; it names the most frequent reasons."""
        reasons = [f"{why} ({times} times)" if times > 1 else why for why, times in self.reasons.most_common(_REASONS)]
        if more := len(self.reasons) - len(reasons):
            reasons.append(f"and {more} more {'reasons' if more > 1 else 'reason'}")
        which = f"None of the {samples} samples could" if samples > 1 else "The only sample could not"
        return RunError(f"{which} be worked on: {'; '.join(reasons)}")

    async def _work(self, waiting: Sequence[_Pending[S]], book: Playbook) -> None:
        async def one(pending: _Pending[S]) -> Sampled:
            return await self._map(pending.sample, book, pending.scope, pending.tries)

        try:
            # A runner's stream is an async generator; closing it cancels what is still under way.
            async with aclosing(cast("Any", self._runner.stream(one, waiting, limit=self._limit))) as stream:
                async for done in stream:
                    pending = waiting[done.index]
                    if done.value is not None:
                        self._deliver(_Result(pending, _renamed(done.value, pending.name)))
                    else:
                        reason, self.failed_now = done.error.message if done.error else "it gave no result", True
                        pending.scope.decide(f"failed/{pending.sample.id}", reason)
                        self._deliver(_Result(pending, None, reason))
        except BaseException as error:
            if self._closing:
                raise
            self._inbox.put_nowait(error)  # to the step that waits, whatever it is

    def _deliver(self, result: _Result[S], *, is_news: bool = True) -> None:
        pending, sampled = result.pending, result.sampled
        if result.error is not None:
            self.reasons[result.error] += 1
        score = sampled.score if sampled else None
        reflection = sampled.reflection if sampled else None
        hits, total = (score.hits, score.total) if score else (0, 0)
        lessons = len(reflection.lessons) if reflection else 0
        self._observe(SampleDone(pending.step, pending.sample.id, hits, total, lessons, result.error, is_news=is_news))
        self._inbox.put_nowait(result)


def _renamed(sampled: Sampled, name: str) -> Sampled:
    reflection: Reflection | None = sampled.reflection
    if reflection is None:
        return sampled
    votes = tuple(replace(vote, reflection=name) for vote in reflection.votes)
    return replace(sampled, reflection=replace(reflection, id=name, votes=votes))


@dataclass(frozen=True, slots=True)
class Collected(Generic[S]):
    """What a step has to learn from. `failed` holds the samples to try again, with their tries; `worked` the others.

    `carried` are reflections of earlier steps whose aggregation failed; their votes are counted already.
    """

    worked: tuple[tuple[S, Sampled], ...]
    failed: tuple[tuple[S, int], ...]
    carried: tuple[Reflection, ...] = ()

    @property
    def reflections(self) -> tuple[Reflection, ...]:
        """The reflections on this step's samples, in their order."""
        return tuple(sampled.reflection for _, sampled in self.worked if sampled.reflection is not None)

    @property
    def to_aggregate(self) -> tuple[Reflection, ...]:
        """All reflections with lessons, by name."""
        with_lessons = [reflection for reflection in self.reflections if reflection.lessons]
        return tuple(sorted((*self.carried, *with_lessons), key=lambda reflection: reflection.id))

    @property
    def votes(self) -> tuple[Vote, ...]:
        """What this step's reflections say of bullets, each vote once."""
        return tuple(sorted({vote for reflection in self.reflections for vote in reflection.votes}))

    @property
    def used(self) -> tuple[str, ...]:
        """Bullets that at least one sample used."""
        return tuple(sorted({name for _, sampled in self.worked for name in sampled.used}))

    @property
    def hits(self) -> int:
        """Right parts over the scored samples, with the playbook from before the step."""
        return sum(sampled.score.hits for _, sampled in self.worked if sampled.score)

    @property
    def total(self) -> int:
        """All parts over the scored samples."""
        return sum(sampled.score.total for _, sampled in self.worked if sampled.score)


class StepCollector(Generic[S]):
    """Takes in the samples that are in flight: all of them, a quorum, or those that an earlier run took in here."""

    def __init__(
        self, in_flight: SamplesInFlight[S], scope: Scope, quorum: float, carried: Sequence[Reflection] = ()
    ) -> None:
        self._in_flight = in_flight
        self._scope = scope
        self._carried = tuple(carried)
        self._pending: dict[str, _Pending[S]] = dict(in_flight.pending)
        self._results: dict[str, _Result[S]] = {}
        self._limited = quorum < 1
        recorded = scope.peek("late") if self._limited else None
        self._late = None if recorded is None else set(cast("list[str]", recorded))
        self.quorum = quorum if self._late is None else 1.0
        """Share to wait for; 1 where it is recorded who was in."""

    @property
    def names(self) -> tuple[str, ...]:
        """The reflections that may come: those carried over, then in the order of their samples."""
        return (*(reflection.id for reflection in self._carried), *self._pending)

    async def stream(self, *, early: bool) -> AsyncGenerator[Reflection | Absent, None]:
        """Yield reflections with lessons, and `Absent` for samples without: as they come, or (not `early`) what is in.

        The late are not absent: a later step has them. Stop reading when enough is in.
        """
        for reflection in self._carried:
            yield reflection
        if early:
            async for result in self._take():
                yield _reflection_or_absent(result)
        else:
            for name in [name for name in self._pending if name in self._results]:
                yield _reflection_or_absent(self._results[name])

    async def enough(self) -> None:
        """Wait for the quorum."""
        need = math.ceil(self.quorum * len(self._pending) - 1e-9)
        results = self._take()
        async for _ in results:
            if self._late is None and len(self._results) >= need:
                break
        await results.aclose()

    def finish(self) -> Collected[S]:
        """Return what came, and record who is late. Call it when no more is read in this step."""
        if self._limited:
            late: list[JSON] = [name for name in self._pending if name not in self._results]
            self._scope.decide("late", late)
        results = [self._results[name] for name in self._pending if name in self._results]
        return Collected(
            tuple((result.pending.sample, result.sampled) for result in results if result.sampled is not None),
            tuple((result.pending.sample, result.pending.tries) for result in results if result.sampled is None),
            self._carried,
        )

    async def _take(self) -> AsyncGenerator[_Result[S], None]:
        wanted = set(self._pending) - (self._late or set()) - self._results.keys()
        while wanted:
            result = await self._in_flight.take(wanted)
            wanted.discard(result.pending.name)
            self._results[result.pending.name] = result
            yield result


def _reflection_or_absent(result: _Result[S]) -> Reflection | Absent:
    reflection = result.sampled.reflection if result.sampled is not None else None
    return reflection if reflection is not None and reflection.lessons else Absent(result.pending.name)
