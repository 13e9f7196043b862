"""Which encoding a text that is not UTF-8 is likely to be in, to suggest it; nothing is ever decoded by this guess.

The Chinese, Japanese and Korean encodings use the same bytes for different letters, so that most texts can be decoded
in several of them. They differ in where their frequent letters lie: the first bytes of a text's letters tell.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter

_LEADS = (0x81, 0xA1, 0xA4, 0xA6, 0xB0, 0xC9, 0xD8)
"""Where ranges of first bytes begin; those of punctuation (0xA1 to 0xA3) are not counted."""
_SHARES = {
    "gbk": (0.01, 1, 0.01, 0.01, 0.57, 0.36, 0.04),  # common letters lie between 0xB0 and 0xD7, by sound
    "big5": (0.01, 1, 0.28, 0.44, 0.25, 0.01, 0.01),  # by strokes from 0xA4 on
    "euc_kr": (0.01, 1, 0.01, 0.01, 0.94, 0.02, 0.01),  # syllables between 0xB0 and 0xC8
    "euc_jp": (0.01, 1, 0.55, 0.01, 0.28, 0.13, 0.02),  # kana at 0xA4 and 0xA5
    "shift_jis": (0.93, 1, 0.01, 0.01, 0.01, 0.01, 0.03),  # kana at 0x82 and 0x83, letters up to 0x9F
}
"""The shares of these ranges in everyday text."""
_LEAST = -1.6  # mean log-likelihood of a letter: everyday text has -0.3 to -1.2, other bytes -2 and less
_SINGLE = (
    ("cp1251", re.compile(r"(?<=[Ѐ-ӿ])[а-яё]|[а-яё](?=[Ѐ-ӿ])"), 0.75),
    ("cp1252", re.compile(r"(?<![^\x00-\x7f])[ß-öø-þÄÖÜÉœ’“”„–—€«»ñÑ](?![^\x00-\x7f])"), 0.8),
)
"""Encodings of one byte a letter, what stands in a text, and which share of the letters beyond ASCII it is at least."""
_LOOKED_AT = 200_000


def likely_encoding(data: bytes) -> str | None:
    """Return the encoding in which all of `data` can be read and its letters are the usual ones; None where none is."""
    if b"\0" in data:
        return None
    fits = [(score, name) for name in _SHARES if (score := _likelihood(data, name)) > _LEAST]
    if fits:
        return max(fits)[1]
    for name, usual, least in _SINGLE:
        text = _decoded(data, name)
        beyond = sum(letter > "\x7f" for letter in text)
        if beyond and len(usual.findall(text)) / beyond >= least:
            return name
    return None


def _decoded(data: bytes, name: str) -> str:
    """Return the beginning of the text, empty where any of it cannot be read."""
    try:
        return data.decode(name)[:_LOOKED_AT]
    except UnicodeDecodeError:
        return ""


def _likelihood(data: bytes, name: str) -> float:
    """Return the mean log-likelihood of the first bytes of the letters; minus infinity where it cannot be read."""
    letters = [letter for letter in _decoded(data, name) if letter > "\x7f"]
    firsts = [first for letter in letters for first in letter.encode(name)[:1] if first >= _LEADS[0]]
    ranges = Counter(bisect_right(_LEADS, first) - 1 for first in firsts)
    del ranges[1]
    total = ranges.total()
    if not total:
        return -math.inf
    return sum(count * math.log(_SHARES[name][place]) for place, count in ranges.items()) / total
