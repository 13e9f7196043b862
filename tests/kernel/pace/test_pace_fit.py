"""The delay law: right values, no bias, and samples that must not count."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.pace import Delay, DelayLaw, Unfit
from combee.kernel.pace.law import fit_curve, fit_delays

SIZES = [2, 4, 8, 16, 32, 64]


def noisy(alpha: float, rng: random.Random, runs: int) -> DelayLaw:
    sizes = SIZES * runs
    law = fit_curve(sizes, [100 * b**-alpha * math.exp(rng.gauss(0, 0.1)) for b in sizes])
    assert isinstance(law, DelayLaw)
    return law


@pytest.mark.parametrize("alpha", [0.2, 0.6, 1.0, 1.5])
def test_alpha_is_unbiased_and_95_percent_lie_within_005(alpha: float) -> None:
    rng = random.Random(11)
    errors = [noisy(alpha, rng, runs=2).alpha - alpha for _ in range(1500)]
    assert abs(sum(errors) / len(errors)) < 0.002
    assert sum(abs(error) <= 0.05 for error in errors) / len(errors) >= 0.95 - 0.01  # 2 sd of 1500 draws


def test_an_exact_law_is_found_exactly_in_any_order() -> None:
    law = fit_curve([32, 2, 16, 8, 4], [100 / b for b in (32, 2, 16, 8, 4)])
    assert isinstance(law, DelayLaw)
    assert law.alpha == pytest.approx(1)
    assert law.a == pytest.approx(100)
    assert law.residual == pytest.approx(0, abs=1e-9)
    assert [point.batch for point in law.points] == [2, 4, 8, 16, 32]


def test_step_delays_become_passes_over_n_items() -> None:
    # ceil(1000/b) steps of delay(b) must make 500·b^(−0.7) seconds.
    samples = [Delay(b, 500 * b**-0.7 / math.ceil(1000 / b)) for b in SIZES]
    law = fit_delays(samples, 1000)
    assert isinstance(law, DelayLaw)
    assert law.alpha == pytest.approx(0.7)
    assert law.a == pytest.approx(500)


@pytest.mark.parametrize("factor", [0.01, 0.1, 3, 10, 1000])
@pytest.mark.parametrize("wild", range(6))
@pytest.mark.parametrize("runs", [1, 2])
def test_one_wild_point_at_any_place_moves_alpha_by_less_than_a_tenth(factor: float, wild: int, runs: int) -> None:
    rng = random.Random(wild)
    sizes = SIZES * runs
    times = [80 * b**-0.8 * math.exp(rng.gauss(0, 0.05)) for b in sizes]
    times[wild] *= factor
    law = fit_curve(sizes, times)
    assert isinstance(law, DelayLaw)
    assert abs(law.alpha - 0.8) < 0.1
    assert "far off" in " ".join(law.notes)


def test_four_sizes_survive_a_wild_one() -> None:
    law = fit_curve([2, 4, 8, 16], [50, 25, 12.5, 625])
    assert isinstance(law, DelayLaw)
    assert law.alpha == pytest.approx(1)


def test_cache_hits_and_sizes_above_n_do_not_count_and_are_named() -> None:
    good = [Delay(b, 1.0) for b in (2, 4, 8)]
    law = fit_delays([*good, Delay(4, 1e-4, cached=True), Delay(64, 9.0)], 40)
    assert isinstance(law, DelayLaw)
    assert law.alpha == pytest.approx(1)
    assert "cache" in law.notes[0]
    assert "above N=40" in law.notes[1]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, 0.0])
def test_a_delay_that_is_no_duration_does_not_count(bad: float) -> None:
    law = fit_delays([Delay(2, 1.0), Delay(4, 1.0), Delay(8, 1.0), Delay(16, bad), Delay(0, 1.0)], 100)
    assert isinstance(law, DelayLaw)
    assert law.sizes == 3
    assert "2 delays" in law.notes[0]


@pytest.mark.parametrize(
    ("sizes", "times", "reason"),
    [
        ([], [], "0 usable"),
        ([4], [1.0], "1 usable"),
        ([4, 4, 4], [1.0, 1.1, 0.9], "1 usable"),
        ([2, 4], [2.0, 1.0], "2 usable"),
        ([2, 4, 8], [1.0, 2.0, 4.0], "no less time"),
        ([2, 4, 8], [1.0, 1.0, 1.0], "no less time"),
        ([2, 4, 8], [math.nan] * 3, "0 usable"),
        ([2, 4, 8, 16], [1.0, 50.0, 0.1, 30.0], "off any power law"),
        ([2, 3, 4], [1e300, 1e-100, 1e-300], "off any power law"),
    ],
)
def test_where_there_is_no_law_the_reason_is_said(sizes: list[int], times: list[float], reason: str) -> None:
    law = fit_curve(sizes, times)
    assert isinstance(law, Unfit)
    assert reason in law.reason


def test_wrong_arguments_are_the_callers_error() -> None:
    with pytest.raises(UsageError, match="2 batch sizes but 1 times"):
        fit_curve([1, 2], [1.0])
    with pytest.raises(UsageError, match="training items"):
        fit_delays([], 0)


@example([(1, 1.8e15), (7, 1.2e-299), (26, 1.8e125)], 27)  # a factor that no float can hold
@given(
    st.lists(st.tuples(st.integers(-2, 10**6), st.floats(allow_nan=True, allow_infinity=True)), max_size=30),
    st.integers(1, 10**6),
)
def test_any_samples_give_a_law_of_numbers_or_a_reason(samples: list[tuple[int, float]], n: int) -> None:
    law = fit_delays([Delay(b, s) for b, s in samples], n)
    if isinstance(law, DelayLaw):
        assert law.sizes >= 3
        assert all(map(math.isfinite, (law.a, law.alpha, law.residual, law.alpha_error)))
        assert law.alpha > 0
        assert law.a > 0
    else:
        assert law.reason
