"""Passwords in the words of a command: behind an option, as an operand, or in what `echo` feeds a program.

The rules are the tables in `options`, with the part of a word that is the password for each of their forms; `words`
splits a command wherever it stands. A text without the name of a tool costs one pass; a command is read once, and again
for what stands inside its quotes, three levels deep.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from combee.redaction.options import BUNDLES, OPERANDS, OPTIONS, SINKS, SOURCES, STARTERS, Form, Operand, Option
from combee.redaction.spans import Span, hits, is_given
from combee.redaction.words import Word, unquoted, words

_DEEPEST = 3
_MOST_READER = 12  # words of a command that say whether it reads a password
_PIPE = re.compile(r"[ \t]{0,8}\|(?!\|)&?[ \t]{0,8}")
_BETWEEN = b"\"'`/\\()[]{},;|&$=:<>*?"
_APART = bytes.maketrans(_BETWEEN, b" " * len(_BETWEEN))
_ESCAPED = frozenset("nrt")  # `\\n` in JSON: a line begins
_LITERAL = re.compile(r"(?<=')\$(?=\w*[a-z])(?=\w*\d)")  # '$ecret1': no variable within these quotes


_Row = TypeVar("_Row", Option, Operand)


def _by_tool(rows: Iterable[_Row]) -> dict[str, list[_Row]]:
    found: dict[str, list[_Row]] = {}
    for row in rows:
        for tool in row.tools.split():
            found.setdefault(tool, []).append(row)
    return found


_OPTIONS = _by_tool(OPTIONS)
_OPERANDS = _by_tool(OPERANDS)
_SINKS = {tool for sink in SINKS for tool in sink.tools.split()}
_STARTS = frozenset({*_OPTIONS, *_OPERANDS, *_SINKS, *SOURCES})
_STARTS_AS_BYTES = {tool.encode() for tool in _STARTS}
_TOOLS = _STARTS | STARTERS


def tools_in(text: str) -> set[bytes]:
    """Return the names of tools that may begin a command in the text."""
    raw = text.encode("ascii", "replace")
    there = set(raw.translate(_APART).split())
    if b".exe" in raw:
        there |= {word.removesuffix(b".exe") for word in there}
    if b"\\" in raw:
        there |= {word[1:] for word in there if word[:1] in b"nrt"}
    return there & _STARTS_AS_BYTES


def command_passwords(text: str, _folded: str) -> Iterator[Span]:
    """Yield the passwords in the commands of a text."""
    there = tools_in(text)
    places = sorted(
        {at for tool in map(bytes.decode, there) for at in hits(text, tool) if _is_word(text, at, at + len(tool))}
    )
    if places:
        yield from _scan(text, places, 0, len(text), 0)


def _is_word(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    if text.startswith(".exe", end):
        after = text[end + 4 : end + 5]
    if before in _ESCAPED and text[start - 2 : start - 1] == "\\":
        before = ""
    return not (before.isalnum() or before in {"_", "-", ".", "@"}) and (after in {"\\", '"', "'"} or after.isspace())


def _scan(text: str, places: Sequence[int], start: int, end: int, depth: int) -> Iterator[Span]:
    """Read the commands that begin at one of the places between start and end."""
    done = start
    for number in range(bisect_left(places, start), bisect_left(places, end)):
        if places[number] < done:
            continue
        command = _Command(text)
        for word in words(text, places[number], end):
            command.take(word)
        yield from command.end(end)
        for word in command.words:
            begin, stop = unquoted(text, word.start, word.end)
            if begin > word.start and stop - begin > 3 and depth < _DEEPEST:
                yield from _scan(text, places, begin, stop, depth + 1)
            done = word.end


@dataclass(slots=True)
class _Command:
    """What is known of a command while its words come."""

    text: str
    tool: str = ""
    words: list[Word] = field(default_factory=list)
    found: list[Span] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    operands: list[Word] = field(default_factory=list)
    waiting: Form | None = None
    source: int = -1

    def take(self, word: Word) -> None:
        self.words.append(word)
        start, end = unquoted(self.text, word.start, word.end)
        plain = self.text[start:end]
        if self.waiting is not None:
            form, self.waiting = self.waiting, None
            self._mark(form, start, end)
            return
        name = re.split(r"[/\\]", plain)[-1].removesuffix(".exe")
        if name in _TOOLS and not plain.startswith("-") and (not self.tool or self.tool in STARTERS):
            self._finish()
            self.tool = name
            if name in SOURCES:
                self.source = len(self.words)
            self.said, self.operands = set(), []
            return
        if word.here:
            self._feed([word], self._plain(self.words[:_MOST_READER]))
            return
        self.said.add(plain)
        if plain[:1] in {"-", "/"} and len(plain) > 1 and self._option(plain, word, start, end):
            return
        self.operands.append(word)

    def _option(self, plain: str, word: Word, start: int, end: int) -> bool:
        """Read an option of the table; True if it is one."""
        name, separator, _ = plain.partition(":" if plain[0] == "/" else "=")
        for row in _OPTIONS.get(self.tool, ()):
            if row.within and self.said.isdisjoint(row.within.split()):
                continue
            for option in row.options.split():
                at = self._value_at(option, name, separator, plain)
                if at is None:
                    continue
                if at < len(plain):
                    self._mark(row.form, start + at, end)
                elif option[-1] != "+":
                    self.waiting = row.form
                return True
        return False

    def _value_at(self, option: str, name: str, separator: str, plain: str) -> int | None:
        """Where the value begins in an option's word: its length if it is the next word, None for another option."""
        bare = option.rstrip("+.")
        if name == bare:
            return len(name) + len(separator)
        if option[-1] == "." or (len(bare) > 2 and option[-1] != "+"):
            return None
        if plain.startswith(bare) and bare[0] == "-" and bare[1] != "-":
            return len(bare)
        letters = BUNDLES.get(self.tool)
        at = plain.find(bare[1], 1) if letters and plain[0] == "-" else -1
        return at + 1 if at > 0 and letters and set(plain[1:at]) <= set(letters) else None

    def _mark(self, form: Form, start: int, end: int) -> None:
        start, end = unquoted(self.text, start, end)
        for place in FORMS[form](self.text, start, end):
            begin, stop = unquoted(self.text, *place)
            if is_given(self.text[begin:stop]) or _LITERAL.match(self.text, begin, stop):
                self.found.append(Span(begin, stop, "password"))

    def _finish(self) -> None:
        """Read the operands of the command so far."""
        for row in _OPERANDS.get(self.tool, ()):
            found = [word for word in self._behind(row.after.split()) if self._counts(word)]
            if row.index is not None:
                found = found[row.index :][:1] if row.index >= 0 else found[row.index :]
            for word in found:
                self._mark(row.form, word.start, word.end)

    def _behind(self, after: list[str]) -> list[Word]:
        """The operands behind the words that the patterns match, in their order; none where they do not."""
        plain = self._plain(self.operands)
        for at in range(len(plain) - len(after) + 1):
            if all(re.fullmatch(pattern, plain[at + number]) for number, pattern in enumerate(after)):
                return self.operands[at + len(after) :]
        return []

    def _counts(self, word: Word) -> bool:
        plain = self._plain([word])[0]
        if self.tool == "net" and re.fullmatch(r"\*|[A-Za-z]:|/\w+(?::.*)?", plain):
            return False
        return not plain.startswith("-")

    def end(self, limit: int) -> Iterator[Span]:
        """End the command; yield what was found, and what its `echo` feeds to a program behind `|`."""
        self._finish()
        given = self.words[self.source :] if self.source >= 0 else []
        if given and (pipe := _PIPE.match(self.text, given[-1].end, limit)):
            given = [word for word in given if not re.fullmatch("-[neE]+", self.text[word.start : word.end])]
            if len(given) > 1 and "%s" in self._plain(given[:1])[0]:
                given = given[1:]
            self._feed(given, self._plain(islice(words(self.text, pipe.end(), limit), _MOST_READER)))
        yield from self.found

    def _feed(self, given: list[Word], reader: list[str]) -> None:
        """Mark what a program reads, if it reads a password."""
        named = reader[:5] if reader[:1] == ["sudo"] else reader[:1]
        names = {re.split(r"[/\\]", name)[-1] for name in named}
        for sink in SINKS:
            named_here = not sink.tools or names & set(sink.tools.split())
            if given and named_here and (not sink.word or any(re.fullmatch(sink.word, word) for word in reader)):
                self._mark(sink.form, given[0].start, given[-1].end)
                return

    def _plain(self, several: Iterable[Word]) -> list[str]:
        return [self.text[slice(*unquoted(self.text, word.start, word.end))] for word in several]


Place = tuple[int, int]

NAMES_OF_HEADERS = (
    r"(?:(?:proxy-)?authorization|(?:set-)?cookie2?|(?:[a-z0-9]{1,20}-){0,4}(?:api-?key|(?:auth|access|security|private|"
    r"session|vault|subscription|deploy|job|secret|csrf|xsrf|auth-?admin)-?(?:token|key))|x-(?:[a-z0-9]{1,20}-){0,3}"
    r"(?:token|secret|password)|apikey)"
)
"""Names of headers whose value is secret; to be used with `re.IGNORECASE`."""
_HEADER = re.compile(
    rf"(?:\S{{1,200}}extraheader=\\{{0,4}}[\"']?)?({NAMES_OF_HEADERS})\s{{0,4}}:\s{{0,4}}", re.IGNORECASE
)
_SCHEME = re.compile(r"(?:basic|bearer|token|digest|apikey)\s+", re.IGNORECASE)
_COOKIE_VALUE = re.compile(r"=([^;\s\"'\\]+)")
_NAMED = re.compile(r"(?:\A|(?<=,))([\w.:/@\[\]-]{1,200})=")
_TELLING_NAME = re.compile(r"pass|pwd?\Z|secret|token|api_?key|[_-]key|key\Z|_auth\Z|cred", re.IGNORECASE)
_PORTS = re.compile(r"(?:[\d.]{1,15}:)?\d{1,5}:\d{1,5}(?:/\w+)?")  # `docker run --name mongo -p 27017:27017`
_LEAST_KEY = 16


def _all(text: str, start: int, end: int) -> Iterator[Place]:
    if not _PORTS.fullmatch(text, start, end):
        yield start, end


def _behind(separator: str) -> Callable[[str, int, int], Iterator[Place]]:
    def found(text: str, start: int, end: int) -> Iterator[Place]:
        at = text.find(separator, start, end)
        if at >= 0:
            yield at + 1, end

    return found


def _pair(text: str, start: int, end: int) -> Iterator[Place]:
    at = text.find(":", start, end)
    user = text[start:at]
    if at >= 0 and at + 1 < end:
        yield at + 1, end
    elif at - start >= _LEAST_KEY and re.search(r"\d", user):
        yield start, at  # `curl -u KEY:`: a key takes the place of the user


def _login(text: str, start: int, end: int) -> Iterator[Place]:
    return _pair(text, start, end) if text.find(":", start, end) >= 0 else _all(text, start, end)


def _target(text: str, start: int, end: int) -> Iterator[Place]:
    colon, host = text.find(":", start, end), text.rfind("@", start, end)
    if 0 <= colon < (host if host >= 0 else end) and not text.startswith("//", colon + 1):
        yield colon + 1, host if host >= 0 else end


def _slash(text: str, start: int, end: int) -> Iterator[Place]:
    at = text.find("/", start, end)
    if at > start and text.find("@", start, at) < 0:
        host = text.find("@", at, end)
        yield at + 1, host if host >= 0 else end


def _named(text: str, start: int, end: int) -> Iterator[Place]:
    found = list(_NAMED.finditer(text[start:end]))
    for number, match in enumerate(found):
        if _TELLING_NAME.search(re.split(r"[.:/]", match[1])[-1]):
            following = found[number + 1].start() - 1 if number + 1 < len(found) else end - start
            yield start + match.end(), start + following


def _pass(text: str, start: int, end: int) -> Iterator[Place]:
    if text.startswith("pass:", start, end):
        yield start + len("pass:"), end


def _auth(text: str, start: int, end: int) -> Iterator[Place]:
    if text[start : start + 5].lower() == "auth ":
        yield max(start + 5, text.rfind(" ", start, end) + 1), end


def _header(text: str, start: int, end: int) -> Iterator[Place]:
    if (match := _HEADER.match(text, start, end)) is not None:
        if match[1].lower() == "cookie":
            yield from _cookie(text, match.end(), end)
        else:
            scheme = _SCHEME.match(text, match.end(), end)
            yield scheme.end() if scheme else match.end(), end


def _cookie(text: str, start: int, end: int) -> Iterator[Place]:
    for match in _COOKIE_VALUE.finditer(text, start, end):
        yield match.span(1)


FORMS: Mapping[Form, Callable[[str, int, int], Iterator[Place]]] = {
    "value": _all,
    "pair": _pair,
    "login": _login,
    "target": _target,
    "comma": _behind(","),
    "percent": _behind("%"),
    "slash": _slash,
    "assigned": _behind("="),
    "named": _named,
    "pass": _pass,
    "auth": _auth,
    "header": _header,
    "cookie": _cookie,
}
