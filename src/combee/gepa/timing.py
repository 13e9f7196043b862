"""How long iterations take: from the draw of a minibatch to the last score on it, without validation, never cached."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from combee.kernel.pace import Delay

__all__ = ["Clock"]


@dataclass(slots=True)
class Clock:
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
