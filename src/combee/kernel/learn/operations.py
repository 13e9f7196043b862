"""What all aggregation methods share whose deltas are playbook operations: cited, counted, united and stored alike."""

from __future__ import annotations

from collections.abc import Sequence

from combee.kernel.journal import JSON
from combee.kernel.learn.codec import delta_from_json, delta_to_json
from combee.kernel.playbook import Delta, merge

__all__ = ["OperationsMethod"]


class OperationsMethod:
    """The half of `aggregate.Method` that knows operations; a method adds the half that knows its items."""

    __slots__ = ()

    async def combine(self, deltas: Sequence[Delta], node: str) -> Delta:
        """Unite by code: no call, no loss."""
        return merge(*deltas)

    def sources(self, delta: Delta) -> frozenset[str]:
        """Return the keys of the items that the operations cite."""
        return frozenset(source for operation in delta for source in operation.sources)

    def size(self, delta: Delta) -> int:
        """Return the number of operations."""
        return len(delta)

    def encode(self, delta: Delta) -> JSON:
        """Return the operations as JSON."""
        return delta_to_json(delta)

    def decode(self, value: JSON) -> Delta:
        """Return the delta that `encode` wrote."""
        return delta_from_json(value)
