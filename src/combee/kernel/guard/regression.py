"""Is the new book worse than the old one, or than the last `stable`? Exact paired tests under one error budget a run.

Sign flips of the differences per question; where every question has one part this is McNemar's exact test. No table,
no simulation, no approximation in the p-values. Each comparison is one look. Look k may err with chance
total·h/((k+h−1)(k+h)); these add up to `total` however long the run is, and the first h looks get half of it. With the
defaults a clean run of eight steps, each compared with both books, raises a false alarm in under 0.8 % of runs, and a
run without end in under 1.6 %. Looks are not pooled over steps: where rows may change for good both ways, twelve rows
lost and none won have chance 1/4096, however often the book is scored again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

from combee.errors import UsageError

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


Rows = Mapping[str, tuple[int, int]]
"""Question id -> (hits, parts). A question that ended in an error is not in it: an error is not a score of 0."""

MIN_TURNOVER = 0.04  # no two runs of an agent agree everywhere, even if these two did


@dataclass(frozen=True, slots=True)
class Spending:
    """The error budget of one run: `total` chance of any false alarm, front-loaded on the first `horizon` looks."""

    total: float = 0.016
    horizon: int = 16
    looks: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.total < 1 or self.horizon < 1 or self.looks < 0:
            raise UsageError(
                f"an error budget of {self.total} over {self.horizon} looks is not one",
                hint="Give a total between 0 and 1 and a horizon of at least 1.",
            )

    def alpha(self, ahead: int = 0) -> float:
        """Return the level of the next look, or of a later one."""
        k = self.looks + ahead + 1
        return self.total * self.horizon / ((k + self.horizon - 1) * (k + self.horizon))

    @property
    def spent(self) -> float:
        """The chance of a false alarm that the looks so far have used up."""
        return self.total * self.looks / (self.looks + self.horizon)


@dataclass(frozen=True, slots=True)
class Trial:
    """Scores of the new book and of an earlier one on the validation split; `against` is `old` or a label."""

    against: str
    new: Rows
    old: Rows


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of one look. Scores and `drop` are shares of all parts; `drop` is above 0 when the new book is worse.

    `smallest` is the smallest true drop that this look would find with 80 % power at the turnover seen (None: no drop
    would be found), `comparable` is False when too many rows have no score on one side.
    """

    against: str
    rows: int
    missing: int
    new_score: float
    old_score: float
    drop: float
    p_worse: float
    p_better: float
    alpha: float
    smallest: float | None
    comparable: bool

    @property
    def worse(self) -> bool:
        """Whether the new book is worse beyond chance."""
        return self.comparable and self.p_worse <= self.alpha

    @property
    def better(self) -> bool:
        """Whether the new book is better by the same standard.

        Only then should it become `stable`. Promoting whatever scored highest would pick lucky scores, and every later
        book would look like a loss beside them.
        """
        return self.comparable and self.p_better <= self.alpha

    def explain(self) -> str:
        """Return the comparison in one line."""
        if not self.comparable:
            return f"not compared with {self.against}: {self.missing} rows have no score on both sides"
        power = (
            f"the smallest drop found with {POWER:.0%} power is {100 * self.smallest:.1f} points"
            if self.smallest is not None
            else f"no power: with {self.rows} rows no drop can be told from chance"
        )
        return (
            f"{self.new_score:.3f} against {self.old_score:.3f} of {self.against} on {self.rows} rows "
            f"(p = {self.p_worse:.2g} for worse, level {self.alpha:.2g}; {power})"
        )


def compare(trial: Trial, alpha: float, *, max_missing: float = 0.1) -> Comparison:
    """Compare two books on the rows that both were scored on.

    Raises:
        UsageError: a row has no parts, hits outside its parts, or a different number of parts on the two sides.
    """
    both = sorted(trial.new.keys() & trial.old.keys())
    missing = len(trial.new.keys() | trial.old.keys()) - len(both)
    for name in both:
        (hits, parts), (old_hits, old_parts) = trial.new[name], trial.old[name]
        if parts < 1 or parts != old_parts or not (0 <= hits <= parts and 0 <= old_hits <= parts):
            raise UsageError(
                f"validation row {name!r} is scored {hits} of {parts} and {old_hits} of {old_parts}",
                hint="Score both books with the same scorer on the same rows.",
            )
    differences = [trial.new[name][0] - trial.old[name][0] for name in both]
    parts = sum(trial.new[name][1] for name in both)
    new = sum(trial.new[name][0] for name in both)
    old = sum(trial.old[name][0] for name in both)
    changed = sum(value * value for value in differences) - abs(new - old)
    turnover = max(MIN_TURNOVER, changed / max(parts, 1))
    return Comparison(
        against=trial.against,
        rows=len(both),
        missing=missing,
        new_score=new / max(parts, 1),
        old_score=old / max(parts, 1),
        drop=(old - new) / max(parts, 1),
        p_worse=p_not_above(differences),
        p_better=p_not_above(-value for value in differences),
        alpha=alpha,
        smallest=smallest_drop(len(both), parts, alpha, turnover),
        comparable=bool(both) and missing <= max_missing * (len(both) + missing),
    )
