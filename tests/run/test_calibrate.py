"""Calibration finds the retention of a method that forgets, says how sure it is, and recommends a leaf size."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulate import SimulatedMethod
from combee.errors import CallError, CallErrorKind, RunError, UsageError
from combee.kernel.aggregate import Retention
from combee.kernel.journal import MemoryScope
from combee.run.calibrate import (
    SIZES,
    Calibration,
    calibrate,
    calibration_price,
    fit_counts,
    fit_retention,
    recommend,
)


def fact(number: int) -> str:
    return f"fact-{number}"


def measured(retention: Retention | None, seed: int = 0, **options: Any) -> Calibration:
    return asyncio.run(calibrate(fact, SimulatedMethod(retention, seed=seed), **options))


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_m0_of_40_within_ten_percent(seed: int) -> None:
    found = measured(Retention(0.0, 40.0), seed)
    assert found.m0 == pytest.approx(40.0, rel=0.1)
    assert found.m0_range[0] < found.m0 < found.m0_range[1]
    assert found.delta < 0.12
    assert 16 <= found.max_items <= 22


@pytest.mark.parametrize(("delta", "m0"), [(0.5, 40.0), (0.2, 15.0), (0.0, 8.0), (0.0, 200.0), (0.3, 100.0)])
def test_it_finds_other_laws_too(delta: float, m0: float) -> None:
    found = measured(Retention(delta, m0), repeats=40)
    assert found.m0 == pytest.approx(m0, rel=0.15)
    assert found.delta == pytest.approx(delta, abs=0.08)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    inside = 0
    for seed in range(20):
        draw = random.Random(seed)
        calls = [(m, m, sum(draw.random() < math.exp(-m / 40) for _ in range(m))) for m in SIZES for _ in range(10)]
        low, high = fit_retention(calls, seed=seed).m0_range
        inside += low <= 40 <= high
    assert inside >= 15


def test_no_loss_at_all_recommends_the_largest_size_tried_and_no_more() -> None:
    found = measured(None)
    assert (found.delta, found.m0, found.max_items) == (0.0, math.inf, 128)
    assert "largest size that was tried" in found.reason
    assert json.loads(json.dumps(found.to_json()))["m0"] is None
    assert "inf" not in found.explain()
    assert found.retention.kept(10_000) == 1.0


def test_a_method_that_keeps_nothing_has_no_fit_and_no_size() -> None:
    found = measured(Retention(50.0, 40.0))
    assert "nothing to fit" in found.reason
    assert isinstance(data := found.to_json(), dict)
    assert set(data) == {"measured", "target", "second_chances", "reason"}


def test_sizes_that_never_answer_bound_the_recommendation() -> None:
    def fault(_: str, inputs: int) -> CallError | None:
        return CallError("too long", kind=CallErrorKind.CONTEXT_TOO_LONG) if inputs > 16 else None

    found = asyncio.run(calibrate(fact, SimulatedMethod(fault=fault)))
    assert found.max_items == 16
    assert [row.failed for row in found.measured] == [0, 0, 0, 0, 0, 10, 10, 10]
    assert "10 calls failed" in found.explain()


def test_errors_end_it_with_what_happened() -> None:
    silent = SimulatedMethod(fault=lambda *_: CallError("no answer", kind=CallErrorKind.TIMEOUT))
    with pytest.raises(RunError, match="no answer"):
        asyncio.run(calibrate(fact, silent, sizes=(1, 2), repeats=1))
    denied = SimulatedMethod(fault=lambda *_: CallError("denied", kind=CallErrorKind.AUTH))
    with pytest.raises(CallError, match="denied"):
        asyncio.run(calibrate(fact, denied))


def test_it_is_bought_once_and_priced_before() -> None:
    bought: list[int] = []

    class Counting(SimulatedMethod):
        async def leaf(self, items: Sequence[str], node: str) -> frozenset[str]:
            bought.append(len(items))
            return await super().leaf(items, node)

    scope = MemoryScope()
    price = calibration_price(50, sizes=(1, 4, 16), repeats=3, tokens_per_call=200)
    assert (price.calls, price.facts, price.tokens) == (9, 63, 63 * 50 + 9 * 200)
    results = [
        asyncio.run(calibrate(fact, Counting(Retention(0.0, 40.0)), sizes=(1, 4, 16), repeats=3, scope=scope))
        for _ in range(2)
    ]
    assert results[0] == results[1]
    assert (len(bought), sum(bought)) == (price.calls, price.facts)


@pytest.mark.parametrize(("chances", "size"), [(0, 6), (1, 19), (2, 30)])
def test_second_chances_allow_larger_leaves(chances: int, size: int) -> None:
    got, reason = recommend(Retention(0.0, 40.0), largest=128, second_chances=chances)
    assert got == size
    once = math.exp(-size / 40)
    assert 1 - (1 - once) ** (1 + chances) >= 0.85 > 1 - (1 - math.exp(-(size + 1) / 40)) ** (1 + chances)
    assert "85%" in reason


counts = st.lists(
    st.tuples(st.sampled_from(SIZES), st.floats(0, 1)).map(lambda pair: (pair[0], pair[0], round(pair[0] * pair[1]))),
    min_size=1,
    max_size=30,
)


@given(counts)
@settings(max_examples=150)
def test_the_fit_is_finite_and_at_least_as_likely_as_its_neighbours(calls: list[tuple[int, int, int]]) -> None:
    def likelihood(delta: float, slope: float) -> float:
        total = 0.0
        for size, planted, survived in calls:
            loss = max(1e-9, delta + slope * size)
            total += -survived * loss + (planted - survived) * math.log(-math.expm1(-loss))
        return total

    delta, m0 = fit_counts(calls)
    assert delta >= 0
    assert m0 > 0
    if any(survived for _, _, survived in calls):
        here = likelihood(delta, 1 / m0)
        for other in (1.02, 0.98):
            assert here >= likelihood(delta, other / m0) - 1e-6 * (1 + abs(here))


WRONG: list[dict[str, Any]] = [
    {"sizes": ()},
    {"sizes": (0, 1)},
    {"repeats": 0},
    {"target": 1.0},
    {"target": 0.0},
    {"second_chances": -1},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_wrong_arguments_are_refused_before_anything_is_bought(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        measured(None, **wrong)
