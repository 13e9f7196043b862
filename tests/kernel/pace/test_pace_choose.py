"""One batch size from the law: the formula, the rounding, the bounds, the warnings."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.pace import Delay, DelayLaw, curve, explain
from combee.kernel.pace.law import choose, clean_candidates, fit_curve, fit_delays

CASE_26 = fit_curve([2, 4, 8, 16, 32], [100 / b for b in (2, 4, 8, 16, 32)])


def power(alpha: float, sizes: tuple[int, ...] = (2, 4, 8, 16, 32)) -> DelayLaw:
    law = fit_curve(sizes, [100 * b**-alpha for b in sizes])
    assert isinstance(law, DelayLaw)
    return law


def test_a_law_of_exponent_one_gives_sixteen() -> None:
    choice = choose(CASE_26, 1000)
    assert choice.exact == pytest.approx(2 * math.sqrt(62.5))
    assert choice.batch == 16
    assert choice.tau == pytest.approx(0.016 * 100 / 4)  # the slope A/b² at b = 2
    assert not choice.fallback
    assert choice.warnings == ()


def test_the_short_form_equals_the_formula() -> None:
    law = power(0.7)
    choice = choose(law, 1000)
    assert choice.tau is not None
    assert choice.exact == pytest.approx((law.alpha * law.a / choice.tau) ** (1 / (law.alpha + 1)))


def test_halves_round_up() -> None:
    law = power(1.0)
    smallest = 2
    for size in range(1, 60):
        exact = choose(law, 10_000, smallest=size).exact
        assert exact is not None
        assert choose(law, 10_000, smallest=size).batch == math.floor(exact + 0.5)
    assert choose(law, 10_000, smallest=smallest).batch == 16


def test_sensitivity_says_that_b_star_is_proportional_to_the_smallest_candidate() -> None:
    choice = choose(CASE_26, 1000)
    assert choice.exact is not None
    for smallest, exact in choice.sensitivity:
        assert exact == pytest.approx(choice.exact * smallest / 2)
    assert {smallest for smallest, _ in choice.sensitivity} >= {1, 4}


def test_a_flat_curve_asks_for_a_large_batch_and_says_so() -> None:
    choice = choose(power(0.1), 10_000)
    assert choice.batch == round(2 * 62.5 ** (1 / 1.1))
    assert any("flat" in warning for warning in choice.warnings)
    assert any("extrapolation" in warning for warning in choice.warnings)


@pytest.mark.parametrize(
    ("bounds", "batch", "bound"),
    [
        ({"maximum": 10}, 10, "maximum"),
        ({"minimum": 20}, 20, "minimum"),
        ({"minimum": 12, "maximum": 14}, 14, "maximum"),
        ({"minimum": 5, "maximum": 30}, 16, None),
    ],
)
def test_bounds_cut_in_a_stated_order(bounds: dict[str, int], batch: int, bound: str | None) -> None:
    choice = choose(CASE_26, 1000, **bounds)
    assert (choice.batch, choice.bound) == (batch, bound)
    assert (bound is None) == (not any("bound" in warning for warning in choice.warnings))


def test_no_batch_is_larger_than_the_training_set() -> None:
    assert choose(CASE_26, 7, minimum=9).batch == 7


@pytest.mark.parametrize(
    "samples",
    [
        [Delay(b, 0.1 * b**2) for b in (2, 4, 8, 16)],
        [Delay(2, 1.0), Delay(4, 1.5)],
        [Delay(2, 1.0)],
        [],
        [Delay(b, math.nan) for b in (2, 4, 8)],
        [Delay(b, 1.0, cached=True) for b in (2, 4, 8)],
    ],
    ids=["rising", "two sizes", "one size", "none", "NaN", "all cached"],
)
def test_without_a_law_the_fixed_size_is_used_with_a_warning(samples: list[Delay]) -> None:
    choice = choose(fit_delays(samples, 100), 100, fallback=10)
    assert choice.fallback
    assert choice.batch == 10
    assert choice.exact is None
    assert choice.warnings[0].startswith("fixed batch size 10: ")
    assert choose(fit_delays(samples, 6), 6, fallback=10).batch == 6


def test_candidates_are_sorted_once_and_inside_the_bounds() -> None:
    sizes, notes = clean_candidates([32, 2, 8, 8, 64, 2], 40)
    assert sizes == (2, 8, 32)
    assert "2 equal" in notes[0]
    assert "64" in notes[1]
    assert clean_candidates([1, 2, 4, 8], 100, minimum=2, maximum=4)[0] == (2, 4)
    assert clean_candidates([], 100) == ((), ())


@pytest.mark.parametrize("candidates", [[0], [-4], [2.5], [True], ["8"]])
def test_a_candidate_that_is_no_size_is_the_callers_error(candidates: list[int]) -> None:
    with pytest.raises(UsageError, match="whole number"):
        clean_candidates(candidates, 100)


def test_bounds_that_contradict_are_the_callers_error() -> None:
    with pytest.raises(UsageError, match="above the largest"):
        choose(CASE_26, 100, minimum=9, maximum=8)
    with pytest.raises(UsageError, match="maximum"):
        choose(CASE_26, 100, maximum=0)
    with pytest.raises(UsageError, match="smallest candidate"):
        choose(CASE_26, 100, smallest=0)


def test_the_curve_holds_measured_and_fitted_times() -> None:
    points = curve(choose(CASE_26, 1000, maximum=10))
    assert [size for size, _, _ in points] == [2, 4, 8, 10, 16, 32]
    assert points[0][1] == pytest.approx(50)
    assert points[3][1] is None
    assert points[3][2] == pytest.approx(10)
    assert curve(choose(fit_curve([2], [1.0]), 9))[0][2] is None


def test_the_explanation_names_everything_that_led_to_the_size() -> None:
    text = explain(choose(CASE_26, 1000))
    assert "batch 16" in text
    assert "b* = (alpha*A/tau)^(1/(alpha+1)) = 15.81" in text
    assert "4: b* = 31.6" in text
    fixed = explain(choose(fit_curve([2], [1.0]), 100))
    assert fixed.startswith("batch 16 (fixed)\n! fixed batch size 16: 1 usable batch size;")


@given(
    samples=st.lists(st.tuples(st.integers(1, 300), st.floats(1e-6, 1e6)), max_size=20),
    n=st.integers(1, 500),
    minimum=st.integers(1, 50),
    extra=st.integers(0, 100),
    fallback=st.integers(1, 100),
)
def test_the_batch_never_leaves_its_bounds(
    *, samples: list[tuple[int, float]], n: int, minimum: int, extra: int, fallback: int
) -> None:
    maximum = minimum + extra
    law = fit_delays([Delay(b, s) for b, s in samples], n)
    batch = choose(law, n, minimum=minimum, maximum=maximum, fallback=fallback).batch
    top = min(maximum, n)
    assert min(minimum, top) <= batch <= top
