"""Secrets in HTTP headers, wherever a header stands: a command, JSON, code, a log of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from combee.redaction.commands import NAMES_OF_HEADERS
from combee.redaction.spans import Span, hits

_TOKEN = r"[A-Za-z0-9._~+/=-]"  # noqa: S105 - a pattern, not a password
_QUOTE = r"\\{0,4}[\"']"
_BEARER = re.compile(rf"bearer[ \t:=]{{1,4}}({_TOKEN}{{12,4000}})(?![A-Za-z0-9])", re.IGNORECASE)
_AUTHORIZATION = re.compile(
    rf"authorization(?:{_QUOTE})?[ \t]{{0,4}}[:=][ \t]{{0,4}}(?:{_QUOTE})?(?:(?:basic|token|bearer|digest)[ \t]+)?"
    rf"(?!(?:basic|token|bearer|digest)\b)({_TOKEN}{{8,4000}}+)(?![A-Za-z0-9(\[]|[ \t]+\[redacted)",
    re.IGNORECASE,
)
# A scheme of its own and what follows it: `Negotiate YIIJ...`, `ApiKey x`, `AWS4-HMAC-SHA256 Credential=...`.
_PARAMETER = r"[\w-]{1,40}=(?:\\{0,4}\"[^\"\\\r\n]{1,400}\\{0,4}\"|[^\s\"'\\,<>{}$()\[\]]{1,400})"
_SCHEMED = re.compile(
    rf"authorization(?:{_QUOTE})?[ \t]{{0,4}}[:=][ \t]{{0,4}}(?:{_QUOTE})?(?!(?:basic|token|bearer)\b)"
    rf"[A-Za-z][A-Za-z0-9-]{{1,40}}[ \t]+(?=[^\s'\\]{{0,400}}[0-9]|[^\s\"'\\]{{16}}|\w{{1,40}}=)"
    rf"({_PARAMETER}(?:,[ \t]?{_PARAMETER}){{0,40}}|[^\s\"'\\<>{{}}$()\[\]]{{8,4000}}+)",
    re.IGNORECASE,
)
_SEPARATOR = (
    rf"(?:{_QUOTE})?[ \t]{{0,4}}(?::|=>|=(?!=)|\]\s?=|,(?=[ \t]{{0,4}}\\{{0,4}}[\"']))[ \t]{{0,4}}(?:{_QUOTE})?"
)
# The value of a header has a digit or a mixed case; types, calls and indexes of code have no place here.
_HEADER = re.compile(
    rf"(?P<name>{NAMES_OF_HEADERS}){_SEPARATOR}(?:(?:basic|token|bearer|digest|apikey)[ \t]+)?"
    rf"(?P<value>(?=[^\s\"'\\,;]{{0,400}}[0-9])[^\s\"'\\,;<>{{}}$()\[\]]{{6,4000}}+)(?![(\[])",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z0-9-]{1,60}\Z")
_COOKIES = re.compile(
    rf"(?P<set>set-)?cookie2?{_SEPARATOR}(?P<value>[\w.%!#$&*+^`|~-]{{1,200}}=(?:\\{{0,4}}\"(?=\w))?[^\r\n\"'\\]{{1,4000}})",
    re.IGNORECASE,
)
_COOKIE = re.compile(r"(?:\A|;)\s{0,4}[\w.%!#$&*+^`|~-]{1,200}=(?:\\{0,4}\")?([^;\s\"\\]+)")
_ANCHORS = ("token", "key", "secret", "-password")


def bearer_tokens(text: str, folded: str) -> Iterator[Span]:
    """Yield tokens behind `bearer` and `authorization`."""
    for anchor, patterns in (("bearer", (_BEARER,)), ("authorization", (_SCHEMED, _AUTHORIZATION))):
        for at in hits(folded, anchor):
            if match := next(filter(None, (pattern.match(text, at) for pattern in patterns)), None):
                yield Span(match.start(1), match.end(1), "bearer_token")


def header_values(text: str, folded: str) -> Iterator[Span]:
    """Yield the values of cookies and of headers that carry keys and tokens."""
    done = 0
    for at in hits(folded, "cookie"):
        start = at - 4 if folded.startswith("set-", at - 4) else at
        if at < done or not (match := _COOKIES.match(text, start)):
            continue
        begin, end = match.span("value")
        for number, pair in enumerate(_COOKIE.finditer(text[begin:end])):
            done = begin + pair.end()
            if (number == 0 or not match["set"]) and not pair[1].startswith(("[redacted:", "$", "{", "<", "%")):
                yield Span(begin + pair.start(1), begin + pair.end(1), "cookie")
    for anchor in _ANCHORS:
        for at in hits(folded, anchor):
            name = _NAME.search(text, max(0, at - 60), at)
            start = name.start() if name else at
            if "-" not in text[start:at] and folded[start:at] != "api":
                continue
            if match := _HEADER.match(text, start):
                yield Span(match.start("value"), match.end("value"), "api_key")
