"""The size of the next minibatch: fixed, or chosen from measured delays. Journalled, so that a resume repeats it."""

from __future__ import annotations

from typing import cast

from combee.journal import Scope
from combee.learn.config import LearnConfig
from combee.pace import Choice, Delay, PaceState, lower, next_batch, start, state_choice

__all__ = ["Batching"]


class Batching:
    """Gives out batch sizes for `samples` samples an epoch."""

    def __init__(self, config: LearnConfig, samples: int) -> None:
        self._fixed = None if config.batch == "auto" else config.batch
        self._ceiling: int | None = None
        self._fresh: list[Delay] = []
        self._pace: PaceState | None = None
        if self._fixed is None:
            self._pace = start(samples, config.candidates or None, maximum=config.max_batch)

    def next(self, scope: Scope) -> int:
        """Return the size of the next minibatch."""
        if self._pace is None:
            size = cast("int", self._fixed)
        else:
            size, self._pace = next_batch(self._pace, self._fresh)
            self._fresh = []
        if self._ceiling is not None:
            size = min(size, self._ceiling)
        return cast("int", scope.decide("batch", lambda: size))

    def measured(self, batch: int, seconds: float | None) -> None:
        """Take in the delay of a step; None (a replayed step that was never measured whole) does not count."""
        if seconds is not None:
            self._fresh.append(Delay(batch, seconds))

    def lower(self, batch: int) -> None:
        """Follow the guard: no minibatch above this size for now."""
        if self._pace is not None:
            self._pace = lower(self._pace, batch)
        else:
            self._ceiling = max(1, batch)

    @property
    def choice(self) -> Choice | None:
        """What the measurements say, for the report; None for a fixed size."""
        return None if self._pace is None else state_choice(self._pace)
