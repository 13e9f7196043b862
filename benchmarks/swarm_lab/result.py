"""What an experiment is given and returns: sizes; tables, curves, and claims whose verdict follows from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

__all__ = ["Claim", "Curve", "Experiment", "Setting", "Table", "Verdict", "judge"]

Verdict = Literal["held", "held only if", "did not hold"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """How large an experiment is: the whole of it, or quick."""

    quick: bool

    def pick(self, quick: T, whole: T) -> T:
        """Return the one that fits."""
        return quick if self.quick else whole

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of what is drawn."""
        return self.pick((0,), (0, 1, 2))


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
    """A claim, and whether the numbers bear it out; `condition` says when, or what was seen instead."""

    text: str
    verdict: Verdict
    condition: str


def judge(text: str, condition: str, *, held: bool, partly: bool) -> Claim:
    """Return a claim with its verdict: "held" when all of it was seen, "held only if" when only under a condition."""
    return Claim(text, "held" if held else "held only if" if partly else "did not hold", condition)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment; the same seed gives the same one."""

    name: str
    setting: str
    tables: tuple[Table, ...]
    curves: tuple[Curve, ...]
    claims: tuple[Claim, ...]
