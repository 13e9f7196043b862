"""The words of a command that stands somewhere in a text: in a shell script, in JSON at any depth, in prose, as a list.

No grammar of a shell: a word ends at a blank, a command at a line's end or at `;`, `|`, `&`, a backtick or a quote that
was opened before it. Every character is looked at once for each of at most three levels of quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

HERE = "<<<"
_MOST_QUOTED = 4000
_BLANK = re.compile(r"(?:[ \t]|\\\r?\n|\\{3,8}n|(?:\d|&)?(?:>{1,2}|<)(?:&\d)?(?![<\w(])|\d?>{1,2}(?=[\w./]))+")
_END = re.compile(r"[\n\r;|&`)]|\\{1,2}(?:r\\{1,2})?n")
_QUOTE = re.compile(r"(\\{0,4})([\"'])")
_PIECE = re.compile(
    r"\$\([^()\n]{0,400}\)|\$\{[^{}\n]{0,200}\}+|<[\w .:|-]{1,80}>|\\+ |\\+[^\s\"'\\]|\\+(?=\Z)"
    r"|[^\s\"'\\;|&`<>)$]+|[$<>]"
)
_QUOTE_IN_QUOTES = re.compile(r"\\{1,4}''")  # 'it'\''s': the way of shells
# A quote that closes what was opened before the command: nothing of a word can follow it.
_CLOSES = re.compile(r"[\s,}\])]|\\{1,4}[nrt]|\Z")
_NEXT_ITEM = re.compile(r"(\\{0,4}[\"'])?(?:\s|\\{1,4}[nrt]){0,40},(?:\s|\\{1,4}[nrt]){0,40}(?=\\{0,4}[\"'])")


@dataclass(frozen=True, slots=True)
class Word:
    """`text[start:end]` with its quotes; `here` says that it stands behind `<<<`."""

    start: int
    end: int
    here: bool = False


def words(text: str, start: int, end: int) -> Iterator[Word]:
    """Yield the words of the command whose first one begins at `start`; the last one ends at `end` or before it."""
    first = word_end(text, start, end)
    listed = _NEXT_ITEM.match(text, _bare_end(text, start, first), end)
    if listed and listed[1]:
        yield from _items(text, start, listed.start(), end)
        return
    at = start
    here = False
    while at < end:
        stop = word_end(text, at, end)
        if stop > at:
            yield Word(at, stop, here)
            here = False
        blank = _BLANK.match(text, stop, end)
        at = blank.end() if blank else stop
        if text.startswith(HERE, at, end):
            here = True
            at += len(HERE)
        elif not blank or _END.match(text, at, end):
            return


def _bare_end(text: str, start: int, end: int) -> int:
    """The end of a word without the quote that may close a list's item."""
    at = start
    while at < end and (text[at].isalnum() or text[at] in "_.-"):
        at += 1
    return at


def _items(text: str, start: int, end: int, limit: int) -> Iterator[Word]:
    """The strings of a list (`["curl", "-u", "a:b"]`) from the one whose text begins at `start`."""
    yield Word(start, end)
    at: int | None = end
    while at is not None and (found := _NEXT_ITEM.match(text, at, limit)):
        begin = found.end()
        quoted = _quoted_end(text, begin, limit)
        if quoted is not None:
            yield Word(begin, quoted)
        at = quoted


def word_end(text: str, at: int, end: int) -> int:
    """Return where the word that begins at `at` ends; `at` itself where none begins."""
    start = at
    while at < end:
        if _END.match(text, at, end):
            break
        if (quote := _QUOTE.match(text, at, end)) is not None:
            closed = None
            if at == start or not _CLOSES.match(text, quote.end(), end):
                closed = _quoted_end(text, at, end)
            if closed is None:
                break
            at = closed
            continue
        piece = _PIECE.match(text, at, end)
        if piece is None or (piece[0] in "<>" and text.startswith(HERE, at)):
            break
        at = piece.end()
    return at


def _quoted_end(text: str, at: int, end: int) -> int | None:
    """Where the quotes that open at `at` close; None where they do not."""
    opened = _QUOTE.match(text, at, end)
    if opened is None:
        return None
    depth, quote, skipped = len(opened[1]), opened[2], 0
    for found in _QUOTE.finditer(text, opened.end(), min(end, opened.end() + _MOST_QUOTED)):
        if found[2] != quote or len(found[1]) > depth or found.start() < skipped:
            continue
        after = found.end()
        if quote == "'" and (inside := _QUOTE_IN_QUOTES.match(text, after)):
            skipped = inside.end()
            continue
        return after
    return None


def unquoted(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without one quote at its start and one at its end."""
    if (opened := _QUOTE.match(text, start, end)) is not None:
        start = opened.end()
    if end > start and text[end - 1] in "\"'":
        end -= 1
        while end > start and text[end - 1] == "\\":
            end -= 1
    return start, end
