"""A book while a delta is applied: bullets by id, equal texts, the exact size of its text, and who leaves a full book.

Eviction takes bullets with harmful ≥ helpful first (the most harmful of them first), then those never used, then the
oldest. Bullets that this step added, confirmed or rewrote leave last. Texts are never cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TypeVar

from combee.errors import UsageError
from combee.kernel.playbook.counting import token_counter
from combee.kernel.playbook.duplicates import same_lesson
from combee.kernel.playbook.model import Bullet, Playbook
from combee.kernel.playbook.sections import SECTIONS, canonical_section, make_id, number_of, section_key
from combee.kernel.playbook.text import equality_key, lesson_core, similarity
from combee.kernel.playbook.textform import heading_line, line_units

_RANK = {name: number for number, name in enumerate(SECTIONS)}


@dataclass(frozen=True, slots=True)
class _Index:
    """A book as a draft needs it. A draft begins with copies, so that a step costs what it changes."""

    bullets: dict[str, Bullet]
    sections: dict[str, dict[str, Bullet]]
    """Bullets by section, in the order of the book."""
    by_text: dict[str, tuple[str, ...]]
    by_core: dict[tuple[str, ...], tuple[str, ...]] | None
    high_water: int
    lines: int | None
    """Units of all lines of bullets; None where nobody has measured them."""
    respelled: frozenset[str] = frozenset()
    """Bullets that the book has under another spelling of their section."""


class BookDraft:
    """A book under change.

    Each section is kept together; new sections follow the old ones in the order of the reference.
    """

    def __init__(self, book: Playbook, *, measured: bool) -> None:
        self.book = book
        self._counter = token_counter(book.counter) if measured else None
        index = book.kept.draft
        if not isinstance(index, _Index):
            index = book.kept.draft = _read(book)
        self.high_water = index.high_water
        self.bullets = index.bullets.copy()
        self.changed = set(index.respelled)
        """Bullets that were put."""
        self._sections = {section: members.copy() for section, members in index.sections.items()}
        self._old_sections = list(self._sections)
        self._spelled = {section_key(section): section for section in self._sections}
        self._by_text = index.by_text.copy()
        self._by_core = None if index.by_core is None else index.by_core.copy()
        self._lines = index.lines if index.lines is not None else sum(map(self._units, self.bullets.values()))

    def spelling(self, section: str) -> str:
        """Return how this book spells a section."""
        return self._spelled.setdefault(section_key(section), canonical_section(section))

    def put(self, bullet: Bullet) -> None:
        """Add a bullet, or put a new form of it (in the same section) in its place."""
        before = self.bullets.get(bullet.id)
        if before is None:
            self.high_water = max(self.high_water, number_of(bullet.id))
            self._know(bullet)
        elif before.text != bullet.text:
            self._forget(before)
            self._know(bullet)
        self._lines += self._units(bullet) - (self._units(before) if before is not None else 0)
        self.bullets[bullet.id] = bullet
        self._sections.setdefault(bullet.section, {})[bullet.id] = bullet
        self.changed.add(bullet.id)

    def drop(self, bullet_id: str) -> None:
        """Take a bullet out."""
        bullet = self.bullets.pop(bullet_id)
        del self._sections[bullet.section][bullet_id]
        self._forget(bullet)
        self._lines -= self._units(bullet)

    def _know(self, bullet: Bullet) -> None:
        _enter(self._by_text, equality_key(bullet.text), bullet.id)
        if self._by_core is not None:
            _enter(self._by_core, lesson_core(bullet.text), bullet.id)

    def _forget(self, bullet: Bullet) -> None:
        _leave(self._by_text, equality_key(bullet.text), bullet.id)
        if self._by_core is not None:
            _leave(self._by_core, lesson_core(bullet.text), bullet.id)

    def _units(self, bullet: Bullet) -> int:
        return line_units(bullet, self._counter) if self._counter is not None else 0

    def equal_to(self, text: str, *, but: Sequence[str] = ()) -> Bullet | None:
        """Return the oldest bullet with this text, if any."""
        equal = [bullet_id for bullet_id in self._by_text.get(equality_key(text), ()) if bullet_id not in but]
        return self.bullets[min(equal, key=_age)] if equal else None

    def near_to(self, text: str, threshold: float) -> Bullet | None:
        """Return the bullet that is the same lesson and the most similar, if any."""
        if self._by_core is None:
            self._by_core = {}
            for bullet in self.bullets.values():
                _enter(self._by_core, lesson_core(bullet.text), bullet.id)
        near = [self.bullets[number] for number in self._by_core.get(lesson_core(text), ())]
        near = [bullet for bullet in near if same_lesson(text, bullet.text, threshold)]
        return min(near, key=lambda bullet: (-similarity(text, bullet.text), _age(bullet.id)), default=None)

    def next_id(self, section: str) -> str:
        """Return the id the next new bullet would get; `put` uses it up."""
        return make_id(section, self.high_water + 1)

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
                known = len(self._sections.get(bullet.section, ()))
                members[bullet.section] = members.get(bullet.section, known) + sign
        present = [section for section, known in self._sections.items() if members.get(section, len(known)) > 0]
        present += [section for section, count in members.items() if count > 0 and section not in self._sections]
        headings = sum(counter.units(heading_line(section)) for section in present)
        return counter.total(lines + headings + counter.units("\n") * max(0, len(present) - 1))

    def tokens_of(self, bullet: Bullet) -> int:
        """Return the tokens of a book of this bullet alone. Only for a measured draft."""
        counter = self._counter
        return counter.total(counter.units(heading_line(bullet.section)) + self._units(bullet)) if counter else 0

    def finish(self) -> Playbook:
        """Return the book as it now stands. No more is to be put or dropped after that."""
        new = sorted(
            self._sections.keys() - set(self._old_sections),
            key=lambda section: (_RANK.get(section, len(_RANK)), section),
        )
        sections = {name: self._sections[name] for name in (*self._old_sections, *new) if self._sections[name]}
        ordered = tuple(chain.from_iterable(members.values() for members in sections.values()))
        book = replace(self.book, bullets=ordered, high_water=self.high_water)
        measured = self._counter is not None
        lines = self._lines if measured else None
        book.kept.draft = _Index(self.bullets, sections, self._by_text, self._by_core, self.high_water, lines)
        book.kept.by_id = self.bullets
        book.kept.words_before = self.book.kept.words or self.book.kept.words_before
        book.kept.tokens = self.tokens_after() if measured else None
        return book


_Key = TypeVar("_Key")


def _enter(index: dict[_Key, tuple[str, ...]], key: _Key, bullet_id: str) -> None:
    known = index.get(key)
    index[key] = (bullet_id,) if known is None else (*known, bullet_id)


def _leave(index: dict[_Key, tuple[str, ...]], key: _Key, bullet_id: str) -> None:
    left = tuple(known for known in index[key] if known != bullet_id)
    if left:
        index[key] = left
    else:
        del index[key]


def _read(book: Playbook) -> _Index:
    spelled: dict[str, str] = {}
    sections: dict[str, dict[str, Bullet]] = {}
    bullets: dict[str, Bullet] = {}
    by_text: dict[str, tuple[str, ...]] = {}
    respelled: set[str] = set()
    high_water = book.high_water
    for each in book.bullets:
        section = spelled.setdefault(section_key(each.section), canonical_section(each.section))
        bullet = each if section == each.section else replace(each, section=section)
        if bullet is not each:
            respelled.add(bullet.id)
        bullets[bullet.id] = bullet
        sections.setdefault(section, {})[bullet.id] = bullet
        _enter(by_text, equality_key(bullet.text), bullet.id)
        high_water = max(high_water, number_of(bullet.id))  # a book made by hand need not say its own
    if len(bullets) < len(book.bullets):
        raise UsageError("two bullets of the playbook have the same id", hint="Give each bullet an id of its own.")
    return _Index(bullets, sections, by_text, None, high_water, None, frozenset(respelled))


def _age(bullet_id: str) -> tuple[int, str]:
    return (number_of(bullet_id), bullet_id)


def eviction_key(bullet: Bullet) -> tuple[int, int, int, int, str]:
    """Return the place of a bullet in the queue to leave; the smallest leaves first."""
    if bullet.harmful and bullet.harmful >= bullet.helpful:
        rank, net = 0, bullet.helpful - bullet.harmful
    else:
        rank, net = (1 if bullet.last_used is None and not bullet.helpful else 2), 0
    return (rank, net, bullet.created, number_of(bullet.id), bullet.id)


class Evictor:
    """Keeps a draft within its budget. Without a budget it does nothing."""

    def __init__(self, draft: BookDraft, budget: int | None) -> None:
        self._draft = draft
        self._budget = budget
        self._protected: set[str] = set()
        self._queue: deque[str] | None = None
        self.evicted: list[str] = []

    def protect(self, bullet_id: str) -> None:
        """Let this bullet leave only when no other can."""
        self._protected.add(bullet_id)

    def trim(self) -> None:
        """Evict until the book is within its budget."""
        if self._budget is None or self._draft.tokens_after() <= self._budget:
            return
        queue = sorted(
            self._draft.bullets.values(), key=lambda bullet: (bullet.id in self._protected, eviction_key(bullet))
        )
        for bullet in queue:
            self._draft.drop(bullet.id)
            self.evicted.append(bullet.id)
            if self._draft.tokens_after() <= self._budget:
                return

    def make_room(self, bullet: Bullet) -> bool:
        """Evict the fewest bullets, in the order of the policy, that let `bullet` in.

        When even all do not help, evict none and return False.
        """
        if self._budget is None or self._draft.tokens_of(bullet) > self._budget:
            return False
        waiting = self._waiting()
        gone: list[Bullet] = []
        while not self._fits(bullet, gone):
            more = list(islice(waiting, max(1, len(gone))))
            if not more:
                return False
            gone += more
        fewest = bisect_left(range(len(gone)), True, key=lambda count: self._fits(bullet, gone[:count]))
        for each in gone[:fewest]:
            self._draft.drop(each.id)
            self.evicted.append(each.id)
        return True

    def _fits(self, bullet: Bullet, gone: list[Bullet]) -> bool:
        return self._budget is not None and self._draft.tokens_after(gone, [bullet]) <= self._budget

    def _waiting(self) -> Iterator[Bullet]:
        """Yield the bullets that may leave now, in the order of the policy."""
        if self._queue is None:
            self._queue = deque(bullet.id for bullet in sorted(self._draft.bullets.values(), key=eviction_key))
        while self._queue and self._stays(self._queue[0]):
            self._queue.popleft()
        return (self._draft.bullets[bullet_id] for bullet_id in self._queue if not self._stays(bullet_id))

    def _stays(self, bullet_id: str) -> bool:
        return bullet_id in self._protected or bullet_id not in self._draft.bullets
