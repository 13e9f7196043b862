"""Applying a delta: a pure function of the set of operations and votes, never of the order in which they came.

Kinds follow each other as REMOVE, MERGE, UPDATE, ADD; within a kind the canonical order of the delta decides, also who
gets an id and who meets the budget. A history of deltas can be played again without the lessons of some sources: how a
poisoned reflection is taken back out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from combee.errors import UsageError
from combee.kernel.playbook.draft import BookDraft, Evictor
from combee.kernel.playbook.duplicates import absorb, check_similarity
from combee.kernel.playbook.model import (
    Add,
    Applied,
    Bullet,
    Delta,
    Merge,
    Operation,
    Playbook,
    Refusal,
    Remove,
    SortKey,
    Update,
    Vote,
    VoteKind,
    delta_of,
    sort_key,
)
from combee.kernel.playbook.sections import number_of

OnFull = Literal["refuse", "evict"]
_Target = TypeVar("_Target", Merge, Update)


@dataclass(frozen=True, slots=True)
class Revision:
    """What one step does to a book; `apply` says what each part means."""

    delta: Delta
    votes: tuple[Vote, ...] = ()
    used: tuple[str, ...] = ()
    step: int = 0
    budget: int | None = None
    near: float | None = None
    on_full: OnFull = "refuse"


def apply(
    book: Playbook,
    delta: Delta,
    *,
    votes: Iterable[Vote] = (),
    used: Iterable[str] = (),
    step: int = 0,
    budget: int | None = None,
    near: float | None = None,
    on_full: OnFull = "refuse",
) -> Applied:
    """Return the book after a delta and the votes of one step.

    REMOVE beats MERGE, MERGE beats UPDATE; of two MERGEs of one bullet, or two UPDATEs, the one with more sources
    wins, then the smaller hash.
    A text that a bullet already has adds its sources there. The losers are refused, each with its reason.

    Args:
        book: the base. Its bullets keep their order; each section is kept together.
        delta: what to do. Operations may come in any order.
        votes: counted once each, however often they were read, and before anything else.
        used: ids of bullets that were used without a vote (their `last_used` moves).
        step: written into `created` and `last_used`.
        budget: the most tokens (by the book's counter) the result may have. It is never exceeded: an operation that
            would is refused whole. If the book is over it anyway (its votes grew it, or it came so), bullets are
            evicted by the policy of `Evictor`.
        near: also fold an ADD into a bullet that is the same lesson (`same_lesson`) with at least this similarity.
        on_full: what an ADD meets when it does not fit: it is refused, or older bullets are evicted for it.

    Raises:
        UsageError: the budget is negative, `near` is not in (0, 1], `on_full` is unknown, or the book's counter
            cannot be used.
    """
    return revise(book, Revision(delta, tuple(votes), tuple(used), step, budget, near, on_full))


def revise(book: Playbook, revision: Revision, ids: Mapping[SortKey, str] | None = None) -> Applied:
    """Return the book after a revision; raises as `apply`.

    `ids` are given to ADDs with these sort keys, where free, so that a history can be replayed without changing its
    ids.
    """
    if revision.budget is not None and revision.budget < 0:
        raise UsageError(
            f"the playbook budget is {revision.budget} tokens", hint="Give a number of at least 0, or none."
        )
    if revision.near is not None:
        check_similarity(revision.near)
    if revision.on_full not in ("refuse", "evict"):
        raise UsageError(f"unknown rule for a full playbook: {revision.on_full!r}", hint="Known: refuse, evict.")
    work = _Work(BookDraft(book, measured=revision.budget is not None), revision, ids or {})
    work.vote(set(revision.votes), set(revision.used))
    operations = delta_of(revision.delta.operations).operations
    work.remove([operation for operation in operations if isinstance(operation, Remove)])
    taken = work.merge([operation for operation in operations if isinstance(operation, Merge)])
    work.update(taken, [operation for operation in operations if isinstance(operation, Update)])
    work.evictor.trim()
    for operation in operations:
        if isinstance(operation, Add):
            work.add(operation)
    return work.result(book, operations)


class _Work:
    """One revision under way."""

    def __init__(self, draft: BookDraft, rules: Revision, ids: Mapping[SortKey, str]) -> None:
        self.draft = draft
        self.rules = rules
        self.ids = ids
        self.evictor = Evictor(draft, rules.budget)
        self.reasons: dict[Operation, str] = {}
        self.added: dict[Operation, str] = {}
        self.folded: dict[Operation, str] = {}
        self.removed: dict[str, None] = {}
        self.merged: dict[str, str] = {}
        self.unknown: tuple[Vote, ...] = ()

    def refuse(self, operation: Operation, reason: str) -> None:
        self.reasons[operation] = reason

    def vote(self, votes: set[Vote], used: set[str]) -> None:
        self.unknown = tuple(sorted(vote for vote in votes if vote.bullet not in self.draft.bullets))
        counts: dict[str, Counter[VoteKind]] = defaultdict(Counter)
        for vote in votes:
            counts[vote.bullet][vote.kind] += 1
        for bullet_id in counts.keys() | used:
            bullet = self.draft.bullets.get(bullet_id)
            if bullet is not None:
                kinds = counts.get(bullet_id, Counter())
                self.draft.put(
                    replace(
                        bullet,
                        helpful=bullet.helpful + kinds[VoteKind.HELPFUL],
                        harmful=bullet.harmful + kinds[VoteKind.HARMFUL],
                        last_used=max(self.rules.step, bullet.last_used or 0),
                    )
                )

    def remove(self, operations: Sequence[Remove]) -> None:
        for operation in operations:
            if operation.id in self.draft.bullets:
                self.draft.drop(operation.id)
                self.removed[operation.id] = None
            else:
                self.refuse(operation, f"no bullet has the id {operation.id}")

    def _usable(self, operation: Merge | Update, ids: Iterable[str]) -> bool:
        """Tell whether the targets of an operation are there and it has a text; else refuse it."""
        for bullet_id in ids:
            if bullet_id in self.removed:
                self.refuse(operation, f"{bullet_id} is removed by the same delta, and REMOVE wins")
                return False
            if bullet_id not in self.draft.bullets:
                self.refuse(operation, f"no bullet has the id {bullet_id}")
                return False
        if not operation.text.strip():
            self.refuse(operation, "the text is empty")
            return False
        return True

    def merge(self, operations: Sequence[Merge]) -> set[str]:
        """Do the MERGEs that win; return the ids they took part in."""
        taken: set[str] = set()
        winners = []
        for operation in sorted(operations, key=_strength):
            if len(operation.ids) < 2:
                self.refuse(operation, "a MERGE needs two or more different ids")
            elif self._usable(operation, operation.ids):
                if taken & set(operation.ids):
                    self.refuse(operation, "another MERGE of the same bullet has more support")
                else:
                    taken |= set(operation.ids)
                    winners.append(operation)
        for operation in sorted(winners, key=sort_key):
            ids = sorted(operation.ids, key=lambda bullet_id: (number_of(bullet_id), bullet_id))
            self._replace(operation, [self.draft.bullets[bullet_id] for bullet_id in ids])
        return taken

    def update(self, taken: set[str], operations: Sequence[Update]) -> None:
        """Do the UPDATEs that win, of bullets that no MERGE has `taken`."""
        best: dict[str, Update] = {}
        for operation in sorted(operations, key=_strength):
            if operation.id in taken:
                self.refuse(operation, f"{operation.id} is merged by the same delta, and MERGE wins")
            elif self._usable(operation, [operation.id]):
                if operation.id in best:
                    self.refuse(operation, "another UPDATE of the same bullet has more support")
                else:
                    best[operation.id] = operation
        for operation in sorted(best.values(), key=sort_key):
            bullet = self.draft.bullets.get(operation.id)
            if bullet is None:  # it had the text of an earlier UPDATE
                self.refuse(operation, f"{operation.id} has gone into {self.merged[operation.id]}, which says the same")
            else:
                self._replace(operation, [bullet])

    def _replace(self, operation: Merge | Update, family: list[Bullet]) -> None:
        """Make one bullet with the operation's text of a family, and of the bullet that already has that text."""
        ids = [bullet.id for bullet in family]
        same = self.draft.equal_to(operation.text, but=ids)
        if same is not None:
            family = [same, *family]
        new = absorb(
            family[0], family[1:], text=None if same is not None else operation.text, sources=operation.sources
        )
        if self.rules.budget is not None:
            size = self.draft.tokens_after(family, [new])
            if size > self.rules.budget and size > self.draft.tokens_after():
                self.refuse(operation, f"the playbook would have {size} tokens; its budget is {self.rules.budget}")
                return
        for bullet in family[1:]:
            self.draft.drop(bullet.id)
            self.merged[bullet.id] = new.id
        self.draft.put(new)
        self.evictor.protect(new.id)

    def add(self, operation: Add) -> None:
        """Give an ADD its bullet, or its sources to the bullet that already says so."""
        if not operation.text.strip():
            self.refuse(operation, "the text is empty")
            return
        same = self.draft.equal_to(operation.text)
        if same is None and self.rules.near is not None:
            same = self.draft.near_to(operation.text, self.rules.near)
        if same is not None:
            self.draft.put(absorb(same, (), sources=operation.sources))
            self.folded[operation] = same.id
            self.evictor.protect(same.id)
            return
        section = self.draft.spelling(operation.section)
        given = self.ids.get(sort_key(operation), "") if self.ids else ""
        bullet_id = given if given and given not in self.draft.bullets else self.draft.next_id(section)
        bullet = Bullet(bullet_id, section, operation.text, sources=operation.sources, created=self.rules.step)
        if self.rules.budget is not None:
            size = self.draft.tokens_after(new=[bullet])
            if size > self.rules.budget and not (self.rules.on_full == "evict" and self.evictor.make_room(bullet)):
                self.refuse(operation, f"the playbook would have {size} tokens; its budget is {self.rules.budget}")
                return
        self.draft.put(bullet)
        self.evictor.protect(bullet.id)
        self.added[operation] = bullet.id

    def result(self, base: Playbook, operations: Sequence[Operation]) -> Applied:
        book = self.draft.finish()
        before, put = base.by_id, self.draft.changed
        merged = {bullet_id: self._last(bullet_id) for bullet_id in self.merged}
        return Applied(
            playbook=book,
            added=self.added,
            folded=self.folded,
            changed=tuple([b.id for b in book.bullets if b.id in put and b.id in before and before[b.id] != b]),
            removed=tuple(self.removed),
            merged=merged,
            refused=tuple(Refusal(each, self.reasons[each]) for each in operations if each in self.reasons),
            evicted=tuple(self.evictor.evicted),
            unknown_votes=self.unknown,
        )

    def _last(self, bullet_id: str) -> str:
        while bullet_id in self.merged:
            bullet_id = self.merged[bullet_id]
        return bullet_id


def _strength(operation: _Target) -> tuple[int, str, SortKey]:
    key = sort_key(operation)
    return (-len(operation.sources), key[2], key)


@dataclass(frozen=True, slots=True)
class Replay:
    """The last book of a history and what each step did."""

    playbook: Playbook
    steps: tuple[Applied, ...] = ()


_Sourced = TypeVar("_Sourced", Operation, Bullet)


def _without(sourced: Iterable[_Sourced], gone: Collection[str]) -> tuple[_Sourced, ...]:
    """Leave out what comes from these sources alone; what others say too loses only their names."""
    kept = []
    for one in sourced:
        left = tuple(source for source in one.sources if source not in gone)
        if len(left) == len(one.sources):
            kept.append(one)
        elif left:
            kept.append(replace(one, sources=left))
    return tuple(kept)


def replay(base: Playbook, revisions: Iterable[Revision], *, without: Iterable[str] = ()) -> Replay:
    """Apply the revisions in order, as if the reflections `without` had never been.

    Their operations and votes are left out, and bullets of the base that come from them alone. A bullet keeps the id it
    has in the full history, so later operations and votes still find it; one that the full history had folded into a
    left-out bullet takes over that bullet's id. Counters that the base already had stay as they are. With nothing left
    out the result is the full history, byte for byte.
    """
    revisions = tuple(revisions)
    full = _play(base, [(revision, {}) for revision in revisions])
    gone = frozenset(without)
    if not gone:
        return full
    book = replace(base, bullets=_without(base.bullets, gone), high_water=full.playbook.high_water)
    fewer: list[tuple[Revision, dict[SortKey, str]]] = []
    for revision, done in zip(revisions, full.steps, strict=True):
        ids = {sort_key(operation): bullet_id for operation, bullet_id in [*done.folded.items(), *done.added.items()]}
        votes = tuple(vote for vote in revision.votes if vote.reflection not in gone)
        delta = Delta(_without(revision.delta.operations, gone))
        fewer.append((replace(revision, delta=delta, votes=votes), ids))
    return _play(book, fewer)


def _play(book: Playbook, revisions: Iterable[tuple[Revision, Mapping[SortKey, str]]]) -> Replay:
    steps: list[Applied] = []
    for revision, ids in revisions:
        steps.append(revise(book, revision, ids))
        book.kept.draft = book.kept.by_id = None  # a long history would hold them of every version
        book = steps[-1].playbook
    return Replay(book, tuple(steps))
