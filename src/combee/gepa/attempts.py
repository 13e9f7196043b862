"""A scope for work that may fail as a whole and be tried again: results are shared, decisions belong to one attempt.

The engine records which calls failed, so that a replay takes the same path. Where all of them failed, the next attempt
must ask again and not read that record; what was paid is found by every attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from combee.kernel.journal import JSON, JSONLike, Scope

__all__ = ["AttemptScope"]


class AttemptScope:
    """The first attempt that was not given up, on top of a scope."""

    def __init__(self, base: Scope, attempt: int | None = None) -> None:
        self._base = base
        self._attempt = self._open() if attempt is None else attempt

    @property
    def address(self) -> str:
        """The scope in words."""
        return self._base.address

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 0."""
        return self._attempt

    async def once(
        self, role: str, item: str, inputs: JSONLike, make: Callable[[], Awaitable[JSONLike]], *, attempt: int = 0
    ) -> JSON:
        """See `Scope.once`; shared by all attempts."""
        return await self._base.once(role, item, inputs, make, attempt=attempt)

    def decide(self, name: str, value: JSONLike) -> JSON:
        """See `Scope.decide`; of this attempt alone."""
        return self._base.decide(f"attempt {self._attempt}/{name}", value)

    def peek(self, name: str) -> JSON:
        """See `Scope.peek`; of this attempt alone."""
        return self._base.peek(f"attempt {self._attempt}/{name}")

    def sub(self, prefix: str) -> Scope:
        """See `Scope.sub`."""
        return AttemptScope(self._base.sub(prefix), self._attempt)

    def give_up(self, reason: str) -> None:
        """Record that nothing came of this attempt."""
        self._base.decide(f"given up/{self._attempt}", reason)

    def _open(self) -> int:
        number = 0
        while self._base.peek(f"given up/{number}") is not None:
            number += 1
        return number
