"""What changed between two books, by id."""

from __future__ import annotations

from dataclasses import dataclass

from combee.kernel.playbook.model import Bullet, Playbook

__all__ = ["BookDiff", "Change", "diff"]


@dataclass(frozen=True, slots=True)
class Change:
    """One bullet before and after; `fields` names what differs."""

    before: Bullet
    after: Bullet
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BookDiff:
    """Bullets only in the new book, only in the old one, and in both but different. Orders are those of the books."""

    added: tuple[Bullet, ...] = ()
    removed: tuple[Bullet, ...] = ()
    changed: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


_FIELDS = ("section", "text", "helpful", "harmful", "sources", "created", "last_used")


def diff(old: Playbook, new: Playbook) -> BookDiff:
    """Compare two books by the ids of their bullets."""
    changed = []
    for after in new.bullets:
        before = old.get(after.id)
        if before is not None and before != after:
            fields = tuple(name for name in _FIELDS if getattr(before, name) != getattr(after, name))
            changed.append(Change(before, after, fields))
    return BookDiff(
        added=tuple(bullet for bullet in new.bullets if bullet.id not in old),
        removed=tuple(bullet for bullet in old.bullets if bullet.id not in new),
        changed=tuple(changed),
    )
