"""The controller over a run: profiling, choosing, fitting again, the guard's ceiling, and the journalled state."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import DataError, UsageError
from combee.kernel.pace import Delay, PaceState, from_json, lower, next_batch, start, state_choice, to_json
from combee.kernel.pace.controller import default_candidates


def law(batch: int, n: int = 1000, alpha: float = 0.8) -> Delay:
    return Delay(batch, 300 * batch**-alpha / math.ceil(n / batch))


def drive(state: PaceState, steps: int) -> tuple[list[int], PaceState]:
    given_out: list[int] = []
    seen: list[Delay] = []
    for _ in range(steps):
        batch, state = next_batch(state, seen)
        given_out.append(batch)
        seen = [law(batch, state.config.n)]
    return given_out, state


def test_every_candidate_is_run_up_then_down_and_then_the_chosen_size() -> None:
    sizes, state = drive(start(1000, [16, 2, 4, 8, 32]), 14)
    assert sizes[:10] == [2, 4, 8, 16, 32, 32, 16, 8, 4, 2]
    assert sizes[10:] == [round(2 * 62.5 ** (1 / 1.8))] * 4
    assert not state_choice(state).fallback


def test_a_delay_that_grows_with_the_book_does_not_bend_the_law() -> None:
    state = start(1000, [2, 4, 8, 16, 32, 64])
    seen: list[Delay] = []
    for step in range(13):
        batch, state = next_batch(state, seen)
        seen = [Delay(batch, law(batch).seconds * math.exp(0.03 * step))]
    fitted = state_choice(state).law
    assert getattr(fitted, "alpha", None) == pytest.approx(0.8, abs=0.01)


def test_the_size_is_fitted_again_every_few_steps() -> None:
    _, state = drive(start(1000, [2, 4, 8, 16], refit_every=3), 9)
    first = state.batch
    slower = [Delay(2, law(2).seconds * 4)] * 32 + [Delay(4, law(4).seconds * 2)] * 32
    for _ in range(2):
        batch, state = next_batch(state, slower)
        assert batch == first
    batch, state = next_batch(state)
    assert state.batch != first
    assert batch == state.batch


def test_the_guard_lowers_the_batch_and_it_recovers_after_a_quiet_period() -> None:
    sizes, state = drive(start(1000, [2, 4, 8, 16, 32], refit_every=2), 11)
    chosen = sizes[-1]
    state = lower(state, 5)
    batches = []
    for _ in range(12):
        batch, state = next_batch(state)
        batches.append(batch)
    assert batches[0] == 5
    assert batches == sorted(batches)
    assert batches[-1] == chosen
    assert state.ceiling is None


def test_a_profile_size_above_the_guards_ceiling_is_skipped() -> None:
    _, state = drive(start(1000, [2, 4, 8, 16, 32]), 3)
    sizes, _ = drive(lower(state, 8), 4)
    assert sizes == [8, 4, 2, 8]


def test_the_guard_cannot_go_under_the_minimum() -> None:
    _, state = drive(start(1000, [4, 8, 16], minimum=4), 7)
    assert next_batch(lower(state, 1))[0] == 4


def test_observations_that_do_not_count_are_counted() -> None:
    state = start(100, [2, 4, 8])
    bad = [Delay(2, 1.0, cached=True), Delay(2, math.nan), Delay(200, 1.0), Delay(4, 1.0)]
    _, state = next_batch(state, bad)
    assert state.samples == (Delay(4, 1.0),)
    assert sum(state.ignored.values()) == 3
    assert any("cache" in warning for warning in state_choice(state).warnings)


def test_a_run_answered_by_the_cache_alone_keeps_the_fixed_size() -> None:
    state = start(500, [2, 4, 8], fallback=9)
    seen: list[Delay] = []
    for _ in range(8):
        batch, state = next_batch(state, seen)
        seen = [Delay(batch, 1e-5, cached=True)]
    assert batch == 9
    assert state_choice(state).fallback


def test_too_few_candidates_mean_no_profiling_and_a_note() -> None:
    state = start(40, [2, 64, 2, 128], fallback=8)
    assert not state.profiling
    batch, state = next_batch(state)
    assert batch == 8
    assert any("needs three" in warning for warning in state_choice(state).warnings)


@pytest.mark.parametrize(("n", "sizes"), [(1000, (2, 4, 8, 16, 32, 64)), (40, (2, 4, 8, 16)), (3, (1,)), (1, (1,))])
def test_default_candidates_stay_below_half_the_items(n: int, sizes: tuple[int, ...]) -> None:
    assert default_candidates(n) == sizes


def test_old_samples_make_room_for_new_ones() -> None:
    state = start(100, [2, 4, 8])
    _, state = next_batch(state, [Delay(2, float(i)) for i in range(1, 101)])
    assert len(state.samples) == 32
    assert state.samples[-1].seconds == 100


def test_wrong_settings_are_the_callers_error() -> None:
    with pytest.raises(UsageError, match="runs"):
        start(100, runs=0)
    with pytest.raises(UsageError, match="above the largest"):
        start(100, minimum=9, maximum=3)
    with pytest.raises(UsageError, match="training items"):
        start(0)


@pytest.mark.parametrize("data", [{}, {"config": 3}, {"config": {"n": 1}, "samples": []}])
def test_damaged_state_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(DataError, match="pace controller"):
        from_json(data)


@given(
    n=st.integers(1, 300),
    candidates=st.lists(st.integers(1, 400), max_size=8),
    bounds=st.tuples(st.integers(1, 40), st.integers(0, 100)),
    delays=st.lists(st.floats(allow_nan=True) | st.floats(1e-3, 1e3), min_size=25, max_size=25),
    ceilings=st.dictionaries(st.integers(0, 24), st.integers(1, 50)),
)
def test_any_run_stays_in_bounds_and_resumes_from_json(
    n: int,
    candidates: list[int],
    bounds: tuple[int, int],
    delays: list[float],
    ceilings: dict[int, int],
) -> None:
    state = start(n, candidates, minimum=bounds[0], maximum=sum(bounds), refit_every=3)
    top = min(sum(bounds), n)
    seen: list[Delay] = []
    for step, seconds in enumerate(delays):
        copy = from_json(json.loads(json.dumps(to_json(state), allow_nan=False)))
        assert copy == state
        batch, state = next_batch(state, seen)
        assert next_batch(copy, seen) == (batch, state)
        assert min(bounds[0], top) <= batch <= top
        seen = [Delay(batch, seconds)]
        if step in ceilings:
            state = lower(state, ceilings[step])
