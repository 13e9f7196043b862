"""The delay law T(b) = A·b^(−α), fitted in log-log, and the one batch size that follows from it (arXiv 2604.04247).

T(b) is the time of one pass over the N training items at batch size b: ⌈N/b⌉ steps of delay(b). Robust to wild points,
unbiased without them: a repeated-median line finds what lies far off, least squares over the sizes fits what is left.
Results from the journal's cache never count.

b* = (αA/τ)^(1/(α+1)), τ a share of the steepest slope. With τ = 1.6 % of the slope at the smallest candidate b_min, A
and N cancel: b* = b_min·62.5^(1/(1+α)). So the answer is proportional to b_min, and a flat curve asks for a large
batch; both are said aloud. Where there is no usable law, a stated fixed size is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from combee.errors import UsageError

MAX_RESIDUAL = 0.35  # in log units: sizes lie a factor 1.4 off the line, so a power law does not describe them
_WILD_SPREADS = 5.0  # a sample this many spreads off the robust line is wild ...
_WILD_FLOOR = 0.2  # ... if it is also at least 22 % off, so that near-exact data loses no point
_WILD_CEILING = 0.5  # a factor 1.65 is wild however noisy the rest looks: six points make a poor estimate of noise
_MAX_WILD_SHARE = 0.25  # with more than this "wild" it is the law that is wrong, and the residual says so
_LARGEST_LOG = 709.0
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Delay:
    """One measured training step: items in its batch, wall seconds, and whether the journal answered."""

    batch: int
    seconds: float
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """One batch size as the fit saw it: `time` is the geometric mean, in seconds a pass, of the `runs` samples kept."""

    batch: int
    time: float
    runs: int


@dataclass(frozen=True, slots=True)
class DelayLaw:
    """T(b) = a·b^(−alpha) seconds.

    `residual` is the spread of the sizes about the line in log units (0.1 is about 10 %), `alpha_error` the standard
    error of alpha; `notes` say in words what was left out.
    """

    a: float
    alpha: float
    residual: float
    alpha_error: float
    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()

    @property
    def sizes(self) -> int:
        """How many batch sizes the line rests on."""
        return len(self.points)

    def time(self, batch: float) -> float:
        """Return the fitted seconds of one pass at this batch size."""
        return float(self.a * batch**-self.alpha)


@dataclass(frozen=True, slots=True)
class Unfit:
    """The samples give no usable law; `reason` says why in words."""

    reason: str
    points: tuple[Point, ...] = ()
    notes: tuple[str, ...] = ()


def fit_delays(samples: Iterable[Delay], n: int) -> DelayLaw | Unfit:
    """Fit the law to step delays measured while training on `n` items.

    Left out, with a note: cache hits, delays that are not a positive finite number, and sizes outside 1..n.

    Raises:
        UsageError: `n` is not a positive whole number.
    """
    check_whole("number of training items", n)
    kept: list[tuple[int, float]] = []
    cached = above = 0
    for sample in samples:
        if sample.cached:
            cached += 1
        elif sample.batch > n:
            above += 1
        else:
            kept.append((sample.batch, sample.seconds * math.ceil(n / sample.batch) if sample.batch > 0 else math.nan))
    notes = [f"{cached} delays came from the journal's cache and do not count"] if cached else []
    if above:
        notes.append(f"{above} delays at sizes above N={n} do not count")
    return _fit(kept, notes)


def fit_curve(sizes: Sequence[int], times: Sequence[float]) -> DelayLaw | Unfit:
    """Fit the law to T(b) itself: seconds of one pass at each batch size, in any order, sizes may repeat.

    Raises:
        UsageError: the two sequences differ in length.
    """
    if len(sizes) != len(times):
        raise UsageError(f"{len(sizes)} batch sizes but {len(times)} times", hint="Give one time for each size.")
    return _fit(list(zip(sizes, times, strict=True)), [])


def _fit(samples: Sequence[tuple[int, float]], notes: list[str]) -> DelayLaw | Unfit:
    logs: dict[int, list[float]] = {}
    bad = 0
    for batch, time in samples:
        if batch >= 1 and math.isfinite(time) and time > 0:
            logs.setdefault(batch, []).append(math.log(time))
        else:
            bad += 1
    if bad:
        notes.append(f"{bad} delays are not a positive finite number and do not count")
    logs = dict(sorted(logs.items()))
    if len(logs) < 3:
        sizes = f"{len(logs)} usable batch size{'' if len(logs) == 1 else 's'}"
        return Unfit(f"{sizes}; a fit of time against size needs three", _points(logs), tuple(notes))
    logs, wild = _without_wild(logs)
    notes.extend(wild)
    points = _points(logs)
    a_log, alpha, residual, error = _least_squares([(math.log(b), fmean(values)) for b, values in logs.items()])
    if residual > MAX_RESIDUAL:
        return Unfit(f"the sizes lie a factor {_exp(residual):.4g} off any power law", points, tuple(notes))
    if alpha <= _TINY:
        return Unfit(f"a pass takes no less time with larger batches (alpha = {alpha:.3f})", points, tuple(notes))
    if abs(a_log) > 700:
        return Unfit("the fitted scale is not a number a computer can hold", points, tuple(notes))
    return DelayLaw(_exp(a_log), alpha, residual, error, points, tuple(notes))


def _exp(logarithm: float) -> float:
    """Return e to this power, or the largest that a computer can hold."""
    return math.exp(min(logarithm, _LARGEST_LOG))


def _points(logs: Mapping[int, Sequence[float]]) -> tuple[Point, ...]:
    return tuple(Point(batch, _exp(fmean(values)), len(values)) for batch, values in logs.items())


def _without_wild(logs: dict[int, list[float]]) -> tuple[dict[int, list[float]], list[str]]:
    """Leave out the samples farthest off the repeated-median line; all stay if fewer than three sizes would."""
    total = sum(map(len, logs.values()))
    if total < 4:
        return logs, []
    intercept, slope = _repeated_median([(math.log(batch), median(values)) for batch, values in logs.items()])
    off = sorted(
        (-abs(value - intercept - slope * math.log(batch)), batch, i)
        for batch, values in logs.items()
        for i, value in enumerate(values)
    )
    spread = 1.4826 * median(-distance for distance, _, _ in off) * math.sqrt(total / (total - 2))
    limit = min(max(_WILD_SPREADS * spread, _WILD_FLOOR), _WILD_CEILING)
    most = max(1, int(_MAX_WILD_SHARE * total))
    wild = {(batch, i) for distance, batch, i in off[:most] if -distance > limit}
    kept = {b: near for b, values in logs.items() if (near := [v for i, v in enumerate(values) if (b, i) not in wild])}
    if len(kept) < 3:
        return logs, []
    lost = {batch: len(values) - len(kept.get(batch, ())) for batch, values in logs.items()}
    notes = [f"{k} of {len(logs[b])} delays at size {b} lie far off and do not count" for b, k in lost.items() if k]
    return kept, notes


def _repeated_median(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Siegel's line: half the points may be wild. Returns intercept and slope."""
    slope = median(median((y - v) / (x - u) for x, y in points if x != u) for u, v in points)
    return median(y - slope * x for x, y in points), slope


def _least_squares(points: Sequence[tuple[float, float]]) -> tuple[float, float, float, float]:
    """Return log A, alpha, residual spread, standard error of alpha; every size weighs the same."""
    mean_x, mean_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    width = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / width
    intercept = mean_y - slope * mean_x
    squares = sum((y - intercept - slope * x) ** 2 for x, y in points)
    residual = math.sqrt(squares / (len(points) - 2))
    return intercept, -slope, residual, residual / math.sqrt(width)


def check_whole(name: str, value: object) -> None:
    """Raise UsageError unless `value` is an int of at least 1 (True is not a number here)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"the {name} must be a whole number of at least 1, not {value!r}")


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


def curve(choice: Choice) -> tuple[tuple[int, float | None, float | None], ...]:
    """Return (size, measured, fitted) seconds a pass at every profiled size and at the chosen one, ascending."""
    law = choice.law
    measured = {point.batch: point.time for point in law.points}
    sizes = sorted(measured | {choice.batch: 0.0})
    return tuple((b, measured.get(b), law.time(b) if isinstance(law, DelayLaw) else None) for b in sizes)


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
