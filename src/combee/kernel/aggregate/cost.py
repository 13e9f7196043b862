"""How long a tree of calls takes and what it keeps, and the fan-ins that serve both best.

A call over m inputs takes t(m) = α + βm and keeps exp(−δ − m/m0) of what enters it. With h = α/β the best equal fan-in
solves m(ln m − 1) = h; with retention h_eff = (α + λδ)/(β + λ/m0). With C calls at once, g groups take ⌈g/C⌉ rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from combee.errors import UsageError


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a call over m inputs costs in time: alpha + beta·m seconds.

    Attributes:
        alpha: Seconds per call, whatever is in it.
        beta: Seconds per input.
        concurrency: Calls that may be under way at once; None = no limit.
    """

    alpha: float
    beta: float
    concurrency: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and math.isfinite(self.beta) and self.alpha >= 0 and self.beta >= 0):
            raise UsageError(f"a cost of alpha={self.alpha}, beta={self.beta}", hint="Both are seconds, 0 or more.")
        if self.concurrency is not None and self.concurrency < 1:
            raise UsageError(f"a concurrency of {self.concurrency}", hint="Give 1 or more, or None for no limit.")

    def seconds(self, size: int | float) -> float:
        """Return the seconds of one call over `size` inputs."""
        return self.alpha + self.beta * size


@dataclass(frozen=True, slots=True)
class Retention:
    """The share of lessons that a call over m inputs keeps: exp(−delta − m/m0).

    Attributes:
        delta: Loss of any call, in nats (0 = none).
        m0: Inputs at which 1/e is kept.
        price: λ, the seconds one would wait to save one nat of loss; weighs quality against time in the solver.
    """

    delta: float
    m0: float
    price: float = 60.0

    def __post_init__(self) -> None:
        if not (self.delta >= 0 and self.m0 > 0 and self.price >= 0) or math.isinf(self.delta):
            raise UsageError(
                f"a retention of delta={self.delta}, m0={self.m0}, price={self.price}",
                hint="delta and price are 0 or more, m0 is more than 0.",
            )

    def loss(self, size: int | float) -> float:
        """Return the loss of one call over `size` inputs, in nats."""
        return self.delta + size / self.m0

    def kept(self, size: int | float) -> float:
        """Return the share that one call over `size` inputs keeps, 0 to 1."""
        return math.exp(-self.loss(size))


def least_levels(inputs: int, cap: int) -> int:
    """Return the smallest L with cap^L ≥ inputs: L ≥ ln N / ln M, in whole numbers. At least 1; `cap` is 2 or more."""
    levels, reach = 1, cap
    while reach < inputs:
        levels, reach = levels + 1, reach * cap
    return levels


def groups_of(inputs: int, fan_in: int) -> int:
    """Return how many groups of at most `fan_in` the inputs make."""
    return -(-inputs // fan_in)


def tree_seconds(inputs: int, fan_ins: tuple[int, ...], cost: CallCost) -> float:
    """Return the seconds of a tree whose levels have these fan-ins, leaves first, with evenly filled groups."""
    total = 0.0
    for fan_in in fan_ins:
        total += _level(inputs, fan_in, cost, None)
        inputs = groups_of(inputs, fan_in)
    return total


def best_tree(
    inputs: int,
    *,
    cost: CallCost,
    retention: Retention | None = None,
    cap: int | None = None,
    leaf_cap: int | None = None,
    least: int = 1,
) -> tuple[int, ...]:
    """Return the fan-ins, leaves first, with the least seconds plus `price` times loss.

    Args:
        inputs: N = copies · items.
        cost: The time model.
        retention: The quality model, or None for time alone.
        cap: Most inputs of a call; None = no cap.
        leaf_cap: Most inputs of a leaf call, where it is lower than `cap`.
        least: Fewest levels.
    """
    top = max(2, min(cap or inputs, inputs))
    low = max(1, min(leaf_cap or top, top))

    @cache
    def best(count: int, levels: int, limit: int) -> tuple[float, tuple[int, ...]]:
        if levels == 1:
            return (_level(count, count, cost, retention), (count,)) if count <= limit else (math.inf, ())
        choices = []
        for fan_in in _candidates(count, levels, limit, cost.concurrency):
            rest, fan_ins = best(groups_of(count, fan_in), levels - 1, top)
            choices.append((_level(count, fan_in, cost, retention) + rest, (fan_in, *fan_ins)))
        return min(choices, default=(math.inf, ()))

    start = max(least, least_levels(inputs, top))
    trees = [best(inputs, levels, low) for levels in range(start, start + 4)]
    return min(trees)[1]


def _level(count: int, fan_in: int, cost: CallCost, retention: Retention | None) -> float:
    groups = groups_of(count, fan_in)
    size = groups_of(count, groups)
    rounds = 1 if cost.concurrency is None else groups_of(groups, cost.concurrency)
    seconds = rounds * cost.seconds(size)
    return seconds + (retention.price * retention.loss(size) if retention else 0.0)


def _candidates(count: int, levels: int, limit: int, concurrency: int | None) -> set[int]:
    """Return the fan-ins worth trying: the roots of the count, the caps, and the sizes that just fill whole rounds."""
    limit = min(limit, count)
    sizes = {limit, 2}
    for root in range(1, levels + 1):
        exact = count ** (1.0 / root)
        sizes |= {int(exact), int(exact) + 1}
    if concurrency is not None:
        fewest = groups_of(groups_of(count, limit), concurrency)
        for rounds in {1, 2, 3, 4, fewest, fewest + 1, fewest + 2}:
            sizes.add(groups_of(count, rounds * concurrency))
    return {min(limit, max(1 if limit < 2 else 2, size)) for size in sizes}
