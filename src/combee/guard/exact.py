"""Exact paired tests and their power: is the new book worse than the old one on the same questions?

Sign flips of the differences per question; where every question has one part this is McNemar's exact test. No table,
no simulation, no approximation in the p-values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist

__all__ = ["POWER", "p_not_above", "smallest_drop", "smallest_drop_in_parts"]

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


@lru_cache(maxsize=4096)
def _fewest_losses(discordant: int, alpha: float) -> int:
    """Return how many of `discordant` questions must be lost for p <= alpha; discordant + 1 where none suffices."""
    top = min(discordant, math.ceil(discordant / 2 + 5 * math.sqrt(discordant)))  # ten deviations: the rest is nothing
    tail = 0.0
    for losses in range(top, -1, -1):
        tail += math.exp(_log_choose(discordant, losses) - discordant * math.log(2))
        if tail > alpha:
            return losses + 1
    return 0


@lru_cache(maxsize=1024)
def smallest_drop(rows: int, alpha: float, churn: float) -> float | None:
    """Return the smallest true drop (share of rows) found with 80 % power, or None where no drop would be.

    Args:
        rows: questions with one part each.
        alpha: one-sided level of the test.
        churn: share of rows that turn from wrong to right while the drop happens.
    """
    if rows < 1 or 0.5**rows > alpha:
        return None
    low, high = 0.0, 1 - 2 * churn
    if high <= 0 or _power(rows, high, churn, alpha) < POWER:
        return None
    for _ in range(12):
        middle = (low + high) / 2
        if _power(rows, middle, churn, alpha) < POWER:
            low = middle
        else:
            high = middle
    return high


def _power(rows: int, drop: float, churn: float, alpha: float) -> float:
    """Sum over the number of discordant rows; terms beyond five deviations are left out."""
    moved = min(1.0, 2 * churn + drop)
    if moved <= 0:
        return 0.0
    lost = (churn + drop) / moved
    power = 0.0
    for discordant in _likely(rows, moved):
        need = _fewest_losses(discordant, alpha)
        likely = _likely(discordant, lost)
        reach = math.fsum(_chance(discordant, k, lost) for k in range(max(need, likely.start), likely.stop))
        power += _chance(rows, discordant, moved) * reach
    return power


def _likely(n: int, share: float) -> range:
    spread = 5 * math.sqrt(n * share * (1 - share)) + 1
    return range(max(0, math.floor(n * share - spread)), min(n, math.ceil(n * share + spread)) + 1)


def _chance(n: int, k: int, share: float) -> float:
    if share >= 1:
        return float(k == n)
    if share <= 0:
        return float(k == 0)
    return math.exp(_log_choose(n, k) + k * math.log(share) + (n - k) * math.log1p(-share))


def smallest_drop_in_parts(differences: Sequence[int], parts: int, alpha: float, churn: float) -> float | None:
    """Return the same for questions of several parts, as a share of all `parts`, by the normal approximation.

    The spread is the one seen in the differences, or what `churn` of all parts changing one by one would give if that
    is larger.
    """
    if not differences or 0.5 ** len(differences) > alpha:
        return None
    spread = math.sqrt(max(sum(value * value for value in differences), 2 * churn * parts))
    normal = NormalDist()
    drop = (normal.inv_cdf(1 - alpha) + normal.inv_cdf(POWER)) * spread / parts
    return drop if drop < 1 else None
