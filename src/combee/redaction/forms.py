"""Which part of a word is the password, for each form of the tables in `options`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from combee.redaction.options import Form

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
