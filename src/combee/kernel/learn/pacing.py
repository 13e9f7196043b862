"""The size of the next minibatch: fixed, or chosen from measured delays. Journalled, so that a resume repeats it.

The rule itself is `combee.kernel.pace`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from combee.kernel.journal import JSON, Journal, Scope
from combee.kernel.learn.config import LearnConfig
from combee.kernel.learn.events import BatchChosen
from combee.kernel.pace import (
    Choice,
    Delay,
    DelayLaw,
    PaceState,
    curve,
    from_json,
    lower,
    next_batch,
    start,
    state_choice,
    to_json,
)


class Batching:
    """Gives out batch sizes for `samples` samples an epoch."""

    def __init__(self, config: LearnConfig, samples: int) -> None:
        self._fixed = None if config.batch == "auto" else config.batch
        self._fresh: list[Delay] = []
        self._pace: PaceState | None = None
        self._unsaid: Choice | None = None
        if self._fixed is None:
            self._pace = start(samples, config.candidates or None, maximum=config.max_batch)

    def next(self, scope: Scope, ceiling: int | None = None) -> int:
        """Return the size of the next minibatch, at most `ceiling` (what the guard allows at present)."""
        if self._pace is None:
            size = cast("int", self._fixed)
            size = size if ceiling is None else min(size, ceiling)
        else:
            if ceiling is not None and (self._pace.ceiling is None or ceiling < self._pace.ceiling):
                self._pace = lower(self._pace, ceiling)
            size, self._pace = next_batch(self._pace, self._fresh)
            self._fresh = []
            if self._pace.batch is not None and self._pace.since_fit == 1:
                self._unsaid = state_choice(self._pace)
        return cast("int", scope.decide("batch", size))

    def get_state(self) -> JSON:
        """Return as JSON what the measurements so far come to."""
        fresh: list[JSON] = [[delay.batch, delay.seconds] for delay in self._fresh]
        return None if self._pace is None else {"pace": cast("JSON", to_json(self._pace)), "fresh": fresh}

    def set_state(self, state: Mapping[str, Any] | None) -> None:
        """Go on from what `get_state` returned. Raises `DataError` for something else."""
        if state is not None:
            self._pace = from_json(state["pace"])
            self._fresh = [Delay(batch, seconds) for batch, seconds in state["fresh"]]

    def measured(self, batch: int, seconds: float | None) -> None:
        """Take in the delay of a step; None (a replayed step that was never measured whole) does not count."""
        if seconds is not None:
            self._fresh.append(Delay(batch, seconds))

    def new_choice(self) -> Choice | None:
        """Return a new choice once, after the step for which it was made began."""
        choice, self._unsaid = self._unsaid, None
        return choice

    @property
    def choice(self) -> Choice | None:
        """What all measurements say, the newest included; None for a fixed size."""
        if self._pace is None:
            return None
        _, state = next_batch(self._pace, self._fresh)
        return state_choice(state)


def announcement(step: int, choice: Choice) -> BatchChosen:
    """Return the choice as an event, with all that a report draws."""
    law = choice.law if isinstance(choice.law, DelayLaw) else None
    return BatchChosen(
        step=step,
        batch=choice.batch,
        exact=choice.exact,
        tau=choice.tau,
        scale=law.a if law else None,
        alpha=law.alpha if law else None,
        alpha_error=law.alpha_error if law else None,
        smallest=choice.smallest,
        bound=choice.bound,
        fallback=choice.fallback,
        curve=curve(choice),
        sensitivity=choice.sensitivity,
        warnings=choice.warnings,
    )


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
