"""The batch size over a run: profile steps that learn too, then the chosen size, fitted again, lowered by the guard.

Pure: `next_batch` maps a state and new delays to a size and the next state. The state is JSON, so a journal that
records it repeats the run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import cast

from combee.errors import DataError
from combee.kernel.pace.law import DEFAULT_FALLBACK, Choice, Delay, check_whole, choose, clean_candidates, fit_delays

KEEP = 32  # newest samples kept of each size


@dataclass(frozen=True, slots=True)
class PaceConfig:
    """What does not change in a run: items, sizes to profile (ascending), bounds, and how often to look again."""

    n: int
    candidates: tuple[int, ...]
    minimum: int = 1
    maximum: int | None = None
    fallback: int = DEFAULT_FALLBACK
    runs: int = 2
    """Profile steps of each size."""
    refit_every: int = 8
    """Steps between two fits once profiling is over."""

    def profile(self) -> tuple[int, ...]:
        """Return the sizes of the profile steps: up, then down, so that delays growing with the playbook cancel."""
        up = self.candidates
        return tuple(size for run in range(self.runs) for size in (up if run % 2 == 0 else up[::-1]))


@dataclass(frozen=True, slots=True)
class PaceState:
    """Where the controller stands. `profiled` counts profile steps given out, `ceiling` is the guard's limit."""

    config: PaceConfig
    profiled: int = 0
    samples: tuple[Delay, ...] = ()
    batch: int | None = None
    since_fit: int = 0
    ceiling: int | None = None
    lowered: bool = False
    ignored: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def profiling(self) -> bool:
        """Whether the next batch is a profile step."""
        return self.profiled < len(self.config.profile())


def default_candidates(n: int) -> tuple[int, ...]:
    """Return 2, 4, 8 ... 64, nothing above half the items: no profile step is a whole pass."""
    return tuple(size for size in (2, 4, 8, 16, 32, 64) if size <= max(n // 2, 1)) or (1,)


def start(
    n: int,
    candidates: Iterable[int] | None = None,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    fallback: int = DEFAULT_FALLBACK,
    runs: int = 2,
    refit_every: int = 8,
) -> PaceState:
    """Return the state before the first step.

    Fewer than three candidates left means there is nothing to profile: every step takes the fallback size, with a note.

    Raises:
        UsageError: a size, bound or count is not a positive whole number, or bounds contradict each other.
    """
    for name, value in {
        "number of training items": n,
        "runs": runs,
        "refit_every": refit_every,
        "fallback": fallback,
    }.items():
        check_whole(name, value)
    top = n if maximum is None else min(maximum, n)
    sizes, notes = clean_candidates(
        default_candidates(n) if candidates is None else candidates, n, minimum=min(minimum, top), maximum=top
    )
    if len(sizes) < 3:
        left = "1 candidate size is left" if len(sizes) == 1 else f"{len(sizes)} candidate sizes are left"
        notes = (*notes, f"{left} of at least three, so nothing is profiled")
        sizes = ()
    config = PaceConfig(n, sizes, minimum, maximum, fallback, runs, refit_every)
    choose(fit_delays((), n), n, minimum=minimum, maximum=maximum)  # checks the bounds now
    return PaceState(config, notes=notes)


def next_batch(state: PaceState, observations: Iterable[Delay] = ()) -> tuple[int, PaceState]:
    """Return the size of the next batch and the state after it was given out.

    Observations that cannot be used (cache hits, not a positive finite delay, sizes outside 1..N) are counted and
    forgotten.
    """
    state = _observe(state, observations)
    plan = state.config.profile()
    position = state.profiled
    while position < len(plan) and state.ceiling is not None and plan[position] > state.ceiling:
        position += 1  # the guard forbids this size: its profile step is not made
    if position < len(plan):
        return plan[position], replace(state, profiled=position + 1)
    state = replace(state, profiled=position)
    if state.batch is None or state.since_fit >= state.config.refit_every:
        # A fit period without a new alarm lets the guard's ceiling rise: one bad step must not slow a run for ever.
        ceiling = None if state.ceiling is None else state.ceiling * (1 if state.lowered or state.batch is None else 2)
        batch = state_choice(state).batch
        ceiling = None if ceiling is not None and ceiling >= batch else ceiling
        state = replace(state, batch=batch, since_fit=0, ceiling=ceiling, lowered=False)
    given = cast("int", state.batch)
    given = given if state.ceiling is None else min(given, state.ceiling)
    return given, replace(state, since_fit=state.since_fit + 1)


def state_choice(state: PaceState) -> Choice:
    """Return what the samples so far say, with the curve, the sensitivity and the warnings for a report."""
    config = state.config
    choice = choose(
        fit_delays(state.samples, config.n),
        config.n,
        minimum=config.minimum,
        maximum=config.maximum,
        fallback=config.fallback,
    )
    ignored = tuple(f"{count} delays did not count: {reason}" for reason, count in sorted(state.ignored.items()))
    return replace(choice, warnings=(*choice.warnings, *state.notes, *ignored))


def lower(state: PaceState, batch: int) -> PaceState:
    """Return the state after the guard asked for batches of at most `batch`, never under the minimum.

    The ceiling doubles at each later fit that saw no new alarm, until it no longer binds.
    """
    ceiling = max(batch, min(state.config.minimum, state.config.n), 1)
    if state.ceiling is not None:
        ceiling = min(ceiling, state.ceiling)
    return replace(state, ceiling=ceiling, lowered=True)


def _observe(state: PaceState, observations: Iterable[Delay]) -> PaceState:
    ignored = Counter(state.ignored)
    samples = list(state.samples)
    for delay in observations:
        if delay.cached:
            ignored["from the journal's cache"] += 1
        elif not (math.isfinite(delay.seconds) and delay.seconds > 0):
            ignored["not a positive finite number"] += 1
        elif not 1 <= delay.batch <= state.config.n:
            ignored["size outside 1..N"] += 1
        else:
            samples.append(delay)
    newest: list[Delay] = []
    count: Counter[int] = Counter()
    for delay in reversed(samples):
        count[delay.batch] += 1
        if count[delay.batch] <= KEEP:
            newest.append(delay)
    return replace(state, samples=tuple(reversed(newest)), ignored=dict(ignored))


def to_json(state: PaceState) -> dict[str, object]:
    """Return plain JSON data; `from_json` gives the equal state back."""
    data = asdict(state)
    data["samples"] = [[delay.batch, delay.seconds] for delay in state.samples]
    data["config"]["candidates"] = list(state.config.candidates)
    data["notes"] = list(state.notes)
    return cast("dict[str, object]", data)


def from_json(data: Mapping[str, object]) -> PaceState:
    """Return the state that `to_json` wrote.

    Raises:
        DataError: the data is not a pace state.
    """
    try:
        fields = dict(data)
        config = dict(cast("Mapping[str, object]", fields.pop("config")))
        config["candidates"] = tuple(cast("list[int]", config["candidates"]))
        samples = tuple(Delay(int(b), float(s)) for b, s in cast("list[tuple[int, float]]", fields.pop("samples")))
        notes = tuple(cast("list[str]", fields.pop("notes")))
        ignored = dict(cast("Mapping[str, int]", fields.pop("ignored")))
        return PaceState(
            PaceConfig(**config),  # type: ignore[arg-type]  # journal data; a wrong key raises TypeError below
            samples=samples,
            notes=notes,
            ignored=ignored,
            **fields,  # type: ignore[arg-type]  # likewise
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"this is not the state of a pace controller: {error}") from error
