"""`CombeeSampler`: gepa's `BatchSampler` whose size follows measured times (paper section 3.4), or is fixed.

It draws without replacement from seeded epochs, so each record is seen equally often whatever the sizes are. Add it to
gepa's `callbacks` too: then an iteration is timed up to its last minibatch, without the validation that may follow.

How long iterations take: from the draw of a minibatch to the last score on it, without validation, never cached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast

from combee.errors import UsageError
from combee.kernel.aggregate.shuffle import permutation
from combee.kernel.journal import JSON, Scope
from combee.kernel.pace import Choice, Delay, PaceState, from_json, next_batch, start, state_choice, to_json

__all__ = ["CombeeSampler", "IterationClock"]


class _Loader(Protocol):
    def all_ids(self) -> Sequence[Any]: ...


class CombeeSampler:
    """Minibatches of the size that pace finds; pass it as `batch_sampler=` and leave `reflection_minibatch_size` out.

    Args:
        batch: A fixed size, or "auto": sizes are profiled first (those steps learn too), then one is chosen.
        candidates: Sizes to profile; None: 2, 4, 8 ... 64, up to half the records.
        minimum: The smallest size that may be chosen.
        maximum: The largest one.
        seed: Decides the order of the records.
        scope: Where in a journal each size is kept, so that a replay takes the same ones.
        reused: Returns how many results came from the journal so far: an iteration with any of them is not a measure.

    Raises:
        UsageError: A size cannot be used.
    """

    def __init__(
        self,
        batch: int | Literal["auto"] = "auto",
        *,
        candidates: Sequence[int] | None = None,
        minimum: int = 1,
        maximum: int | None = None,
        seed: int = 0,
        scope: Scope | None = None,
        reused: Callable[[], int] = lambda: 0,
    ) -> None:
        if batch != "auto" and (type(batch) is not int or batch < 1):
            raise UsageError(f"batch is {batch!r}", hint='Give a whole number of at least 1, or "auto".')
        self._batch = batch
        self._settings = {"candidates": candidates, "minimum": minimum, "maximum": maximum}
        self._seed = seed
        self._scope = scope
        self._reused = reused
        self._pace: PaceState | None = None
        self._count = 0
        self._places: list[int] = []
        self._epoch = 0
        self._choices = 0
        self._drawn = 0
        self._clock = IterationClock()

    @property
    def drawn(self) -> int:
        """How many records were drawn so far."""
        return self._drawn

    @property
    def choice(self) -> Choice | None:
        """What the measured times say so far, with the curve and the warnings; None for a fixed size."""
        return None if self._pace is None else state_choice(self._pace)

    def next_minibatch_ids(self, loader: _Loader, state: Any) -> list[Any]:
        """Return the ids of the next minibatch. All proposals of one iteration get the same size and different ids.

        Raises:
            UsageError: There is nothing to draw from.
        """
        ids = list(loader.all_ids())
        if not ids:
            raise UsageError("there are no training records to draw from", hint="Give a trainset with records.")
        if len(ids) != self._count:
            self._count, self._places = len(ids), []
            self._pace = None
        iteration = int(getattr(state, "i", 0))
        if self._clock.iteration != iteration or self._clock.batch is None:
            self._begin(iteration, int(getattr(state, "num_full_ds_evals", 0)))
        places = self._take(cast("int", self._clock.batch))
        self._drawn += len(places)
        return [ids[place] for place in places]

    def observe(self, batch: int, seconds: float) -> None:
        """Tell how long an iteration with a minibatch of this size took, where you time it yourself."""
        self._clock.told = True
        self._clock.seen.append(Delay(batch, seconds))

    def on_evaluation_end(self, event: Mapping[str, Any]) -> None:
        """Note when a minibatch was scored (gepa's callback)."""
        self._clock.scored(time.monotonic(), child=event.get("candidate_idx") is None)

    def on_iteration_end(self, event: Mapping[str, Any]) -> None:
        """Measure the iteration (gepa's callback)."""
        self._clock.told = True
        self._clock.measure(self._reused())

    def _begin(self, iteration: int, validations: int) -> None:
        clock = self._clock
        if not clock.told:
            clock.between(time.monotonic(), validations, self._reused())
        number, self._choices = self._choices, self._choices + 1
        clock.begin(iteration, validations, self._reused(), self._size(number))

    def _size(self, number: int) -> int:
        if self._batch != "auto":
            return min(int(self._batch), self._count)
        if self._pace is None:
            self._pace = start(self._count, **self._settings)  # type: ignore[arg-type]  # names and types are above
        seen, self._clock.seen = self._clock.seen, []
        size, after = next_batch(self._pace, seen)
        choice = cast("JSON", [size, to_json(after)])
        kept = choice if self._scope is None else self._scope.decide(f"batch/{number}", choice)
        size, state = cast("list[Any]", kept)
        self._pace = from_json(state)
        return int(size)

    def _take(self, size: int) -> list[int]:
        """Take places off the queue; where an epoch ends inside a minibatch, the next one brings no place twice."""
        taken: list[int] = []
        while len(taken) < size:
            if not self._places:
                self._places = permutation(self._count, f"{self._seed}/minibatches/{self._epoch}")
                self._epoch += 1
            inside = set(taken)
            fresh = [place for place in self._places if place not in inside][: size - len(taken)]
            gone = set(fresh)
            self._places = [place for place in self._places if place not in gone]
            taken += fresh
        return taken

    def get_state(self) -> dict[str, JSON]:
        """Return what a resumed run needs, as JSON: see `keep_state`."""
        pace = None if self._pace is None else cast("JSON", to_json(self._pace))
        return {
            "count": self._count,
            "places": list(self._places),
            "epoch": self._epoch,
            "choices": self._choices,
            "drawn": self._drawn,
            "pace": pace,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        self._count, self._places = int(state["count"]), list(state["places"])
        self._epoch, self._choices, self._drawn = int(state["epoch"]), int(state["choices"]), int(state["drawn"])
        self._pace = None if state["pace"] is None else from_json(state["pace"])
        self._clock = replace(self._clock, batch=None, began=None)


@dataclass(slots=True)
class IterationClock:
    """The iteration under way. `seen` holds measured delays that pace has not been given yet.

    `told`: somebody measures better than the time between two draws does.
    """

    iteration: int | None = None
    batch: int | None = None
    began: float | None = None
    last: float | None = None
    validations: int = 0
    reused: int = 0
    told: bool = False
    seen: list[Delay] = field(default_factory=list)

    def begin(self, iteration: int, validations: int, reused: int, batch: int) -> None:
        """Start the clock of an iteration."""
        self.iteration, self.batch = iteration, batch
        self.validations, self.reused = validations, reused
        self.began, self.last = time.monotonic(), None

    def scored(self, now: float, *, child: bool) -> None:
        """Note that a minibatch was scored; the proposal's score comes last."""
        if child:
            self.last = now

    def measure(self, reused: int) -> None:
        """Count the iteration where a proposal was scored: one that was skipped took another way."""
        if self.batch is not None and self.began is not None and self.last is not None:
            self.seen.append(Delay(self.batch, self.last - self.began, cached=reused != self.reused))
        self.began = None

    def between(self, now: float, validations: int, reused: int) -> None:
        """Count the time since the last draw, where nobody called back; a validation in between spoils it."""
        if self.batch is not None and self.began is not None and validations == self.validations:
            self.seen.append(Delay(self.batch, now - self.began, cached=reused != self.reused))
