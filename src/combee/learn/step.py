"""One step: map a minibatch of samples to reflections, then reduce the reflections to a delta.

Everything that depends on time or on the outside world (who was in, how long it took) is a decision in the journal,
so a replay takes the same path and buys nothing again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from combee.errors import CallError
from combee.journal import JSON, Journal, Scope
from combee.learn.events import Event, SampleDone
from combee.learn.roles import Reflection
from combee.learn.sampling import Sample, Sampled, SampleMap
from combee.playbook import Playbook
from combee.runner import Runner

__all__ = ["Clock", "Mapped", "decided", "map_samples"]

S = TypeVar("S", bound=Sample)


class _NotDecidedError(Exception):
    """Nothing is recorded under the name."""


def decided(scope: Scope, name: str) -> JSON:
    """Return the decision recorded under this name, or None; record nothing."""

    def absent() -> JSON:
        raise _NotDecidedError

    try:
        return scope.decide(name, absent)
    except _NotDecidedError:
        return None


@dataclass(frozen=True, slots=True)
class Mapped(Generic[S]):
    """What the map gave. `failed` holds the samples to try again, with the reason; `worked` the others, in order."""

    worked: tuple[tuple[S, Sampled], ...]
    failed: tuple[tuple[S, str], ...]

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


async def map_samples(
    batch: Sequence[tuple[S, int]],
    sample_map: SampleMap[S],
    playbook: Playbook,
    *,
    scope: Scope,
    runner: Runner,
    limit: int,
    observe: Callable[[Event], None],
    step: int,
) -> Mapped[S]:
    """Work on the samples of a minibatch, each with the number of times it failed before.

    A sample that the journal says failed here is not called again: it belongs to a later step.
    """
    known = cast("dict[str, str]", decided(scope, "failed") or {})

    async def one(entry: tuple[S, int]) -> Sampled:
        sample, attempt = entry
        return await sample_map(sample, playbook, scope, attempt)

    waiting = [entry for entry in batch if entry[0].id not in known]
    values: dict[str, Sampled] = {}
    reasons: dict[str, str] = dict(known)
    async for done in runner.stream(one, waiting, limit=limit):
        sample = waiting[done.index][0]
        if done.value is not None:
            values[sample.id] = done.value
            observe(_sample_done(step, sample.id, done.value))
        else:
            reasons[sample.id] = _reason(done.error)
            observe(SampleDone(step, sample.id, 0, 0, 0, reasons[sample.id]))
    scope.decide("failed", lambda: cast("JSON", dict(reasons)))
    return Mapped(
        tuple((sample, values[sample.id]) for sample, _ in batch if sample.id in values),
        tuple((sample, reasons[sample.id]) for sample, _ in batch if sample.id in reasons),
    )


def _sample_done(step: int, sample: str, sampled: Sampled) -> SampleDone:
    score, reflection = sampled.score, sampled.reflection
    return SampleDone(
        step,
        sample,
        score.hits if score else 0,
        score.total if score else 0,
        len(reflection.lessons) if reflection else 0,
    )


def _reason(error: CallError | None) -> str:
    return error.message if error is not None else "it gave no result"


class Clock:
    """Measures a step's delay once: a replay returns the recorded value; a step with replayed parts has none."""

    def __init__(self, scope: Scope, journal: Journal | None) -> None:
        self._scope = scope
        self._journal = journal
        self._reused = journal.stats().reused if journal is not None else 0
        self._start = time.perf_counter()

    def seconds(self) -> float | None:
        """Return the seconds since the start, or None where results of the step came from the journal."""
        measured: float | None = round(time.perf_counter() - self._start, 6)
        if self._journal is not None and self._journal.stats().reused > self._reused:
            measured = None
        return cast("float | None", self._scope.decide("seconds", lambda: measured))
