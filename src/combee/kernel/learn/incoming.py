"""What comes into a reduce: reflections as they arrive, those of failed steps first, all under names known before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from combee.kernel.aggregate import Absent
from combee.kernel.learn.roles import Reflection
from combee.kernel.playbook import Vote

__all__ = ["Incoming", "after_all", "kept"]


@dataclass(frozen=True, slots=True)
class Incoming:
    """What a step has to fold into its book: names that may come, and the reflections as they come.

    `source` yields a reflection, or `Absent` for a name that will not come; it ends when all are in. `carried` are
    reflections of earlier steps whose aggregation failed. `facts` gives, after the source was read, the votes (bullets
    used included) of all that came.
    """

    names: Sequence[str]
    source: AsyncGenerator[Reflection | Absent, None]
    carried: tuple[Reflection, ...]
    quorum: float
    facts: Callable[[], tuple[tuple[Vote, ...], tuple[str, ...]]]


async def kept(
    incoming: Incoming, items: dict[str, Reflection], labels: dict[str, Mapping[str, str]]
) -> AsyncGenerator[Reflection | Absent, None]:
    """Yield what comes, reflections of earlier steps first; keep those with lessons, and everybody's labels."""
    for item in incoming.carried:
        items[item.id] = item
        yield item
    async with aclosing(incoming.source) as source:
        async for came in source:
            if isinstance(came, Absent):
                yield came
                continue
            labels[came.id] = came.labels
            if came.lessons:
                items[came.id] = came
                yield came
            else:
                yield Absent(came.id)


async def after_all(source: AsyncIterator[Reflection | Absent]) -> AsyncGenerator[Reflection | Absent, None]:
    """Hold everything back until all is in: the same groups, later."""
    for item in [item async for item in source]:
        yield item
