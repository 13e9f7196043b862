"""Other ways to aggregate, with one signature, so that every comparison is fair: what Combee is measured against.

"naive" is one call over everything, "naive_long" the same with a long output limit, "top_k" one call over one
representative of each cluster, "summarize" one call over summaries of groups, "paper" the preset, "combee" ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from combee.errors import NothingReadError, UsageError, did_you_mean
from combee.kernel.aggregate.method import Method, covered_keys, output_limit, similarity_of, summarize, with_limit
from combee.kernel.aggregate.plan import Paper, Plan, plan
from combee.kernel.aggregate.scan import scan, unique
from combee.kernel.aggregate.tree import Node, Scan
from combee.kernel.journal import Scope
from combee.kernel.runner import LocalRunner, Runner

T = TypeVar("T")
D = TypeVar("D")

LONG_OUTPUT = 32_768


@dataclass(frozen=True, slots=True)
class _Setting(Generic[T, D]):
    """The items by key and what every way of aggregating gets."""

    items: dict[str, T]
    method: Method[T, D]
    scope: Scope | None
    runner: Runner | None
    seed: int
    shape: Plan | None
    paper: Paper
    copies: int | None
    output_limit: int

    async def scan(self, keys: Iterable[str], shape: Plan, method: Method[T, D] | None = None) -> Scan[D]:
        """Scan some of the items."""
        items = [self.items[key] for key in keys]
        return await scan(items, method or self.method, shape, scope=self.scope, runner=self.runner, seed=self.seed)


async def aggregate(
    items: Iterable[T],
    method: Method[T, D],
    *,
    how: str = "combee",
    scope: Scope | None = None,
    runner: Runner | None = None,
    seed: int = 0,
    shape: Plan | None = None,
    paper: Paper | None = None,
    copies: int | None = None,
    output_limit: int = LONG_OUTPUT,
) -> Scan[D]:
    """Aggregate in one of the ways of `BASELINES`.

    Args:
        items: What to aggregate, in any order.
        method: How items become deltas.
        how: "combee", "paper", "naive", "naive_long", "top_k" or "summarize".
        scope: Journal scope, or None.
        runner: Runs the calls; default `LocalRunner()`.
        seed: What shuffles depend on.
        shape: The plan of "combee" (default `plan(n)`).
        paper: What is changed of the preset "paper".
        copies: How often "paper" reads each item (default 2); never more often than there are groups.
        output_limit: Tokens that one call of "naive_long" may write.

    Raises:
        UsageError: No such way, no items, or two different items with one key.
        NothingReadError: Nothing could be read.
        CallError: Access denied or no such model.
    """
    if how not in BASELINES:
        raise UsageError(f"there is no way to aggregate called {how!r}", hint=did_you_mean(how, BASELINES))
    by_key = unique(items, method)
    ordered = {key: by_key[key] for key in sorted(by_key)}
    inside = scope.sub(how) if scope else None
    return await BASELINES[how](
        _Setting(ordered, method, inside, runner, seed, shape, paper or Paper(), copies, output_limit)
    )


async def _combee(setting: _Setting[T, D]) -> Scan[D]:
    shape = setting.shape or plan(len(setting.items), max_output=output_limit(setting.method))
    return await setting.scan(setting.items, shape)


async def _paper(setting: _Setting[T, D]) -> Scan[D]:
    n, copies = len(setting.items), 2 if setting.copies is None else setting.copies
    # Of a last, small minibatch fewer groups are made than copies are asked for.
    while copies > 1 and plan(n, preset=setting.paper, copies=1).groups < copies:
        copies -= 1
    return await setting.scan(setting.items, plan(n, preset=setting.paper, copies=copies))


async def _naive(setting: _Setting[T, D], method: Method[T, D] | None = None) -> Scan[D]:
    return await setting.scan(setting.items, _one_call(len(setting.items)), method)


async def _naive_long(setting: _Setting[T, D]) -> Scan[D]:
    method = with_limit(setting.method, setting.output_limit)
    result = await _naive(setting, method)
    if method is None:
        note = "The method has no output limit to raise: this is the naive call."
        return replace(result, notes=(*result.notes, note))
    return result


async def _top_k(setting: _Setting[T, D]) -> Scan[D]:
    """One call over one representative of each of ⌊√n⌋ clusters; the other items are never read."""
    keys = list(setting.items)
    chosen = _representatives(keys, setting.items, similarity_of(setting.method), math.isqrt(len(keys)) or 1)
    result = await setting.scan(chosen, _one_call(len(chosen)))
    return _over_all(result, keys)


async def _summarize(setting: _Setting[T, D]) -> Scan[D]:
    """One call over the summaries of ⌊√n⌋ groups; without the hook, over the updates of ⌊√n⌋ group calls."""
    n = len(setting.items)
    shape = plan(n, preset="paper", copies=1)
    hook = summarize(setting.method)
    if hook is None or shape.groups == 1:
        return await setting.scan(setting.items, shape)
    keys = list(setting.items)
    groups = [[keys[item] for item in block] for block in shape.blocks(f"{setting.seed}/round 0")]

    async def one(job: tuple[int, list[str]]) -> T:
        return await hook([setting.items[key] for key in job[1]], f"r0/l0/g{job[0]}")

    done = await (setting.runner or LocalRunner()).run(one, list(enumerate(groups)))
    summaries: dict[str, T] = {}
    nodes = []
    for index, (group, answer) in enumerate(zip(groups, done, strict=True)):
        error = None if answer.error is None else f"{answer.error.kind.value}: {answer.error.message}; given up"
        lost = tuple(group) if error else ()
        nodes.append(Node(f"r0/l0/g{index}", 0, 0, tuple(group), len(group), 0 if error else 1, error, lost))
        if answer.error is None:
            summary = answer.get()
            summaries[setting.method.key(summary)] = summary
    if not summaries:
        raise NothingReadError("none of the groups could be summarised", hint=str(done[0].error))
    read = [key for group, answer in zip(groups, done, strict=True) if answer.error is None for key in group]
    top = await replace(setting, items=summaries).scan(sorted(summaries), _one_call(len(summaries)))
    return _through_summaries(setting, top, nodes, read, len(groups))


def _through_summaries(
    setting: _Setting[T, D], top: Scan[D], nodes: Sequence[Node], read: Sequence[str], calls: int
) -> Scan[D]:
    """Return the scan of the summaries as one of the items."""
    items = setting.items
    covered = frozenset(covered_keys(setting.method, read, [items[key] for key in read], top.delta))
    names = tuple(node.name for node in nodes if node.error is None)
    lost = tuple(sorted(set(read) - covered))
    above = [replace(node, name="r0/l1/g0", level=1, inputs=names, lost=lost) for node in top.nodes if not node.error]
    return replace(
        top,
        nodes=(*nodes, *above),
        covered=covered,
        claimed=setting.method.sources(top.delta) & frozenset(items),
        uncovered=tuple(key for key in items if key not in covered),
        failed=tuple(sorted(set(items) - set(read))),
        calls=top.calls + calls,
        reads=len(read),
        depth=top.depth + 1,
    )


def _one_call(n: int) -> Plan:
    return plan(n, max_items=max(2, n), second_chances=0)


def _over_all(result: Scan[D], keys: Sequence[str]) -> Scan[D]:
    """Return the scan of some items as one of all: items that were never read are uncovered."""
    return replace(result, uncovered=tuple(key for key in keys if key not in result.covered))


def _representatives(
    keys: Sequence[str], items: Mapping[str, T], alike: Callable[[T, T], float], count: int
) -> list[str]:
    """Return one key of each cluster: the item most alike to the rest of its cluster.

    Centres are taken one by one, each the item least like the centres so far; an item belongs to its nearest centre.
    """
    nearest = dict.fromkeys(keys, -1.0)
    centre_of = dict.fromkeys(keys, keys[0])
    centre = keys[0]
    for _ in range(count):
        for key in keys:
            score = 2.0 if key == centre else alike(items[key], items[centre])
            if score > nearest[key]:
                nearest[key], centre_of[key] = score, centre
        centre = min(keys, key=lambda key: (nearest[key], key))
    clusters: dict[str, list[str]] = {}
    for key in keys:
        clusters.setdefault(centre_of[key], []).append(key)
    return sorted(
        max(members, key=lambda key: (sum(alike(items[key], items[other]) for other in members), key))
        for members in clusters.values()
    )


BASELINES: Mapping[str, Callable[[_Setting[Any, Any]], Coroutine[Any, Any, Scan[Any]]]] = {
    "combee": _combee,
    "naive": _naive,
    "naive_long": _naive_long,
    "paper": _paper,
    "summarize": _summarize,
    "top_k": _top_k,
}

ONE_CALL = frozenset({"naive", "naive_long", "top_k", "summarize"})
"""Ways in which one call answers for the whole minibatch."""

_OF_LEAVES = frozenset({"max_items", "max_tokens", "second_chances", "copies", "pipeline", "shuffle_groups"})
UNUSED: Mapping[str, frozenset[str]] = {
    "combee": frozenset({"group_size"}),
    "paper": _OF_LEAVES - {"copies", "shuffle_groups"},
    **dict.fromkeys(sorted(ONE_CALL), _OF_LEAVES | {"group_size"}),
}
"""Settings of a run that do nothing in a way to aggregate."""
