"""Passwords that a name gives away: in settings, code, environments, options of any program, and prose.

Code and prose speak of passwords all the time (`password: str`, "the password is required"), so outside of quotes,
options and environments a value counts only if it looks like a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from combee.redaction.prose import NO_SECRETS, looks_secret, said
from combee.redaction.spans import Span, hits, is_given
from combee.redaction.words import unquoted, word_end

_MOST = 2000
_QUOTE = r"\\{0,4}[\"']"
_OPTION_NAME = re.compile(
    r"(?<![\w+-])(?:--?|\+\+)(?!(?:no|ask|use|prompt|with|without|show|skip|need|require|change)-)(?:[A-Za-z0-9]{1,20}[-_.])*+[a-z]{0,20}\Z"
)
_SEPARATED = rf"(?:[= ]|{_QUOTE},(?:\s|\\{{1,4}}[nrt]){{0,20}}(?={_QUOTE}))(?![-= ])"
_OPTION = re.compile(rf"(?:password\d?|passwd|passphrase){_SEPARATED}", re.IGNORECASE)
_KEY_OPTION = re.compile(rf"[-_](?:token|secret|apikey|key|pass){_SEPARATED}")
_KEY_OPTION_NAME = re.compile(r"(?<![\w-])-(?:[-_][a-z0-9]{1,20}){0,4}\Z")
_LOGIN_OPTION = re.compile(rf"--?(?:(?:basic|proxy|http)-)?(?:auth|creds?|credentials?){_SEPARATED}")
_VARIABLE = re.compile(r"(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD(?!=[/~])|PW|REDISCLI_AUTH)=")
_OWNER = re.compile(
    r"(?:DB|SSH|ADMIN|USER|ROOT|SMTP|MAIL|EMAIL|FTP|MYSQL|MARIADB|PG|POSTGRES|REDIS|MONGO|LDAP|API|APP|SUDO|LOGIN|"
    r"SERVICE|PROXY|GPG|KEY|STORE|VNC)_?\Z"
)
_ELEMENT = re.compile(r"pass(?:word|wd|phrase)>([^<>\s{}$]{1,200})</", re.IGNORECASE)
_QUOTED = re.compile(
    rf"(?:pass(?:word|wd|phrase)|pwd(?!\W{{1,12}}[/~]))\d?(?:{_QUOTE})?\]?[ \t]{{0,4}}"
    rf"(?::[ \t]?[A-Za-z]\w{{1,20}}[ \t]?=|=>|:=|[:=])[ \t]{{0,4}}[bfru]{{0,2}}{_QUOTE}"
    r"([^\s\"'\\<>{}]{4,200})(?=\\{0,4}[\"'])",
    re.IGNORECASE,
)
# Elsewhere code and prose look alike (`password: str`, `password: required`), so the value has to look like a secret.
_SAID = re.compile(
    rf"(?P<name>pass(?:word|wd|phrase)|pwd|secret)(?:{_QUOTE}|`|\*\*)?"
    rf"(?P<sep>[ \t]{{0,4}}(?:=>|:=|[:=])\*{{0,2}}[ \t]{{0,4}})"
    rf"(?:`|{_QUOTE})?(?![$<{{%*=:/~-])(?P<value>[^\s\"'`\\<>;&|,()\[\]{{}}]{{4,200}}+)(?![(\[])",
    re.IGNORECASE,
)
_TYPES = frozenset({"string", "boolean", "integer", "required", "optional"})  # of a schema
_WORD = re.compile(r"[A-Za-z_-]+[.:!?]{0,3}")


def passwords(text: str, folded: str) -> Iterator[Span]:
    """Yield the passwords that a name gives away."""
    places = (*_named(text, folded), *_variables(text), *_keys(text), *said(text, folded))
    for start, end in places:
        if is_given(text[start:end]):
            yield Span(start, end, "password")
    for anchor in ("passw", "passphrase", "pwd", "secret"):
        for at in hits(folded, anchor):
            if (match := _SAID.match(text, at)) and text[at - 1 : at] != "/" and _is_said(match, text):
                yield Span(match.start("value"), match.end("value"), "password")


def _named(text: str, folded: str) -> Iterator[tuple[int, int]]:
    for anchor in ("passw", "passphrase", "pwd"):
        for at in hits(folded, anchor):
            if (match := _QUOTED.match(text, at) or _ELEMENT.match(text, at)) and match[1].lower() not in _TYPES:
                yield match.span(1)
            if (match := _OPTION.match(text, at)) and _OPTION_NAME.search(text, max(0, at - 60), at):
                yield _given(text, match.end())


def _variables(text: str) -> Iterator[tuple[int, int]]:
    """The values of variables as an environment has them (`PGPASSWORD=x`); `PASS=12` alone counts tests."""
    for anchor in ("PASSW", "PASSPHRASE", "PWD=", "PASS=", "PW=", "REDISCLI_AUTH="):
        done = 0
        for at in hits(text, anchor):
            short = anchor in {"PASS=", "PW="}
            if (match := _VARIABLE.match(text, at)) and not (short and not _OWNER.search(text, max(0, at - 12), at)):
                if at < done:
                    continue
                start, end = _given(text, match.end())
                done = end if is_given(text[start:end]) else done  # what stands within goes with it
                if " " not in text[start:end] or "password" not in text[start:end].lower():  # no question to a user
                    yield start, end


def _keys(text: str) -> Iterator[tuple[int, int]]:
    """Keys and tokens, in variables and as options of any program; pairs behind `--auth`."""
    for anchor in ("TOKEN=", "SECRET=", "_KEY=", "_AUTH="):
        for at in hits(text, anchor):
            yield from _if_key(text, at + len(anchor))
    for anchor in ("-token", "-secret", "-apikey", "-key", "-pass", "_token", "_secret", "_key"):
        for at in hits(text, anchor):
            if (match := _KEY_OPTION.match(text, at)) and _KEY_OPTION_NAME.search(text, max(0, at - 90), at):
                yield from _if_key(text, match.end())
    for anchor in ("-auth", "-cred"):
        for at in hits(text, anchor):
            if (match := _LOGIN_OPTION.match(text, at - 1)) or (match := _LOGIN_OPTION.match(text, at)):
                start, end = _given(text, match.end())
                colon = text.find(":", start, end)
                if colon > start and not text.startswith("//", colon + 1):
                    yield colon + 1, end


def _if_key(text: str, at: int) -> Iterator[tuple[int, int]]:
    start, end = _given(text, at)
    value = text[start:end]
    if len(value) >= 8 and re.search(r"\d", value) and re.search(r"[A-Za-z]", value) and not re.search(r"[(/.]", value):
        yield start, end


def _given(text: str, at: int) -> tuple[int, int]:
    """The value at this place, as a shell reads it: to the next blank, or to the end of its quotes."""
    return unquoted(text, at, word_end(text, at, min(len(text), at + _MOST)))


def _is_said(match: re.Match[str], text: str) -> bool:
    """Whether the value after a name is a secret: it has a digit or a sign, or stands where only a value can."""
    name, value, (start, end) = match["name"].lower(), match["value"], match.span()
    if match["sep"] == ":" and re.match(r"\d+:", value):
        return False  # a line of a file
    if re.search(r"(?<!\*)\*\Z", match["sep"]):
        return False  # `*name` in YAML
    if match["sep"] == " = " and text[start - 5 : start] in {"self.", "this."} and value.isidentifier():
        return False  # a name of code, too
    telling = looks_secret(value)
    if telling is not None:
        return telling
    word = value.rstrip(".:!?").lower()
    if not _WORD.fullmatch(value) or word in NO_SECRETS or word.endswith(f"_{name}"):
        return False
    before = text[max(0, start - 200) : start].rpartition("\n")[2]
    after = text[end : end + 2]
    if match["sep"] == "=":  # `f(password=word)` is code
        return before.count("(") <= before.count(")") and after[:1] not in {",", ")", "."}
    # A line of settings: `password: word`, and nothing else.
    alone = not before.strip(" \t-") and (not after.strip(" \t") or after.lstrip(" \t")[0] in "\r\n#")
    return alone and value.islower() and name != "secret" and match["sep"].strip() == ":"
