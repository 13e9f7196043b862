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
from combee.kernel.playbook.duplicates import absorb
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
    ids: Mapping[SortKey, str] | None = None,
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
        ids: ids to give to ADDs with these sort keys, where free (used to replay a history without changing its ids).

    Raises:
        UsageError: the budget is negative, `near` is not in (0, 1], `on_full` is unknown, or the book's counter
            cannot be used.
    """
    if budget is not None and budget < 0:
        raise UsageError(f"the playbook budget is {budget} tokens", hint="Give a number of at least 0, or none.")
    if near is not None and not 0 < near <= 1:
        raise UsageError(
            f"the similarity for folding is {near}", hint="It lies above 0 and at most at 1; 0.8 is usual."
        )
    if on_full not in ("refuse", "evict"):
        raise UsageError(f"unknown rule for a full playbook: {on_full!r}", hint="Known: refuse, evict.")
    rules = _Rules(step, budget, near, on_full, ids or {})
    work = _Work(BookDraft(book, measured=budget is not None), rules)
    work.vote(set(votes), set(used))
    operations = delta_of(delta.operations).operations
    work.remove([operation for operation in operations if isinstance(operation, Remove)])
    updates = work.drop_beaten(
        work.pick_merges([operation for operation in operations if isinstance(operation, Merge)]),
        [operation for operation in operations if isinstance(operation, Update)],
    )
    for update in updates:
        work.update(update)
    work.evictor.trim()
    for operation in operations:
        if isinstance(operation, Add):
            work.add(operation)
    return work.result(book, operations)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The options of one application; see `apply`."""

    step: int
    budget: int | None
    near: float | None
    on_full: OnFull
    ids: Mapping[SortKey, str]


class _Work:
    """One application under way."""

    def __init__(self, draft: BookDraft, rules: _Rules) -> None:
        self.draft = draft
        self.rules = rules
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

    def pick_merges(self, operations: Sequence[Merge]) -> set[str]:
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
            self._merge(operation)
        return taken

    def _merge(self, operation: Merge) -> None:
        family = sorted(
            (self.draft.bullets[bullet_id] for bullet_id in operation.ids),
            key=lambda bullet: (number_of(bullet.id), bullet.id),
        )
        self._replace(operation, family)

    def drop_beaten(self, taken: set[str], operations: Sequence[Update]) -> list[Update]:
        """Return the UPDATEs that win, in canonical order; refuse the others."""
        best: dict[str, Update] = {}
        for operation in sorted(operations, key=_strength):
            if operation.id in taken:
                self.refuse(operation, f"{operation.id} is merged by the same delta, and MERGE wins")
            elif self._usable(operation, [operation.id]):
                if operation.id in best:
                    self.refuse(operation, "another UPDATE of the same bullet has more support")
                else:
                    best[operation.id] = operation
        return sorted(best.values(), key=sort_key)

    def update(self, operation: Update) -> None:
        """Do an UPDATE that won. Its bullet may meanwhile be gone into another one that had the same text."""
        bullet = self.draft.bullets.get(operation.id)
        if bullet is None:
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
        given = self.rules.ids.get(sort_key(operation), "") if self.rules.ids else ""
        bullet_id = given if given and given not in self.draft.bullets else self.draft.next_id(section)
        bullet = Bullet(bullet_id, section, operation.text, sources=operation.sources, created=self.rules.step)
        if self.rules.budget is not None:
            size = self.draft.tokens_after(new=[bullet])
            if size > self.rules.budget and not (self.rules.on_full == "evict" and self.evictor.make_room(bullet)):
                self.refuse(operation, f"the playbook would have {size} tokens; its budget is {self.rules.budget}")
                return
        self.draft.put_new(bullet)
        self.evictor.protect(bullet.id)
        self.added[operation] = bullet.id

    def result(self, base: Playbook, operations: Sequence[Operation]) -> Applied:
        book = self.draft.finish()
        before = {bullet.id: bullet for bullet in base.bullets}
        merged = {bullet_id: self._last(bullet_id) for bullet_id in self.merged}
        return Applied(
            playbook=book,
            added=self.added,
            folded=self.folded,
            changed=tuple(
                bullet.id
                for bullet in book.bullets
                if bullet.id in before and before[bullet.id] is not bullet and before[bullet.id] != bullet
            ),
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

    Their operations and votes are left out, and bullets of the base that come from them alone. A bullet keeps the id it
    has in the full history, so later operations and votes still find it; one that the full history had folded into a
    left-out bullet takes over that bullet's id. Counters that the base already had stay as they are. With nothing left
    out the result is the full history, byte for byte.
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
