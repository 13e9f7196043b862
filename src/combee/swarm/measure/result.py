"""What an experiment returns: tables, curves, and claims with a verdict that follows from the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Claim", "Curve", "Experiment", "Table", "Verdict"]

Verdict = Literal["held", "held only if", "did not hold"]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a table; numbers are written as they should be read."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """A plot: named lines of (x, y)."""

    name: str
    title: str
    x: str
    y: str
    series: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]
    log_x: bool = True
    log_y: bool = True


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, and whether the numbers bear it out; `condition` says when, or what was seen instead."""

    text: str
    verdict: Verdict
    condition: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment; the same seed gives the same one."""

    name: str
    setting: str
    tables: tuple[Table, ...]
    curves: tuple[Curve, ...]
    claims: tuple[Claim, ...]
