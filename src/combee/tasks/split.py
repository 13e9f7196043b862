"""Train, validation and test from one list, so that no question is on two sides: seeded, by shares or by counts.

Rows that share a key (FiNER rows: a sentence) stay together. Equal rows, sizes and seed give equal splits.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from combee.errors import UsageError
from combee.tasks.model import Fractions, Sizes

__all__ = ["check_fractions", "check_sizes", "counts_of", "split"]

T = TypeVar("T")
_NAMES = ("train", "val", "test")


def check_sizes(sizes: Sizes) -> None:
    """Refuse negative sizes and a set of nothing.

    Raises:
        UsageError: names the size.
    """
    for name, size in zip(_NAMES, sizes, strict=True):
        if size is not None and size < 0:
            raise UsageError(f"{name} size {size} is negative", hint="Give 0 or more.")
    if all(size == 0 for size in sizes):
        raise UsageError("all three sizes are 0", hint="Ask for at least one row.")


def check_fractions(fractions: Fractions) -> None:
    """Refuse shares that are negative, not finite, or all 0.

    Raises:
        UsageError: names the share.
    """
    for name, share in zip(_NAMES, fractions, strict=True):
        if not math.isfinite(share) or share < 0:
            raise UsageError(f"{name} share {share} is not a number of 0 or more", hint="Shares such as 0.6 0.2 0.2.")
    if not sum(fractions) > 0:
        raise UsageError("all three shares are 0", hint="Shares such as 0.6 0.2 0.2.")


def counts_of(n: int, fractions: Fractions, sizes: Sizes) -> tuple[int, int, int]:
    """Return how many of n rows go to each split: sizes where given, the shares of the rest elsewhere.

    Every split with a share gets at least one row while there are rows: train first, then test, then val.

    Raises:
        UsageError: the sizes ask for more than n.
    """
    asked = sum(size or 0 for size in sizes)
    if asked > n:
        raise UsageError(f"{asked} rows are asked for, there are {n} different ones", hint="Ask for fewer.")
    counts = [size or 0 for size in sizes]
    free = [place for place in (0, 2, 1) if sizes[place] is None and fractions[place] > 0]
    left = n - asked
    if left <= len(free):
        for place in free[:left]:
            counts[place] = 1
    elif free:
        total = sum(fractions[place] for place in free)
        exact = {place: left * fractions[place] / total for place in free}
        for place in free:
            counts[place] = max(1, math.floor(exact[place] + 1e-9))
        _settle(counts, free, exact, left)
    return counts[0], counts[1], counts[2]


def _settle(counts: list[int], free: Sequence[int], exact: Mapping[int, float], left: int) -> None:
    """Give out what rounding left over, largest remainder first, or take back from the largest split."""
    spare = left - sum(counts[place] for place in free)
    for place in sorted(free, key=lambda place: counts[place] - exact[place])[: max(spare, 0)]:
        counts[place] += 1
    for _ in range(-spare):
        counts[max(free, key=lambda place: counts[place])] -= 1


def split(
    items: Sequence[T], keys: Sequence[Iterable[Hashable]], counts: tuple[int, int, int], seed: int
) -> tuple[list[T], list[T], list[T]]:
    """Shuffle and cut; items that share a key go to the same split, or are left out where they fit none.

    Args:
        items: the rows, each question once.
        keys: for each item, what it must not share with another split.
        counts: rows for (train, val, test); a split is smaller only where groups do not fit.
        seed: of the shuffle.
    """
    groups = _groups(keys)
    random.Random(seed).shuffle(groups)
    # Large groups first: single rows then fill what is left, so that the counts are met whenever they can be.
    groups.sort(key=lambda group: -len(group))
    single = next((place for place, group in enumerate(groups) if len(group) == 1), len(groups))
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    free = list(counts)
    for group in groups[:single]:
        side = max((0, 1, 2), key=lambda side: (free[side], -side))
        if free[side] >= len(group):
            parts[side].extend(group)
            free[side] -= len(group)
    rest = (group[0] for group in groups[single:])
    for part, count in zip(parts, free, strict=True):
        part.extend(itertools.islice(rest, count))
        part.sort()
        random.Random(f"{seed}/order").shuffle(part)
    return [items[i] for i in parts[0]], [items[i] for i in parts[1]], [items[i] for i in parts[2]]


def _groups(keys: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Return the indices of items joined by shared keys, in order of their first item."""
    parent = list(range(len(keys)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    first: dict[Hashable, int] = {}
    for place, own in enumerate(keys):
        for key in own:
            other = first.setdefault(key, place)
            if other != place:
                a, b = root(other), root(place)
                parent[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for place in range(len(keys)):
        groups.setdefault(root(place), []).append(place)
    return list(groups.values())
