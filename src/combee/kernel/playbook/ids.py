"""Bullet ids: `slug-00001`, numbered over the whole book, so that no number is ever given twice.

Models cite ids in many ways; `find_ids` reads them out of prose, lists and brackets and says which ones the book
holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from combee.kernel.playbook.model import Playbook
from combee.kernel.playbook.sections import section_slug

__all__ = ["Cited", "IdLookup", "find_ids", "high_water", "is_writable_id", "make_id", "number_of"]

_NUMBERED = re.compile(r"(.*)[-\u2010\u2011\u2012\u2013\u2212]([0-9]{1,18})", re.DOTALL)
_CITED = re.compile(
    r"(?<![\w-])[^\W\d_]\w*(?:[-\u2010\u2011\u2012\u2013\u2212]\w+)*?[-\u2010\u2011\u2012\u2013\u2212][0-9]{1,18}(?!\w)"
)
_BRACKETED = re.compile(r"\[\s*([^\[\]\s,;]+)\s*\]")
_WRITABLE = re.compile(r"[^\[\]\s]+")


@dataclass(frozen=True, slots=True)
class Cited:
    """Ids found in a text, each once, in the order of their first mention.

    `unknown` ones look like ids but are not in the book.
    """

    known: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def make_id(section: str, number: int) -> str:
    """Return the id of bullet `number` in `section`."""
    return f"{section_slug(section)}-{number:05d}"


def number_of(bullet_id: str) -> int:
    """Return the number an id ends with, or 0."""
    _, _, tail = bullet_id.rpartition("-")
    if tail.isascii() and tail.isdigit() and len(tail) <= 18 and tail != bullet_id:
        return int(tail)
    match = _NUMBERED.fullmatch(bullet_id)
    return int(match[2]) if match else 0


def high_water(book: Playbook) -> int:
    """Return the largest number an id of this book ever had; a book made by hand need not say it."""
    return max(book.high_water, max((number_of(bullet.id) for bullet in book.bullets), default=0))


def is_writable_id(bullet_id: str) -> bool:
    """Tell whether an id can stand in brackets: no blanks, no brackets, not empty."""
    return _WRITABLE.fullmatch(bullet_id) is not None


class IdLookup:
    """Finds the id that was meant: case, lost leading zeros, brackets and odd dashes do not matter."""

    def __init__(self, known: Iterable[str]) -> None:
        self._exact = set(known)
        self._loose: dict[tuple[str, int], str] = {}
        for bullet_id in sorted(self._exact, reverse=True):  # of two that look alike the smaller one is meant
            self._loose[self._key(bullet_id)] = bullet_id

    @staticmethod
    def _key(bullet_id: str) -> tuple[str, int]:
        match = _NUMBERED.fullmatch(bullet_id)
        return (match[1].casefold(), int(match[2])) if match else (bullet_id.casefold(), -1)

    def find(self, mention: str) -> str | None:
        """Return the known id that `mention` means, or None."""
        if mention in self._exact:
            return mention
        bare = mention.strip().strip("[]\"'`").strip()
        return bare if bare in self._exact else self._loose.get(self._key(bare))


def find_ids(text: str | Iterable[object], book: Playbook | Iterable[str]) -> Cited:
    """Find the bullets a text (or a list of mentions) cites.

    A word counts as an unknown id when it ends in five or more digits, or stands in brackets or in a list of
    mentions; so `GPT-4` is no id.
    """
    lookup = IdLookup(bullet.id for bullet in book.bullets) if isinstance(book, Playbook) else IdLookup(book)
    mentions = [(text, False)] if isinstance(text, str) else [(str(mention), True) for mention in text]
    known: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for mention, listed in mentions:
        if listed and (found := lookup.find(mention)):
            known[found] = None
            continue
        bracketed = set(_BRACKETED.findall(mention))
        named = [(match.start(), match[0]) for match in _CITED.finditer(mention)]
        named += [(match.start(1), match[1]) for match in _BRACKETED.finditer(mention)]
        any_found = False
        for _, word in sorted(set(named)):
            if found := lookup.find(word):
                known[found] = None
            elif _CITED.fullmatch(word) and (
                listed or word in bracketed or len(word) - len(word.rstrip("0123456789")) >= 5
            ):
                unknown[word] = None
            else:
                continue
            any_found = True
        if listed and not any_found and mention.strip():
            unknown[mention.strip()] = None
    return Cited(tuple(known), tuple(unknown))
