"""The published compounding figures, by arithmetic and by real scans with a method that forgets."""

from __future__ import annotations

import asyncio
import statistics

import pytest

from benchmarks.simulate import SimulatedMethod
from combee.kernel.aggregate import Retention, expected, plan, scan

FORGETFUL = Retention(0.0, 40.0)


@pytest.mark.parametrize(("n", "kept"), [(100, 0.66), (125, 0.62), (400, 0.36), (1_000, 0.17), (10_000, 0.001)])
def test_two_levels_of_model_calls_lose_more_the_more_there_is(n: int, kept: float) -> None:
    model = expected(plan(n, preset="paper"), FORGETFUL)
    assert model.kept == pytest.approx(kept, abs=0.0005 if n == 10_000 else 0.005)
    assert model.reads == 2.0


def test_one_copy_beats_two_from_about_400_items() -> None:
    def gain(n: int) -> float:
        one, two = (expected(plan(n, preset="paper", copies=copies), FORGETFUL).kept for copies in (1, 2))
        return one - two

    assert gain(100) < 0
    assert gain(300) < 0
    assert gain(400) > 0
    assert gain(1_000) > 0


@pytest.mark.parametrize("n", [16_000, 1_000_000])
@pytest.mark.parametrize(
    ("chances", "kept", "reads"), [(0, 0.67, 1.0), (1, 0.89, 1.33), (2, 0.96, 1.44), (3, 0.99, 1.47)]
)
def test_leaves_of_16_merged_by_code_keep_the_same_at_any_size(n: int, chances: int, kept: float, reads: float) -> None:
    model = expected(plan(n, second_chances=chances), FORGETFUL)
    assert model.kept == pytest.approx(kept, abs=0.005)
    assert model.reads == pytest.approx(reads, abs=0.006)


@pytest.mark.parametrize("n", [100, 400, 1_000])
def test_real_scans_of_the_preset_keep_what_the_arithmetic_says(n: int) -> None:
    items = [f"item-{index:05d}" for index in range(n)]
    shares = [
        len(asyncio.run(scan(items, SimulatedMethod(FORGETFUL, seed=seed), plan(n, preset="paper"))).covered) / n
        for seed in range(8)
    ]
    assert statistics.mean(shares) == pytest.approx(expected(plan(n, preset="paper"), FORGETFUL).kept, abs=0.03)


@pytest.mark.parametrize("chances", [0, 1, 2, 3])
def test_real_scans_of_ours_keep_and_read_what_the_arithmetic_says(chances: int) -> None:
    n = 8_000
    items = [f"item-{index:05d}" for index in range(n)]
    shape = plan(n, second_chances=chances)
    result = asyncio.run(scan(items, SimulatedMethod(FORGETFUL), shape))
    model = expected(shape, FORGETFUL)
    assert len(result.covered) / n == pytest.approx(model.kept, abs=0.02)
    assert result.reads / n == pytest.approx(model.reads, abs=0.02)


def test_deep_trees_of_model_calls_lose_at_every_level() -> None:
    shape = plan(4_096, max_items=16, combine_calls_model=True)
    assert shape.fan_ins == (16, 16, 16)
    assert expected(shape, FORGETFUL).kept == pytest.approx(0.6703**3, abs=1e-3)
