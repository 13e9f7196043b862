"""What two texts share: words near the marked spot, their side, the entity and its kind. Weights are whole sixteenths.

Whole numbers add up the same in any order, so an index that grew bullet by bullet equals one built at once, bit for
bit.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from itertools import pairwise

Features = dict[str, int]
"""Feature to weight. `w` a word, `<` and `>` a word near the spot and before or after it, `-2 -1 +1 +2` a direct
neighbour, `k` the kind of the entity, `v` the entity itself."""

UNIT = 16
_BESIDE = UNIT // 2
_FAR = UNIT // 2
_REACH = 12
_DECAY = 8.0
_NEAR = [round(UNIT * math.exp(-distance / _DECAY)) for distance in range(_REACH + 1)]

CJK = "\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
"""Letters of Chinese, Japanese and Korean, for a character class; Chinese and Japanese words have no blanks between."""
_TOKEN = re.compile(rf"\d[\d,]*(?:\.\d+)?|[{CJK}]|[^\W\d_{CJK}]+(?:\.[^\W\d_{CJK}]+)+|[^\W\d_{CJK}]+|[^\s\w]|_")
_RUN = re.compile(f"[{CJK}]+")
_NUMBER = re.compile(r"\d[\d,]*(?:\.(\d+))?$")
_NAME_WORD = re.compile(r"[^\W\d_a-z]+(?![a-z])|[^\W\d_a-z]?[a-z]+|[^\W\d_]+")
_SUFFIXES = ("ations", "ation", "ings", "ing", "ies", "ied", "ized", "ed", "es", "s", "ly")
_STOP_WORDS = (
    "the of a an and to in for on at as by is are was were be been our we us its it his her their company companies s "
    "t with from or that which this these such has have had no not all"
)
_MONTH_NAMES = "january february march april may june july august september october november december"
_NUMBER_NAMES = "zero one two three four five six seven eight nine ten eleven twelve fifteen eighteen twenty thirty"
_STOP = frozenset(_STOP_WORDS.split())
_MONTHS = frozenset(_MONTH_NAMES.split())
_SMALL = frozenset(_NUMBER_NAMES.split())
_TIME = frozenset({"year", "years", "month", "months", "day", "days"})
_SHARES = frozenset({"shares", "share", "units", "options", "rsus", "psus", "awards", "warrants"})
_RATE = frozenset({"%", "percent", "percentage", "basis", "bps"})
_CURRENCY = frozenset("$€£¥")
_SCALE = frozenset({"million", "billion", "thousand"})


@lru_cache(maxsize=32768)
def _word(token: str) -> tuple[str, str, str] | None:
    """Return the features of a word without common endings: anywhere, before, after. None for no telling word."""
    if token in _STOP or not token[0].isalpha():
        return None
    base = token
    if len(token) > 4:
        endings = (suffix for suffix in _SUFFIXES if token.endswith(suffix) and len(token) - len(suffix) >= 3)
        base = token[: len(token) - len(next(endings, ""))]
    return "w" + base, "<" + base, ">" + base


@lru_cache(maxsize=4096)
def name_words(name: str) -> tuple[str, ...]:
    """Return the word features of a label's name, each once: `DebtFaceAmount` and `debt face-amount` split alike."""
    names = (_word(word.lower()) for word in _NAME_WORD.findall(_RUN.sub(" ", name)))
    return tuple(dict.fromkeys((*(names[0] for names in names if names), *_pairs(name))))


def _pairs(text: str) -> list[str]:
    """Return the features of what is written without blanks: its pairs of letters, or a letter that stands alone."""
    runs = _RUN.findall(text)
    return ["w" + pair for run in runs for pair in ([run] if len(run) == 1 else map("".join, pairwise(run)))]


@lru_cache(maxsize=32768)
def _shape(token: str) -> str:
    """Return a number as its count of digits and decimals (`1,250.00` is 4.2), and any other token as it is."""
    match = _NUMBER.match(token)
    if match is None:
        return token
    decimals = len(match[1] or "")
    return f"{len(token.replace(',', '')) - decimals - (decimals > 0)}.{decimals}"


def entity_kind(words: list[str], at: int) -> str:
    """Say in English what the token at place `at` of a lower-case sentence is, from its form and its neighbours."""
    entity = words[at]
    after = words[at + 1 : at + 4]
    first = next((word for word in after if word != ")"), "")
    before = next((word for word in reversed(words[max(0, at - 2) : at]) if word != "("), "")
    number = _NUMBER.match(entity)
    if entity in _MONTHS or entity == ",":
        return "a date"
    if entity in _TIME or first in _TIME or (first == "-" and not _TIME.isdisjoint(after)):
        return "a length of time"
    if first in _RATE or after[:2] == ["-", "percent"]:
        return "a percentage"
    if before in _CURRENCY:
        exact = number is not None and len(number[1] or "") >= 2
        return "a price" if first not in _SCALE and ("per" in after or exact) else "an amount of money"
    if not _SHARES.isdisjoint(after):
        return "a number of shares"
    if not _TIME.isdisjoint(after):
        return "a length of time"
    if first in _SCALE and first != "thousand":
        return "an amount of money"
    if entity in _SMALL or (number and len(entity) <= 2):
        return "a small number"
    return "a number" if number else "a word"


def features(text: str, start: int = 0, end: int = 0, kind: str = "") -> tuple[Features, str]:
    """Return the features of `text` seen from the characters `start:end`, and the kind of the entity there.

    Without a spot (`start == end`) every word counts alike. A kind that is given is taken instead of the one seen.
    """
    tokens = [(match.start(), match.group().lower()) for match in _TOKEN.finditer(text)]
    words = [word for _, word in tokens]
    if start == end or not words:
        plain = {names[0]: UNIT // 2 if _RUN.match(names[0][1:]) else UNIT for names in map(_word, words) if names}
        plain |= dict.fromkeys(_pairs(text), UNIT)
        return plain | ({"k" + kind: UNIT} if kind else {}), kind
    at = next((place for place, (begin, word) in enumerate(tokens) if begin + len(word) > start), len(words) - 1)
    kind = kind or entity_kind(words, at)
    out: Features = {"k" + kind: UNIT, "v" + words[at]: _BESIDE}
    for place, side in ((at - 2, "-2"), (at - 1, "-1"), (at + 1, "+1"), (at + 2, "+2")):
        if 0 <= place < len(words):
            out[side + _shape(words[place])] = _BESIDE
    _add_words(out, words, at)
    return out, kind


def _add_words(out: Features, words: list[str], at: int) -> None:
    """Add every telling word: the nearer the heavier, and once more by its side where it is near."""
    for place, word in enumerate(words):
        names = _word(word)
        if names is None or place == at:
            continue
        anywhere, before, after = names
        distance = place - at if place > at else at - place
        if distance > _REACH:
            out.setdefault(anywhere, _FAR)
            continue
        near = _NEAR[distance]
        if out.get(anywhere, 0) < near:
            out[anywhere] = max(near, _FAR)
        side = before if place < at else after
        if out.get(side, 0) < near:
            out[side] = near
