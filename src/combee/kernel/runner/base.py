"""What a runner is: it calls an async function on many items and says for each what came of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from combee.errors import CallError

__all__ = ["Done", "Runner"]

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Done(Generic[R_co]):
    """What came of item number `index` (from 0): a value, or the `CallError` of that item alone."""

    index: int
    value: R_co | None = None
    error: CallError | None = None

    def get(self) -> R_co:
        """Return the value; raise the item's `CallError` if it failed."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # without an error the value is there, None included


@runtime_checkable
class Runner(Protocol):
    """Runs a function over items, here or on other machines."""

    async def run(
        self, fn: Callable[[T], Awaitable[R]], items: Iterable[T], *, limit: int | None = None
    ) -> list[Done[R]]:
        """Return one `Done` an item, in item order, with at most `limit` items under way at once.

        A `CallError` is kept with its item. Any other exception is raised when the rest has been stopped.

        Raises:
            UsageError: `limit` is below 1.
        """
        ...

    def stream(
        self, fn: Callable[[T], Awaitable[R]], items: Iterable[T], *, limit: int | None = None
    ) -> AsyncGenerator[Done[R], None]:
        """Yield the same in completion order; at most twice `limit` finished items wait for a slow consumer.

        Close it (`contextlib.aclosing`) when you stop before the end, so that the rest is cancelled at once.
        """
        ...
