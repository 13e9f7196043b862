"""The augmented shuffle (arXiv 2604.04247, section 3.2): which items share a group, and the order of dispatch.

Seeded, the same on every Python version, and free of rejection: copies of one item cannot share a group by
construction. Groups are contiguous blocks of the dispatch order, so a leaf may start as soon as its block is in.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from combee.errors import UsageError


def permutation(n: int, seed: str) -> list[int]:
    """Return 0..n-1 in an order that depends on `n` and `seed` only."""
    digest = hashlib.sha256(seed.encode("utf-8")).digest()
    # Python promises the same `random()` for one seed in every version, but not the same `shuffle()`.
    draw = random.Random(int.from_bytes(digest[:8], "big")).random
    order = list(range(n))
    for last in range(n - 1, 0, -1):
        other = int(draw() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def blocks_even(n: int, *, groups: int, copies: int = 1, seed: str | None = None) -> list[list[int]]:
    """Return `groups` blocks over `copies` · n places whose sizes differ by at most one.

    Every item stands `copies` times in the dispatch order, and never twice in one block.

    Args:
        n: Number of items, 1 or more.
        groups: Number of blocks, `copies` to copies · n.
        copies: How often each item is read.
        seed: What the order depends on; None keeps the order of the items.

    Raises:
        UsageError: More copies than groups, or more groups than places.
    """
    if copies > groups:
        raise UsageError(
            f"{copies} copies of each item cannot lie in {groups} different groups",
            hint="Ask for fewer copies, or for smaller groups.",
        )
    if groups > copies * n:
        raise UsageError(f"{groups} groups over {copies * n} places", hint="Ask for fewer groups.")
    size, larger = divmod(copies * n, groups)
    ends = [(index + 1) * size + min(index + 1, larger) for index in range(groups)]
    order: list[int] = []
    block = 0
    for copy in range(copies):
        part = _order(n, copy, seed)
        # The block over the seam holds the end of the last copy and the head of this one: the head avoids that end.
        while ends[block] <= len(order):
            block += 1
        start = ends[block - 1] if block else 0
        if start < len(order):
            behind = set(order[start:])
            head = ends[block] - len(order)
            free = [item for item in part if item not in behind][:head]
            first = set(free)
            part = free + [item for item in part if item not in first]
        order += part
    return [order[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def blocks_filled(
    n: int,
    *,
    max_items: int,
    copies: int = 1,
    seed: str | None = None,
    weights: Sequence[int] | None = None,
    max_tokens: int | None = None,
) -> list[list[int]]:
    """Return blocks of the dispatch order filled under both caps, evenly in items.

    Each copy has its own blocks, so copies of one item never share one. An item heavier than `max_tokens` stands alone.
    """
    groups = -(-n // max_items)
    blocks: list[list[int]] = []
    for copy in range(copies):
        order = _order(n, copy, seed)
        if weights is None or max_tokens is None:
            size, larger = divmod(n, groups)
            start = 0
            for index in range(groups):
                end = start + size + (index < larger)
                blocks.append(order[start:end])
                start = end
        else:
            blocks += cut(order, weights, max_items=-(-n // groups), max_tokens=max_tokens)
    return blocks


def cut(order: Sequence[int], weights: Sequence[int], *, max_items: int, max_tokens: int) -> list[list[int]]:
    """Return the order cut into runs that hold both caps; an item over `max_tokens` is a run of its own."""
    runs: list[list[int]] = []
    total = 0
    for item in order:
        weight = weights[item]
        if not runs or len(runs[-1]) >= max_items or total + weight > max_tokens:
            runs.append([])
            total = 0
        runs[-1].append(item)
        total += weight
    return runs


def _order(n: int, copy: int, seed: str | None) -> list[int]:
    return list(range(n)) if seed is None else permutation(n, f"{seed}/copy {copy}")
