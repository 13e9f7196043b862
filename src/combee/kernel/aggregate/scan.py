"""The parallel scan (arXiv 2604.04247, section 3.1): items in, one delta and the whole truth about its coverage out.

The result depends on the items, the plan, the seed and the replies, never on the order of the input or of completion:
items are sorted by key before they are shuffled, and nodes are put together in the order of the plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from combee.errors import NothingReadError, UsageError
from combee.kernel.aggregate.hooks import combine_by_model
from combee.kernel.aggregate.journaled import Kept
from combee.kernel.aggregate.parts import Built, Group, StopScanError
from combee.kernel.aggregate.plan import Plan
from combee.kernel.aggregate.protocol import Method
from combee.kernel.aggregate.result import Scan
from combee.kernel.aggregate.tree import Tree
from combee.kernel.journal import Scope
from combee.kernel.runner import LocalRunner, Runner

__all__ = ["scan"]

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
    quorum: float = 1.0,
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
        quorum: Share of the items to wait for in the first round; the rest is cancelled and returned as `late`.

    Raises:
        UsageError: No items, two different items with one key, or a quorum out of range.
        NothingReadError: Not one group could be read.
        CallError: Access denied or no such model: no smaller group would help.
        BudgetError: The budget of the calls is used up.
    """
    check_quorum(quorum)
    by_key = unique(items, method)
    keys = sorted(by_key)
    weights = [method.weight(by_key[key]) for key in keys] if plan.max_tokens is not None else None
    plan = fitted(plan, len(keys), weights, method)
    tree = Tree(method, by_key, Kept(place(scope, plan, keys, seed), method), runner or LocalRunner())
    groups = leaf_groups(plan, keys, f"{seed}/round 0", 0, weights=weights)
    try:
        built = await tree.leaves(groups, 0, quorum=quorum)
        return await finish(tree, plan, keys, built, seed)
    except StopScanError as stop:
        raise stop.error from stop


def check_quorum(quorum: float) -> None:
    """Refuse a quorum that is no share."""
    if not 0.0 < quorum <= 1.0:
        raise UsageError(f"quorum is {quorum}", hint="Give a share of the items: more than 0, at most 1.")


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
) -> list[Group[str]]:
    """Return the leaf groups of one round in dispatch order."""
    return [
        Group(f"r{turn}/l0/g{index}", tuple(keys[item] for item in block), (index,), before)
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
    return _counted(tree, root, keys, late)


async def _second_chance(
    tree: Tree[T, D], plan: Plan, keys: Sequence[str], turn: int, seed: int
) -> tuple[Plan, list[Built[D]]]:
    """Read the items again in groups of their own, once each; return the plan of the round and what came out."""
    method = tree.method
    weights = [method.weight(tree.items[key]) for key in keys] if plan.max_tokens is not None else None
    again = plan.resized(len(keys), weights=weights, combine_calls_model=method.combine_calls_model, copies=1)
    groups = leaf_groups(again, keys, f"{seed}/round {turn}", turn, weights=weights, before=tree.depth)
    return again, await tree.leaves(groups, turn)


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


def _counted(tree: Tree[T, D], root: Built[D], keys: Sequence[str], late: set[str]) -> Scan[D]:
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
    )
