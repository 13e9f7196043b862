"""The gate for CI: passes what is as good, fails what is worse or cannot be compared."""

from __future__ import annotations

import math

import pytest

from combee.errors import UsageError
from combee.run.gate import GateLimits, Metrics, gate


def rows(right: int, n: int = 200) -> dict[str, tuple[int, int]]:
    return {f"q{i}": (int(i < right), 1) for i in range(n)}


@pytest.mark.parametrize("right", [120, 150, 118])
def test_as_good_or_better_or_within_chance_passes(right: int) -> None:
    result = gate(Metrics(rows(right)), Metrics(rows(120)))
    assert result.passed
    assert result.reasons == ()
    assert "on 200 rows" in result.notes[0]


def test_a_loss_beyond_chance_fails_even_when_small() -> None:
    result = gate(Metrics(rows(112)), Metrics(rows(120)))
    assert not result.passed
    assert "0.600 to 0.560, beyond chance" in result.reasons[0]


def test_a_large_drop_fails_even_where_the_test_has_no_power() -> None:
    result = gate(Metrics(rows(1, 3)), Metrics(rows(2, 3)))
    assert not result.passed
    assert "more than the 0.050 allowed" in result.reasons[0]
    assert "no power" in result.notes[0]
    assert gate(Metrics(rows(1, 3)), Metrics(rows(2, 3)), GateLimits(max_drop=0.5)).passed


def test_bare_scores_are_compared_by_the_allowed_drop() -> None:
    assert gate(Metrics(score=0.56), Metrics(score=0.61)).passed
    assert not gate(Metrics(score=0.55), Metrics(score=0.61)).passed
    assert "chance cannot be told from loss" in gate(Metrics(score=0.6), Metrics(rows(120))).notes[0]


@pytest.mark.parametrize(
    ("run", "baseline", "reason"),
    [
        (Metrics(), Metrics(rows(1)), "the run has no score"),
        (Metrics(rows(1)), Metrics(), "the baseline has no score"),
        (Metrics(score=math.nan), Metrics(score=0.5), "the run has no score"),
        (Metrics(rows(50, 100)), Metrics(rows(100)), "100 questions have no score on both sides"),
        (Metrics(rows(1, 1), errors=3), Metrics(rows(1, 1)), "3 of 4 questions ended in an error"),
        (Metrics(score=0.5, errors=1), Metrics(score=0.5), "ended in an error"),
        (Metrics(rows(9), violations=2), Metrics(rows(9)), "2 bullets hold a leak"),
        (Metrics(rows(9), coverage=0.5), Metrics(rows(9), coverage=0.9), "coverage fell from 90% to 50%"),
        (Metrics(rows(9), coverage=math.nan), Metrics(rows(9), coverage=0.9), "coverage fell"),
        (Metrics(rows(9), entries=0), Metrics(rows(9), entries=9), "the book is empty"),
    ],
)
def test_what_cannot_stand_fails_with_its_reason(run: Metrics, baseline: Metrics, reason: str) -> None:
    result = gate(run, baseline)
    assert not result.passed
    assert any(reason in each for each in result.reasons)


def test_a_token_budget_is_held() -> None:
    limits = GateLimits(token_budget=1000)
    assert gate(Metrics(rows(9), tokens=1000), Metrics(rows(9)), limits).passed
    assert not gate(Metrics(rows(9), tokens=1001), Metrics(rows(9)), limits).passed


def test_limits_that_cannot_be_held_are_the_callers_error() -> None:
    for alpha, max_drop in ((0.0, 0.1), (1.0, 0.1), (0.05, -0.1), (0.05, math.nan)):
        with pytest.raises(UsageError, match="cannot be held"):
            GateLimits(alpha=alpha, max_drop=max_drop)
