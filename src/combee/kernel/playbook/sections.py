"""Sections of a playbook: the seven of the ACE reference, found under any spelling, and any other under its own name.

A name of no known section is kept as it was written (blanks made single); an empty one means the default section.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from combee.kernel.playbook.text import normalize

__all__ = ["DEFAULT_SECTION", "SECTIONS", "canonical_section", "is_blank_section", "section_key", "section_slug"]

SECTIONS: dict[str, str] = {
    "STRATEGIES & INSIGHTS": "sai",
    "FORMULAS & CALCULATIONS": "calc",
    "CODE SNIPPETS & TEMPLATES": "code",
    "COMMON MISTAKES TO AVOID": "err",
    "PROBLEM-SOLVING HEURISTICS": "ph",
    "CONTEXT CLUES & INDICATORS": "ctx",
    "OTHERS": "misc",
}
"""Name to slug, in the order in which new sections are written."""

DEFAULT_SECTION = "OTHERS"

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_BLANK_NAMES = frozenset({"", "null", "none"})


def _key(name: str) -> str:
    """Join the words of a name: case, punctuation, the plural and the word "and" do not count."""
    words = (word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", name)))
    return "".join(_singular(word) for word in words if word != "and") or name.casefold()


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def _known() -> dict[str, str]:
    known = {"other": "OTHERS", "miscellaneou": "OTHERS", "miscellaneous": "OTHERS"}
    for name, slug in SECTIONS.items():
        known[_key(name)] = name
        known[_key(name.replace("&", "and").replace(" ", "").casefold())] = name  # "strategiesandinsights"
        known[slug] = name
    return known


_KNOWN = _known()


def _tidy(name: str) -> str:
    return " ".join(normalize(name).split()).lstrip("#* ").rstrip(":* ")


def is_blank_section(name: object) -> bool:
    """Tell whether a section name says nothing, so that the default section is meant."""
    return not isinstance(name, str) or _tidy(name).casefold() in _BLANK_NAMES


@lru_cache(maxsize=4096)
def canonical_section(name: str | None) -> str:
    """Return the name a section is filed under.

    A known one under any spelling, the default for a blank one, else its own.
    """
    if name is None or name in SECTIONS:
        return name or DEFAULT_SECTION
    tidy = _tidy(name)
    if tidy.casefold() in _BLANK_NAMES:
        return DEFAULT_SECTION
    return _KNOWN.get(_key(tidy), tidy)


@lru_cache(maxsize=4096)
def section_key(name: str) -> str:
    """Return what two spellings of one section share."""
    return _key(canonical_section(name))


@lru_cache(maxsize=4096)
def section_slug(name: str) -> str:
    """Return the prefix of ids in a section.

    The reference's for a known one, else initials (or the first letters) of its name.
    """
    name = canonical_section(name)
    if name in SECTIONS:
        return SECTIONS[name]
    words = [word.casefold() for word in re.findall("[A-Za-z]+", name)]
    slug = words[0][:4] if len(words) == 1 else "".join(word[0] for word in words[:5])
    if not slug or not name.isascii():
        slug = "s" + hashlib.sha256(section_key(name).encode()).hexdigest()[:5].translate(_DIGITS_TO_LETTERS)
    return slug + "x" if slug in SECTIONS.values() else slug


_DIGITS_TO_LETTERS = str.maketrans("0123456789", "ghijklmnop")
