"""Passwords in settings files, queries and calls of code that only their surroundings give away.

A table of an anchor (in lower case, searched for first) and the pattern that is tried there; `value` is taken out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from combee.redaction.spans import Span, hits, is_given

_Q = r"\\{0,4}[\"']"
_IN_QUOTES = rf"{_Q}(?P<value>[^\s\"'\\]{{1,200}})\\{{0,4}}[\"']"
_BARE = r"(?P<value>[^\s\"'\\;,)]{1,200})"
_MIXED = (
    r"(?=[^\s\"'&]{0,100}[0-9])(?=[^\s\"'&]{0,100}[A-Za-z])(?P<value>[^\s\"'`\\<>;&|,/(){}\[\]._]{6,100}+)(?![\w(./])"
)
_SHORT_NAME = rf"(?:{_Q})?\]?[ \t]{{0,4}}"
_RULES = tuple(
    (anchor, re.compile(pattern, re.IGNORECASE))
    for anchor, pattern in (
        # SQL
        ("identified ", rf"identified (?:with \S{{1,40}} )?(?:by|as) (?=\S{{0,100}}\d){_IN_QUOTES}"),
        ("identified ", rf"(?-i:IDENTIFIED) (?:with \S{{1,40}} )?(?:by|as) (?:password )?{_IN_QUOTES}"),
        ("set password", rf"set password (?:for \S{{1,80}} )?(?:=|to) ?(?:password\()?{_IN_QUOTES}"),
        ("password ", rf"(?-i:PASSWORD) (?=\S{{0,100}}\d){_IN_QUOTES}"),
        # configurations: Redis, npm, Docker
        ("requirepass ", rf"requirepass (?=\S{{0,100}}\d)(?:{_Q})?{_BARE}"),
        ("masterauth ", rf"masterauth (?=\S{{0,100}}\d)(?:{_Q})?{_BARE}"),
        (":_auth", rf":_auth(?:token)?[ ]?=[ ]?(?:{_Q})?{_BARE}"),
        (":_password", rf":_password[ ]?=[ ]?(?:{_Q})?{_BARE}"),
        ("env ", rf"env [A-Z0-9_]{{0,40}}(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_KEY) (?:{_Q})?{_BARE}"),
        # calls
        ("auth", rf"auth[ ]?=[ ]?\([ ]?{_Q}[^\"'\\]{{1,100}}{_Q},[ ]?{_IN_QUOTES}"),
        ("basicauth(", rf"basicauth\([ ]?{_Q}[^\"'\\]{{1,100}}{_Q},[ ]?{_IN_QUOTES}"),
        ("cookies", rf"cookies[ ]?=[ ]?\{{[ ]?{_Q}[^\"'\\]{{1,100}}{_Q}:[ ]?{_IN_QUOTES}"),
        # Docker's and npm's files keep `user:password` in base64
        (
            "auth",
            rf"auth{_Q}[ \t]{{0,4}}:[ \t\r\n]{{0,8}}{_Q}(?P<value>[A-Za-z0-9+/_-]{{8,2000}}={{0,2}})(?=\\{{0,4}}[\"'])",
        ),
        # expect: send "PW\r"
        ("assword", r"assword[^\r\n]{0,40}?\bsend (?:-- )?\\{0,4}\"(?P<value>[^\"\r\n\\]{1,100})\\{1,4}[rn]\\{0,4}\""),
        # short names, where the value mixes letters and digits
        ("pass", rf"pass{_SHORT_NAME}=[ \t]{{0,4}}(?:{_Q})?{_MIXED}"),
        ("pass", rf"pass{_Q}[ \t]{{0,4}}:[ \t]{{0,4}}{_Q}{_MIXED}"),
        ("pw", rf"pw{_SHORT_NAME}[:=][ \t]{{0,4}}(?:{_Q})?{_MIXED}"),
        ("passwort", rf"passwort(?: ist)?{_SHORT_NAME}[:=]?[ \t]{{0,4}}(?:{_Q})?{_MIXED}"),
    )
)
_SHORT = frozenset({"pass", "pw"})


def set_passwords(text: str, folded: str) -> Iterator[Span]:
    """Yield the passwords that the table finds."""
    for anchor, pattern in _RULES:
        for at in hits(folded, anchor):
            if anchor in _SHORT and at and text[at - 1].isalpha():
                continue
            if (match := pattern.match(text, at)) and is_given(match["value"]):
                yield Span(*match.span("value"), "password")
