"""Words of a text, and what must not be lost from it: numbers, identifiers, code, negation, rare words.

Everything here looks at one text alone, never at a book, so a judgement does not change when other bullets come or
go.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from combee.kernel.playbook.text import equality_key
from combee.kernel.playbook.words import COMMON, NEGATIONS, SOFT, SYNONYMS

__all__ = ["distinct_terms", "lesson_core", "shingles", "similarity", "word_list"]

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(
    r"(?P<code>```.*?```|`[^`\n]+`)"
    r"|(?P<quote>\"[^\"\n]{1,80}\"|“[^”\n]{1,80}”)"
    rf"|(?P<char>[{_CJK}])"
    rf"|(?P<name>[^\W\d{_CJK}][^\W{_CJK}]*(?:(?:\.|::|->|/|-)[^\W_{_CJK}][^\W{_CJK}]*)*(?:\(\))?)"
    rf"|(?P<number>(?:(?<!\w)[+\-−])?[$€£¥]?\d(?:[\d,_]*\d)?(?:\.\d+)?(?:[eE][+\-]?\d+)?[%‰°]?[^\W{_CJK}]*)"
    r"|(?P<symbol>[^\w\s.,;:!?'\"()\[\]{}&#@…–—`’‘“”•-]|(?<=\s)-(?=\s))"
    r"|(?P<bracket>[()\[\]{}])",
    re.DOTALL,
)
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_CONTRACTIONS = (
    (re.compile(r"\bcan(?:not|['’]t)\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon['’]t\b", re.IGNORECASE), "will not"),
    (re.compile(r"(?<=[a-z])n['’]t\b", re.IGNORECASE), " not"),
)
_LIKE_CODE = re.compile(r"[_:.>(]|\d|[a-z][A-Z]|[A-Z]{2}")
_OPERATORS = frozenset("+*/^=<>÷×")
_ABBREVIATIONS = frozenset({"e.g", "i.e", "etc", "vs"})
_KEPT_PLURALS = frozenset({"news", "goods", "means", "earnings", "series", "always", "less", "across", "besides"})


class _Token(NamedTuple):
    kind: str
    """One of code, number, identifier, negation, word, soft, symbol, bracket."""

    value: str


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")) or word in _KEPT_PLURALS:
        return word
    return word[:-3] + "y" if word.endswith("ies") and len(word) > 4 else word[:-1]


def _number(text: str) -> str:
    digits = text.replace(",", "").replace("_", "").replace("−", "-")
    return digits.casefold()


def _tokens(text: str) -> Iterator[_Token]:
    for pattern, plain in _CONTRACTIONS:
        text = pattern.sub(plain, text)
    for match in _TOKEN.finditer(text.replace("**", "")):
        kind, value = str(match.lastgroup), match[0]
        if kind == "name":
            yield _named(value)
        elif kind == "number":
            yield _Token("number", _number(value))
        elif kind in ("code", "quote"):
            yield _Token("code", value.strip('`"“”').strip())
        else:
            yield _Token("word" if kind == "char" else kind, value)


def _named(value: str) -> _Token:
    lower = value.casefold()
    if lower in NEGATIONS:
        return _Token("negation", lower)
    if lower in SOFT:
        return _Token("soft", lower)
    if len(value) == 1:
        return _Token("word", value)
    if lower not in COMMON and lower not in _ABBREVIATIONS and _LIKE_CODE.search(value):
        return _Token("identifier", value)
    word = _singular(lower)
    return _Token("word", SYNONYMS.get(word, word))


@lru_cache(maxsize=65536)
def lesson_core(text: str) -> tuple[str, ...]:
    """Return what two texts must share, in order, to be the same lesson.

    Numbers, identifiers, code and quotations count letter by letter; so do negations, operators and every word that
    carries meaning.
    Case, punctuation, the plural, articles and fillers, and a few synonyms do not count.
    """
    tokens = list(_tokens(text))
    formula = any(token.kind == "symbol" and token.value in _OPERATORS for token in tokens)
    skipped = {"soft"} if formula else {"soft", "bracket"}
    core = tuple(f"{token.kind[0]}:{token.value}" for token in tokens if token.kind not in skipped)
    return core or (equality_key(text),)


@lru_cache(maxsize=65536)
def distinct_terms(text: str) -> frozenset[str]:
    """Return the terms a text would not be the same without.

    They are its numbers, identifiers, code spans, "not", and words that are not common.

    Numbers come without thousands separators, words in lower case and singular, identifiers and code as written; any
    negation is "not".
    """
    found: set[str] = set()
    for kind, value in _tokens(text):
        if kind == "negation":
            found.add("not")
        elif kind in ("number", "identifier", "code") or (
            kind == "word"
            and (len(value) > 2 or not value.isascii())
            and value not in COMMON
            and value not in _ABBREVIATIONS
        ):
            found.add(value)
    return frozenset(found)


def word_list(text: str) -> list[str]:
    """Return the words of a text in lower case, in order. Each CJK character is a word."""
    return _WORD.findall(text.casefold())


def shingles(text: str) -> frozenset[Hashable]:
    """Return the words of a text and its pairs of neighbouring words, in lower case.

    Of a text without words, the text.
    """
    words = word_list(text)
    return frozenset(words).union(pairwise(words)) if words else frozenset({equality_key(text)})


def similarity(one: str, other: str) -> float:
    """Return the Jaccard similarity of two texts' shingles.

    It is 1 when they have the same words in the same order, and 0 when they share none.
    """
    a, b = shingles(one), shingles(other)
    return len(a & b) / len(a | b)
