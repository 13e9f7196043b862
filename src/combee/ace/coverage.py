"""Whether a lesson is really in a text: by its terms, not by what a model claims.

Numbers, names, code and formulas must all be there as written; of the plain words a share must, since a curator may
put a lesson in other words.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache

from combee.kernel.playbook import Playbook, distinct_terms, normalize

__all__ = ["CITED_SHARE", "FOUND_SHARE", "Known", "hard_terms", "says"]

CITED_SHARE = 0.5
"""Share of a lesson's words that must stand in a text that cites its reflection."""
FOUND_SHARE = 0.8
"""Share of the words where nothing cites it: in an old entry, or for an operation that names no source."""


@lru_cache(maxsize=65536)
def _split(text: str) -> tuple[frozenset[str], frozenset[str]]:
    terms = distinct_terms(text) - {"not"}
    words = frozenset(term for term in terms if term.isalpha() and term == term.lower())
    return terms - words, words


def hard_terms(text: str) -> frozenset[str]:
    """Return the terms that must be kept letter by letter."""
    return _split(text)[0]


def says(text: str, lesson: str, share: float) -> bool:
    """Return whether `text` says `lesson`: all of its hard terms, and this share of its words."""
    if lesson == text:  # the usual case, and quick
        return True
    hard, words = _split(lesson)
    if not hard and not words:
        return normalize(lesson).casefold() in normalize(text).casefold()
    if not hard <= _split(text)[0]:
        return False
    return len(words & _split(text)[1]) >= math.ceil(share * len(words) - 1e-9)


class Known:
    """What a playbook says already, found by terms: quick for many lessons and many entries."""

    def __init__(self, book: Playbook) -> None:
        self.book = book
        self._texts = [bullet.text for bullet in book]
        self._holding: Mapping[str, list[int]] = defaultdict(list)
        for place, text in enumerate(self._texts):
            for term in distinct_terms(text):
                self._holding[term].append(place)

    @property
    def holds_any(self) -> bool:
        """Whether there is an entry at all."""
        return bool(self._texts)

    def says(self, lesson: str) -> bool:
        """Return whether an entry says the lesson."""
        if not self._texts:
            return False
        hard, words = _split(lesson)
        if not hard and not words:
            return False
        return any(says(self._texts[place], lesson, FOUND_SHARE) for place in self._candidates(hard, words))

    def _candidates(self, hard: frozenset[str], words: frozenset[str]) -> Iterable[int]:
        """Return the entries that hold all hard terms, or where there are none enough of the words."""
        if hard:
            rarest = min(hard, key=lambda term: (len(self._holding.get(term, ())), term))
            return self._holding.get(rarest, ())
        counts = Counter(place for word in words for place in self._holding.get(word, ()))
        least = math.ceil(FOUND_SHARE * len(words) - 1e-9)
        return [place for place, count in counts.items() if count >= least]
