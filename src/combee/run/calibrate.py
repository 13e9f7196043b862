"""How much one call of a model can take: plant distinct facts, count those that survive, fit, recommend.

n items with one fact each go into one call; a fact survives when the method verifies that the delta covers its item.
The fit is exp(−δ − m/m0) by maximum likelihood: binomial with a log link and concave, so sizes where nothing survived
weigh in as they should. Its spread comes from redrawing whole calls: facts of one share its fate. The recommendation is
the largest leaf that still keeps enough, second chances included. Results are kept by model in
`combee-calibration.json` beside `combee.toml`, and used by runs.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from combee.errors import CallError, CallErrorKind, DataError, RunError, UsageError
from combee.files import read_regular, write_whole
from combee.kernel.aggregate import ONE_CALL, UNUSED
from combee.kernel.aggregate.cost import Retention
from combee.kernel.aggregate.method import Method, covered_keys, digest_of
from combee.kernel.aggregate.tree import ScanJournal, StopScanError
from combee.kernel.journal import JSON, Scope
from combee.kernel.learn.roles import Reflection
from combee.kernel.runner import LocalRunner, Runner

if TYPE_CHECKING:
    from combee.run.settings import Settings

T = TypeVar("T")
D = TypeVar("D")

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_LARGEST = 10_000  # facts a call; no window holds more
NOTHING_KEPT = "No fact was kept by any call: there is nothing to fit and no size to recommend; take another model."
_HOPELESS = frozenset({CallErrorKind.AUTH, CallErrorKind.QUOTA, CallErrorKind.NO_SUCH_MODEL})


@dataclass(frozen=True, slots=True)
class CalibrationPrice:
    """What a calibration will buy: calls, facts (items read), and tokens of the items in all calls together."""

    calls: int
    facts: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What was seen at one size: calls that answered, calls that failed, facts planted and facts that survived."""

    size: int
    calls: int
    failed: int
    planted: int
    survived: int

    @property
    def share(self) -> float:
        """Share of the planted facts that survived, 0 to 1; 0 where no call answered."""
        return self.survived / self.planted if self.planted else 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a model can take.

    Attributes:
        measured: Counts by size.
        delta: Fitted loss of any call, in nats.
        m0: Fitted inputs at which 1/e is kept; infinite where nothing was lost.
        delta_range: 90 % interval of `delta`.
        m0_range: 90 % interval of `m0`.
        max_items: Recommended largest leaf, within the sizes that were tried; 1 where nothing was kept.
        target: Share to be kept after second chances.
        second_chances: Second chances counted on.
        reason: Why this size, in one sentence.
    """

    measured: tuple[Measured, ...]
    delta: float
    m0: float
    delta_range: tuple[float, float]
    m0_range: tuple[float, float]
    max_items: int
    target: float
    second_chances: int
    reason: str

    @property
    def kept_any(self) -> bool:
        """Whether any fact survived; where none did, fit and recommendation mean nothing."""
        return any(row.survived for row in self.measured)

    @property
    def retention(self) -> Retention:
        """The fit as the planner takes it."""
        return Retention(self.delta, self.m0)

    def explain(self) -> str:
        """Return the outcome in plain words."""
        lines = [
            f"{row.size:>4} a call: {row.survived} of {row.planted} facts kept ({row.share:.0%})"
            + (f", {row.failed} calls failed" if row.failed else "")
            for row in self.measured
        ]
        return "\n".join([*lines, *([self._fit()] if self.kept_any else []), self.reason])

    def _fit(self) -> str:
        """Return the fit in words; an m0 without end is a finding, not a figure."""
        low, high = self.m0_range
        if math.isinf(self.m0):
            known = f" (m0 is at least {low:.0f}, 90 %)" if math.isfinite(low) else ""
            return f"Fit: no size was tried at which a call loses more than at the smallest{known}."
        upto = f"between {low:.1f} and {high:.1f}" if math.isfinite(high) else f"at least {low:.1f}"
        return f"Fit: exp(-{self.delta:.3f} - m/{self.m0:.1f}), m0 {upto} (90 %)."

    def to_json(self) -> JSON:
        """Return plain data; an infinite m0 is null, and where nothing was kept there is no fit and no size."""

        def finite(value: float) -> float | None:
            return None if math.isinf(value) else value

        data: dict[str, JSON] = {
            "measured": [[row.size, row.calls, row.failed, row.planted, row.survived] for row in self.measured],
            "target": self.target,
            "second_chances": self.second_chances,
            "reason": self.reason,
        }
        if self.kept_any:
            data |= {
                "delta": self.delta,
                "m0": finite(self.m0),
                "delta_range": list(self.delta_range),
                "m0_range": [finite(value) for value in self.m0_range],
                "max_items": self.max_items,
            }
        return data


def calibration_price(
    tokens_per_item: int, *, sizes: Sequence[int] = SIZES, repeats: int = 10, tokens_per_call: int = 0
) -> CalibrationPrice:
    """Return what `calibrate` would buy, before anything is bought. `tokens_per_call` is the fixed part of a prompt."""
    calls = len(sizes) * repeats
    facts = sum(sizes) * repeats
    return CalibrationPrice(calls, facts, facts * tokens_per_item + calls * tokens_per_call)


async def calibrate(
    plant: Callable[[int], T],
    method: Method[T, D],
    *,
    sizes: Sequence[int] = SIZES,
    repeats: int = 10,
    target: float = 0.85,
    second_chances: int = 1,
    scope: Scope | None = None,
    runner: Runner | None = None,
) -> Calibration:
    """Measure how many planted facts survive one call, and recommend a leaf size.

    Args:
        plant: Makes the item with fact number i, from 0; every number is a fact of its own.
        method: The method to be measured; only `leaf` is called.
        sizes: Facts in a call.
        repeats: Calls of each size.
        target: Share of the facts to be kept after second chances.
        second_chances: Second chances to count on.
        scope: Journal scope, or None.
        runner: Runs the calls; default `LocalRunner()`.

    Raises:
        UsageError: No sizes, or a size, a number of repeats or a target out of range.
        RunError: No call answered.
        CallError: Access denied or no such model.
    """
    _check(sizes, repeats, target, second_chances)
    kept = ScanJournal(scope.sub("calibrate") if scope else None, method)
    jobs = [(size, turn) for size in sorted(set(sizes)) for turn in range(repeats)]
    starts, planted = {}, 0
    for job in jobs:
        starts[job] = planted
        planted += job[0]

    async def measure(job: tuple[int, int]) -> Counts:
        items = [plant(number) for number in range(starts[job], starts[job] + job[0])]
        return await _survivors(items, method, kept, f"calibrate/m{job[0]}/{job[1]}")

    try:
        done = await (runner or LocalRunner()).run(measure, jobs)
    except StopScanError as stop:
        raise stop.error from stop
    counts = [answer.get() for answer in done if answer.error is None]
    if not counts:
        raise RunError(f"no call of the calibration answered: {done[0].error}", hint="Look at the error of the model.")
    fit = fit_retention(counts)
    measured = tuple(_measured(size, [c for c in counts if c[0] == size], repeats) for size in sorted(set(sizes)))
    largest = max(row.size for row in measured if row.calls)
    size, reason = recommend(
        Retention(fit.delta, fit.m0), largest=largest, target=target, second_chances=second_chances
    )
    if not any(row.survived for row in measured):
        reason = NOTHING_KEPT
    return Calibration(measured, fit.delta, fit.m0, fit.delta_range, fit.m0_range, size, target, second_chances, reason)


def recommend(retention: Retention, *, largest: int, target: float = 0.85, second_chances: int = 1) -> tuple[int, str]:
    """Return the largest leaf whose lessons are kept at `target` after second chances, and why; at most `largest`.

    With r kept by a call, 1 − (1 − r)^(1 + chances) is kept in the end. Large leaves cost few calls; small keep more.
    """
    needed = 1.0 - (1.0 - target) ** (1.0 / (1 + second_chances))
    room = -math.log(needed) - retention.delta
    more = "chance" if second_chances == 1 else "chances"
    chances = f"with {second_chances} second {more}" if second_chances else "without second chances"
    if room * retention.m0 < 1.0:
        return (
            1,
            f"Even one item a call keeps less than {target:.0%} {chances}: read items alone, or take another model.",
        )
    exact = room * retention.m0
    size = largest if exact >= largest else int(exact)
    once = retention.kept(size)
    final = 1.0 - (1.0 - once) ** (1 + second_chances)
    limit = " (the largest size that was tried)" if size == largest else ""
    return size, (
        f"max_items = {size}{limit}: one call keeps {once:.0%}, {chances} {final:.0%}; the target is {target:.0%}."
    )


async def _survivors(items: Sequence[T], method: Method[T, D], kept: ScanJournal[T, D], node: str) -> Counts:
    digest = digest_of(method)
    try:
        delta = await kept.call(
            "leaf", node, lambda: [digest(item) for item in items], lambda: method.leaf(items, node)
        )
    except CallError as error:
        if error.kind in _HOPELESS:
            raise StopScanError(error) from error
        raise
    keys = [method.key(item) for item in items]
    return len(items), len(items), len(covered_keys(method, keys, items, delta))


def _measured(size: int, counts: Sequence[Counts], repeats: int) -> Measured:
    planted, survived = sum(row[1] for row in counts), sum(row[2] for row in counts)
    return Measured(size, len(counts), repeats - len(counts), planted, survived)


def _check(sizes: Sequence[int], repeats: int, target: float, second_chances: int) -> None:
    if not sizes or min(sizes) < 1:
        raise UsageError(f"the sizes to try are {list(sizes)}", hint="Give sizes of 1 or more, such as 1 2 4 8 16.")
    if max(sizes) > _LARGEST:
        raise UsageError(f"a size to try is {max(sizes)}", hint=f"Give sizes of at most {_LARGEST:,} facts a call.")
    if repeats < 1:
        raise UsageError(f"repeats is {repeats}", hint="Give 1 or more.")
    if not 0.0 < target < 1.0:
        raise UsageError(f"the target is {target}", hint="Give a share between 0 and 1, such as 0.85.")
    if second_chances < 0:
        raise UsageError(f"second_chances is {second_chances}", hint="Give 0 or more.")


Counts = tuple[int, int, int]
"""Inputs of a call, facts planted, facts that survived."""

_LEAST = 1e-9
_DRAWS = 200


@dataclass(frozen=True, slots=True)
class RetentionFit:
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


def fit_retention(calls: Sequence[Counts], *, seed: int = 0) -> RetentionFit:
    """Return the fit over single calls, with its spread."""
    delta, m0 = fit_counts(calls)
    by_size: dict[int, list[Counts]] = {}
    for call in calls:
        by_size.setdefault(call[0], []).append(call)
    draw = random.Random(seed)
    fits = [fit_counts([draw.choice(group) for group in by_size.values() for _ in group]) for _ in range(_DRAWS)]
    low, high = int(0.05 * _DRAWS), int(0.95 * _DRAWS) - 1
    deltas, sizes = sorted(fit[0] for fit in fits), sorted(fit[1] for fit in fits)
    return RetentionFit(delta, m0, (deltas[low], deltas[high]), (sizes[low], sizes[high]))


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


CALIBRATIONS = "combee-calibration.json"

_SUBJECTS = ("invoice", "shipment", "refund", "ledger entry", "purchase order", "claim", "lease", "dividend")
_FIELDS = ("account", "form", "desk", "register", "schedule", "queue", "folder", "statement")


def planted(number: int) -> Reflection:
    """Return a reflection with one fact that no other number has: two codes that a lesson must hold to be of use."""
    noise = hashlib.blake2b(f"planted {number}".encode(), digest_size=8).hexdigest().upper()
    subject, what = _SUBJECTS[number % 8], _FIELDS[number // 8 % 8]
    code, target = f"{noise[:2]}-{number:05d}-{noise[2:4]}", f"{int(noise[4:9], 16) % 90_000 + 10_000}"
    lesson = f"When a {subject} carries the code {code}, book it in {what} {target}."
    text = f"The answer was wrong: the {subject} with the code {code} was booked elsewhere. {lesson}"
    name = f"planted-{number:05d}"
    return Reflection(id=name, trace=name, task=name, text=text, lessons=(lesson,), passed=False)


def known_calibrations(folder: Path = Path()) -> dict[str, dict[str, Any]]:
    """Return the stored results by model; none where there is no file. One that kept nothing has no `max_items`.

    Raises:
        DataError: The file is damaged.
    """
    path = folder / CALIBRATIONS
    if not path.exists():
        return {}
    try:
        values = json.loads(read_regular(path).decode("utf-8"))
    except ValueError as error:
        raise DataError(f"cannot be read: {error}", path=path, hint="Take it away and calibrate again.") from error
    valid = isinstance(values, dict) and all(
        isinstance(one, dict) and (isinstance(one.get("max_items", 1), int) and one.get("max_items", 1) > 0)
        for one in values.values()
    )
    if not valid:
        raise DataError("is not a file of calibrations", path=path, hint="Take it away and calibrate again.")
    return dict(values)


def keep_calibration(model: str, result: Mapping[str, Any]) -> Path:
    """Store the result for a model in place of an earlier one and return the file. Raises as `write_whole`."""
    text = json.dumps(known_calibrations() | {model: dict(result)}, indent=2, sort_keys=True) + "\n"
    return write_whole(Path(CALIBRATIONS), text)


def model_of(spec: Settings) -> str:
    """Return the name under which an agent's calibration is kept: its curator's model, or the embedded curator."""
    if spec.calls_models:
        return spec.model_of("curator").name
    loss = [f"{key}={value:g}" for key in ("forget", "output_limit") if (value := getattr(spec.agent, key)) is not None]
    return " ".join(["lexical", *loss])


def with_calibration(spec: Settings, least: int = 1) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings with what a calibration in this folder recommends, and what to say of it.

    `least` is the fewest reflections a call must take. What was given stays.
    """
    found = known_calibrations().get(model_of(spec))
    if found is None or spec.origin("learn", "max_items") is not None:
        return spec, ()
    if "max_items" not in found:
        return spec, (f"the calibration of {model_of(spec)} in {CALIBRATIONS} kept nothing: max_items is the default",)
    size = max(least, int(found["max_items"]))
    config = spec.learn_config()
    measured = f"max_items = {size}, measured for {model_of(spec)} (from {CALIBRATIONS}; delete the file to undo)"
    learn, said = {"max_items": size}, measured
    if config.aggregate in ONE_CALL and config.batch == "auto":
        learn = {"max_batch": config.max_batch or size}
        said = f"{measured}; one call reads a whole batch here, so max_batch = {learn['max_batch']}"
    elif "max_items" in UNUSED[config.aggregate]:
        return spec, ()
    return spec.over({"learn": learn}, CALIBRATIONS), (said,)
