"""Bullets, operations, votes, deltas and the playbook: plain frozen data (ACE, arXiv 2510.04618, section 3).

Text is normalised when an object is made, so equal content has equal bytes everywhere. Nothing here changes in place.
A delta is a set of operations; merging deltas is union: associative, commutative, idempotent. Operations that say the
same are one, with the sources of all. The order is canonical: kind, target, hash of the content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from combee.kernel.playbook.sections import SECTIONS, canonical_section, section_key
from combee.kernel.playbook.text import equality_key, normalize


def _sorted_unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


@dataclass(frozen=True, slots=True)
class Bullet:
    """One lesson with its counters. `sources` are reflection ids; `created` and `last_used` are steps."""

    id: str
    section: str
    text: str
    helpful: int = 0
    harmful: int = 0
    sources: tuple[str, ...] = ()
    created: int = 0
    last_used: int | None = None
    _json: str | None = field(default=None, init=False, repr=False, compare=False)
    """Its line in the JSON form once it was written: versions share bullets, so most lines are written once."""
    _units: tuple[str, int] | None = field(default=None, init=False, repr=False, compare=False)
    """What its line measures, by the counter of this name, once that was asked."""

    def __post_init__(self) -> None:
        # Books are read by the ten thousand: nothing is set that is right already.
        text = normalize(self.text)
        if text is not self.text:
            object.__setattr__(self, "text", text)
        if self.sources != ():
            object.__setattr__(self, "sources", _sorted_unique(self.sources))


@dataclass(frozen=True, slots=True)
class Add:
    """Put a new lesson into a section."""

    section: str
    text: str
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "section", canonical_section(self.section))
        object.__setattr__(self, "text", normalize(self.text))
        object.__setattr__(self, "sources", _sorted_unique(self.sources))


@dataclass(frozen=True, slots=True)
class Update:
    """Replace the text of one bullet."""

    id: str
    text: str
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", normalize(self.text))
        object.__setattr__(self, "sources", _sorted_unique(self.sources))


@dataclass(frozen=True, slots=True)
class Merge:
    """Replace two or more bullets by one text; counters and sources add up."""

    ids: tuple[str, ...]
    text: str
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", _sorted_unique(self.ids))
        object.__setattr__(self, "text", normalize(self.text))
        object.__setattr__(self, "sources", _sorted_unique(self.sources))


@dataclass(frozen=True, slots=True)
class Remove:
    """Take one bullet out; its id is never given again."""

    id: str
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", _sorted_unique(self.sources))


Operation = Add | Update | Merge | Remove


class VoteKind(StrEnum):
    """What one reflection says of one bullet it used."""

    HELPFUL = "helpful"
    HARMFUL = "harmful"


@dataclass(frozen=True, slots=True, order=True)
class Vote:
    """A vote is a key: the same vote read twice counts once."""

    reflection: str
    bullet: str
    kind: VoteKind


@dataclass(frozen=True, slots=True)
class Delta:
    """A set of operations in canonical order. Build with `combee.kernel.playbook.merge` or `Delta.of`."""

    operations: tuple[Operation, ...] = ()

    def __len__(self) -> int:
        return len(self.operations)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)


@dataclass(slots=True)
class Kept:
    """What was found out about a book and does not change; whoever first needs a part of it puts it here."""

    digest: str | None = None
    tokens: int | None = None
    by_id: dict[str, Bullet] | None = None
    draft: object = None
    """Its bullets by section, text and core (`draft`): the next version's begin as copies of these."""
    proven: dict[str, tuple[str, int]] | None = None
    """Text and helpful votes of the bullets that have proved themselves (`guard.erosion`)."""
    words: object = None
    """Where its words stand (`views`)."""
    words_before: object = None
    """The same of the version that it was made from."""


@dataclass(frozen=True, slots=True, repr=False)
class Playbook:
    """An immutable, ordered book of bullets.

    `high_water` is the largest number an id ever had; `counter` names the token counter that budgets are measured with.
    """

    bullets: tuple[Bullet, ...] = ()
    high_water: int = 0
    counter: str = "chars/4"
    kept: Kept = field(default_factory=Kept, init=False, compare=False, hash=False)

    def __repr__(self) -> str:
        return f"<Playbook of {len(self.bullets)} bullets, high_water={self.high_water}, counter={self.counter!r}>"

    @property
    def by_id(self) -> Mapping[str, Bullet]:
        """The bullets by their ids."""
        if self.kept.by_id is None:
            self.kept.by_id = {bullet.id: bullet for bullet in self.bullets}
        return self.kept.by_id

    def __len__(self) -> int:
        return len(self.bullets)

    def __iter__(self) -> Iterator[Bullet]:
        return iter(self.bullets)

    def __contains__(self, bullet_id: object) -> bool:
        return bullet_id in self.by_id

    def __str__(self) -> str:
        """Return the text that an agent is shown: sections with a bullet a line (ACE)."""
        from combee.kernel.playbook.textform import to_text

        return to_text(self, mark=False)

    def get(self, bullet_id: str) -> Bullet | None:
        """Return the bullet with this id, or None."""
        return self.by_id.get(bullet_id)

    def save(self, path: Path | str) -> None:
        """Write the book: as JSON, which keeps everything, where the name ends in .json, else (.md, .txt) as text.

        Raises:
            UsageError: The name ends otherwise, or the folder does not exist.
            StorageError: It cannot be written; an old file is unharmed.
        """
        from combee.kernel.playbook.storage import save

        save(self, path)


SortKey: TypeAlias = tuple[int, str, str]

_RANK = {name: f"{index:02d}" for index, name in enumerate(SECTIONS)}


def content_hash(text: str) -> str:
    """Return the hash by which texts are ordered where nothing else decides."""
    return sha256(equality_key(text).encode()).hexdigest()


def sort_key(operation: Operation) -> SortKey:
    """Return (kind, target, content hash). Operations with equal keys say the same; REMOVE < MERGE < UPDATE < ADD."""
    if isinstance(operation, Add):
        section = operation.section
        return (3, _RANK[section] if section in _RANK else "~" + section_key(section), content_hash(operation.text))
    if isinstance(operation, Update):
        return (2, operation.id, content_hash(operation.text))
    if isinstance(operation, Merge):
        return (1, "\0".join(operation.ids), content_hash(operation.text))
    return (0, operation.id, "")


def _unite(one: Operation, other: Operation) -> Operation:
    """Join two operations with equal sort keys.

    Of two spellings the smaller stays, so the order of joining does not matter.
    """
    sources = one.sources + other.sources
    if isinstance(one, Remove) or isinstance(other, Remove):
        return replace(one, sources=sources)
    text = min(one.text, other.text)
    if isinstance(one, Add) and isinstance(other, Add):
        return Add(min(one.section, other.section), text, sources)
    return replace(one, text=text, sources=sources)


def delta_of(operations: Iterable[Operation]) -> Delta:
    """Return the delta of these operations: canonical order, equal ones joined with their sources united."""
    joined: dict[SortKey, Operation] = {}
    for operation in operations:
        key = sort_key(operation)
        before = joined.get(key)
        if before is None:
            joined[key] = operation
        elif before != operation:
            joined[key] = _unite(before, operation)
    return Delta(tuple(joined[key] for key in sorted(joined)))


def merge(*deltas: Delta) -> Delta:
    """Return the union of deltas.

    Associative, commutative and idempotent, so the shape of a tree of merges does not matter.
    """
    return delta_of(operation for delta in deltas for operation in delta.operations)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operation that was not done, and why. It changed nothing and used up no id."""

    operation: Operation
    reason: str


@dataclass(frozen=True, slots=True)
class Applied:
    """The new book and what became of everything that was asked."""

    playbook: Playbook
    added: dict[Operation, str] = field(default_factory=dict)
    """ADD operations that became a bullet, with its id."""
    folded: dict[Operation, str] = field(default_factory=dict)
    """ADD operations that said what a bullet already said: that bullet got their sources."""
    changed: tuple[str, ...] = ()
    """Ids that were there before and are there now, with anything different."""
    removed: tuple[str, ...] = ()
    merged: dict[str, str] = field(default_factory=dict)
    """Ids that are gone into another bullet, which has their counters and sources."""
    refused: tuple[Refusal, ...] = ()
    evicted: tuple[str, ...] = ()
    unknown_votes: tuple[Vote, ...] = ()
    """Votes on bullets that the book did not hold."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that was wrong.

    `index` counts operations from 0, or lines of a text from 1; `skipped` tells that it was left out.
    """

    index: int
    reason: str
    shown: str = ""
    skipped: bool = True


@dataclass(frozen=True, slots=True)
class Parsed:
    """A book that was read and what was wrong with it."""

    playbook: Playbook
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class BulletChange:
    """One bullet before and after; `fields` names what differs."""

    before: Bullet
    after: Bullet
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BookDiff:
    """Bullets only in the new book, only in the old one, and in both but different. Orders are those of the books."""

    added: tuple[Bullet, ...] = ()
    removed: tuple[Bullet, ...] = ()
    changed: tuple[BulletChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


_COMPARED = ("section", "text", "helpful", "harmful", "sources", "created", "last_used")


def diff(old: Playbook, new: Playbook) -> BookDiff:
    """Compare two books by the ids of their bullets."""
    changed = []
    for after in new.bullets:
        before = old.get(after.id)
        if before is not None and before != after:
            fields = tuple(name for name in _COMPARED if getattr(before, name) != getattr(after, name))
            changed.append(BulletChange(before, after, fields))
    return BookDiff(
        added=tuple(bullet for bullet in new.bullets if bullet.id not in old),
        removed=tuple(bullet for bullet in old.bullets if bullet.id not in new),
        changed=tuple(changed),
    )
