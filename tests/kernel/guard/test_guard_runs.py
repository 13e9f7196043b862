"""Whole simulated runs: quiet when clean, and every planted fault noticed (full counts: benchmarks/bench_guard.py)."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.mark.parametrize("options", [{}, {"rows": 60, "parts": 4}, {"batch": (4, 12)}], ids=["usual", "parts", "small"])
def test_clean_runs_are_quiet(world: ModuleType, options: dict[str, object]) -> None:
    assert world.alarmed(world.Plan(**options), 25) == 0


@pytest.mark.parametrize("k", [0, 3])
def test_a_collapsing_aggregator_is_caught_at_its_step_and_healed_by_smaller_groups(world: ModuleType, k: int) -> None:
    for seed in range(8):
        events = world.run(world.Plan(collapse_at=k, batch=(40, 80), steps=5), seed)
        assert [e.verdict.action for e in events if e.step < k] == ["accept"] * k
        assert [e.verdict.action for e in events if e.step == k] == ["retry_smaller", "accept"]


@pytest.mark.parametrize("k", [0, 3])
def test_platitudes_are_never_applied(world: ModuleType, k: int) -> None:
    for seed in range(5):
        events = world.run(world.Plan(collapse_at=k, bad=world.platitudes, steps=5), seed)
        assert [e.verdict.action for e in events if e.step == k][-1] == "reject"
        assert not any(e.verdict.applies for e in events if e.step == k)


def test_a_harmful_lesson_is_rejected_at_its_step(world: ModuleType) -> None:
    for seed in range(8):
        hit = world.first_alarm(world.Plan(harm_at=3, harm=0.25, steps=5), seed)
        assert hit.step == 3
        assert hit.verdict.action == "reject"


def test_a_slow_drift_is_noticed_against_stable(world: ModuleType) -> None:
    caught = 0
    for seed in range(10):
        hit = world.first_alarm(world.Plan(drift=0.025, steps=10), seed)
        caught += hit is not None and hit.verdict.action == "reject"
    assert caught >= 9
