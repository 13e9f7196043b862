"""What a scan gives back: the delta, the tree that made it, and which items are really in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Node", "Scan"]

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the tree: a call, a merge by code, or a call that failed.

    Attributes:
        name: Stable name, "r{round}/l{level}/g{group}"; halves of a split group add ".0" and ".1".
        level: 0 for leaves.
        round: 0, then 1 and on for second chances.
        inputs: Item keys (leaves) or names of nodes (above).
        entries_in: Items read (leaves) or lessons that came in (above).
        entries_out: Lessons that came out; 0 for a failed call.
        error: None, or what went wrong ("kind: message") and what was done about it.
        lost: Keys that came in (covered until here) and are not covered by what came out.
    """

    name: str
    level: int
    round: int
    inputs: tuple[str, ...]
    entries_in: int
    entries_out: int
    error: str | None = None
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Scan(Generic[D]):
    """The outcome of one aggregation.

    Attributes:
        delta: What was learned.
        nodes: The tree, in the order of rounds, levels and groups.
        covered: Keys whose content is verified to be in the delta.
        claimed: Keys that the delta cites; `claimed - covered` are citations without content.
        uncovered: Keys not covered in spite of second chances, sorted; includes `failed` but not `late`.
        failed: Keys that no successful call read, sorted.
        calls: Calls that the tree needed, failed ones included, whether bought now or replayed from the journal.
        reads: Items read by leaf calls that answered (an item read twice counts twice).
        depth: Longest chain of calls that waited for each other.
        late: Keys left out by the quorum, sorted; they belong to the next step.
        notes: Plain sentences about what was unusual.
    """

    delta: D
    nodes: tuple[Node, ...]
    covered: frozenset[str]
    claimed: frozenset[str]
    uncovered: tuple[str, ...]
    failed: tuple[str, ...]
    calls: int
    reads: int
    depth: int
    late: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # Short on purpose: the event loop prints the result of its task when it closes, a million items included.
        counts = f"covered={len(self.covered)}, uncovered={len(self.uncovered)}, late={len(self.late)}"
        return f"<Scan {counts}, calls={self.calls}, reads={self.reads}, depth={self.depth}, nodes={len(self.nodes)}>"
