"""A history of deltas played again, with or without the lessons of some sources.

How a poisoned reflection is taken back out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from combee.kernel.playbook.applying import OnFull, apply
from combee.kernel.playbook.deltas import SortKey, sort_key
from combee.kernel.playbook.model import Bullet, Delta, Operation, Playbook, Vote
from combee.kernel.playbook.outcome import Applied

__all__ = ["Replay", "Revision", "replay", "without_sources"]


@dataclass(frozen=True, slots=True)
class Revision:
    """What one step did to the book: the arguments of one `apply`."""

    delta: Delta
    votes: tuple[Vote, ...] = ()
    used: tuple[str, ...] = ()
    step: int = 0
    budget: int | None = None
    near: float | None = None
    on_full: OnFull = "refuse"


@dataclass(frozen=True, slots=True)
class Replay:
    """The last book of a history and what each step did."""

    playbook: Playbook
    steps: tuple[Applied, ...] = ()


def without_sources(delta: Delta, without: Collection[str]) -> Delta:
    """Return the delta without the operations that come from these sources alone; shared ones lose only the name."""
    kept = [_strip(operation, without) for operation in delta.operations]
    return Delta(tuple(operation for operation in kept if operation is not None))


def _strip(operation: Operation, without: Collection[str]) -> Operation | None:
    left = tuple(source for source in operation.sources if source not in without)
    if len(left) == len(operation.sources):
        return operation
    return replace(operation, sources=left) if left else None


def _strip_bullet(bullet: Bullet, without: Collection[str]) -> Bullet | None:
    left = tuple(source for source in bullet.sources if source not in without)
    if len(left) == len(bullet.sources):
        return bullet
    return replace(bullet, sources=left) if left else None


def _apply(book: Playbook, revision: Revision, ids: dict[SortKey, str] | None = None) -> Applied:
    return apply(
        book,
        revision.delta,
        votes=revision.votes,
        used=revision.used,
        step=revision.step,
        budget=revision.budget,
        near=revision.near,
        on_full=revision.on_full,
        ids=ids,
    )


def replay(base: Playbook, revisions: Iterable[Revision], *, without: Iterable[str] = ()) -> Replay:
    """Apply the revisions in order, as if the reflections `without` had never been.

    Their operations and votes are left out, and bullets of the base that come from them alone. A bullet keeps the id
    it has in the full history,
    so later operations and votes still find it; one that the full history had folded into a left-out bullet takes
    over that bullet's id.
    Counters that the base already had stay as they are. With nothing left out the result is the full history, byte
    for byte.
    """
    revisions = tuple(revisions)
    full = _play(base, revisions)
    gone = frozenset(without)
    if not gone:
        return full
    kept = tuple(bullet for old in base.bullets if (bullet := _strip_bullet(old, gone)) is not None)
    book = replace(base, bullets=kept, high_water=full.playbook.high_water)
    steps: list[Applied] = []
    for revision, done in zip(revisions, full.steps, strict=True):
        ids = {sort_key(operation): bullet_id for operation, bullet_id in [*done.folded.items(), *done.added.items()]}
        votes = tuple(vote for vote in revision.votes if vote.reflection not in gone)
        less = replace(revision, delta=without_sources(revision.delta, gone), votes=votes)
        steps.append(_apply(book, less, ids))
        book = steps[-1].playbook
    return Replay(book, tuple(steps))


def _play(base: Playbook, revisions: Sequence[Revision]) -> Replay:
    steps: list[Applied] = []
    book = base
    for revision in revisions:
        steps.append(_apply(book, revision))
        book = steps[-1].playbook
    return Replay(book, tuple(steps))
