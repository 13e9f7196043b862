"""Texts: their one written form, their words, and what must not be lost from them (numbers, identifiers, negation).

The form: Unicode NFC; every line end becomes a line feed; a surrogate pair becomes its character and a lone surrogate
U+FFFD, which is logged. White space, case and control characters stay. Everything here looks at one text alone, never
at a book, so a judgement does not change when other bullets come or go.
"""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from collections.abc import Hashable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

_LOG = logging.getLogger("combee.kernel.playbook")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")
_LINE_END = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_ODD_ASCII = ("\r", "\v", "\f")
_ODD = (*_ODD_ASCII, "\x85", "\u2028", "\u2029")


def count_lone_surrogates(text: str) -> int:
    """Return how many characters `normalize` would replace because no file can hold them."""
    return 0 if text.isascii() else len(_LONE.findall(text))


def normalize(text: str) -> str:
    """Return `text` in the one form that bullets and operations hold.

    Idempotent; a lone surrogate is logged as a warning.
    """
    if text.isascii():
        return _line_feeds(text)
    if _SURROGATE.search(text):
        lone = count_lone_surrogates(text)
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if lone:
            _LOG.warning("replaced %d lone surrogate(s) by U+FFFD in %s", lone, ascii(text[:40]))
    return unicodedata.normalize("NFC", _line_feeds(text))


def _line_feeds(text: str) -> str:
    # Looking for each character is many times faster than one pattern, and nearly always there is none.
    odd = _ODD_ASCII if text.isascii() else _ODD
    return _LINE_END.sub("\n", text) if any(character in text for character in odd) else text


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a file, whatever ended them.

    The lines are not brought to NFC: `\n` and an accent would become one letter.
    """
    return _line_feeds(text).split("\n")


def equality_key(text: str) -> str:
    """Return what two normalised texts share when they are the same lesson.

    Blanks at line ends and around the text do not count.
    """
    return "\n".join(line.rstrip() for line in text.strip().split("\n")) if "\n" in text else text.strip()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SOFT = _words(
    """
    a also always am an are be been being carefully clearly correctly course did do does ensure i important
    importantly is it its just make must need needs note of our please properly really remember s shall should
    simply sure that the their them these they this those us very we which you your
    """
)
"""Words that may come and go without changing what a lesson tells the agent to do."""

NEGATIONS = _words(
    """
    avoid cannot except exclude excluding hardly ignore instead neither never no nobody none nor not nothing
    nowhere rather stop unless without
    """
)

SYNONYMS = {
    "every": "each",
    "verify": "check",
    "confirm": "check",
    "compute": "calculate",
    "utilize": "use",
    "utilise": "use",
    "whenever": "when",
    "prior": "before",
    "labelled": "labeled",
}
"""Words that say the same to an agent. Opposites, quantities and directions are never in here."""

COMMON = _words(
    """
    about above across act action actually add after again against agent ahead all allow almost along already
    although among amount and another answer any anything appear apply approach around as ask at away back base
    based because become before begin behind below best better between big both bring but by call can case cause
    certain change check choose clear close come common compare complete consider contain context continue could
    count current data day deal decide depend describe detail different direct doing done down during each early
    easy either else end enough entire even ever every exact example exist expect explain fact far few field
    figure file find first follow following for form found from full further general get give given go good great
    group had handle happen hard has have having help hence here high how however if important in include
    including indicate information input inside into item itself keep key kind know large last late later lead
    learn least leave left less lesson let like likely line list little long look lot low made main many match
    matter may mean means mention mentioned method might more most much name near necessary never new next now
    number occur off often old on once one only open or order other otherwise out output over own part particular
    pass perform place point possible possibly present previous problem produce provide put question quite rather
    reach read reason recall refer reference related rely report represent require response rest result return
    right rule run said same say second section see seem select sentence set several show similar simple since
    single small so some something specific specify start state step still such take task tell text than their
    then there therefore thing think through thus time to together too total toward true try turn two type under
    until up upon use used useful user using usually value various want was watch way well were what when where
    whether while who whole why will with within word work would write wrong yes yet
    """
)
"""Words too common to tell one lesson from another."""


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
    if "'" in text or "’" in text or "annot" in text.casefold():
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


@lru_cache(maxsize=65536)
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
    carries meaning. Case, punctuation, the plural, articles and fillers, and a few synonyms do not count.
    """
    tokens = list(_tokens(text))
    formula = any(kind == "symbol" and value in _OPERATORS for kind, value in tokens)
    skipped = {"soft"} if formula else {"soft", "bracket"}
    core = tuple([f"{kind[0]}:{value}" for kind, value in tokens if kind not in skipped])
    return core or (equality_key(text),)


@lru_cache(maxsize=65536)
def distinct_terms(text: str) -> frozenset[str]:
    """Return the terms a text would not be the same without.

    They are its numbers, identifiers, code spans, "not", and words that are not common.

    Numbers come without thousands separators, words in lower case and singular, identifiers and code as written; any
    negation is "not".
    """
    terms: set[str] = set()
    for kind, value in _tokens(text):
        if kind == "negation":
            terms.add("not")
        elif kind in ("number", "identifier", "code") or (
            kind == "word"
            and (len(value) > 2 or not value.isascii())
            and value not in COMMON
            and value not in _ABBREVIATIONS
        ):
            terms.add(value)
    return frozenset(terms)


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


@lru_cache(maxsize=65536)
def split_terms(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the distinct terms of a text that must be kept letter by letter, and those that are plain words."""
    terms = distinct_terms(text) - {"not"}
    words = frozenset(term for term in terms if term.isalpha() and term == term.lower())
    return terms - words, words


def says(text: str, lesson: str, share: float = 0.5) -> bool:
    """Return whether `text` says `lesson`: all of its numbers, names and code, and this share of its plain words."""
    if lesson == text:  # the usual case, and quick
        return True
    hard, words = split_terms(lesson)
    if not hard and not words:
        return normalize(lesson).casefold() in normalize(text).casefold()
    if not hard <= split_terms(text)[0]:
        return False
    return len(words & split_terms(text)[1]) >= math.ceil(share * len(words) - 1e-9)
