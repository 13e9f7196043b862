"""Whether a new version fails more often than the old one: tests that may be looked at after every outcome.

Each unit is in one arm by a hash (share `s` on trial) and counts once. Two e-processes (Ramdas, Grunwald, Vovk and
Shafer, "Game-Theoretic Statistics and Safe Anytime-Valid Inference", 2023; betting as in Waudby-Smith and Ramdas 2024):

- *worse*: against "it fails no more often". Which arm an outcome comes from is a coin of bias `s` where both fail
  alike, at whatever rate and however that drifts; bets say that failures come from the trial more often.
- *good*: against "it fails `MARGIN` times as often". Given a failure, its arm is then a coin of known bias, again under
  any drift; bets say that fewer failures come from the trial.

A bet's factor has an expectation of at most 1 under what it bets against, so by Ville's inequality the chance that the
product ever reaches 1/a is at most a. Several bets are hedged by their mean. No horizon is fixed in advance.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["GOOD", "MARGIN", "WORSE", "ArmEvidence", "is_on_trial"]

WORSE, GOOD, MARGIN = 100.0, 20.0, 1.25
_WORSE_RATIOS = (1.1, 1.2, 1.35, 1.6, 2.0, 3.0)
_GOOD_RATIOS = (1.0, 0.9, 0.75, 0.5, 0.2)

Verdict = Literal["worse", "good"]
_CELLS = tuple((arm, failed) for arm in (False, True) for failed in (False, True))


def is_on_trial(unit: str, version: str, share: float) -> bool:
    """Return the arm of a unit, the same at each call; another version draws other units."""
    drawn = hashlib.blake2b(f"{version}\0{unit}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(drawn, "big") < share * 2.0**64


@dataclass
class ArmEvidence:
    """The evidence so far. `share` is that of the units on trial, above 0 and below 1."""

    share: float
    counts: dict[tuple[bool, bool], int] = field(default_factory=lambda: dict.fromkeys(_CELLS, 0))
    """Units by (on trial, failed)."""
    _worse: list[float] = field(default_factory=lambda: [0.0] * len(_WORSE_RATIOS))
    _good: list[float] = field(default_factory=lambda: [0.0] * len(_GOOD_RATIOS))

    def add(self, *, on_trial: bool, failed: bool) -> None:
        """Take in the outcome of one more unit. Bets rest on earlier outcomes only."""
        base = (self._failed() + 0.5) / (self.units + 1.0)
        for index, ratio in enumerate(_WORSE_RATIOS):
            # Above one half a rate has no room to double: successes are divided instead.
            new = base * ratio if base <= 0.5 and base * ratio < 1 else 1 - (1 - base) / ratio
            bias = _bias(self.share, new, base) if failed else _bias(self.share, 1 - new, 1 - base)
            self._worse[index] += _factor(bias, self.share, on_trial)
        if failed:
            null = _bias(self.share, MARGIN, 1.0)
            for index, ratio in enumerate(_GOOD_RATIOS):
                self._good[index] += _factor(_bias(self.share, ratio, 1.0), null, on_trial)
        self.counts[on_trial, failed] += 1

    @property
    def units(self) -> int:
        """How many units had an outcome."""
        return sum(self.counts.values())

    def _failed(self) -> int:
        return self.counts[True, True] + self.counts[False, True]

    @property
    def worse(self) -> float:
        """Evidence that it fails more often."""
        return _mean_of_exp(self._worse)

    @property
    def good(self) -> float:
        """Evidence that it fails less than `MARGIN` times as often."""
        return _mean_of_exp(self._good)

    def verdict(self) -> Verdict | None:
        """Return what the evidence is enough for, None for neither."""
        if self.worse >= WORSE:
            return "worse"
        return "good" if self.good >= GOOD else None


def _bias(share: float, on_trial: float, other: float) -> float:
    """Return the chance that an outcome is from the trial, given the rates of such outcomes in both arms."""
    weight = share * on_trial
    return weight / (weight + (1 - share) * other)


def _factor(bet: float, null: float, on_trial: bool) -> float:
    return math.log(bet / null) if on_trial else math.log((1 - bet) / (1 - null))


def _mean_of_exp(logs: list[float]) -> float:
    most = max(logs)
    return math.exp(min(700.0, most)) * sum(math.exp(each - most) for each in logs) / len(logs)
