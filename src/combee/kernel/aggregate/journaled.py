"""Calls and decisions of one scan, kept in a scope: a call is bought once, a decision is made once.

Without a scope nothing is kept, and nothing is encoded. Every scan has a place of its own inside the scope, named after
its items and plan, so that a retry with smaller groups never meets the decisions of the first try.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from combee.kernel.aggregate.hooks import fingerprint
from combee.kernel.aggregate.protocol import Method
from combee.kernel.journal import JSON, Scope

__all__ = ["Kept"]

T = TypeVar("T")
D = TypeVar("D")


class Kept(Generic[T, D]):
    """The journal as a scan sees it."""

    def __init__(self, scope: Scope | None, method: Method[T, D]) -> None:
        self._scope = scope
        self._method = method
        self._print = fingerprint(method)

    @property
    def on(self) -> bool:
        """Whether there is a scope."""
        return self._scope is not None

    async def call(self, role: str, node: str, inputs: Callable[[], list[str]], make: Callable[[], Awaitable[D]]) -> D:
        """Return the delta of a call, bought at most once for these inputs and this method."""
        if self._scope is None:
            return await make()

        async def encoded() -> JSON:
            return self._method.encode(await make())

        kept = await self._scope.once(role, node, {"inputs": inputs(), "method": self._print}, encoded)
        # Also a fresh result is decoded, so that a replay cannot differ from the first run.
        return self._method.decode(kept)

    def decided(self, name: str) -> JSON:
        """Return the decision recorded under the name, or None."""
        return None if self._scope is None else self._scope.peek(name)

    def decide(self, name: str, value: JSON) -> JSON:
        """Record a decision, or return the one already recorded."""
        return value if self._scope is None else self._scope.decide(name, value)
