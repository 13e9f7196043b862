"""Other readings of a text: what a terminal, a decoder or a reader who joins wrapped lines would see.

A secret can be hidden from a search without being hidden from anybody else: colour codes or NULs inside it, percent
signs, a line break where a window ended. `scrub` takes out what nobody sees: its result is what is stored. A `Reading`
is only searched, and what is found there is mapped back to the places of the stored text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from combee.redaction.spans import Span, hits

# After a lone escape only the letters that terminals know go: another may be the first letter of a secret.
_ESCAPE = re.compile(
    r"\x1b(?:\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)|[PX^_][^\x1b\n]{0,2048}\x1b\\|\[[0-?]*[ -/]*[@-~]?|[()][B0]|\]"
    r"|(?:[ -/]+[0-~]|[78=>cDEHMNOZ])(?![A-Za-z0-9_-]))?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS = bytes({*range(0x20), 0x7F} - {0x09, 0x0A, 0x0D})
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BACKSPACE = re.compile(r"[^\x08\n]\x08")
_MOST_BACKSPACES = 200
# Joiners and marks of direction mean something in many scripts, and nothing between ASCII letters.
_UNSEEN = re.compile(
    r"(?<=[!-~])[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]+(?=[!-~])"
)


def scrub(text: str) -> str:
    """Return the text without terminal codes, control characters, struck-out letters and letters that nobody sees."""
    if text.isascii():
        raw = text.encode()
        if len(raw.translate(None, _CONTROLS)) == len(raw):
            return text
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPE.sub("", text)
    for _ in range(_MOST_BACKSPACES):
        if "\x08" not in text:
            break
        text = _BACKSPACE.sub("", text).replace("\n\x08", "\n").removeprefix("\x08")
    text = _CONTROL.sub("", text)
    return text if text.isascii() else _UNSEEN.sub("", text)


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it reads otherwise. Piece k begins at `starts[k]` and stands for `places[k]`, begin and end."""

    text: str
    starts: tuple[int, ...]
    places: tuple[tuple[int, int], ...]

    def span(self, found: Span) -> Span:
        """Return where a span of this view lies in the text it was made from."""
        return Span(self._place(found.start)[0], self._place(found.end - 1)[1], found.kind)

    def _place(self, at: int) -> tuple[int, int]:
        piece = bisect_right(self.starts, at) - 1
        begin, end = self.places[piece]
        following = self.starts[piece + 1] if piece + 1 < len(self.starts) else len(self.text)
        if following - self.starts[piece] == end - begin:  # copied letter by letter
            begin += at - self.starts[piece]
            return begin, begin + 1
        return begin, end


def _view(text: str, begin: int, end: int, changes: Iterator[tuple[int, int, str]]) -> Reading:
    """Make the view of `text[begin:end]` in which each change (from, to, what stands there) is made."""
    parts: list[str] = []
    starts: list[int] = []
    places: list[tuple[int, int]] = []
    size, at = 0, begin
    for start, stop, instead in (*changes, (end, end, "")):
        for piece, place in ((text[at:start], (at, start)), (instead, (start, stop))):
            if piece:
                starts.append(size)
                places.append(place)
                parts.append(piece)
                size += len(piece)
        at = stop
    return Reading("".join(parts), tuple(starts), tuple(places))


_ENTITIES = {"amp": "&", "quot": '"', "apos": "'", "lt": "<", "gt": ">"}
ENCODED = re.compile(
    r"%(?P<percent>[2-7][0-9A-Fa-f])|\\{1,2}(?:u00|x)(?P<hex>[2-7][0-9A-Fa-f])"
    r"|&(?:\#(?:[xX](?P<hex_entity>[2-7][0-9A-Fa-f])|(?P<entity>\d{2,3}))|(?P<name>amp|quot|apos|lt|gt));"
    # Written-out codes of a terminal and letters that nobody sees: nothing stands there.
    r"|(?:\\{1,2}(?:u001[bB]|x1[bB]|033|e)|\^\[)\[[0-9;]{0,20}[A-Za-z]|\\{1,2}u(?:0000|00[aA][dD]|200[b-fB-F]|2060|[fF][eE][fF][fF])"
    r"|\\{1,2}x00|[\uff01-\uff5e]"
)
_WIDE = re.compile("[\uff01-\uff5e]")
_OPENS = ("%", "\\", "&", "^[")
"""What each form begins with, but for wide letters: searching for these is far quicker than trying the pattern."""


def decoded(text: str) -> Iterator[Reading]:
    r"""Yield what a decoder reads otherwise (`%41`, `\u0041`, entities, wide letters), and what is near."""
    near: list[re.Match[str]] = []
    for match in _encoded(text):
        if near and match.start() - near[-1].end() > _REACH:
            yield _decoded_part(text, near)
            near = []
        near.append(match)
    if near:
        yield _decoded_part(text, near)


def _encoded(text: str) -> Iterator[re.Match[str]]:
    """Yield each encoded place, from the left, without overlap."""
    done = 0
    wide = () if text.isascii() else (match.start() for match in _WIDE.finditer(text))
    for at in sorted((*wide, *(at for sign in _OPENS for at in hits(text, sign)))):
        if at >= done and (match := ENCODED.match(text, at)):
            done = match.end()
            yield match


def _decoded_part(text: str, near: list[re.Match[str]]) -> Reading:
    begin, end = max(0, near[0].start() - _REACH), min(len(text), near[-1].end() + _REACH)
    return _view(text, begin, end, ((*match.span(), _instead(match)) for match in near))


def _instead(match: re.Match[str]) -> str:
    if digits := match["percent"] or match["hex"] or match["hex_entity"]:
        return chr(int(digits, 16))
    if match["entity"]:
        code = int(match["entity"])
        return chr(code) if 0x20 < code < 0x7F else " "
    if match["name"]:
        return _ENTITIES[match["name"]]
    letter = match[0]
    return chr(ord(letter) - 0xFEE0) if len(letter) == 1 else ""


_REACH = 300  # characters around a place that are read with it
_TOKEN = r"A-Za-z0-9_+/=.~%-"  # noqa: S105 - the letters of keys, no key
# Behind a break: indentation, marks of a diff, a quotation, a comment or a numbered line, or quotes that go on.
_MARGIN = (
    rf"(?:[ \t]*(?:\d{{1,6}}[ \t]*[:|│→\t]|[>|#*+│]+|-(?![\w-])|//)?[ \t]*|[+-]|[ \t]*\\{{0,2}}[\"'])(?=[{_TOKEN}])"
)
_BREAK = re.compile(rf"\n(?:(?<=[{_TOKEN}\\]\n)|(?<=[{_TOKEN}\\\"']\r\n)|(?<=[\"']\n)){_MARGIN}")
_WRITTEN_BREAK = re.compile(rf"(?<=[{_TOKEN}])(?:\\{{1,4}}r)?\\{{1,4}}n{_MARGIN}")
_RUN_BEFORE = re.compile(rf"(\r?[\"']?\\?=?)([{_TOKEN}]*)")  # read from right to left
_RUN_BEHIND = re.compile(rf"[{_TOKEN}]*")
_NAMED = re.compile(r"pass|pwd|secret|token|key|auth|cred", re.IGNORECASE)
_SHORTEST = 15
_MOST_TRIED = 4  # of the readings of one place
_NEAR = 200  # letters of a key before a break that are looked at
_DIGIT = re.compile(r"[0-9]")
_LAST_PIECE = re.compile(rf"(?=[{_TOKEN}]{{0,200}}\d)[{_TOKEN}]+[\"'\\,;)\]}}]{{0,4}}(?:\s|\Z)")


Break = tuple[int, int]


def joined(text: str) -> Iterator[list[tuple[Reading, tuple[Break, ...]]]]:
    """Yield the places where a line may have been broken inside of a key: joined, with the breaks, begin and end.

    Where a word may go on over several lines, each number of them is a reading, the longest first. Only words that are
    long enough and hold a digit, so that prose gives no such place.
    """
    for group in _groups(sorted(_breaks(text))):
        before = _RUN_BEFORE.match(text[max(0, group[0][0] - _NEAR) : group[0][0]][::-1])
        behind = _RUN_BEHIND.match(text, group[-1][1])
        begin, end = group[0][0] - (len(before[0]) if before else 0), behind.end() if behind else group[-1][1]
        letters = end - begin - sum(stop - start for start, stop in group)
        if _DIGIT.search(text, begin, end) and (letters >= _SHORTEST or _is_named(text, begin, group[0])):
            yield [_part(text, group[:size]) for size in range(len(group), max(0, len(group) - _MOST_TRIED), -1)]


def _groups(breaks: Iterable[tuple[int, int, bool]]) -> Iterator[list[Break]]:
    """Yield the breaks of one word each: what stands between them goes on from line to line."""
    group: list[Break] = []
    for start, end, goes_on in breaks:
        if group and not goes_on:
            yield group
            group = []
        group.append((start, end))
    if group:
        yield group


def _part(text: str, breaks: Sequence[Break]) -> tuple[Reading, tuple[Break, ...]]:
    begin = max(0, breaks[0][0] - _REACH, text.rfind("\n", 0, breaks[0][0]) + 1)
    following = text.find("\n", breaks[-1][1])
    end = min(len(text) if following < 0 else following, breaks[-1][1] + _REACH)
    return _view(text, begin, end, iter([(*each, "") for each in breaks])), tuple(breaks)


def _breaks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where a break begins and ends, and whether nothing but letters of keys stands since the last one."""
    for sign, pattern in (("\n", _BREAK), ("\\n", _WRITTEN_BREAK)):
        last = -1
        for match in pattern.finditer(text) if sign in text else ():
            start, end = match.span()
            before = _RUN_BEFORE.match(text[start - _NEAR if start > _NEAR else 0 : start][::-1])
            if before is not None and before[2]:
                yield start - len(before[1]), end, start - len(before[0]) == last
                last = end


def _is_named(text: str, start: int, first: Break) -> bool:
    """Whether a short word is a password that goes on: a name says so, and a piece with a digit ends the next line."""
    piece = _LAST_PIECE.match(text, first[1])
    return piece is not None and _NAMED.search(text, max(0, start - 40), first[0]) is not None
