"""Exact paired tests and their power: is the new book worse than the old one on the same questions?

Sign flips of the differences per question; where every question has one part this is McNemar's exact test. No table,
no simulation, no approximation in the p-values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from statistics import NormalDist

__all__ = ["POWER", "p_not_above", "smallest_drop"]

POWER = 0.8


def p_not_above(differences: Iterable[int]) -> float:
    """Return the chance of a sum this low or lower if each difference were as likely up as down (one-sided p).

    Differences are new minus old hits of one question. Give them negated for the other side. Zeros do not matter.
    """
    values = [value for value in differences if value]
    total = sum(values)
    reach = sum(map(abs, values))
    chances = [1.0]  # chances[i]: the part done so far sums to 2 i - its own reach
    for size, count in sorted(Counter(map(abs, values)).items()):
        row = _halves(count)
        merged = [0.0] * (len(chances) + size * count)
        for j, weight in enumerate(row):
            if weight:
                for i, chance in enumerate(chances):
                    merged[i + size * j] += chance * weight
        chances = merged
    return min(1.0, math.fsum(chances[: (total + reach) // 2 + 1]))


def _halves(count: int) -> list[float]:
    """Binomial(count, 1/2), 0 where a float cannot hold it."""
    return [math.exp(_log_choose(count, j) - count * math.log(2)) for j in range(count + 1)]


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def smallest_drop(rows: int, parts: int, alpha: float, turnover: float) -> float | None:
    """Return the smallest true drop (share of parts) that the test finds with 80 % power; None where it finds none.

    By the normal approximation (within a tenth of the exact value from 50 rows on); that too few rows have no power
    at all is exact.

    Args:
        rows: questions.
        parts: parts of all questions together.
        alpha: one-sided level of the test.
        turnover: squared difference per part that there is without any drop; with one part a question this is the
            share of questions that change, both ways together.
    """
    if rows < 1 or 0.5**rows > alpha:
        return None
    normal = NormalDist()
    sure, power = -normal.inv_cdf(alpha), normal.inv_cdf(POWER)

    def found(drop: float) -> bool:
        spread = turnover + drop
        need = sure * math.sqrt(spread) + power * math.sqrt(max(spread - drop * drop, 0.0))
        return drop * math.sqrt(parts) >= need

    low, high = 0.0, 1.0
    if not found(high):
        return None
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high
