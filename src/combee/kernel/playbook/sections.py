"""Section names and the ids made of them.

Sections: the seven of the ACE reference, found under any spelling, and any other under its own name as written (blanks
made single); an empty name means the default section. Ids: `slug-00001`, numbered over the whole book, so that no
number is ever given twice.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from combee.kernel.playbook.text import normalize

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
NUMBERED = re.compile(r"(.*)[-\u2010\u2011\u2012\u2013\u2212]([0-9]{1,18})", re.DOTALL)
_WRITABLE = re.compile(r"[^\[\]\s]+")
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


def make_id(section: str, number: int) -> str:
    """Return the id of bullet `number` in `section`."""
    return f"{section_slug(section)}-{number:05d}"


def number_of(bullet_id: str) -> int:
    """Return the number an id ends with, or 0."""
    _, _, tail = bullet_id.rpartition("-")
    if tail.isascii() and tail.isdigit() and len(tail) <= 18 and tail != bullet_id:
        return int(tail)
    match = NUMBERED.fullmatch(bullet_id)
    return int(match[2]) if match else 0


def is_writable_id(bullet_id: str) -> bool:
    """Tell whether an id can stand in brackets: no blanks, no brackets, not empty."""
    return _WRITABLE.fullmatch(bullet_id) is not None
