"""How large an experiment is, and how a verdict follows from two conditions."""

from __future__ import annotations

from dataclasses import dataclass

from combee.swarm.measure.result import Verdict

__all__ = ["Setting", "verdict"]


@dataclass(frozen=True, slots=True)
class Setting:
    """How large: the seeds, the limit of capacity in windows, and whether the small sizes are enough."""

    seeds: tuple[int, ...]
    limit: float
    quick: bool


def verdict(held: bool, partly: bool) -> Verdict:
    """Return "held" when all of a claim was seen, "held only if" when it was seen under a condition."""
    return "held" if held else "held only if" if partly else "did not hold"
