"""The 95 % interval of a share of right answers, for all that print one: Wilson's, also where all or none are right.

Parts of one task are not independent: their number is made smaller by how much tasks differ more than chance would have
them (the design effect), down to the number of tasks. Brown, Cai and DasGupta 2001; Korn and Graubard 1998.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["interval", "share_text", "single"]

_Z = 1.959964


def interval(rows: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the ends for tasks with (right parts, parts); all of 0 to 1 where there is none."""
    rows = [(hits, parts) for hits, parts in rows if parts]
    total = sum(parts for _, parts in rows)
    if not total:
        return 0.0, 1.0
    share = sum(hits for hits, _ in rows) / total
    size = _worth(rows, share, total)
    middle = share + _Z**2 / (2 * size)
    half = _Z * (share * (1 - share) / size + _Z**2 / (4 * size**2)) ** 0.5
    scale = 1 + _Z**2 / size
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def single(hits: int, parts: int) -> list[tuple[int, int]]:
    """Return rows of one part each, where only the sums are known: for tasks of several parts a little too sure."""
    return [(1, 1)] * hits + [(0, 1)] * (parts - hits)


def _worth(rows: Sequence[tuple[int, int]], share: float, total: int) -> float:
    """Return how many independent answers the parts are worth: from the number of tasks to that of parts."""
    tasks = len(rows)
    spread = sum((hits - share * parts) ** 2 for hits, parts in rows) * tasks / max(1, tasks - 1) / total**2
    if tasks == total or not spread:
        return tasks
    return min(float(total), max(float(tasks), share * (1 - share) / spread))


def share_text(rows: Sequence[tuple[int, int]]) -> str:
    """Return `7 of 8; 95 % interval 0.529 to 0.978`."""
    low, high = interval(rows)
    hits, parts = sum(row[0] for row in rows), sum(row[1] for row in rows)
    return f"{hits:,} of {parts:,}; 95 % interval {low:.3f} to {high:.3f}"
