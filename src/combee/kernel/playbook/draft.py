"""A book while a delta is applied: bullets by id, equal texts, the exact size of its text, and who leaves a full book.

Eviction takes bullets with harmful ≥ helpful first (the most harmful of them first), then those never used, then the
oldest. Bullets that this step added, confirmed or rewrote leave last. Texts are never cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from combee.errors import UsageError
from combee.kernel.playbook.counting import token_counter
from combee.kernel.playbook.duplicates import same_lesson
from combee.kernel.playbook.model import Bullet, Playbook
from combee.kernel.playbook.sections import SECTIONS, canonical_section, make_id, number_of, section_key
from combee.kernel.playbook.text import equality_key, lesson_core, similarity
from combee.kernel.playbook.textform import bullet_line, heading_line

_RANK = {name: number for number, name in enumerate(SECTIONS)}


class BookDraft:
    """A book under change.

    Each section is kept together; new sections follow the old ones in the order of the reference.
    """

    def __init__(self, book: Playbook, *, measured: bool) -> None:
        self.book = book
        self.high_water = book.high_water
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
            self.high_water = max(self.high_water, number_of(bullet.id))  # a book made by hand need not say its own
            self._members[bullet.section] += 1
            self._know(bullet)
        elif before.text != bullet.text:
            self._forget(before)
            self._know(bullet)
        self._lines += self._units(bullet) - (self._units(before) if before is not None else 0)
        self.bullets[bullet.id] = bullet

    def drop(self, bullet_id: str) -> None:
        """Take a bullet out."""
        bullet = self.bullets.pop(bullet_id)
        self._forget(bullet)
        self._members[bullet.section] -= 1
        self._lines -= self._units(bullet)

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
        equal = [bullet_id for bullet_id in self._by_text.get(equality_key(text), ()) if bullet_id not in but]
        return self.bullets[min(equal, key=_age)] if equal else None

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
                members[bullet.section] = members.get(bullet.section, self._members[bullet.section]) + sign
        present = [section for section, count in self._members.items() if members.get(section, count) > 0]
        present += [section for section, count in members.items() if count > 0 and section not in self._members]
        headings = sum(counter.units(heading_line(section)) for section in present)
        return counter.total(lines + headings + counter.units("\n") * max(0, len(present) - 1))

    def tokens_of(self, bullet: Bullet) -> int:
        """Return the tokens of a book of this bullet alone. Only for a measured draft."""
        counter = self._counter
        return counter.total(counter.units(heading_line(bullet.section)) + self._units(bullet)) if counter else 0

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
