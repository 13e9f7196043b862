"""Fit of retention exp(−δ − m/m0) to counts of planted and surviving facts, by maximum likelihood.

The likelihood is binomial with a log link and concave, so sizes where nothing survived weigh in as they should, and a
bounded Newton ascent finds the only top. The spread comes from redrawing whole calls: facts of one share its fate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Fit", "fit_counts", "fit_retention"]

Counts = tuple[int, int, int]
"""Inputs of a call, facts planted, facts that survived."""

_LEAST = 1e-9
_DRAWS = 200


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted retention. Intervals hold 90 % of the redrawn fits; `m0` is infinite where nothing was lost.

    Attributes:
        delta: Loss of any call, in nats.
        m0: Inputs at which 1/e of the rest is kept.
        delta_range: Low and high end.
        m0_range: Low and high end.
    """

    delta: float
    m0: float
    delta_range: tuple[float, float]
    m0_range: tuple[float, float]


def fit_retention(calls: Sequence[Counts], *, seed: int = 0) -> Fit:
    """Return the fit over single calls, with its spread."""
    delta, m0 = fit_counts(calls)
    by_size: dict[int, list[Counts]] = {}
    for call in calls:
        by_size.setdefault(call[0], []).append(call)
    draw = random.Random(seed)
    fits = [fit_counts([draw.choice(group) for group in by_size.values() for _ in group]) for _ in range(_DRAWS)]
    low, high = int(0.05 * _DRAWS), int(0.95 * _DRAWS) - 1
    deltas, sizes = sorted(fit[0] for fit in fits), sorted(fit[1] for fit in fits)
    return Fit(delta, m0, (deltas[low], deltas[high]), (sizes[low], sizes[high]))


def fit_counts(calls: Sequence[Counts]) -> tuple[float, float]:
    """Return (delta, m0) of greatest likelihood with delta ≥ 0 and m0 > 0."""
    pooled: dict[int, tuple[float, float]] = {}
    for size, planted, survived in calls:
        all_planted, all_survived = pooled.get(size, (0.0, 0.0))
        pooled[size] = (all_planted + planted, all_survived + survived)
    rows = [(float(size), planted, survived) for size, (planted, survived) in sorted(pooled.items())]
    if all(planted == survived for _, planted, survived in rows):
        return 0.0, math.inf
    if not any(survived for _, _, survived in rows):
        # No survivor anywhere has no finite top; half a fact in the smallest call gives a finite, dismal answer.
        rows[0] = (rows[0][0], rows[0][1], 0.5)
    delta, slope = _ascend(rows)
    flat = _ascend(rows, held=True)
    # A loss of any call is believed only where it explains the counts clearly better than none (5 %, one-sided).
    if 2 * (_log_likelihood(rows, delta, slope) - _log_likelihood(rows, *flat)) < 2.71:
        delta, slope = flat
    return delta, (1.0 / slope if slope > _LEAST else math.inf)


def _ascend(rows: Sequence[tuple[float, float, float]], *, held: bool = False) -> tuple[float, float]:
    """Climb in (delta, slope = 1/m0), both kept at 0 or more; `held` keeps delta at 0."""
    x = (0.0 if held else 0.01, 0.5 / (sum(row[0] for row in rows) / len(rows)))
    value = _log_likelihood(rows, *x)
    for _ in range(100):
        gradient, hessian = _derivatives(rows, *x)
        step = (0.0, -gradient[1] / hessian[2]) if held else _newton(x, gradient, hessian)
        scale = 1.0
        while scale > 1e-10:
            trial = (max(0.0, x[0] + scale * step[0]), max(0.0, x[1] + scale * step[1]))
            gained = _log_likelihood(rows, *trial)
            if gained >= value:
                break
            scale /= 2
        else:
            return x
        moved = abs(trial[0] - x[0]) + abs(trial[1] - x[1])
        x, value = trial, gained
        if moved < 1e-12:
            break
    return x


def _newton(
    x: tuple[float, float], gradient: tuple[float, float], hessian: tuple[float, float, float]
) -> tuple[float, float]:
    """Return the Newton step among the parameters that are not held at their bound."""
    (a, b), (aa, ab, bb) = gradient, hessian
    free = (x[0] > 0 or a > 0, x[1] > 0 or b > 0)
    determinant = aa * bb - ab * ab
    if all(free) and determinant > 1e-12 * aa * bb:
        step = ((ab * b - bb * a) / determinant, (ab * a - aa * b) / determinant)
        # A step that only pushes a parameter into its bound says nothing about the other: take that one alone.
        if not (x[0] == 0 and step[0] < 0) and not (x[1] == 0 and step[1] < 0):
            return step
        free = (not (x[0] == 0 and step[0] < 0), not (x[1] == 0 and step[1] < 0))
    return (-a / aa if free[0] and aa else 0.0, -b / bb if free[1] and bb else 0.0)


def _log_likelihood(rows: Sequence[tuple[float, float, float]], delta: float, slope: float) -> float:
    total = 0.0
    for size, planted, survived in rows:
        loss = max(_LEAST, delta + slope * size)
        total -= survived * loss
        if planted > survived:
            total += (planted - survived) * math.log(-math.expm1(-loss))
    return total


def _derivatives(
    rows: Sequence[tuple[float, float, float]], delta: float, slope: float
) -> tuple[tuple[float, float], tuple[float, float, float]]:
    a = b = aa = ab = bb = 0.0
    for size, planted, survived in rows:
        loss = max(_LEAST, delta + slope * size)
        gone = -math.expm1(-loss)
        kept = 1.0 - gone
        first = -survived + (planted - survived) * kept / gone
        second = -(planted - survived) * kept / (gone * gone)
        a += first
        b += first * size
        aa += second
        ab += second * size
        bb += second * size * size
    return (a, b), (aa, ab, bb)
