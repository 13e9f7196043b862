"""The parallel scan (arXiv 2604.04247, section 3.1): items in, one delta and the whole truth about its coverage out.

The result depends on the items, the plan, the seed and the replies, never on the order of the input or of completion:
items are sorted by key before they are shuffled, and nodes are put together in the order of the plan. `scan_stream`
does the same while the map still runs: a leaf starts as soon as its block of the dispatch order is in. A quorum leaves
stragglers to the next step; who was in each block is a journalled decision, repeated when the run is resumed.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from combee.errors import NothingReadError, UsageError
from combee.kernel.aggregate.method import Method, combine_by_model, output_of
from combee.kernel.aggregate.plan import Plan
from combee.kernel.aggregate.shuffle import cut
from combee.kernel.aggregate.tree import Built, CallGroup, Scan, ScanJournal, StopScanError, Tree
from combee.kernel.journal import Scope
from combee.kernel.runner import LocalRunner, Runner

T = TypeVar("T")
D = TypeVar("D")


async def scan(
    items: Iterable[T],
    method: Method[T, D],
    plan: Plan,
    *,
    scope: Scope | None = None,
    runner: Runner | None = None,
    seed: int = 0,
) -> Scan[D]:
    """Aggregate the items.

    Items with one key are one item. Where `plan` was made for another number of items it is made again for this one.

    Args:
        items: What to aggregate, in any order.
        method: How items become deltas.
        plan: The shape of the tree, from `plan`.
        scope: Journal scope; calls and decisions kept in it are not bought or made again. None keeps nothing.
        runner: Runs the calls; default `LocalRunner()`.
        seed: What the shuffle depends on.

    Raises:
        UsageError: No items, or two different items with one key.
        NothingReadError: Not one group could be read.
        CallError: Access denied or no such model: no smaller group would help.
        BudgetError: The budget of the calls is used up.
    """
    by_key = unique(items, method)
    keys = sorted(by_key)
    weights = [method.weight(by_key[key]) for key in keys] if plan.max_tokens is not None else None
    plan = fitted(plan, len(keys), weights, method)
    tree = Tree(method, by_key, ScanJournal(place(scope, plan, keys, seed), method), runner or LocalRunner())
    groups = _cut_to(plan.max_output, tree, leaf_groups(plan, keys, f"{seed}/round 0", 0, weights=weights))
    try:
        built = await tree.leaves(groups, 0)
        return await finish(tree, plan, keys, built, seed)
    except StopScanError as stop:
        raise stop.error from stop


def unique(items: Iterable[T], method: Method[T, D]) -> dict[str, T]:
    """Return the items by key; equal items with one key are one."""
    by_key: dict[str, T] = {}
    for item in items:
        key = method.key(item)
        known = by_key.setdefault(key, item)
        if known is not item and known != item:
            raise UsageError(f"two different items have the key {key!r}", hint="Give every item a key of its own.")
    if not by_key:
        raise UsageError("there is nothing to aggregate", hint="Give at least one item.")
    return by_key


def fitted(plan: Plan, n: int, weights: Sequence[int] | None, method: Method[T, D]) -> Plan:
    """Return the plan for this number of items and this method."""
    if plan.n == n and weights is None and plan.combine_calls_model == method.combine_calls_model:
        return plan
    return plan.resized(n, weights=weights, combine_calls_model=method.combine_calls_model)


def place(scope: Scope | None, plan: Plan, keys: Sequence[str], seed: int) -> Scope | None:
    """Return the scan's own place in the scope, named after its items and plan."""
    if scope is None:
        return None
    paper = (plan.paper.group_size, plan.paper.k_of, plan.paper.shuffle)
    shape = (seed, plan.preset, plan.copies, plan.max_items, plan.max_tokens, *paper)
    named = hashlib.sha256(repr((shape, plan.fan_ins)).encode("utf-8"))
    for key in keys:
        named.update(f"{len(key)}:{key}".encode("utf-8", "surrogatepass"))
    return scope.sub(f"scan-{named.hexdigest()[:12]}")


def leaf_groups(
    plan: Plan, keys: Sequence[str], seed: str, turn: int, *, weights: Sequence[int] | None = None, before: int = 0
) -> list[CallGroup[str]]:
    """Return the leaf groups of one round in dispatch order."""
    return [
        CallGroup(f"r{turn}/l0/g{index}", tuple(keys[item] for item in block), (index,), before)
        for index, block in enumerate(plan.blocks(seed, weights))
    ]


async def finish(tree: Tree[T, D], plan: Plan, keys: Sequence[str], built: Sequence[Built[D]], seed: int) -> Scan[D]:
    """Combine the leaves of the first round, give second chances, and count."""
    late = set(keys) - tree.read - tree.given_up
    if not built:
        raise NothingReadError(
            f"none of the {len(keys)} items could be read: {tree.last_error}",
            hint="Look at the error; nothing that was paid is lost, and the same run goes on from here.",
        )
    call = _combining_call(tree, plan)
    parts = list(built) if call is None else [await _combine(tree, plan, built, 0, call)]
    inside = {key for part in parts for key in part.covered}
    turn = 0
    while turn < plan.second_chances and (open_keys := [key for key in keys if key in tree.read and key not in inside]):
        turn += 1
        again, more = await _second_chance(tree, plan, open_keys, turn, seed)
        if call is None:
            parts += more
            inside.update(key for part in more for key in part.covered)
        elif more:
            better = await _combine(tree, again, [*parts, *more], turn, call)
            if len(better.covered) < len(inside):
                tree.note(f"Second chance {turn} covered less than before: its result was dropped.")
                break
            parts, inside = [better], set(better.covered)
    # Merging by code is done once, after all rounds: the parts say what they cover, and a union loses nothing.
    root = parts[0] if call is not None else await tree.merge(parts, turn)
    return _outcome(tree, root, keys, late)


async def _second_chance(
    tree: Tree[T, D], plan: Plan, keys: Sequence[str], turn: int, seed: int
) -> tuple[Plan, list[Built[D]]]:
    """Read the items again in groups of their own, once each; return the plan of the round and what came out."""
    method = tree.method
    weights = [method.weight(tree.items[key]) for key in keys] if plan.max_tokens is not None else None
    again = plan.resized(len(keys), weights=weights, combine_calls_model=method.combine_calls_model, copies=1)
    groups = leaf_groups(again, keys, f"{seed}/round {turn}", turn, weights=weights, before=tree.depth)
    return again, await tree.leaves(_cut_to(plan.max_output, tree, groups), turn)


def _cut_to(most: int | None, tree: Tree[T, D], groups: Sequence[CallGroup[str]]) -> list[CallGroup[str]]:
    """Return the groups, those cut in several that are expected to write more than `most` tokens."""
    if most is None:
        return list(groups)
    return [part for group in groups for part in _cut(group, most, lambda key: output_of(tree.method, tree.items[key]))]


def _cut(group: CallGroup[str], most: int, weigh: Callable[[str], int]) -> list[CallGroup[str]]:
    """Return the group, or several in its place where it weighs more than `most`."""
    weights = [weigh(key) for key in group.members]
    runs = cut(range(len(weights)), weights, max_items=len(weights), max_tokens=most)
    if len(runs) == 1:
        return [group]
    return [
        CallGroup(
            f"{group.name}c{part}", tuple(group.members[at] for at in run), (*group.order, part), before=group.before
        )
        for part, run in enumerate(runs)
    ]


def _combining_call(tree: Tree[T, D], plan: Plan) -> Callable[[Sequence[D], str], Awaitable[D]] | None:
    """Return the model call that combines deltas in this plan, or None where they are merged by code."""
    if plan.preset != "paper":
        return tree.method.combine if tree.method.combine_calls_model else None
    call = combine_by_model(tree.method)
    if call is None and plan.groups > 1:
        tree.note("The method has no model call that combines updates: they were merged by code.")
    return call


async def _combine(
    tree: Tree[T, D],
    plan: Plan,
    parts: Sequence[Built[D]],
    turn: int,
    call: Callable[[Sequence[D], str], Awaitable[D]],
) -> Built[D]:
    """Combine by model: all updates at once in the preset, else level by level as planned."""
    last = len(plan.fan_ins) - 1

    def fan_in(level: int, count: int) -> int:
        if plan.preset == "paper":
            return count
        return plan.fan_ins[level] if level < last else plan.max_items

    return await tree.combine(parts, turn, call=call, fan_in=fan_in)


def _outcome(tree: Tree[T, D], root: Built[D], keys: Sequence[str], late: set[str]) -> Scan[D]:
    covered = frozenset(root.covered)
    return Scan(
        delta=root.delta,
        nodes=tree.nodes,
        covered=covered,
        claimed=tree.method.sources(root.delta) & frozenset(keys),
        uncovered=tuple(key for key in keys if key not in covered and key not in late),
        failed=tuple(key for key in keys if key not in tree.read and key not in late),
        calls=tree.calls,
        reads=tree.reads,
        depth=tree.depth,
        late=tuple(sorted(late)),
        notes=tuple(tree.notes),
        window=tree.window,
    )


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
        UsageError: No keys, an item whose key was not announced, two different items with one key, or a quorum out of
            range.
        NothingReadError: Not one group could be read.
        CallError: Access denied or no such model.
        BudgetError: The budget of the calls is used up.
    """
    if not 0.0 < quorum <= 1.0:
        raise UsageError(f"quorum is {quorum}", hint="Give a share of the items: more than 0, at most 1.")
    order = sorted(set(keys))
    if not order:
        raise UsageError("there is nothing to aggregate", hint="Announce at least one key.")
    plan = fitted(plan, len(order), None, method)
    tree = Tree(method, {}, ScanJournal(place(scope, plan, order, seed), method), runner or LocalRunner())
    groups = leaf_groups(plan, order, f"{seed}/round 0", 0)
    plan = replace(plan, max_output=_agreed_output(tree.kept, groups, plan.max_output))
    blocks = _Blocks(tree, groups, plan, asyncio.Semaphore(limit))
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


def _agreed_output(kept: ScanJournal[T, D], groups: Sequence[CallGroup[str]], most: int | None) -> int | None:
    """Return the cap on what leaves write with which this scan began, so that it is replayed as it was."""
    if most is None:
        return None
    begun = kept.decided("max_output")
    if begun is None and any(kept.decided(f"block/{group.name}") is not None for group in groups):
        return None  # begun before leaves were cut to what they write
    agreed = kept.decide("max_output", most)
    return agreed if isinstance(agreed, int) else most


def _first(error: BaseException) -> BaseException:
    """Return the first single exception of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Blocks(Generic[T, D]):
    """The blocks of the first round while they fill."""

    def __init__(
        self, tree: Tree[T, D], groups: Sequence[CallGroup[str]], plan: Plan, slots: asyncio.Semaphore
    ) -> None:
        self.absent: set[str] = set()
        self._tree = tree
        self._groups = groups
        self._plan = plan
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
        arrived: set[str] = set()
        async for item in source:
            key = item.key if isinstance(item, Absent) else self._tree.method.key(item)
            if key not in keys:
                raise UsageError(f"an item came with the key {key!r}, which was not announced", hint="Name all keys.")
            if isinstance(item, Absent):
                self.absent.add(key)
            else:
                self._keep(key, item)
            if key not in arrived:
                arrived.add(key)
                required.discard(key)
                for index in self._where.get(key, ()):
                    self._open[index].discard(key)
                    if not self._open[index]:
                        self._start(index, tasks)
            if len(arrived) >= need and not required:
                break
        for index in range(len(self._groups)):
            self._start(index, tasks)

    def _keep(self, key: str, item: T) -> None:
        known = self._tree.items.setdefault(key, item)
        if known is not item and known != item:
            raise UsageError(f"two different items have the key {key!r}", hint="Give every item a key of its own.")

    def _decided(self, group: CallGroup[str]) -> list[str] | None:
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
            sealed = replace(group, members=tuple(members))
            tasks.create_task(self._read(index, self._parts(sealed)))

    def _parts(self, group: CallGroup[str]) -> list[CallGroup[str]]:
        """Return the block as one group, or as several where it is over a cap."""
        method, items = self._tree.method, self._tree.items
        parts = [group]
        if (most := self._plan.max_tokens) is not None:
            parts = _cut(group, most, lambda key: method.weight(items[key]))
        return _cut_to(self._plan.max_output, self._tree, parts)

    async def _read(self, index: int, groups: Sequence[CallGroup[str]]) -> None:
        async with self._slots:
            self._built[index] = await self._tree.leaves(groups, 0)
