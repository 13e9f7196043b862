"""The scan while the map still runs: a leaf starts as soon as its block of the dispatch order is in.

Blocks are fixed by the keys, which are known in advance, so the bytes do not depend on when items arrive. A quorum
leaves stragglers to the next step; who was in each block is a journalled decision, repeated when the run is resumed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from combee.errors import UsageError
from combee.kernel.aggregate.journaled import Kept
from combee.kernel.aggregate.parts import Built, Group, StopScanError
from combee.kernel.aggregate.plan import Plan
from combee.kernel.aggregate.protocol import Method
from combee.kernel.aggregate.result import Scan
from combee.kernel.aggregate.scan import check_quorum, finish, fitted, leaf_groups, place
from combee.kernel.aggregate.shuffle import cut
from combee.kernel.aggregate.tree import Tree
from combee.kernel.journal import Scope
from combee.kernel.runner import LocalRunner, Runner

__all__ = ["Absent", "scan_stream"]

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Absent:
    """Says that no item will come for the key (its rollout failed), so that its block need not wait."""

    key: str


async def scan_stream(
    source: AsyncIterable[T | Absent],
    keys: Sequence[str],
    method: Method[T, D],
    plan: Plan,
    *,
    scope: Scope | None = None,
    runner: Runner | None = None,
    seed: int = 0,
    quorum: float = 1.0,
    limit: int = 64,
) -> Scan[D]:
    """Aggregate items as they come. Without `max_tokens` the result is that of `scan` over the same items.

    Args:
        source: Items and `Absent` marks in any order. It is not read further once the quorum is in, and never closed.
        keys: The keys of all items that may come.
        method: How items become deltas.
        plan: The shape of the tree. Blocks are cut further where they turn out heavier than `max_tokens`.
        scope: Journal scope, or None.
        runner: Runs the calls; default `LocalRunner()`.
        seed: What the shuffle depends on.
        quorum: Share of the keys to wait for; keys that have not come by then are `late`.
        limit: Most blocks that are read at once.

    Raises:
        UsageError: No keys, an item whose key was not announced, two different items with one key.
        NothingReadError: Not one group could be read.
        CallError: Access denied or no such model.
        BudgetError: The budget of the calls is used up.
    """
    check_quorum(quorum)
    order = sorted(set(keys))
    if not order:
        raise UsageError("there is nothing to aggregate", hint="Announce at least one key.")
    plan = fitted(plan, len(order), None, method)
    tree = Tree(method, {}, Kept(place(scope, plan, order, seed), method), runner or LocalRunner())
    blocks = _Blocks(tree, leaf_groups(plan, order, f"{seed}/round 0", 0), plan.max_tokens, asyncio.Semaphore(limit))
    try:
        async with asyncio.TaskGroup() as tasks:
            await blocks.take(source, set(order), math.ceil(quorum * len(order) - 1e-9), tasks)
        known = [key for key in order if key not in blocks.absent]
        return await finish(tree, plan, known, blocks.in_order(), seed)
    except StopScanError as stop:
        raise stop.error from stop
    except BaseExceptionGroup as many:
        first = _first(many)
        raise (first.error if isinstance(first, StopScanError) else first) from many


def _first(error: BaseException) -> BaseException:
    """Return the first single exception of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Blocks(Generic[T, D]):
    """The blocks of the first round while they fill."""

    def __init__(
        self, tree: Tree[T, D], groups: Sequence[Group[str]], max_tokens: int | None, slots: asyncio.Semaphore
    ) -> None:
        self.absent: set[str] = set()
        self._tree = tree
        self._groups = groups
        self._max_tokens = max_tokens
        self._slots = slots
        self._built: dict[int, list[Built[D]]] = {}
        self._started: set[int] = set()
        self._recorded = [self._decided(group) for group in groups]
        self._open: list[set[str]] = []
        self._where: dict[str, list[int]] = {}
        for index, (group, recorded) in enumerate(zip(groups, self._recorded, strict=True)):
            wanted = set(group.members if recorded is None else recorded)
            self._open.append(wanted)
            for key in wanted:
                self._where.setdefault(key, []).append(index)

    def in_order(self) -> list[Built[D]]:
        """Return what was built, in the order of the blocks."""
        return [node for index in sorted(self._built) for node in self._built[index]]

    async def take(
        self, source: AsyncIterable[T | Absent], keys: set[str], need: int, tasks: asyncio.TaskGroup
    ) -> None:
        """Read the source until the quorum and all that earlier decisions name are in; start blocks as they fill."""
        required = {key for recorded in self._recorded if recorded is not None for key in recorded}
        settled: set[str] = set()
        async for item in source:
            key = item.key if isinstance(item, Absent) else self._tree.method.key(item)
            if key not in keys:
                raise UsageError(f"an item came with the key {key!r}, which was not announced", hint="Name all keys.")
            if isinstance(item, Absent):
                self.absent.add(key)
            else:
                self._keep(key, item)
            if key not in settled:
                settled.add(key)
                required.discard(key)
                for index in self._where.get(key, ()):
                    self._open[index].discard(key)
                    if not self._open[index]:
                        self._start(index, tasks)
            if len(settled) >= need and not required:
                break
        for index in range(len(self._groups)):
            self._start(index, tasks)

    def _keep(self, key: str, item: T) -> None:
        known = self._tree.items.setdefault(key, item)
        if known is not item and known != item:
            raise UsageError(f"two different items have the key {key!r}", hint="Give every item a key of its own.")

    def _decided(self, group: Group[str]) -> list[str] | None:
        recorded = self._tree.kept.decided(f"block/{group.name}")
        return [str(key) for key in recorded] if isinstance(recorded, list) else None

    def _start(self, index: int, tasks: asyncio.TaskGroup) -> None:
        if index in self._started:
            return
        self._started.add(index)
        group, recorded = self._groups[index], self._recorded[index]
        items = self._tree.items
        members = [key for key in (group.members if recorded is None else recorded) if key in items]
        if recorded is None:
            self._tree.kept.decide(f"block/{group.name}", list(members))
        if members:
            tasks.create_task(self._read(index, self._cut(group, members)))

    def _cut(self, group: Group[str], members: Sequence[str]) -> list[Group[str]]:
        """Return the block as one group, or as several where it is heavier than the cap."""
        if self._max_tokens is None:
            return [Group(group.name, tuple(members), group.order)]
        weights = [self._tree.method.weight(self._tree.items[key]) for key in members]
        runs = cut(range(len(members)), weights, max_items=len(members), max_tokens=self._max_tokens)
        return [
            Group(
                group.name if len(runs) == 1 else f"{group.name}c{part}",
                tuple(members[place] for place in run),
                (*group.order, part),
            )
            for part, run in enumerate(runs)
        ]

    async def _read(self, index: int, groups: Sequence[Group[str]]) -> None:
        async with self._slots:
            self._built[index] = await self._tree.leaves(groups, 0)
