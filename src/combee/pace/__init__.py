"""The dynamic batch size: measured step delays in, the size of the next batch out. Pure, with small frozen state."""

from __future__ import annotations

from combee.pace.choose import Choice, CurvePoint, choose, clean_candidates, curve, explain
from combee.pace.controller import (
    PaceConfig,
    PaceState,
    default_candidates,
    from_json,
    lower,
    next_batch,
    start,
    state_choice,
    to_json,
)
from combee.pace.fit import Delay, Fit, Point, Unfit, fit_curve, fit_delays

__all__ = [
    "Choice",
    "CurvePoint",
    "Delay",
    "Fit",
    "PaceConfig",
    "PaceState",
    "Point",
    "Unfit",
    "choose",
    "clean_candidates",
    "curve",
    "default_candidates",
    "explain",
    "fit_curve",
    "fit_delays",
    "from_json",
    "lower",
    "next_batch",
    "start",
    "state_choice",
    "to_json",
]
