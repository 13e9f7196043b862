"""The dynamic batch size: measured step delays in, the size of the next batch out. Pure, with small frozen state."""

from __future__ import annotations

from combee.kernel.pace.choose import Choice, curve, explain
from combee.kernel.pace.controller import PaceState, from_json, lower, next_batch, start, state_choice, to_json
from combee.kernel.pace.fit import Delay, DelayLaw, Unfit

__all__ = [
    "Choice",
    "Delay",
    "DelayLaw",
    "PaceState",
    "Unfit",
    "curve",
    "explain",
    "from_json",
    "lower",
    "next_batch",
    "start",
    "state_choice",
    "to_json",
]
