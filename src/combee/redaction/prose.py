"""Passwords in sentences: "my password is X", "log in with password X", `login bob password X`.

A value in quotes counts; without them it has to look like a secret, or stand at the end of "my password is word".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from combee.redaction.spans import hits

_TELLING = re.compile(r"[0-9]|[!@#$%^&*](?=.)")
_CODE_VALUE = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\.?|(?:u?int|float|sha|utf|md|base|bytes|char)-?\d+\w*|v\d+(?:\.\d+)+"
    r"|[&*][A-Za-z][\w-]*|!{1,2}[A-Za-z]+|[\w.-]+@[\w.-]+:[~/]\S*[#$]|[a-z+]{2,10}://\S*",  # YAML, a shell, a place
    re.IGNORECASE,
)
_WORDS = (
    "accepted any binary bool boolean bytes changed char correct data denied disabled empty enabled expired failed "
    "false field file forgotten given hash hashed hidden incorrect input integer invalid mandatory masked mismatch "
    "missing needed none null number object omitted optional pass passwd password present prompt protected redacted "
    "rejected removed required reset secret stored string text true undefined unknown unset updated valid value "
    "varchar void weak wrong"
)
NO_SECRETS = frozenset(_WORDS.split())
_ADVERBS = (
    "a about again all also already always an as at blank case-insensitive case-sensitive common compromised different "
    "easy encrypted exposed fine gone good here in it known leaked long lost never new not now of ok okay old on only "
    "out plain plaintext public right safe same secure set shared short shown simple strong the there this too unique "
    "unsafe used visible your"
)
_NO_PASSWORDS = NO_SECRETS | frozenset(_ADVERBS.split())
_UNIT = re.compile(r"[ -](?:bits?|bytes?|char|digit|letter|symbol|round|second|minute|hour|day|time|word)")
_LENGTH = re.compile(rf"\d+{_UNIT.pattern}")  # `12-digit`
_OF = r"(?: (?:for|of|to|on) (?:the )?[\w@.'/-]{1,40}(?: [\w@.'/-]{1,40})?)?"
_VALUE = (
    r"(?:(?P<quote>\\{0,4}[\"'`]|\*\*)(?P<inside>(?:(?!(?P=quote))[^\r\n]){1,100})(?P=quote)"
    r"|(?P<bare>[^\s\"'`\\<>]{3,200}))"
)
_IS = re.compile(
    rf"(?:pass(?:word|phrase|wd|code)|pwd)s?{_OF}(?:'s|s? (?:is|was|are|will be)(?: (?:now|still|currently|just))?:?) "
    rf"{_VALUE}",
    re.IGNORECASE,
)
_WITH = re.compile(rf"(?:password|passphrase|passcode):? {_VALUE}", re.IGNORECASE)
_BEFORE_WITH = re.compile(
    r"(?:\b(?:with|and|using|use|by|enter|type|set)(?: the| a| this)?|\b(?:user(?:name)?|login) [\w@.-]{1,60},?) \Z",
    re.IGNORECASE,
)
_REVERSED = re.compile(
    r"(?<![^\s\"'`])(?P<bare>[^\s\"'`\\<>]{6,100})[\"'`]? (?:is|as) (?:the |my |our |a )?(?:\w{1,20} )?\Z"
)
_LOGIN = re.compile(rf"credentials?(?: are| is)?:? [\w@.-]{{1,60}} ?[:/] ?{_VALUE}", re.IGNORECASE)
_NETRC = re.compile(r"\blogin [^\s\"']{1,60} \Z", re.IGNORECASE)
_MINE = re.compile(r"\b(?:my|our)(?: [\w-]{1,30}){0,2} \Z", re.IGNORECASE)
_ENDS = re.compile(r"[.,;!)]{0,2}(?:[\s\\]|\Z)")
_TRAILING = ".,;:!?)]}*"


def looks_secret(value: str) -> bool | None:
    """Return True for a value with a digit or a sign, False for code (`a.b`, `!vault`), None for a plain word."""
    if _CODE_VALUE.fullmatch(value):
        return False
    return True if _TELLING.search(value) else None


def said(text: str, folded: str) -> Iterator[tuple[int, int]]:
    """Yield the places of passwords in sentences."""
    for anchor in ("password", "passwd", "passphrase", "passcode", "pwd"):
        for at in hits(folded, anchor):
            before = max(0, at - 80)
            if match := _IS.match(text, at):
                yield from _told(text, match, mine=bool(_MINE.search(text, before, at)))
            elif match := _WITH.match(text, at):
                if _NETRC.search(text, before, at):
                    yield match.span("bare" if match["bare"] else "inside")
                elif _BEFORE_WITH.search(text, before, at) or _mixed(match["bare"] or match["inside"]):
                    yield from _told(text, match, mine=False)
            if (match := _REVERSED.search(text, before, at)) and _mixed(match["bare"]):
                yield match.span("bare")
    for at in hits(folded, "credential"):
        if (match := _LOGIN.match(text, at)) and (match["inside"] or _mixed(match["bare"])):
            yield from _told(text, match, mine=False)


def _mixed(value: str | None) -> bool:
    """Whether a word without quotes can only be a secret: letters and digits, long, no name of code."""
    return (
        value is not None
        and len(value) > 7
        and re.fullmatch(r"(?=.*\d)(?=.*[A-Za-z])[^\s/_.()\[\]=:,-]+[.,;:!?)]?", value) is not None
        and looks_secret(value) is True
    )


def _told(text: str, match: re.Match[str], *, mine: bool) -> Iterator[tuple[int, int]]:
    if match["inside"]:
        if match["inside"].lower().strip(_TRAILING) not in _NO_PASSWORDS and looks_secret(match["inside"]) is not False:
            yield match.span("inside")
        return
    start, end = match.span("bare")
    value = match["bare"].rstrip(_TRAILING) or match["bare"]
    end = start + len(value)
    telling = looks_secret(value)
    if telling is None:
        words = value.lower().split("-")
        telling = len(words) > 3 or (mine and value.isalpha() and words[0] not in _NO_PASSWORDS)
        telling = telling and _ENDS.match(text, end) is not None
    elif telling and value[0].isdigit():
        telling = len(value) > 3 and not _UNIT.match(text, end) and not _LENGTH.match(value)
    if telling and not re.search(r"[(\[{=]", value):
        yield start, end
