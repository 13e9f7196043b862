"""The part of a book that helps most with a question, in as many tokens as an agent has room for.

Where words stand is looked up, not searched for: the first question to a book reads all of it, later ones, and those to
later versions, only what is new.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop
from math import log

from combee.errors import UsageError
from combee.kernel.playbook.counting import token_counter
from combee.kernel.playbook.model import Bullet, Playbook
from combee.kernel.playbook.text import word_list
from combee.kernel.playbook.textform import heading_line, line_units, tokens

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _words(text: str) -> frozenset[str]:
    return frozenset(word_list(_CAMEL.sub(" ", text)))


@dataclass(frozen=True, slots=True)
class _Texts:
    """The words of all texts that a history of versions had; a text has one number in all of them."""

    number: dict[str, int] = field(default_factory=dict)
    holding: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The texts that hold a word."""
    lengths: list[int] = field(default_factory=list)
    """How many different words a text has."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, text: str) -> int:
        """Return the number of a text."""
        words = _words(text)
        number = self.number[text] = len(self.lengths)
        for word in words:
            self.holding[word].append(number)
        self.lengths.append(len(words))
        return number


@dataclass(frozen=True, slots=True)
class Words:
    """Where the words of one version stand."""

    texts: _Texts
    places: dict[int, int]
    """The place in the book of each text that it has."""
    twins: dict[int, list[int]]
    """Further places of a text that stands in the book more than once."""
    support: list[int]
    """Harmful − helpful at each place."""
    others: list[int]
    """All places, the best supported first."""
    costs: list[int]
    """Units of each line."""

    @classmethod
    def of(cls, book: Playbook) -> Words:
        """Return those of a book, with the help of those of the version before it."""
        before = book.kept.words_before
        texts = before.texts if isinstance(before, Words) else _Texts()
        if len(texts.lengths) > 2 * len(book.bullets) + 1_000:
            texts = _Texts()  # most of what it knows is gone
        with texts.lock:
            known = texts.number
            numbers = [known[b.text] if b.text in known else texts.take(b.text) for b in book.bullets]
        count = len(numbers)
        places = dict(zip(reversed(numbers), range(count - 1, -1, -1), strict=True))
        twins: dict[int, list[int]] = {}
        if len(places) < count:
            for place, number in enumerate(numbers):
                if places[number] != place:
                    twins.setdefault(number, []).append(place)
        support = [bullet.harmful - bullet.helpful for bullet in book.bullets]
        counter = token_counter(book.counter)
        costs = [line_units(bullet, counter) for bullet in book.bullets]
        return cls(texts, places, twins, support, sorted(range(count), key=support.__getitem__), costs)

    def scores(self, query: str) -> dict[int, float]:
        """Return the places that share a word with the query, with their scores."""
        sums: defaultdict[int, float] = defaultdict(float)
        words = sorted(_words(query))
        with self.texts.lock:  # another thread may be taking in the texts of the next version
            count, all_there = len(self.support), len(self.places) == len(self.texts.lengths)
            for word in words:
                found = self.texts.holding.get(word, [])
                if not all_there:
                    found = [number for number in found if number in self.places]
                if not found:
                    continue
                more = sum(len(self.twins[number]) for number in found if number in self.twins) if self.twins else 0
                weight = log(1 + count / (len(found) + more))
                for number in found:
                    sums[number] += weight
        places, lengths = self.places, self.texts.lengths
        scored = {places[number]: round(total / (1 + lengths[number]) ** 0.5, 9) for number, total in sums.items()}
        for number in self.twins.keys() & sums.keys():
            scored |= dict.fromkeys(self.twins[number], scored[places[number]])
        return scored

    def best_first(self, query: str) -> Iterator[int]:
        """Yield all places, those first that help most with the query."""
        scores, support = self.scores(query), self.support
        heap = [(-score, support[place], place) for place, score in scores.items()]
        heapify(heap)
        while heap:
            yield heappop(heap)[2]
        yield from (place for place in self.others if place not in scores)


def _words_of(book: Playbook) -> Words:
    words = book.kept.words
    if not isinstance(words, Words):
        words = book.kept.words = Words.of(book)
    return words


def view(book: Playbook, query: str, budget: int) -> Playbook:
    """Return the part of the book that helps most with `query` in at most `budget` tokens (by the book's counter).

    Bullets are taken by how many of their words the query holds, rare ones counting more, then by helpful − harmful,
    then by their place. The whole book is returned when it fits. No text is cut; high-water mark and counter stay.

    Raises:
        UsageError: the budget is negative, or the book's counter cannot be used.
    """
    if budget < 0:
        raise UsageError(f"the budget of a view is {budget} tokens", hint="Give a number of at least 0.")
    if tokens(book) <= budget:
        return book
    counter = token_counter(book.counter)
    words = _words_of(book)
    costs, total, least = words.costs, counter.total, min(words.costs)
    chosen: list[int] = []
    sections: set[str] = set()
    spent = 0
    for place in words.best_first(query):
        if total(spent + costs[place]) > budget:
            if total(spent + least) > budget:
                break
            continue
        cost, section = costs[place], book.bullets[place].section
        if section not in sections:
            cost += counter.units(heading_line(section)) + (counter.units("\n") if sections else 0)
        if total(spent + cost) <= budget:
            spent += cost
            chosen.append(place)
            sections.add(section)
    # A section that is split in the book is written as one, so that its heading is paid once, as counted here.
    rank = {section: number for number, section in enumerate(dict.fromkeys([b.section for b in book.bullets]))}
    kept = sorted([book.bullets[place] for place in sorted(chosen)], key=lambda bullet: rank[bullet.section])
    return replace(book, bullets=tuple(kept))


def by_relevance(book: Playbook, query: str) -> list[Bullet]:
    """Return all bullets, those first that help most with `query`, as `view` takes them."""
    return [book.bullets[place] for place in _words_of(book).best_first(query)]
