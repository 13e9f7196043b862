"""What the accepted steps of this run usually yield, and how far below it chance can reach.

Only accepted steps are learned, so that a collapse never becomes the new usual.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["MIN_STEPS", "Yield", "lowest_usual"]

MIN_STEPS = 3  # accepted steps before "usual" means anything
RECENT = 16  # a book fills up and lessons get rarer; only recent steps count
DEVIATIONS = 4.0  # standard deviations below the usual that chance is allowed


@dataclass(frozen=True, slots=True)
class Yield:
    """One accepted step in counts: reflections, lessons, reflections verified as covered, lessons that are specific."""

    items: int
    entries: int
    covered: int | None = None
    specific: int | None = None


def lowest_usual(pairs: Sequence[tuple[int, int]], n: int) -> tuple[float, float] | None:
    """Return (expected, lowest explainable) count for `n` trials, from earlier (count, trials) pairs.

    The usual rate is the median of the last 16. The tolerance is four standard deviations: chance within the step (as
    a binomial for rates below 1, half a Poisson above) and the spread of the rate between steps. None with fewer than
    three pairs.
    """
    rates = [count / trials for count, trials in pairs[-RECENT:] if trials > 0]
    if len(rates) < MIN_STEPS:
        return None
    usual = median(rates)
    within = usual * (1 - usual) if usual < 0.95 else 0.05 if usual <= 1 else usual / 2
    deviation = 1.4826 * median(abs(rate - usual) for rate in rates)
    between = max(deviation, (0.15 if len(rates) < 5 else 0.1) * usual)
    return usual * n, usual * n - DEVIATIONS * math.sqrt(n * within + (n * between) ** 2)
