"""Numbers measured once a seed, with the ends of their 95 % interval over the seeds, and what these decide.

Student's interval for means; for medians, and for what is read off averaged curves, the percentiles of 1,000 resamples
of the seeds (Efron and Tibshirani 1993). A comparison is decided when the whole interval lies on one side of the bar.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from statistics import NormalDist, mean, median, stdev
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Numbers = TypeVar("Numbers", bound=DataclassInstance)

__all__ = [
    "Spread",
    "above",
    "against",
    "average",
    "below",
    "both",
    "comes",
    "each",
    "mean_of",
    "median_of",
    "resampled",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spread:
    """A number and the ends of its interval. What never comes is infinite."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        ends = (self.low, self.high)
        if spec.endswith("%") and "+" not in spec:  # a share
            ends = (max(0.0, self.low), min(1.0, self.high))
        shown = ["never" if math.isinf(one) else format(one, spec) for one in (self.value, *ends)]
        return shown[0] if len(set(shown)) == 1 else f"{shown[0]} ({shown[1]} to {shown[2]})"


def mean_of(values: Iterable[float]) -> Spread:
    """Return the mean with Student's interval; of a single value, or of equal ones, no more than the value."""
    found = list(values)
    middle, freedom = mean(found), len(found) - 1
    if not freedom:
        return Spread(middle, middle, middle)
    z = NormalDist().inv_cdf(0.975)  # Student's quantile from the normal one: Abramowitz and Stegun 26.7.5
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    half = t * stdev(found) / math.sqrt(len(found))
    return Spread(middle, middle - half, middle + half)


def resampled(found: Sequence[T], statistic: Callable[[Sequence[T]], float]) -> Spread:
    """Return a statistic of what the seeds gave, with the percentiles of its resamples."""
    draw = random.Random("resamples")
    values = sorted(statistic(draw.choices(found, k=len(found))) for _ in range(1000))
    return Spread(statistic(found), values[25], values[-26])


def median_of(values: Iterable[float]) -> Spread:
    """Return the median with its interval; for what may be infinite."""
    return resampled(list(values), lambda some: sorted(some)[len(some) // 2] if math.inf in some else median(some))


def each(found: Sequence[T], name: str) -> Spread:
    """Return the mean of one field of what the seeds gave."""
    return mean_of(float(getattr(one, name)) for one in found)


def against(found: Sequence[T], name: str, others: Sequence[T], times: float = 1) -> Spread:
    """Return how much more of one field there is than of others `times` over, in the mean of the seeds."""
    pairs = zip(found, others, strict=True)
    return mean_of(float(getattr(a, name)) - times * float(getattr(b, name)) for a, b in pairs)


def average(found: Sequence[Numbers]) -> Numbers:
    """Return the mean of every field; of fields that are lists of numbers, at each place."""
    columns = [[getattr(one, each.name) for one in found] for each in fields(found[0])]
    means = [
        tuple(map(mean, zip(*some, strict=True))) if isinstance(some[0], tuple) else mean(some) for some in columns
    ]
    return type(found[0])(*means)


def above(spread: Spread, bar: float) -> bool | None:
    """Return whether a number is above a bar; None where the interval does not decide it."""
    return True if spread.low > bar else False if spread.high <= bar else None


def below(spread: Spread, bar: float) -> bool | None:
    """Return whether a number is below a bar; None where the interval does not decide it."""
    return above(Spread(-spread.value, -spread.high, -spread.low), -bar)


def both(*cases: bool | None) -> bool | None:
    """Return whether all of several things were seen; None where none of them was not, and some are open."""
    return False if False in cases else None if None in cases else True


def comes(spread: Spread) -> bool | None:
    """Return whether something comes at all; None where some resamples say never and others not."""
    return True if spread.high < math.inf else None if spread.low < math.inf else False
