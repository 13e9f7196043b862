"""Operations that conflict or say nearly the same, settled by a model where a method offers it: measured, not used.

The learning loop merges by code; `bench_merging` shows what a model on top of that costs and folds. A cluster is as
small as a leaf, clusters are settled in parallel, and a result counts only where it still covers every reflection that
its cluster covered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from combee.errors import CallErrorKind
from combee.kernel.aggregate import Method, Scan
from combee.kernel.journal import Scope, hash_json
from combee.kernel.learn.codec import delta_to_json
from combee.kernel.learn.roles import Reflection
from combee.kernel.playbook import Add, Delta, Merge, Operation, delta_of, near_duplicates
from combee.kernel.runner import Runner

__all__ = ["clusters", "settle_conflicts"]

ALIKE = 0.6
"""Similarity from which two new lessons may say the same; above `near` of the book code folds them by itself."""

Resolve = Callable[[Sequence[Operation], str], Awaitable[Delta]]
_HOPELESS = frozenset({CallErrorKind.AUTH, CallErrorKind.QUOTA, CallErrorKind.NO_SUCH_MODEL})


def clusters(delta: Delta, *, max_items: int, alike: float = ALIKE) -> list[tuple[Operation, ...]]:
    """Return groups of two to `max_items` operations that touch one bullet or whose texts are alike, in delta order.

    A larger group is cut; what is left alone is no conflict.
    """
    operations = tuple(delta)
    leader = list(range(len(operations)))
    size = [1] * len(operations)

    def root(index: int) -> int:
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    def join(one: int, other: int, most: int) -> None:
        low, high = sorted((root(one), root(other)))
        if low != high and size[low] + size[high] <= most:
            leader[high] = low
            size[low] += size[high]

    touched: dict[str, int] = {}
    for index, operation in enumerate(operations):
        for target in _targets(operation):
            join(touched.setdefault(target, index), index, len(operations))
    added = [index for index, operation in enumerate(operations) if isinstance(operation, Add)]
    texts = [cast("Add", operations[index]).text for index in added]
    # The most alike first: a chain of half-alike texts must not fill the cluster of two that say the same.
    for one, other, _ in sorted(near_duplicates(texts, alike), key=lambda pair: (-pair[2], pair[0], pair[1])):
        join(added[one], added[other], max_items)
    groups: dict[int, list[Operation]] = defaultdict(list)
    for index, operation in enumerate(operations):
        groups[root(index)].append(operation)
    found = []
    for group in groups.values():
        runs = [group[start : start + max_items] for start in range(0, len(group), max(2, max_items))]
        found += [tuple(run) for run in runs if len(run) > 1]
    return found


def _targets(operation: Operation) -> tuple[str, ...]:
    if isinstance(operation, Add):
        return ()
    return operation.ids if isinstance(operation, Merge) else (operation.id,)


def _keeps_all(
    result: Delta,
    cluster: Sequence[Operation],
    method: Method[Reflection, Delta],
    by_name: Mapping[str, Reflection],
) -> bool:
    """Whether the settled operations cover what the cluster covered, and cite nothing from outside of it."""
    names = {name for operation in cluster for name in operation.sources} & by_name.keys()
    before = Delta(tuple(cluster))
    lost = any(method.covered(by_name[name], before) and not method.covered(by_name[name], result) for name in names)
    foreign = {name for operation in result for name in operation.sources} - names
    return len(result) > 0 and not lost and not foreign


async def settle_conflicts(
    scan: Scan[Delta],
    method: Method[Reflection, Delta],
    items: Sequence[Reflection],
    *,
    scope: Scope,
    runner: Runner,
    max_items: int,
) -> Scan[Delta]:
    """Return the scan with its conflict clusters settled by the method's hook `resolve(operations, node) -> delta`.

    Without the hook, or where no cluster is better for it, the scan is returned as it is. A cluster whose call fails,
    or whose result covers less than before, keeps its operations.

    Raises:
        CallError: Access denied or no such model.
    """
    resolve = cast("Resolve | None", getattr(method, "resolve", None))
    found = clusters(scan.delta, max_items=max(2, max_items)) if resolve is not None else []
    if resolve is None or not found:
        return scan
    by_name = {item.id: item for item in items}
    place = scope.sub("conflicts")

    async def settle(job: tuple[int, tuple[Operation, ...]]) -> Delta:
        number, cluster = job
        inputs = {"cluster": hash_json(delta_to_json(Delta(cluster))), "method": getattr(method, "fingerprint", "")}

        async def call() -> Any:
            return method.encode(await resolve(cluster, f"conflict{number}"))

        return method.decode(await place.once("resolve", f"c{number}", inputs, call))

    done = await runner.run(settle, list(enumerate(found)))
    operations = set(scan.delta)
    settled: list[Operation] = []
    better = 0
    for cluster, answer in zip(found, done, strict=True):
        if answer.error is not None:
            if answer.error.kind in _HOPELESS:
                raise answer.error
            continue
        result = answer.get()
        if not _keeps_all(result, cluster, method, by_name):
            continue
        better += 1
        operations.difference_update(cluster)
        settled.extend(result)
    note = f"{better} of {len(found)} conflict clusters were settled by the model; the others were merged by code."
    return replace(
        scan,
        delta=delta_of((*operations, *settled)),
        calls=scan.calls + len(found),
        depth=scan.depth + 1,
        notes=(*scan.notes, note),
    )
