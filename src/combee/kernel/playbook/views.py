"""A part of the book for an agent whose window is smaller.

The bullets nearest to its task, whole, in the order of the book.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from math import log

from combee.errors import UsageError
from combee.kernel.playbook.counting import token_counter
from combee.kernel.playbook.model import Bullet, Playbook
from combee.kernel.playbook.terms import word_list
from combee.kernel.playbook.textform import bullet_line, heading_line, tokens

__all__ = ["view"]

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _words(text: str) -> frozenset[str]:
    return frozenset(word_list(_CAMEL.sub(" ", text)))


_words_of_a_bullet = lru_cache(maxsize=16_384)(_words)  # many agents ask the same book; their questions differ


def view(book: Playbook, query: str, budget: int) -> Playbook:
    """Return the part of the book that helps most with `query` in at most `budget` tokens (by the book's counter).

    Bullets are taken by how many of their words the query holds, rare ones counting more, then by helpful − harmful,
    then by their place.
    The whole book is returned when it fits. No text is cut; high-water mark and counter stay.

    Raises:
        UsageError: the budget is negative, or the book's counter cannot be used.
    """
    if budget < 0:
        raise UsageError(f"the budget of a view is {budget} tokens", hint="Give a number of at least 0.")
    if tokens(book) <= budget:
        return book
    counter = token_counter(book.counter)
    chosen: set[str] = set()
    sections: set[str] = set()
    spent = 0
    for bullet in _by_relevance(book, query):
        cost = counter.units(bullet_line(bullet))
        if bullet.section not in sections:
            cost += counter.units(heading_line(bullet.section)) + (counter.units("\n") if sections else 0)
        if counter.total(spent + cost) <= budget:
            spent += cost
            chosen.add(bullet.id)
            sections.add(bullet.section)
    # A section that is split in the book is written as one, so that its heading is paid once, as counted here.
    rank = {section: number for number, section in enumerate(dict.fromkeys(bullet.section for bullet in book.bullets))}
    kept = sorted((bullet for bullet in book.bullets if bullet.id in chosen), key=lambda bullet: rank[bullet.section])
    return replace(book, bullets=tuple(kept))


def _by_relevance(book: Playbook, query: str) -> list[Bullet]:
    texts = [_words_of_a_bullet(bullet.text) for bullet in book.bullets]
    frequency = Counter(word for text in texts for word in text)
    asked = {word: log(1 + len(texts) / frequency[word]) for word in _words(query) if frequency[word]}
    scores = [sum(asked[word] for word in text if word in asked) / (1 + len(text)) ** 0.5 for text in texts]
    order = sorted(
        range(len(texts)), key=lambda n: (-round(scores[n], 9), book.bullets[n].harmful - book.bullets[n].helpful, n)
    )
    return [book.bullets[number] for number in order]
