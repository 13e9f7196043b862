"""From the delay law to one batch size: b* = (αA/τ)^(1/(α+1)), τ a share of the steepest slope (arXiv 2604.04247).

With τ = 1.6 % of the slope at the smallest candidate b_min, A and N cancel: b* = b_min·62.5^(1/(1+α)).
So the answer is proportional to b_min, and a flat curve asks for a large batch; both are said aloud.
Where there is no usable law, a stated fixed size is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from combee.errors import UsageError
from combee.kernel.pace.fit import DelayLaw, Unfit, check_whole

SLOPE_SHARE = 0.016
DEFAULT_FALLBACK = 16  # one leaf of the default aggregation plan: no curator call carries more than it does anyway
FLAT_ALPHA = 0.3  # below it b* is more than 24 times the smallest candidate


@dataclass(frozen=True, slots=True)
class Choice:
    """The batch size and all that led to it.

    `exact` is b* before rounding and bounds (None with the fallback), `tau` the slope it stops at (seconds a pass per
    item of batch), `sensitivity` pairs of (b_min, b*) for other smallest candidates, `bound` the bound that changed
    the size, `fallback` whether the fixed size was used.
    """

    batch: int
    exact: float | None
    tau: float | None
    law: DelayLaw | Unfit
    smallest: int | None = None
    sensitivity: tuple[tuple[int, float], ...] = ()
    bound: str | None = None
    fallback: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of the curve for a plot: seconds of one pass, measured (None where nobody ran it) and fitted."""

    batch: int
    measured: float | None
    fitted: float | None


def clean_candidates(
    candidates: Iterable[int], n: int, *, minimum: int = 1, maximum: int | None = None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the sizes to profile, ascending, each once, with notes on what was left out.

    Sizes above `n` or outside [minimum, maximum] are left out, not clipped: a profile step also learns, and a clipped
    one would be the largest batch of all.

    Raises:
        UsageError: a candidate is not a whole number of at least 1, or the bounds contradict each other.
    """
    _check_bounds(n, minimum, maximum)
    sizes = list(candidates)
    for size in sizes:
        check_whole("candidate batch size", size)
    unique = sorted(set(sizes))
    top = n if maximum is None else min(n, maximum)
    kept = tuple(size for size in unique if minimum <= size <= top)
    notes = []
    if len(unique) < len(sizes):
        notes.append(f"{len(sizes) - len(unique)} equal candidates count once")
    if out := [size for size in unique if not minimum <= size <= top]:
        notes.append(f"candidates {', '.join(map(str, out))} lie outside [{minimum}, {top}] and are not profiled")
    return kept, tuple(notes)


def choose(
    law: DelayLaw | Unfit,
    n: int,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    fallback: int = DEFAULT_FALLBACK,
    smallest: int | None = None,
) -> Choice:
    """Return the batch size for `n` training items.

    Rounding: to the nearest whole number, halves up. Bounds: `minimum`, then `maximum`, then `n`; a later one
    wins over an earlier one. The fallback size obeys the same bounds.

    Args:
        law: what `fit_delays` or `fit_curve` returned.
        n: items in the training set.
        minimum: smallest batch allowed.
        maximum: largest batch allowed; None for no limit but `n`.
        fallback: the fixed size where there is no usable law.
        smallest: b_min, where the slope is steepest; the smallest size of the fit if not given.

    Raises:
        UsageError: a bound is not a positive whole number, or minimum > maximum.
    """
    _check_bounds(n, minimum, maximum)
    bounds = (minimum, maximum, n)
    if isinstance(law, Unfit):
        batch, bound = _bounded(fallback, *bounds)
        warnings = (f"fixed batch size {batch}: {law.reason}", *law.notes)
        return Choice(batch, None, None, law, bound=bound, fallback=True, warnings=warnings)
    low = smallest if smallest is not None else law.points[0].batch
    if low < 1:
        raise UsageError(f"the smallest candidate must be at least 1, not {low}")
    exact = _optimum(low, law.alpha)
    tau = SLOPE_SHARE * law.alpha * law.a * low ** (-law.alpha - 1)
    batch, bound = _bounded(math.floor(exact + 0.5), *bounds)
    others = sorted({max(1, low // 2), low * 2, *(point.batch for point in law.points[:3])} - {low})
    sensitivity = tuple((other, _optimum(other, law.alpha)) for other in others)
    return Choice(batch, exact, tau, law, low, sensitivity, bound, warnings=_warnings(law, exact, low, bound))


def _optimum(smallest: int, alpha: float) -> float:
    return float(smallest * (1 / SLOPE_SHARE) ** (1 / (1 + alpha)))


def _check_bounds(n: int, minimum: int, maximum: int | None) -> None:
    named = {"number of items": n, "minimum": minimum, "maximum": maximum}
    for name, value in named.items():
        if value is not None:
            check_whole(name, value)
    if maximum is not None and minimum > maximum:
        raise UsageError(f"the smallest batch allowed ({minimum}) is above the largest ({maximum})")


def _bounded(batch: int, minimum: int, maximum: int | None, n: int) -> tuple[int, str | None]:
    """Clip, and name the bound that had the last word."""
    bound = None
    if batch < minimum:
        batch, bound = minimum, "minimum"
    for name, limit in (("maximum", maximum), ("N", n)):
        if limit is not None and batch > limit:
            batch, bound = limit, name
    return batch, bound


def _warnings(law: DelayLaw, exact: float, smallest: int, bound: str | None) -> tuple[str, ...]:
    warnings = list(law.notes)
    if law.alpha < FLAT_ALPHA:
        warnings.append(
            f"the curve is flat (alpha = {law.alpha:.2f}): the rule asks for {exact / smallest:.0f} times the smallest "
            "candidate although larger batches save little time; set a maximum"
        )
    if law.alpha_error > law.alpha / 2:
        warnings.append(
            f"alpha is {law.alpha:.2f} ± {law.alpha_error:.2f}: not told apart from a flat curve; profile more runs"
        )
    if exact > law.points[-1].batch:
        warnings.append(
            f"b* = {exact:.1f} lies beyond the largest size profiled ({law.points[-1].batch}): an extrapolation"
        )
    if bound is not None:
        warnings.append(f"b* = {exact:.1f} was cut by the bound {bound}")
    return tuple(warnings)


def curve(choice: Choice) -> tuple[CurvePoint, ...]:
    """Return measured and fitted seconds a pass at every profiled size and at the chosen one, ascending."""
    law = choice.law
    measured = {point.batch: point.time for point in law.points}
    sizes = sorted(measured | {choice.batch: 0.0})
    return tuple(CurvePoint(b, measured.get(b), law.time(b) if isinstance(law, DelayLaw) else None) for b in sizes)


def explain(choice: Choice) -> str:
    """Return the choice in words, one line each."""
    law = choice.law
    if isinstance(law, Unfit) or choice.exact is None or choice.tau is None:
        return "\n".join([f"batch {choice.batch} (fixed)", *(f"! {warning}" for warning in choice.warnings)])
    fitted = f"{law.a:.4g} * b^-{law.alpha:.3f} s (alpha +- {law.alpha_error:.3f}, {law.sizes} sizes"
    slope = f"{100 * SLOPE_SHARE:.1f} % of the slope at b_min = {choice.smallest}"
    lines = [
        f"batch {choice.batch}",
        f"law: one pass takes {fitted}, spread {100 * law.residual:.0f} %)",
        f"b* = (alpha*A/tau)^(1/(alpha+1)) = {choice.exact:.2f}, tau = {choice.tau:.3g} s an item ({slope})",
        "if b_min were " + ", ".join(f"{low}: b* = {exact:.1f}" for low, exact in choice.sensitivity),
    ]
    return "\n".join(lines + [f"! {warning}" for warning in choice.warnings])
