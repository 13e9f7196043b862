"""`CombeeSampler`: every record equally often whatever the sizes are; sizes from measured times, repeated by replay."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.gepa import CombeeSampler
from combee.kernel.journal import MemoryScope


class Loader:
    def __init__(self, count: int) -> None:
        self.count = count

    def all_ids(self) -> list[int]:
        return list(range(self.count))


def state(iteration: int, validations: int = 1) -> Any:
    return SimpleNamespace(i=iteration, num_full_ds_evals=validations)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 12))
def test_minibatches_hold_no_record_twice_and_all_records_equally_often(count: int, batch: int, steps: int) -> None:
    sampler = CombeeSampler(batch)
    drawn = [sampler.next_minibatch_ids(Loader(count), state(i)) for i in range(steps)]
    assert all(len(set(ids)) == len(ids) == min(batch, count) for ids in drawn)
    seen = Counter(number for ids in drawn for number in ids)
    assert max(seen.values()) - min(seen[n] for n in range(count)) <= 2
    assert sampler.drawn == sum(map(len, drawn))


def test_proposals_of_one_iteration_get_different_records() -> None:
    sampler = CombeeSampler(5)
    one, two = (sampler.next_minibatch_ids(Loader(20), state(0)) for _ in range(2))
    assert not set(one) & set(two)


def test_same_seed_same_minibatches_and_the_state_goes_on_with_them() -> None:
    one, two, other = CombeeSampler(7, seed=3), CombeeSampler(7, seed=3), CombeeSampler(7, seed=4)
    first = [one.next_minibatch_ids(Loader(20), state(i)) for i in range(3)]
    assert [two.next_minibatch_ids(Loader(20), state(i)) for i in range(3)] == first
    assert [other.next_minibatch_ids(Loader(20), state(i)) for i in range(3)] != first
    later = CombeeSampler(7, seed=3)
    later.set_state(json.loads(json.dumps(one.get_state())))
    assert later.next_minibatch_ids(Loader(20), state(3)) == one.next_minibatch_ids(Loader(20), state(3))


def drive(sampler: CombeeSampler, steps: int) -> list[int]:
    """Feed the delays 100 · b^-1 seconds a pass, that is 100 / n seconds a step whatever the size."""
    sizes = []
    for i in range(steps):
        size = len(sampler.next_minibatch_ids(Loader(400), state(i)))
        sizes.append(size)
        sampler.observe(size, 0.25)
    return sizes


def test_sizes_are_profiled_then_one_is_chosen_from_the_measured_times() -> None:
    sampler = CombeeSampler("auto", candidates=(2, 4, 8, 16, 32))
    sizes = drive(sampler, 14)
    assert sizes[:10] == [2, 4, 8, 16, 32, 32, 16, 8, 4, 2]
    assert set(sizes[10:]) == {16}  # alpha = 1: b* = 2 · sqrt(62.5) = 15.8
    assert sampler.choice is not None
    assert sampler.choice.batch == 16


def test_a_replay_takes_the_same_sizes_whatever_it_measures() -> None:
    scope = MemoryScope()
    first = drive(CombeeSampler("auto", scope=scope), 16)
    again = CombeeSampler("auto", scope=scope)
    assert [len(again.next_minibatch_ids(Loader(400), state(i))) for i in range(16)] == first


def test_iterations_that_came_from_the_journal_are_no_measure() -> None:
    reused = iter(range(1000))
    sampler = CombeeSampler("auto", candidates=(2, 4, 8), reused=lambda: next(reused))
    for i in range(8):
        sampler.next_minibatch_ids(Loader(400), state(i))
        sampler.on_evaluation_end({"candidate_idx": None})
        sampler.on_iteration_end({})
    assert sampler.choice is not None
    assert sampler.choice.fallback
    assert any("journal" in warning for warning in sampler.choice.warnings)


def test_a_size_that_cannot_be_used_is_refused() -> None:
    for batch in (0, -1, "many", 2.5):
        with pytest.raises(UsageError):
            CombeeSampler(batch)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(UsageError, match="no training records"):
        CombeeSampler(3).next_minibatch_ids(Loader(0), state(0))
