"""How long until what waits is learned."""

from __future__ import annotations

from combee.serve.backlog import Arrivals, catch_up

TAKEN = [(100, 2.0 + 100 * 0.01), (400, 2.0 + 400 * 0.01), (1000, 2.0 + 1000 * 0.01)]
"""Generations that take two seconds and a hundredth for each trace."""


def test_the_fixed_part_of_a_generation_counts_once_for_each_that_is_to_come() -> None:
    left = catch_up(3000, None, TAKEN, 1000, 0.0)
    assert left is not None
    assert round(left, 6) == 3 * 2 + 30
    running = catch_up(3000, (1000, 5.0), TAKEN, 1000, 0.0)
    assert running is not None
    assert round(running - left, 6) == 2 + 10 - 5


def test_what_comes_meanwhile_is_learned_too_and_may_be_too_much() -> None:
    alone, beside = catch_up(1000, None, TAKEN, 1000, 0.0), catch_up(1000, None, TAKEN, 1000, 40.0)
    assert alone is not None
    assert beside is not None
    assert round(beside / alone, 6) == round(1 / (1 - 40 * 0.012), 6)
    assert catch_up(1000, None, TAKEN, 1000, 90.0) is None


def test_one_size_alone_tells_the_rate_and_nothing_tells_nothing() -> None:
    assert catch_up(200, None, [(100, 4.0), (100, 6.0)], 1000, 0.0) == 10.0
    assert catch_up(200, None, [], 1000, 0.0) is None
    assert catch_up(0, None, [], 1000, 0.0) == 0.0


def test_a_burst_is_over_when_it_ends() -> None:
    arrivals = Arrivals()
    assert arrivals.rate() == 0.0
    arrivals.add(1000)
    assert 0 < arrivals.rate() <= 100
