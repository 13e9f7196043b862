"""A book while a delta is applied: bullets by id, equal texts, and the exact size of its text after any change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from combee.errors import UsageError
from combee.kernel.playbook.counting import token_counter
from combee.kernel.playbook.duplicates import same_lesson
from combee.kernel.playbook.ids import high_water, make_id, number_of
from combee.kernel.playbook.model import Bullet, Playbook
from combee.kernel.playbook.sections import SECTIONS, canonical_section, section_key
from combee.kernel.playbook.terms import lesson_core, similarity
from combee.kernel.playbook.text import equality_key
from combee.kernel.playbook.textform import bullet_line, heading_line

__all__ = ["Draft"]

_RANK = {name: number for number, name in enumerate(SECTIONS)}


class Draft:
    """A book under change.

    Each section is kept together; new sections follow the old ones in the order of the reference.
    """

    def __init__(self, book: Playbook, *, measured: bool) -> None:
        self.book = book
        self.high_water = high_water(book)
        self.bullets: dict[str, Bullet] = {}
        self.sections: dict[str, str] = {}
        self._old_sections: list[str] = []
        self._by_text: dict[str, tuple[str, ...]] = {}
        self._by_core: dict[tuple[str, ...], set[str]] | None = None
        self._counter = token_counter(book.counter) if measured else None
        self._lines = 0
        self._members: Counter[str] = Counter()
        for bullet in book.bullets:
            section = self.spelling(bullet.section)
            self.put(bullet if section == bullet.section else replace(bullet, section=section))
        self._old_sections = list(self.sections.values())
        if len(self.bullets) < len(book.bullets):
            raise UsageError("two bullets of the playbook have the same id", hint="Give each bullet an id of its own.")

    def spelling(self, section: str) -> str:
        """Return how this book spells a section."""
        return self.sections.setdefault(section_key(section), canonical_section(section))

    def put(self, bullet: Bullet) -> None:
        """Add a bullet, or put a new form of it (in the same section) in its place."""
        before = self.bullets.get(bullet.id)
        if before is None:
            self._members[bullet.section] += 1
            self._know(bullet)
        elif before.text != bullet.text:
            self._forget(before)
            self._know(bullet)
        if self._counter is not None:
            self._lines += self._units(bullet) - (self._units(before) if before is not None else 0)
        self.bullets[bullet.id] = bullet

    def drop(self, bullet_id: str) -> Bullet:
        """Take a bullet out."""
        bullet = self.bullets.pop(bullet_id)
        self._forget(bullet)
        self._members[bullet.section] -= 1
        if self._counter is not None:
            self._lines -= self._units(bullet)
        return bullet

    def _know(self, bullet: Bullet) -> None:
        key = equality_key(bullet.text)
        known = self._by_text.get(key)
        self._by_text[key] = (bullet.id,) if known is None else (*known, bullet.id)
        if self._by_core is not None:
            self._by_core[lesson_core(bullet.text)].add(bullet.id)

    def _forget(self, bullet: Bullet) -> None:
        key = equality_key(bullet.text)
        self._by_text[key] = tuple(bullet_id for bullet_id in self._by_text[key] if bullet_id != bullet.id)
        if self._by_core is not None:
            self._by_core[lesson_core(bullet.text)].discard(bullet.id)

    def _units(self, bullet: Bullet) -> int:
        return self._counter.units(bullet_line(bullet)) if self._counter is not None else 0

    def equal_to(self, text: str, *, but: Sequence[str] = ()) -> Bullet | None:
        """Return the oldest bullet with this text, if any."""
        found = [bullet_id for bullet_id in self._by_text.get(equality_key(text), ()) if bullet_id not in but]
        return self.bullets[min(found, key=_age)] if found else None

    def near_to(self, text: str, threshold: float) -> Bullet | None:
        """Return the bullet that is the same lesson and the most similar, if any."""
        if self._by_core is None:
            self._by_core = defaultdict(set)
            for bullet in self.bullets.values():
                self._by_core[lesson_core(bullet.text)].add(bullet.id)
        near = [self.bullets[number] for number in self._by_core.get(lesson_core(text), ())]
        near = [bullet for bullet in near if same_lesson(text, bullet.text, threshold)]
        return min(near, key=lambda bullet: (-similarity(text, bullet.text), _age(bullet.id)), default=None)

    def next_id(self, section: str) -> str:
        """Return the id the next new bullet would get; it is used up by `put_new`."""
        return make_id(section, self.high_water + 1)

    def put_new(self, bullet: Bullet) -> None:
        """Add a bullet with a new id."""
        self.high_water = max(self.high_water, number_of(bullet.id))
        self.put(bullet)

    def tokens_after(self, gone: Iterable[Bullet] = (), new: Iterable[Bullet] = ()) -> int:
        """Return the tokens of the text after bullets were taken out and others put in. Only for a measured draft."""
        counter = self._counter
        if counter is None:
            return 0
        lines = self._lines
        members: dict[str, int] = {}
        for bullets, sign in ((gone, -1), (new, 1)):
            for bullet in bullets:
                lines += sign * self._units(bullet)
                members[bullet.section] = members.get(bullet.section, self._members[bullet.section]) + sign
        present = [section for section, count in self._members.items() if members.get(section, count) > 0]
        present += [section for section, count in members.items() if count > 0 and section not in self._members]
        headings = sum(counter.units(heading_line(section)) for section in present)
        return counter.total(lines + headings + counter.units("\n") * max(0, len(present) - 1))

    def tokens_of(self, bullet: Bullet) -> int:
        """Return the tokens of a book of this bullet alone. Only for a measured draft."""
        return (
            0
            if self._counter is None
            else self._counter.total(self._counter.units(heading_line(bullet.section)) + self._units(bullet))
        )

    def finish(self) -> Playbook:
        """Return the book as it now stands."""
        by_section: dict[str, list[Bullet]] = {section: [] for section in self._old_sections}
        new = sorted(
            set(self._members) - set(by_section), key=lambda section: (_RANK.get(section, len(_RANK)), section)
        )
        by_section.update((section, []) for section in new)
        for bullet in self.bullets.values():
            by_section[bullet.section].append(bullet)
        ordered = tuple(bullet for bullets in by_section.values() for bullet in bullets)
        return replace(self.book, bullets=ordered, high_water=self.high_water)


def _age(bullet_id: str) -> tuple[int, str]:
    return (number_of(bullet_id), bullet_id)
