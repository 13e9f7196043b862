"""What must not be stored, as finders: each yields the spans of one kind of secret in a text.

A finder looks for literal anchors first (a substring search) and tries its pattern only there, so plain text costs
nearly nothing and every text is read in linear time. Nothing to install; the table follows the key formats that
providers publish.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["FINDERS", "Finder", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """One secret at `text[start:end]`."""

    start: int
    end: int
    kind: str


Finder = Callable[[str, str], Iterator[Span]]
"""Takes the text and the same text in lower case (of equal length)."""


def _hits(text: str, anchor: str) -> Iterator[int]:
    at = text.find(anchor)
    while at >= 0:
        yield at
        at = text.find(anchor, at + len(anchor))


def _opens(text: str, at: int) -> bool:
    """Whether no word runs into position `at`."""
    return at == 0 or not (text[at - 1].isalnum() or text[at - 1] in "_-")


# Tokens that their prefix gives away: the literal prefixes, and what follows them.
_ID = r"[A-Za-z0-9_-]"
_DIGIT_AHEAD = r"(?=[A-Za-z_-]{0,80}\d)"
_PREFIXES: tuple[tuple[str, str], ...] = (
    ("sk-", rf"{_DIGIT_AHEAD}{_ID}{{16,300}}"),  # OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse
    ("AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),  # AWS
    ("ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{30,255}"),  # GitHub
    ("github_pat_", r"[A-Za-z0-9_]{22,255}"),
    ("glpat- gldt- glrt- glptt- glcbt- glft- glsoat-", r"[A-Za-z0-9_.-]{18,255}"),  # GitLab
    ("xoxa- xoxb- xoxc- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", r"[A-Za-z0-9-]{10,255}"),  # Slack
    ("AIza", rf"{_ID}{{35}}"),  # Google
    ("ya29. GOCSPX-", rf"{_ID}{{20,500}}"),
    ("sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ whsec_", r"[A-Za-z0-9]{16,255}"),  # Stripe
    ("hf_ npm_ r8_", r"[A-Za-z0-9]{30,100}"),  # Hugging Face, npm, Replicate
    ("pypi-Ag", rf"{_ID}{{40,500}}"),
    ("SG.", rf"{_ID}{{16,64}}\.{_ID}{{16,64}}"),  # SendGrid
    ("gsk_ csk- xai- pplx- tvly- nvapi- fw_", rf"{_DIGIT_AHEAD}{_ID}{{20,255}}"),  # model providers
    ("lsv2_pt_ lsv2_sk_", r"[A-Za-z0-9_]{32,128}"),  # LangSmith
    ("dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}"),  # DigitalOcean
    ("dapi", r"[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])"),  # Databricks
    ("shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}"),  # Shopify
    ("lin_api_ ntn_ sbp_ figd_ sntrys_ rubygems_ dckr_pat_ glsa_ PMAK- NRAK- hvs.", r"[A-Za-z0-9_.=-]{20,500}"),
    ("ATATT3", r"[A-Za-z0-9_=-]{50,300}"),  # Atlassian
    ("AGE-SECRET-KEY-1", r"[A-Z0-9]{40,80}"),
    ("key-", r"[0-9a-f]{32}(?![A-Za-z0-9])"),  # Mailgun
    ("AC SK", r"[0-9a-f]{32}(?![A-Za-z0-9])"),  # Twilio
)
_TAILS = tuple((prefix, re.compile(tail)) for prefixes, tail in _PREFIXES for prefix in prefixes.split())
_WEBHOOK = re.compile(r"(?:hooks\.slack\.com/(?:services|workflows)/|/api/webhooks/\d{10,25}/)([A-Za-z0-9_/-]{20,200})")
_TELEGRAM = re.compile(r"(?<=\d{8}):AA[A-Za-z0-9_-]{32,36}(?![A-Za-z0-9_-])")


def _provider_keys(text: str, _folded: str) -> Iterator[Span]:
    for prefix, tail in _TAILS:
        for at in _hits(text, prefix):
            if _opens(text, at) and (match := tail.match(text, at + len(prefix))):
                yield Span(at, match.end(), "api_key")
    for anchor in ("hooks.slack.com/", "/api/webhooks/"):
        for at in _hits(text, anchor):
            if match := _WEBHOOK.match(text, at):
                yield Span(match.start(1), match.end(1), "api_key")
    for at in _hits(text, ":AA"):
        if match := _TELEGRAM.match(text, at):
            yield Span(at, match.end(), "api_key")


_PEM = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    # Where no end line follows (a key that was cut off), all that looks like its body goes.
    r"(?:(?:(?!-----)[\s\S])*-----END [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\s]|\\[nr])*)"
)


def _private_keys(text: str, _folded: str) -> Iterator[Span]:
    done = 0
    for at in _hits(text, "PRIVATE KEY"):
        start = text.rfind("-----BEGIN", max(done, at - 100), at) if at >= done else -1
        if start >= 0 and (match := _PEM.match(text, start)):
            done = match.end()
            yield Span(start, done, "private_key")


_JWT = re.compile(rf"eyJ{_ID}{{8,4000}}(?:\.{_ID}{{0,8000}}){{2,4}}")


def _jwts(text: str, _folded: str) -> Iterator[Span]:
    for at in _hits(text, "eyJ"):
        if _opens(text, at) and (match := _JWT.match(text, at)):
            yield Span(at, match.end(), "jwt")


_URL_PASSWORD = re.compile(r"://[^\s/:@\"'<>\\]{0,200}:(?!\[redacted)([^\s/\"'<>\\]{1,200})@")


def _url_passwords(text: str, _folded: str) -> Iterator[Span]:
    for at in _hits(text, "://"):
        if match := _URL_PASSWORD.match(text, at):
            yield Span(match.start(1), match.end(1), "url_password")


_TOKEN = r"[A-Za-z0-9._~+/=-]"  # noqa: S105 - a pattern, not a password
_BEARER = re.compile(rf"bearer[ \t:=]{{1,4}}({_TOKEN}{{12,4000}})(?![A-Za-z0-9])", re.IGNORECASE)
_QUOTE = r"\\{0,4}[\"']"
_HEADER = re.compile(
    rf"authorization(?:{_QUOTE})?[ \t]{{0,4}}[:=][ \t]{{0,4}}(?:{_QUOTE})?(?:(?:basic|token|bearer|digest)[ \t]+)?"
    rf"(?!(?:basic|token|bearer|digest)\b)({_TOKEN}{{8,4000}})(?![A-Za-z0-9(\[])",
    re.IGNORECASE,
)


def _bearer_tokens(text: str, folded: str) -> Iterator[Span]:
    for anchor, pattern in (("bearer", _BEARER), ("authorization", _HEADER)):
        for at in _hits(folded, anchor):
            if match := pattern.match(text, at):
                yield Span(match.start(1), match.end(1), "bearer_token")


# A value that a name gives away (`api_key = "..."`): it has a digit, and it is no call, index or attribute of code.
_ASSIGNED = (
    rf"(?:{_QUOTE})?[ \t]{{0,4}}(?:=>|:=|[:=])[ \t]{{0,4}}(?:{_QUOTE})?"
    rf"(?=[A-Za-z_./+~=-]{{0,200}}[0-9])([A-Za-z0-9_./+~=-]{{12,500}})(?![A-Za-z0-9_(\[.])"
)
_KEY_TAIL = re.compile(r"key(?:[_-]?id|s)?" + _ASSIGNED, re.IGNORECASE)
_WORD_TAIL = re.compile(r"(?:secret|token|credentials?)" + _ASSIGNED, re.IGNORECASE)
_KEY_OWNER = re.compile(
    r"(?:api|access|secret|private|auth|encryption|signing|account|master|service|subscription|shared|client)[_-]?\Z"
)
_QUOTED_PASSWORD = re.compile(
    rf"(?:pass(?:word|wd|phrase)|pwd(?!\W{{1,12}}[/~]))(?:{_QUOTE})?[ \t]{{0,4}}(?:=>|:=|[:=])[ \t]{{0,4}}"
    rf"[bru]{{0,2}}{_QUOTE}"
    r"(?!\[redacted|[$<{%*])([^\s\"'\\<>{}]{4,200})(?=\\{0,4}[\"'])",
    re.IGNORECASE,
)
# An environment variable or a command's option: whatever is given. (PWD is also the folder that a shell is in.)
_BARE_PASSWORD = re.compile(
    r"(?:PASSWORD|PASSWD|PWD(?!=[/~])|password|passwd)[= ](?!\[redacted|[\"'$<{%*\\= ])([^\s\"'\\<>;&|]{4,200})"
)
# Elsewhere code and prose look alike (`password: str`, `password: required`), so the value has to look like a secret.
_SAID = re.compile(
    rf"(?P<name>pass(?:word|wd|phrase)|pwd|secret)(?:{_QUOTE})?(?P<sep>[ \t]{{0,4}}(?:=>|:=|[:=])\*{{0,2}}[ \t]{{0,4}})"
    rf"(?:`|{_QUOTE})?(?![$<{{%*=:/~-])(?P<value>[^\s\"'`\\<>;&|,()\[\]{{}}]{{4,200}}+)(?![(\[])",
    re.IGNORECASE,
)
_TELLING = re.compile(r"[0-9]|[!@#$%^&*](?=.)")
_CODE_VALUE = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\.?|(?:u?int|float|sha|utf|md|base|bytes|char)-?\d+\w*", re.IGNORECASE
)
_WORD = re.compile(r"[A-Za-z_-]+[.:!?]{0,3}")
_WORDS = (
    "accepted any binary bool boolean bytes changed char correct data denied disabled empty enabled expired failed "
    "false field file forgotten given hash hashed hidden incorrect input integer invalid mandatory masked mismatch "
    "missing needed none null number object omitted optional pass passwd password present prompt protected redacted "
    "rejected removed required reset secret stored string text true undefined unknown unset updated valid value "
    "varchar void weak wrong"
)
_NO_SECRETS = frozenset(_WORDS.split())


def _assigned_keys(text: str, folded: str) -> Iterator[Span]:
    for at in _hits(folded, "key"):
        if (match := _KEY_TAIL.match(text, at)) and _KEY_OWNER.search(folded, max(0, at - 16), at):
            yield Span(match.start(1), match.end(1), "api_key")
    for anchor in ("secret", "token", "credential"):
        for at in _hits(folded, anchor):
            if (match := _WORD_TAIL.match(text, at)) and not text[at - 1 : at].isalnum():
                yield Span(match.start(1), match.end(1), "api_key")


def _passwords(text: str, folded: str) -> Iterator[Span]:
    for anchor in ("passw", "passphrase", "pwd"):
        for at in _hits(folded, anchor):
            match = _QUOTED_PASSWORD.match(text, at)
            option = text[max(0, at - 2) : at] == "--"
            if match is None and (option or "=" in text[at + 3 : at + 9]):
                match = _BARE_PASSWORD.match(text, at) if option or text[at].isupper() else None
            if match:
                yield Span(match.start(1), match.end(1), "password")
    for anchor in ("passw", "passphrase", "pwd", "secret"):
        for at in _hits(folded, anchor):
            if (match := _SAID.match(text, at)) and text[at - 1 : at] != "/" and _is_said(match, text):
                yield Span(match.start("value"), match.end("value"), "password")


def _is_said(match: re.Match[str], text: str) -> bool:
    """Whether the value after a name is a secret: it has a digit or a sign, or stands where only a value can."""
    name, value, (start, end) = match["name"].lower(), match["value"], match.span()
    if _CODE_VALUE.fullmatch(value) or (match["sep"] == ":" and re.match(r"\d+:", value)):
        return False  # an attribute, a type; a line of a file
    if _TELLING.search(value):
        return True
    word = value.rstrip(".:!?").lower()
    if not _WORD.fullmatch(value) or word in _NO_SECRETS or word.endswith(f"_{name}"):
        return False
    before = text[max(0, start - 200) : start].rpartition("\n")[2]
    after = text[end : end + 2]
    if match["sep"] == "=":  # `f(password=word)` is code
        return before.count("(") <= before.count(")") and after[:1] not in {",", ")", "."}
    # A line of settings: `password: word`, and nothing else.
    alone = not before.strip(" \t-") and (not after.strip(" \t") or after.lstrip(" \t")[0] in "\r\n#")
    return alone and value.islower() and name != "secret" and match["sep"].strip() == ":"


_LOCAL_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]*\Z")
_DOMAIN = re.compile(r"@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,6}[A-Za-z]{2,24}(?![A-Za-z0-9-])")


def _emails(text: str, _folded: str) -> Iterator[Span]:
    for at in _hits(text, "@"):
        if match := _DOMAIN.match(text, at):
            local = _LOCAL_PART.search(text, max(0, at - 64), at)
            # git@host is the name of a service, not of a person.
            if local and local[0] != "git":
                yield Span(local.start(), match.end(), "email")


_USER_NAME = re.compile(r"\\{0,3}(?!Shared\b|Public\b)([A-Za-z0-9][A-Za-z0-9._-]{0,63})")


def _home_paths(text: str, _folded: str) -> Iterator[Span]:
    for anchor in ("/home/", "/Users/", "\\Users\\"):
        for at in _hits(text, anchor):
            if (anchor[0] == "\\" or _opens(text, at)) and (match := _USER_NAME.match(text, at + len(anchor))):
                yield Span(match.start(1), match.end(1), "home_path")


FINDERS: tuple[Finder, ...] = (
    _private_keys,
    _jwts,
    _url_passwords,
    _provider_keys,
    _bearer_tokens,
    _assigned_keys,
    _passwords,
    _emails,
    _home_paths,
)
"""In the order of preference where two kinds overlap."""
