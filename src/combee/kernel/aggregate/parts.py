"""The parts of a tree that is being built: groups to be called, and nodes that came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from combee.errors import CallError

__all__ = ["Built", "Group", "StopScanError", "even_groups", "united"]

D = TypeVar("D")
M = TypeVar("M")


class StopScanError(Exception):
    """Carries a `CallError` that no smaller group can mend past the runner, which would keep it with its item."""

    def __init__(self, error: CallError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class Group(Generic[M]):
    """A call to be made. Members are item keys (leaves) or built nodes (above); `before` counts calls it waited for."""

    name: str
    members: tuple[M, ...]
    order: tuple[int, ...]
    before: int = 0

    def halves(self) -> tuple[Group[M], Group[M]]:
        """Return the two groups that stand in for this one after it failed."""
        middle = (len(self.members) + 1) // 2
        parts = (self.members[:middle], self.members[middle:])
        first, second = (
            Group(f"{self.name}.{index}", part, (*self.order, index), self.before + 1)
            for index, part in enumerate(parts)
        )
        return first, second


@dataclass(frozen=True, slots=True)
class Built(Generic[D]):
    """A node that came out: its delta, the keys verified to be in it, and the longest chain of calls behind it."""

    name: str
    delta: D
    covered: tuple[str, ...]
    depth: int


def united(parts: Sequence[Built[D]]) -> list[str]:
    """Return the keys that the parts cover, each once, in order."""
    return list(dict.fromkeys(key for part in parts for key in part.covered))


def even_groups(parts: Sequence[Built[D]], fan_in: int, at: tuple[int, int]) -> list[Group[Built[D]]]:
    """Return the parts in groups of at most `fan_in` whose sizes differ by at most one."""
    count = -(-len(parts) // fan_in)
    size, larger = divmod(len(parts), count)
    groups, start = [], 0
    for index in range(count):
        end = start + size + (index < larger)
        groups.append(Group(f"r{at[1]}/l{at[0]}/g{index}", tuple(parts[start:end]), (index,)))
        start = end
    return groups
