"""What an experiment is given and returns: seeds; tables, curves, and claims whose verdict follows from the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

__all__ = ["Claim", "Curve", "Experiment", "Setting", "Table", "Verdict", "constructed", "judge"]

Verdict = Literal["holds", "holds only if", "does not hold", "undecided", "by construction"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """How large an experiment is, and its seeds: so many, from the first on."""

    quick: bool = False
    seed: int = 0
    count: int = 10

    def pick(self, quick: T, whole: T) -> T:
        """Return the one that fits."""
        return quick if self.quick else whole

    def over(self, run: Callable[..., T], *arguments: Any, **options: Any) -> list[T]:
        """Return what a run gives with each seed, which it is given by name."""
        return [run(*arguments, seed=seed, **options) for seed in range(self.seed, self.seed + self.count)]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a table; numbers are written as they should be read."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """A plot: named lines of (x, y). `guide` is the name of one that was not measured, but shows what would be even."""

    name: str
    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    guide: str = ""
    log_x: bool = True
    log_y: bool = True


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, whether the numbers bear it out, and the numbers."""

    text: str
    verdict: Verdict
    numbers: str


def judge(text: str, numbers: str, cases: Iterable[bool | None]) -> Claim:
    """Return a claim with its verdict, from whether it was seen in each case that was tried.

    It holds when seen in all, "only if" when in some; it does not when in none, and is undecided when the intervals
    leave that open.
    """
    seen = list(cases)
    if all(seen):
        return Claim(text, "holds", numbers)
    if any(seen):
        return Claim(text, "holds only if", numbers)
    return Claim(text, "undecided" if None in seen else "does not hold", numbers)


def constructed(text: str, numbers: str, pairs: Iterable[tuple[float, float]]) -> Claim:
    """Return a claim about what the set-up fixes: each number measured, beside what arithmetic says without a run.

    Where they agree with every seed it holds by construction and says nothing about agents; else it does not hold.
    """
    equal = all(math.isclose(found, told, abs_tol=1e-9) for found, told in pairs)
    return Claim(text, "by construction" if equal else "does not hold", numbers)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment; the same seeds give the same one."""

    name: str
    setting: str
    tables: tuple[Table, ...]
    curves: tuple[Curve, ...]
    claims: tuple[Claim, ...]
