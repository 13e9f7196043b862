"""The augmented shuffle: copies apart by construction, even blocks, one order for one seed on every Python."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.aggregate.shuffle import blocks_even, blocks_filled, cut, permutation


@given(st.integers(0, 300), st.text(max_size=5))
def test_a_permutation_holds_every_number_once(n: int, seed: str) -> None:
    seed = seed.encode("utf-8", "replace").decode()
    assert sorted(permutation(n, seed)) == list(range(n))


def test_a_permutation_is_the_same_on_every_python() -> None:
    assert permutation(10, "7/round 0/copy 0") == [6, 7, 0, 9, 4, 2, 1, 8, 5, 3]
    blocks = blocks_even(9, groups=3, copies=2, seed="7/round 0")
    assert blocks == [[6, 0, 2, 8, 5, 1], [7, 4, 3, 8, 5, 2], [7, 6, 0, 4, 3, 1]]


@st.composite
def even(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 120))
    copies = draw(st.integers(1, 6))
    groups = draw(st.integers(copies, copies * n))
    return n, copies, groups


@given(even(), st.one_of(st.none(), st.integers(0, 50).map(str)))
def test_copies_never_share_a_group_and_sizes_differ_by_one_at_most(
    case: tuple[int, int, int], seed: str | None
) -> None:
    n, copies, groups = case
    blocks = blocks_even(n, groups=groups, copies=copies, seed=seed)
    assert len(blocks) == groups
    assert all(len(set(block)) == len(block) for block in blocks)
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
    assert Counter(item for block in blocks for item in block) == dict.fromkeys(range(n), copies)


@pytest.mark.parametrize(("n", "copies", "groups"), [(40, 3, 2), (9, 4, 3), (1, 2, 1)])
def test_more_copies_than_groups_are_refused(n: int, copies: int, groups: int) -> None:
    with pytest.raises(UsageError, match="copies of each item"):
        blocks_even(n, groups=groups, copies=copies, seed="0")


def test_every_pair_of_items_can_meet() -> None:
    """The constructive repair at the seams must not keep any two items apart for ever."""
    met = set()
    for seed in range(300):
        for block in blocks_even(9, groups=3, copies=2, seed=str(seed)):
            met |= {(a, b) for a in block for b in block if a < b}
    assert len(met) == 36


def test_no_place_prefers_an_item() -> None:
    """Each of 9 items stands first in 9 groups of 3 copies about equally often: 1,800 draws, 200 each."""
    first = Counter(blocks_even(9, groups=3, copies=2, seed=str(seed))[1][0] for seed in range(1800))
    assert min(first.values()) > 140
    assert max(first.values()) < 260


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=100),
    st.integers(1, 20),
    st.integers(1, 120),
    st.integers(1, 3),
)
def test_filled_blocks_hold_both_caps(weights: list[int], max_items: int, max_tokens: int, copies: int) -> None:
    blocks = blocks_filled(
        len(weights), max_items=max_items, copies=copies, seed="s", weights=weights, max_tokens=max_tokens
    )
    for block in blocks:
        assert len(block) <= max_items
        assert len(set(block)) == len(block)
        assert sum(weights[item] for item in block) <= max_tokens or len(block) == 1
    assert Counter(item for block in blocks for item in block) == dict.fromkeys(range(len(weights)), copies)


@given(st.integers(1, 200), st.integers(1, 20))
def test_without_a_token_cap_blocks_are_as_few_and_as_even_as_can_be(n: int, max_items: int) -> None:
    sizes = [len(block) for block in blocks_filled(n, max_items=max_items, seed="s")]
    assert len(sizes) == -(-n // max_items)
    assert max(sizes) - min(sizes) <= 1


def test_a_heavy_item_stands_alone() -> None:
    assert cut([0, 1, 2, 3], [5, 99, 5, 5], max_items=9, max_tokens=10) == [[0], [1], [2, 3]]


def test_without_a_seed_the_order_is_kept() -> None:
    assert blocks_even(6, groups=2) == [[0, 1, 2], [3, 4, 5]]
    assert blocks_filled(5, max_items=2) == [[0, 1], [2, 3], [4]]
