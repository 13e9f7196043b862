"""The dynamic batch size: measured step delays in, the size of the next batch out. Pure, with small frozen state."""

from __future__ import annotations

from combee.kernel.pace.controller import PaceState, from_json, lower, next_batch, start, state_choice, to_json
from combee.kernel.pace.law import Choice, Delay, DelayLaw, Unfit, curve, explain

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
