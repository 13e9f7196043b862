"""Which bullets an export takes when not all fit: the most valuable ones, whole, in the order of the book."""

from __future__ import annotations

from dataclasses import replace

from combee.errors import UsageError
from combee.kernel.playbook import Bullet, Playbook, tokens

__all__ = ["choose", "value"]


def value(bullet: Bullet) -> int:
    """Return what a bullet is worth: helpful - harmful votes, plus the reflections that support it."""
    return bullet.helpful - bullet.harmful + len(bullet.sources)


def choose(book: Playbook, max_tokens: int | None) -> Playbook:
    """Return the most valuable bullets that fit into `max_tokens` (by the book's counter, headings included).

    Equal ones are taken in the order of the book; no text is cut.

    Raises:
        UsageError: the limit is below 1, or not even one bullet fits.
    """
    if max_tokens is None or tokens(book) <= max_tokens:
        return book
    if max_tokens < 1:
        raise UsageError(f"max_tokens is {max_tokens}", hint="Give 1 or more.")
    order = sorted(range(len(book)), key=lambda place: (-value(book.bullets[place]), place))
    taken: set[int] = set()
    size = 0
    for place in order:
        cost = tokens(replace(book, bullets=(book.bullets[place],)))  # with its heading: never less than it adds
        if size + cost <= max_tokens or tokens(_part(book, taken | {place})) <= max_tokens:
            taken.add(place)
            size += cost
    if not taken:
        raise UsageError(f"Not one bullet fits into {max_tokens} tokens.", hint="Give more tokens.")
    return _part(book, taken)


def _part(book: Playbook, places: set[int]) -> Playbook:
    return replace(book, bullets=tuple(book.bullets[place] for place in sorted(places)))
