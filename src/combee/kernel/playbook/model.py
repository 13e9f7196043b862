"""Bullets, operations, votes and the playbook: plain frozen data (ACE, arXiv 2510.04618, section 3).

Text is normalised when an object is made, so equal content has equal bytes everywhere. Nothing here changes in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from combee.kernel.playbook.sections import canonical_section
from combee.kernel.playbook.text import normalize

__all__ = ["Add", "Bullet", "Delta", "Merge", "Operation", "Playbook", "Remove", "Update", "Vote", "VoteKind"]


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


@dataclass(frozen=True, slots=True)
class Playbook:
    """An immutable, ordered book of bullets.

    `high_water` is the largest number an id ever had; `counter` names the token counter that budgets are measured
    with.
    """

    bullets: tuple[Bullet, ...] = ()
    high_water: int = 0
    counter: str = "chars/4"
    _by_id: dict[str, Bullet] = field(init=False, repr=False, compare=False, hash=False)
    _digest: str | None = field(default=None, init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {bullet.id: bullet for bullet in self.bullets})

    def __len__(self) -> int:
        return len(self.bullets)

    def __iter__(self) -> Iterator[Bullet]:
        return iter(self.bullets)

    def __contains__(self, bullet_id: object) -> bool:
        return bullet_id in self._by_id

    def get(self, bullet_id: str) -> Bullet | None:
        """Return the bullet with this id, or None."""
        return self._by_id.get(bullet_id)
