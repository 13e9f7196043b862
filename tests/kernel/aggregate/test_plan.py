"""Plans: the preset of the paper, caps, levels, and the tree optimum with its published table."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.aggregate import CallCost, Paper, Retention, plan
from combee.kernel.aggregate.cost import best_tree, groups_of, least_levels, tree_seconds

MEASURED = CallCost(alpha=10.9, beta=0.06, concurrency=512)  # h = α/β = 182

# n, seconds of the preset, of the best tree, its levels, of the best tree with at most 64 inputs a call, its levels
TABLE = [
    (40, 23.0, 15.7, 1, 22.9, 2),
    (400, 25.4, 25.2, 2, 25.2, 2),
    (4_000, 33.2, 32.5, 2, 36.3, 3),
    (100_000, 78.7, 59.6, 3, 129, 3),
    (1_000_000, 333, 271, 3, 953, 4),
]


@pytest.mark.parametrize(("n", "root", "best", "levels", "capped", "capped_levels"), TABLE)
def test_the_table_of_tree_optima(  # noqa: PLR0917 - one parameter a column
    n: int, root: float, best: float, levels: int, capped: float, capped_levels: int
) -> None:
    def close(seconds: float, published: float) -> bool:
        """Not slower than published (to its last digit), and at most 1.5 % faster."""
        digit = 0.5 if published > 100 else 0.05
        return 0.985 * published <= seconds <= published + digit

    paper = plan(n, preset="paper", cost=MEASURED)
    assert paper.seconds == pytest.approx(root, abs=0.5 if root > 100 else 0.05)
    free = best_tree(2 * n, cost=MEASURED)
    assert len(free) == levels
    assert close(tree_seconds(2 * n, free, MEASURED), best)
    held = best_tree(2 * n, cost=MEASURED, cap=64)
    assert len(held) == capped_levels
    assert max(held) <= 64
    assert close(tree_seconds(2 * n, held, MEASURED), capped)


def test_two_levels_beat_one_and_three_beat_two_where_the_formulas_say() -> None:
    unlimited = CallCost(10.9, 0.06)
    h = unlimited.alpha / unlimited.beta
    first = math.ceil((1 + math.sqrt(1 + h)) ** 2)
    assert len(best_tree(first - 10, cost=unlimited)) == 1
    assert len(best_tree(first + 10, cost=unlimited)) == 2
    second = next(n for n in range(2_000, 60_000, 10) if 2 * math.sqrt(n) - 3 * n ** (1 / 3) > h)
    assert len(best_tree(second - 400, cost=unlimited)) == 2
    assert len(best_tree(second + 400, cost=unlimited)) == 3


def best_fan_in(h: float) -> float:
    """Return m ≥ e with m(ln m − 1) = h, the best fan-in of an endless tree."""
    low, high = math.e, math.e + h + 1
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if middle * (math.log(middle) - 1) < h else (low, middle)
    return low


@pytest.mark.parametrize(("n", "alpha", "beta"), [(100_000, 10.9, 0.06), (60, 1.0, 1.0), (1_000_000, 300.0, 0.01)])
def test_the_solver_comes_near_the_closed_form_of_a_tree_with_any_number_of_levels(
    n: int, alpha: float, beta: float
) -> None:
    cost, m = CallCost(alpha, beta), best_fan_in(alpha / beta)
    bound = math.log(n) / math.log(m) * cost.seconds(m)
    assert bound <= tree_seconds(n, best_tree(n, cost=cost), cost) <= 1.1 * bound


def test_retention_lowers_the_best_fan_in_as_the_formula_says() -> None:
    n, cost, retention = 2_000, CallCost(10.9, 0.06), Retention(delta=0.1, m0=40.0, price=60.0)
    m = best_fan_in((10.9 + 60 * 0.1) / (0.06 + 60 / 40))
    bound = math.log(n) / math.log(m) * (cost.seconds(m) + 60 * retention.loss(m))
    fan_ins = best_tree(n, cost=cost, retention=retention)
    assert max(fan_ins) < min(best_tree(n, cost=cost))
    assert bound <= sum(cost.seconds(size) + 60 * retention.loss(size) for size in fan_ins) <= 1.1 * bound


@given(st.integers(2, 5_000), st.integers(2, 70), st.one_of(st.none(), st.integers(1, 600)))
@settings(max_examples=60)
def test_the_solver_is_never_worse_than_any_equal_tree(n: int, cap: int, concurrency: int | None) -> None:
    cost = CallCost(10.9, 0.06, concurrency)
    fan_ins = best_tree(n, cost=cost, cap=cap)
    count = n
    for fan_in in fan_ins:
        assert fan_in <= cap
        count = groups_of(count, fan_in)
    assert count == 1
    least = least_levels(n, cap)
    assert len(fan_ins) >= least
    if concurrency is None:
        for levels in range(least, least + 3):
            fan_in = math.ceil(n ** (1 / levels) - 1e-9)
            if fan_in <= cap and fan_in**levels >= n:
                assert tree_seconds(n, fan_ins, cost) <= tree_seconds(n, (fan_in,) * levels, cost) + 1e-6


@pytest.mark.parametrize(
    ("inputs", "cap", "levels"), [(64, 64, 1), (65, 64, 2), (4096, 64, 2), (4097, 64, 3), (1, 2, 1), (8, 2, 3)]
)
def test_levels_reach_far_enough(inputs: int, cap: int, levels: int) -> None:
    assert least_levels(inputs, cap) == levels


@pytest.mark.parametrize(
    ("n", "groups", "largest", "reads", "calls"),
    [(8, 1, 8, 8, 1), (9, 3, 6, 18, 4), (36, 6, 12, 72, 7), (40, 6, 14, 80, 7), (125, 11, 23, 250, 12)],
)
def test_the_preset_has_the_groups_of_the_paper(n: int, groups: int, largest: int, reads: int, calls: int) -> None:
    made = plan(n, preset="paper")
    assert (made.groups, made.fan_ins[0], made.reads, made.calls) == (groups, largest, reads, calls)
    sizes = [len(block) for block in made.blocks("0")]
    assert (max(sizes), sum(sizes)) == (largest, reads)
    assert max(sizes) - min(sizes) <= 1


def test_ablations_change_the_number_of_groups_and_the_order() -> None:
    assert plan(50, preset=Paper(k_of="pn")).groups == 10
    assert plan(50, preset="paper").groups == 7
    assert plan(50, preset=Paper(group_size=20)).groups == 5
    assert plan(50, preset=Paper(group_size=6), copies=1).groups == 9
    ordered = plan(50, preset=Paper(shuffle=False), copies=1).blocks("any seed")
    assert [item for block in ordered for item in block] == list(range(50))


def test_the_default_has_leaves_under_both_caps_and_one_level() -> None:
    made = plan(1000)
    assert (made.groups, made.fan_ins, made.calls, made.reads) == (63, (16,), 63, 1000)
    tight = plan(100, weights=[100] * 99 + [5000], max_tokens=800)
    assert tight.groups >= 13
    assert max(len(block) for block in tight.blocks("0", [100] * 99 + [5000])) <= 8
    assert any("heavier than 800 tokens" in note for note in tight.notes)


def test_a_method_that_combines_by_model_gets_levels_under_the_cap() -> None:
    made = plan(10_000, max_items=64, combine_calls_model=True)
    assert len(made.fan_ins) == 3
    assert max(made.fan_ins) <= 64
    timed = plan(10_000, max_items=64, combine_calls_model=True, cost=CallCost(10.9, 0.06, 512))
    assert timed.seconds is not None
    assert made.resized(10_000, weights=None, combine_calls_model=True) == made
    careful = plan(10_000, max_items=64, combine_calls_model=True, retention=Retention(0.0, 10.0))
    assert max(careful.fan_ins) < max(made.fan_ins)


def test_a_plan_explains_itself_in_plain_words() -> None:
    text = plan(10_000, max_items=64, cost=MEASURED, retention=Retention(0.0, 40.0), combine_calls_model=True).explain()
    assert "10,000 items, each read once" in text
    assert "solver's best for time and retention" in text
    paper = plan(400, preset="paper", retention=Retention(0.0, 40.0)).explain()
    assert "each read 2 times, in different groups, in 20 leaf calls of up to 40 items" in paper
    assert "36% of the lessons kept at 2.00 reads" in paper
    ours = plan(10_000, retention=Retention(0.0, 40.0)).explain()
    assert "merged by code" in ours
    assert "89% of the lessons kept at 1.33 reads" in ours


WRONG: list[dict[str, Any]] = [
    {"n": 0},
    {"n": 5, "copies": 0},
    {"n": 5, "max_items": 0},
    {"n": 5, "max_tokens": 0},
    {"n": 5, "second_chances": -1},
    {"n": 5, "preset": "papre"},
    {"n": 5, "preset": Paper(k_of="m")},  # type: ignore[arg-type]
    {"n": 5, "preset": Paper(group_size=0)},
    {"n": 5, "weights": [1, 2]},
    {"n": 5, "max_items": 1, "combine_calls_model": True},
    {"n": 40, "preset": "paper", "copies": 7},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_wrong_argument_is_named_with_what_to_do(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        plan(**wrong)
    assert caught.value.hint


@pytest.mark.parametrize(("alpha", "beta", "concurrency"), [(-1.0, 0.0, None), (math.nan, 0.0, None), (1.0, 1.0, 0)])
def test_a_cost_that_makes_no_sense_is_refused(alpha: float, beta: float, concurrency: int | None) -> None:
    with pytest.raises(UsageError):
        CallCost(alpha, beta, concurrency)


@pytest.mark.parametrize(("delta", "m0"), [(-0.1, 40.0), (0.0, 0.0), (math.inf, 1.0), (math.nan, 1.0)])
def test_a_retention_that_makes_no_sense_is_refused(delta: float, m0: float) -> None:
    with pytest.raises(UsageError):
        Retention(delta, m0)


def test_a_plan_made_for_few_items_remembers_what_was_asked_for() -> None:
    small = plan(5, preset="paper")
    assert (small.copies, small.times, small.reads) == (2, 1, 5)
    assert small.resized(100, weights=None, combine_calls_model=False) == plan(100, preset="paper")


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 1.5},
        {"n": "3"},
        {"n": True},
        {"n": None},
        {"n": 3, "max_items": 2.5},
        {"n": 3, "max_items": None},
        {"n": 3, "copies": float("nan")},
        {"n": 3, "copies": 10**18},
        {"n": 3, "max_tokens": "5"},
        {"n": 3, "second_chances": False},
        {"n": 3, "weights": [1, -1, 2], "max_tokens": 2},
        {"n": 3, "weights": [1, float("nan"), 2], "max_tokens": 2},
    ],
)
def test_a_number_that_is_none_or_not_whole_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        plan(**wrong)
