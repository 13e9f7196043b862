"""Lessons lost, and where: for each reflection that no step took in, the node it was lost at and the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from combee.kernel.aggregate import Node
from combee.report.read import RunRecord, ScanTree

__all__ = ["Loss", "losses"]


@dataclass(frozen=True, slots=True)
class Loss:
    """A reflection whose content is not in the step's delta. `node` is the node it was lost at, "" for none."""

    step: int
    key: str
    node: str
    reason: str


def losses(record: RunRecord) -> Iterator[Loss]:
    """Yield every loss of the run in the order of steps (last attempts only: a retried step lost nothing)."""
    for scan in record.last_scans:
        yield from _losses_of(scan)


def _losses_of(scan: ScanTree) -> Iterator[Loss]:
    wanted = set(scan.uncovered)
    if not wanted:
        return
    readers: dict[str, list[Node]] = {key: [] for key in wanted}
    losers: dict[str, list[Node]] = {key: [] for key in wanted}
    for node in scan.nodes:
        if node.level == 0:
            for key in wanted.intersection(node.inputs):
                readers[key].append(node)
        for key in wanted.intersection(node.lost):
            losers[key].append(node)
    failed = set(scan.failed)
    for key in scan.uncovered:
        where, reason = _explain(readers[key], losers[key], failed=key in failed)
        yield Loss(scan.step, key, where, reason)


def _explain(readers: Sequence[Node], losers: Sequence[Node], *, failed: bool) -> tuple[str, str]:
    if failed:
        broken = next((node for node in reversed(readers) if node.error), None)
        if broken is None:
            return "", "No call that answered had read it."
        return broken.name, f"No call that read it answered: {broken.error}"
    if not readers:
        return "", "It was left out before the aggregation: no call read it."
    above = [node for node in losers if node.level > 0]
    if above:
        last = max(above, key=lambda node: (node.level, node.round))
        why = f" ({last.error})" if last.error else ""
        return last.name, f"It came in and was not in what came out{why}."
    wrote = [node for node in losers if node.error is None]
    if wrote:
        return wrote[-1].name, f"{_times(len(wrote))} and no lesson that was written holds its numbers and terms."
    return "", "Its numbers and terms are not in the final delta."


def _times(count: int) -> str:
    return "It was read" if count == 1 else f"It was read {count} times"
