"""Reads one JSON value from text that is nearly JSON, as models write it. Never runs anything.

Taken as meant: trailing, missing and full-width commas, raw line breaks and unescaped quotes in strings, unknown
escapes (LaTeX), single quotes, Python's None/True/False and tuples, bare keys, comments, and an end that is missing.
What was cut off in the middle (the last string, the last list entry) is left out rather than kept half. Every step
moves on or gives up, and a shared allowance bounds the work, so hostile text takes linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"(?:[\s\ufeff\u00a0]+|//[^\n]*|/\*.*?(?:\*/|\Z)|#[^\n]*)+", re.DOTALL)
_PLAIN = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+"), "\u201d": re.compile("[^\u201d\\\\]+")}
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*)?\.?\d+(?:[eE][-+]?\d+)?\.?")
_WORD = re.compile(r"[A-Za-z_$][\w$\-]*")
_WORDS: dict[str, Any] = {
    "true": True, "True": True, "false": False, "False": False,
    "null": None, "None": None, "undefined": None, "NaN": None, "nan": None, "Infinity": None,
}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/", "\n": "\n"}
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d"}
_CLOSERS = {"[": "]", "(": ")"}
_DEPTH = 100
_MISSING = object()


class _GiveUpError(Exception):
    """This is not JSON, however kindly read."""


class Allowance:
    """Characters that may still be looked at; shared by all attempts on one text."""

    __slots__ = ("left",)

    def __init__(self, characters: int) -> None:
        self.left = characters

    def spend(self, characters: int) -> None:
        """Take some; raises inside the reader when nothing is left."""
        self.left -= characters
        if self.left < 0:
            raise _GiveUpError


@dataclass(frozen=True, slots=True)
class Read:
    """One value: where it ended, and whether the text ended before it did."""

    value: Any
    end: int
    cut: bool


def read_value(text: str, start: int, allowance: Allowance) -> Read | None:
    """Read the value that begins at `start`, or return None where there is none."""
    reader = _Reader(text, start, allowance)
    try:
        value = reader.value(0, "")
    except _GiveUpError:
        return None
    return None if value is _MISSING else Read(value, reader.at, reader.cut)


class _Reader:
    def __init__(self, text: str, start: int, allowance: Allowance) -> None:
        self.text = text
        self.at = start
        self.cut = False
        self._allowance = allowance

    def _skip(self) -> str:
        """Move over space and comments; returns the next character, or "" at the end."""
        found = _SPACE.match(self.text, self.at)
        if found:
            self._allowance.spend(found.end() - self.at)
            self.at = found.end()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int, inside: str) -> Any:
        """Read any value; `inside` is the container's opening character."""
        self._allowance.spend(8)
        char = self._skip()
        if not char:
            self.cut = True
            return _MISSING
        if depth > _DEPTH:
            raise _GiveUpError
        if char == "{":
            return self._object(depth)
        if char in _CLOSERS:
            return self._list(depth, char)
        if char in _QUOTES:
            return self._string(inside)
        return self._bare()

    def _bare(self) -> Any:
        number = _NUMBER.match(self.text, self.at)
        if number:
            self._allowance.spend(number.end() - self.at)
            self.at = number.end()
            if self.at == len(self.text):
                self.cut = True  # more digits may have been meant
                return _MISSING
            return _to_number(number.group())
        word = _WORD.match(self.text, self.at)
        if word and word.group() in _WORDS:
            self.at = word.end()
            return _WORDS[word.group()]
        if word and word.end() == len(self.text):
            self.cut = True
            return _MISSING
        raise _GiveUpError

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        found: dict[str, Any] = {}
        while True:
            char = self._skip()
            if not char:
                self.cut = True
                return found
            if char == "}":
                self.at += 1
                return found
            if char in ",，":
                self.at += 1
                continue
            if char == "`" and found:  # the fence closes before the object does
                self.cut = True
                return found
            key = self._key()
            if self._skip() == "":
                self.cut = True
                return found
            if self.text[self.at] not in ":=：":
                raise _GiveUpError
            self.at += 2 if self.text.startswith("=>", self.at) else 1
            value = self.value(depth + 1, "{")
            if value is not _MISSING:
                found[key] = value
            if self.cut:
                return found

    def _key(self) -> str:
        char = self.text[self.at]
        if char in _QUOTES:
            key = self._string(":")
            return "" if key is _MISSING else str(key)
        word = _WORD.match(self.text, self.at)
        if not word:
            raise _GiveUpError
        self.at = word.end()
        return word.group()

    def _list(self, depth: int, opening: str) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        while True:
            char = self._skip()
            if not char:
                self.cut = True
                return found
            if char == _CLOSERS[opening]:
                self.at += 1
                return found
            if char in ",，":
                self.at += 1
                continue
            if char in "}])":  # the list's own end is missing
                return found
            value = self.value(depth + 1, "[")
            if self.cut:
                return found  # an entry that was cut off is not half kept
            found.append(value)

    def _string(self, inside: str) -> Any:
        opening = self.text[self.at]
        closing = _QUOTES[opening]
        plain = _PLAIN[closing]
        self.at += 1
        parts: list[str] = []
        while True:
            chunk = plain.match(self.text, self.at)
            if chunk:
                self._allowance.spend(chunk.end() - self.at)
                parts.append(chunk.group())
                self.at = chunk.end()
            if self.at >= len(self.text):
                self.cut = True
                return _MISSING
            self._allowance.spend(4)
            if self.text[self.at] == "\\":
                parts.append(self._escape())
            elif self._closes(self.at + 1, inside):
                self.at += 1
                return "".join(parts)
            else:
                parts.append(closing)
                self.at += 1

    def _escape(self) -> str:
        """Read an escape; an unknown one (as in LaTeX) stays as it stands."""
        char = self.text[self.at + 1 : self.at + 2]
        if char == "u":
            code = self.text[self.at + 2 : self.at + 6]
            if len(code) == 4 and all(digit in "0123456789abcdefABCDEF" for digit in code):
                return self._unicode(int(code, 16))
        self.at += 2
        return _ESCAPES.get(char, "\\" + char)

    def _unicode(self, code: int) -> str:
        self.at += 6
        low = self.text[self.at : self.at + 6]
        if 0xD800 <= code < 0xDC00 and re.fullmatch(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}", low):
            self.at += 6
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low.lower().removeprefix("\\u"), 16) - 0xDC00)
        return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)

    def _closes(self, at: int, inside: str) -> bool:
        """Whether a quote before `at` ends its string: what follows must go on with the container."""
        following = self._peek(at)
        if not following:
            return True
        first = following[0]
        if inside == ":":
            return first in ":=："
        if first in "}])" or self.text.startswith(("//", "/*"), following[2]):
            return True
        if first not in ",，":
            # A comma is missing: believed only at a line's end, before the next key or entry.
            return following[1] and first in "\"'{["
        after = self._peek(following[2] + 1)
        if not after or after[0] in "}]" or self.text.startswith(("//", "/*"), after[2]):
            return True
        if inside == "{":
            return after[0] in "\"'\u201c" or (
                _WORD.match(self.text, after[2]) is not None and self._is_bare_key(after[2])
            )
        return True

    def _is_bare_key(self, at: int) -> bool:
        word = _WORD.match(self.text, at)
        return word is not None and self.text[word.end() : word.end() + 1] == ":"

    def _peek(self, at: int) -> tuple[str, bool, int] | None:
        """Return the next character after space, whether a line broke before it, and where it is."""
        end = min(len(self.text), at + 400)
        broke = False
        for index in range(at, end):
            char = self.text[index]
            if not char.isspace():
                self._allowance.spend(index - at + 1)
                return char, broke, index
            broke = broke or char == "\n"
        self._allowance.spend(end - at)
        return None


def _to_number(text: str) -> Any:
    clean = text.replace("_", "").removesuffix(".")
    try:
        return int(clean) if clean.lstrip("+-").isdigit() and len(clean) < 4000 else float(clean)
    except ValueError:
        raise _GiveUpError from None
