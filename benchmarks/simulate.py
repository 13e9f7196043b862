"""A method without a model, and time without waiting: to plan, to compare and to test aggregation on the real code.

Items are strings, a delta is the set of strings that survived. Calls take simulated seconds, forget, and fail as asked;
everything is drawn from the seed and the name of the node, so the order of completion changes nothing.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from combee.errors import CallError
from combee.kernel.aggregate import CallCost, Retention
from combee.kernel.journal import JSON

__all__ = ["SimulatedMethod", "simulated_time"]

R = TypeVar("R")

Facts = frozenset[str]


@dataclass(frozen=True, slots=True)
class SimulatedMethod:
    """An aggregation method over strings.

    Attributes:
        retention: What a model call keeps of the lessons that enter it; None keeps all.
        cost: How long a model call sleeps; None does not sleep.
        combine_calls_model: Whether `combine` is a model call; otherwise it is a union.
        seed: What is forgotten depends on it.
        spread: σ of a lognormal factor on the time of each call; 0 = none.
        fault: Called with the name of a node and the number of inputs before each model call; may return an error.
        tokens: Weight of every item.
    """

    retention: Retention | None = None
    cost: CallCost | None = None
    combine_calls_model: bool = False
    seed: int = 0
    spread: float = 0.0
    fault: Callable[[str, int], CallError | None] | None = None
    tokens: int = 100

    def key(self, item: str) -> str:
        """Return the item."""
        return item

    def weight(self, item: str) -> int:
        """Return `tokens`."""
        return self.tokens

    async def leaf(self, items: Sequence[str], node: str) -> Facts:
        """Return what survived of the items."""
        return await self._call(items, len(items), node)

    async def combine(self, deltas: Sequence[Facts], node: str) -> Facts:
        """Return the union, or what survived of it in a model call."""
        if not self.combine_calls_model:
            return frozenset[str]().union(*deltas)
        return await self.combine_by_model(deltas, node)

    async def combine_by_model(self, deltas: Sequence[Facts], node: str) -> Facts:
        """Return what survived of the union in one call; its inputs are the updates, not the lessons in them."""
        return await self._call(sorted(frozenset[str]().union(*deltas)), len(deltas), node)

    def sources(self, delta: Facts) -> Facts:
        """Return the delta."""
        return delta

    def size(self, delta: Facts) -> int:
        """Return the number of lessons."""
        return len(delta)

    def covered(self, item: str, delta: Facts) -> bool:
        """Return whether the item survived."""
        return item in delta

    def encode(self, delta: Facts) -> JSON:
        """Return a sorted list."""
        return list[JSON](sorted(delta))

    def decode(self, value: JSON) -> Facts:
        """Return the set of a list."""
        return frozenset(str(item) for item in value) if isinstance(value, list) else frozenset()

    async def _call(self, lessons: Sequence[str], inputs: int, node: str) -> Facts:
        draw = random.Random(f"{self.seed}/{node}")
        if self.cost is not None:
            factor = draw.lognormvariate(0.0, self.spread) if self.spread else 1.0
            await asyncio.sleep(self.cost.seconds(inputs) * factor)
        error = None if self.fault is None else self.fault(node, inputs)
        if error is not None:
            raise error
        if self.retention is None:
            return frozenset(lessons)
        kept = self.retention.kept(inputs)
        return frozenset(lesson for lesson in lessons if draw.random() < kept)


def simulated_time(coro: Coroutine[Any, Any, R]) -> tuple[R, float]:
    """Run a coroutine on a clock that jumps over every sleep; return its value and the seconds it would have taken.

    For code that only sleeps: work in threads or on the network takes no simulated time.
    """
    loop = _JumpingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        value = runner.run(coro)
        return value, loop.time()


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: _JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; where nothing is, jump to the next timer instead of waiting for it."""
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready and timeout > 0:
            self._loop.jump(timeout)
        return ready
