"""The paired tests are exact, and the printed power is the real one."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.guard import Spending, Trial, compare
from combee.kernel.guard.regression import p_not_above, smallest_drop


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_p_equals_the_count_of_all_sign_flips(differences: list[int]) -> None:
    total = sum(differences)
    flips = [
        sum(s * abs(d) for s, d in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    expected = sum(flip <= total for flip in flips) / len(flips)
    assert p_not_above(differences) == pytest.approx(expected)


def test_one_part_a_row_is_mcnemars_exact_test() -> None:
    wins, losses = 3, 11
    expected = sum(math.comb(14, k) for k in range(wins + 1)) / 2**14
    assert p_not_above([1] * wins + [-1] * losses + [0] * 200) == pytest.approx(expected)


def test_thousands_of_rows_are_no_trouble() -> None:
    assert p_not_above([1, -1] * 2000) == pytest.approx(0.5, abs=0.01)
    assert p_not_above([-1] * 3000) == pytest.approx(0, abs=1e-300)
    assert p_not_above([]) == 1


def rows(values: list[int], parts: int = 1) -> dict[str, tuple[int, int]]:
    return {f"q{i}": (value, parts) for i, value in enumerate(values)}


def test_three_rows_have_no_power_and_it_is_said() -> None:
    result = compare(Trial("old", rows([0, 0, 0]), rows([1, 1, 1])), Spending().alpha())
    assert not result.worse
    assert result.smallest is None
    assert "no power: with 3 rows" in result.explain()


@pytest.mark.parametrize("alpha", [0.05, 0.0003])
def test_the_printed_drop_is_found_in_about_80_percent_of_trials(alpha: float) -> None:
    n, turnover = 220, 0.1
    drop = smallest_drop(n, n, alpha, turnover)
    assert drop is not None
    rng, found = random.Random(5), 0
    for _ in range(400):
        draws = [rng.random() for _ in range(n)]
        differences = [1 if u < turnover / 2 else -1 if u < turnover + drop else 0 for u in draws]
        found += p_not_above(differences) <= alpha
    assert 0.7 < found / 400 < 0.9


def test_a_run_of_any_length_spends_no_more_than_its_budget() -> None:
    spending, spent = Spending(total=0.01, horizon=16), 0.0
    for k in range(5000):
        level = Spending(0.01, 16, looks=k).alpha()
        assert level == pytest.approx(spending.alpha(ahead=k))
        spent += level
    assert spent == pytest.approx(Spending(0.01, 16, looks=5000).spent)
    assert spent < 0.01
    assert Spending(0.01, 16, looks=16).spent == pytest.approx(0.005)


@pytest.mark.parametrize(("total", "horizon"), [(0, 16), (1, 16), (-0.1, 16), (0.05, 0), (math.nan, 16)])
def test_an_error_budget_must_be_one(total: float, horizon: int) -> None:
    with pytest.raises(UsageError, match="error budget"):
        Spending(total, horizon)


def test_the_comparison_is_micro_averaged_over_parts() -> None:
    new, old = {"a": (3, 4), "b": (0, 1)}, {"a": (1, 4), "b": (1, 1)}
    result = compare(Trial("old", new, old), 0.05)
    assert result.new_score == pytest.approx(0.6)
    assert result.old_score == pytest.approx(0.4)
    assert result.drop == pytest.approx(-0.2)
    assert result.p_worse == pytest.approx(0.75)


def test_rows_that_ended_in_an_error_are_not_zeros() -> None:
    old = rows([1] * 4)
    result = compare(Trial("old", {"q0": (1, 1)}, old), 0.05)
    assert not result.comparable
    assert not result.worse
    assert not result.better
    assert "3 rows have no score on both sides" in result.explain()


@pytest.mark.parametrize("bad", [(2, 1), (-1, 1), (0, 0), (1, 2)])
def test_rows_that_do_not_fit_are_the_callers_error(bad: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="q0"):
        compare(Trial("old", {"q0": bad}, {"q0": (1, 1)}), 0.05)
