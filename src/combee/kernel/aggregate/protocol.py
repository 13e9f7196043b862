"""What an aggregation method is: how items become deltas, and how deltas are combined.

The engine knows no model and no playbook. Items (`T`) have a key and a weight in tokens; deltas (`D`) have sources and
a size. Hooks that a method may offer beyond the protocol are listed in `combee.kernel.aggregate.hooks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from combee.kernel.journal import JSON

__all__ = ["Method"]

T_contra = TypeVar("T_contra", contravariant=True)
D = TypeVar("D")


class Method(Protocol[T_contra, D]):
    """Turns groups of items into deltas and deltas into one delta."""

    @property
    def combine_calls_model(self) -> bool:
        """False: `combine` is code (a merge of any fan-in). True: it calls a model: capped fan-in, levels."""
        ...

    def key(self, item: T_contra) -> str:
        """Return the stable id of an item; two items with one key are one item."""
        ...

    def weight(self, item: T_contra) -> int:
        """Return the tokens that the item adds to a call."""
        ...

    async def leaf(self, items: Sequence[T_contra], node: str) -> D:
        """Read the items of one group in one call. `node` is a stable name like "r0/l0/g3".

        Raises:
            CallError: The call gave nothing usable, after all retries.
        """
        ...

    async def combine(self, deltas: Sequence[D], node: str) -> D:
        """Make one delta of one or more. Raises `CallError` only where it calls a model."""
        ...

    def sources(self, delta: D) -> frozenset[str]:
        """Return the keys of the items that the delta cites: a claim."""
        ...

    def size(self, delta: D) -> int:
        """Return the number of lessons (operations) in the delta."""
        ...

    def covered(self, item: T_contra, delta: D) -> bool:
        """Return whether what is distinctive in the item is found in an operation that cites it (not just claimed)."""
        ...

    def encode(self, delta: D) -> JSON:
        """Return the delta as JSON, without loss."""
        ...

    def decode(self, value: JSON) -> D:
        """Return the delta that `encode` wrote."""
        ...
