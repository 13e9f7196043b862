"""What must not be stored, as finders: each yields the spans of one kind of secret in a text.

A finder is asked only where a word of the text calls for it; it searches for literal anchors and tries its pattern
only there, so every text is read in linear time. Nothing to install; the table follows the key formats that
providers publish.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from combee.redaction.commands import command_passwords, tools_in
from combee.redaction.headers import bearer_tokens, header_values
from combee.redaction.passwords import passwords
from combee.redaction.settings import set_passwords
from combee.redaction.spans import Finder, Span, hits, is_given


def _opens(text: str, at: int) -> bool:
    r"""Whether no word runs into position `at`; an escaped line break (`\n`) and the mark of a diff are none."""
    if at == 0:
        return True
    before = text[at - 1]
    if before == "-":
        return at == 1 or text[at - 2] == "\n" or text.endswith("\\n", 0, at - 1)
    return not (before.isalnum() or before == "_") or (before in "nrt" and text[at - 2 : at - 1] == "\\")


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
    ("sk.eyJ pk.eyJ", r"[A-Za-z0-9_.-]{40,400}"),  # Mapbox
    (
        "sq0atp- sq0csp- xkeysib- pul- CFPAT- jina_ rdme_ tfp_ pnu_ rpa_",
        rf"{_ID}{{20,200}}",
    ),  # Square, Brevo, ...
    ("glc_ glimt- dckr_oat_ pscale_tkn_ pscale_pw_ sb_secret_ sntryu_ ops_eyJ", r"[A-Za-z0-9_.=-]{20,2000}"),
    ("dp.pt. dp.st. atlasv1. hvb.", r"[A-Za-z0-9_.-]{20,500}"),  # Doppler, Terraform, Vault
    ("FlyV1 fm1_ fm2_", r"[A-Za-z0-9_+/=,-]{20,2000}"),  # Fly
    ("LTAI", r"[A-Za-z0-9]{12,28}(?![A-Za-z0-9])"),  # Alibaba Cloud
    ("AKID", r"[A-Za-z0-9]{32}(?![A-Za-z0-9])"),  # Tencent Cloud
    ("EAACEdEose0cBA EAAB EAAG", r"[A-Za-z0-9]{30,400}"),  # Facebook
    ("key-", r"[0-9a-f]{32}(?![A-Za-z0-9])"),  # Mailgun
    ("AC SK", r"[0-9a-f]{32}(?![A-Za-z0-9])"),  # Twilio
)
_TAILS = {prefix: re.compile(tail) for prefixes, tail in _PREFIXES for prefix in prefixes.split()}
# A key is one long word.
_LONG_WORD = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{14,}")
_BEGINNING = re.compile(rf"(?:[nrt]|-)?({'|'.join(sorted(map(re.escape, _TAILS), key=len, reverse=True))})")
_DOTTED = tuple(prefix for prefix in _TAILS if "." in prefix)
_WEBHOOK = re.compile(r"(?:hooks\.slack\.com/(?:services|workflows)/|/api/webhooks/\d{10,25}/)([A-Za-z0-9_/-]{20,200})")
_OFFICE_HOOK = re.compile(r"webhook\.office\.com/webhookb2/([A-Za-z0-9@_/-]{30,300})")
_TELEGRAM = re.compile(r"\d{8,12}:AA[A-Za-z0-9_-]{32,36}(?![A-Za-z0-9_-])")
_DISCORD = re.compile(r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}(?![A-Za-z0-9_-])")


def _provider_keys(text: str, _folded: str) -> Iterator[Span]:
    for word in _LONG_WORD.finditer(text):
        begin = word.start()
        if match := _BEGINNING.match(text, begin):
            begin = match.start(1)
            if _opens(text, begin) and (tail := _TAILS[match[1]].match(text, match.end())):
                yield Span(begin, tail.end(), "api_key")
        elif text[begin] in "MNO" and (match := _DISCORD.match(text, begin)):
            yield Span(begin, match.end(), "api_key")


def _rare_keys(text: str, _folded: str) -> Iterator[Span]:
    for prefix in _DOTTED:
        for at in hits(text, prefix):
            if _opens(text, at) and (match := _TAILS[prefix].match(text, at + len(prefix))):
                yield Span(at, match.end(), "api_key")
    for anchor, pattern in (
        ("hooks.slack.com/", _WEBHOOK),
        ("/api/webhooks/", _WEBHOOK),
        ("webhook.office.com/", _OFFICE_HOOK),
    ):
        for at in hits(text, anchor):
            if match := pattern.match(text, at):
                yield Span(match.start(1), match.end(1), "api_key")
    for at in hits(text, ":AA"):
        if match := _TELEGRAM.search(text, max(0, at - 12), at + 40):
            yield Span(*match.span(), "api_key")


_PEM = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    # Where no end line follows (a key that was cut off), all that looks like its body goes.
    r"(?:(?:(?!-----)[\s\S])*-----END [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\s]|\\[nr])*)"
)


def _private_keys(text: str, _folded: str) -> Iterator[Span]:
    done = 0
    for at in hits(text, "PRIVATE KEY"):
        start = text.rfind("-----BEGIN", max(done, at - 100), at) if at >= done else -1
        if start >= 0 and (match := _PEM.match(text, start)):
            done = match.end()
            yield Span(start, done, "private_key")


_JWT = re.compile(rf"eyJ{_ID}{{8,4000}}(?:\.{_ID}{{0,8000}}){{2,4}}")


def _jwts(text: str, _folded: str) -> Iterator[Span]:
    for at in hits(text, "eyJ"):
        if _opens(text, at) and (match := _JWT.match(text, at)):
            yield Span(at, match.end(), "jwt")


_URL_PASSWORD = re.compile(r"://[^\s/:@\"'<>\\]{0,200}:(?!\[redacted)([^\s/\"'<>\\]{1,200})@")


_DSN_PASSWORD = re.compile(r"(?<=:)(?<!\[redacted:)[^\s:@/\"'`\\]{1,100}\Z")  # `root:pw@tcp(db:3306)/x`


def _url_passwords(text: str, _folded: str) -> Iterator[Span]:
    for at in hits(text, "@tcp("):
        if (match := _DSN_PASSWORD.search(text, max(0, at - 100), at)) and is_given(match[0]):
            yield Span(match.start(), at, "url_password")
    for at in hits(text, "://"):
        if match := _URL_PASSWORD.match(text, at):
            yield Span(match.start(1), match.end(1), "url_password")


_QUOTE = r"\\{0,4}[\"']"
# A value that a name gives away (`api_key = "..."`): it has a digit, and it is no call, index or attribute of code.
_ASSIGNED = (
    rf"(?:{_QUOTE})?[ \t]{{0,4}}(?:=>|:=|[:=]|(?<=[ \t])is(?=[ \t]))[ \t]{{0,4}}(?:{_QUOTE})?"
    rf"(?=[A-Za-z_./+~=-]{{0,200}}[0-9])([A-Za-z0-9_./+~=-]{{12,500}})(?![A-Za-z0-9_(\[.])"
)
_KEY_TAIL = re.compile(r"key(?:[_-]?id|s)?" + _ASSIGNED, re.IGNORECASE)
_WORD_TAIL = re.compile(r"(?:secret|token|credentials?)" + _ASSIGNED, re.IGNORECASE)
_KEY_OWNER = re.compile(
    r"(?:api|access|secret|private|auth|encryption|signing|account|master|service|subscription|shared|client)[ _-]?\Z"
)


def _assigned_keys(text: str, folded: str) -> Iterator[Span]:
    for at in hits(folded, "key"):
        if (match := _KEY_TAIL.match(text, at)) and _KEY_OWNER.search(folded, max(0, at - 16), at):
            yield Span(match.start(1), match.end(1), "api_key")
    for anchor in ("secret", "token", "credential"):
        for at in hits(folded, anchor):
            if (match := _WORD_TAIL.match(text, at)) and not text[at - 1 : at].isalnum():
                yield Span(match.start(1), match.end(1), "api_key")


_LOCAL_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]*\Z")
_DOMAIN = re.compile(r"@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,6}[A-Za-z]{2,24}(?![A-Za-z0-9-])")


def _emails(text: str, _folded: str) -> Iterator[Span]:
    for at in hits(text, "@"):
        if match := _DOMAIN.match(text, at):
            local = _LOCAL_PART.search(text, max(0, at - 64), at)
            # git@host is the name of a service, not of a person.
            if local and local[0] != "git":
                yield Span(local.start(), match.end(), "email")


_USER_NAME = re.compile(r"\\{0,3}(?!Shared\b|Public\b)([A-Za-z0-9][A-Za-z0-9._-]{0,63})")


def _home_paths(text: str, _folded: str) -> Iterator[Span]:
    for anchor in ("/home/", "/Users/", "\\Users\\"):
        for at in hits(text, anchor):
            if (anchor[0] == "\\" or _opens(text, at)) and (match := _USER_NAME.match(text, at + len(anchor))):
                yield Span(match.start(1), match.end(1), "home_path")


_QUOTED = rf"(?:{_QUOTE})"
BEGINNING = re.compile(
    rf"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]{{14}})(?:{_BEGINNING.pattern}|[MNO][A-Za-z0-9_-]{{23,27}}\.)"
)
FINDERS: Mapping[Finder, str | Callable[[str], object]] = {
    _private_keys: r"PRIVATE",
    _jwts: r"eyJ",
    _url_passwords: r"@tcp\(|://[^\s/]{1,402}@",
    _provider_keys: BEGINNING.pattern,
    _rare_keys: rf"{'|'.join(map(re.escape, _DOTTED))}|hooks\.slack\.com/|/api/webhooks/|webhook\.office\.com/|:AA",
    bearer_tokens: r"(?i:bearer|authorization)",
    header_values: r"(?i:cookie|(?:-[a-z0-9-]{0,60}|api)(?:token|key|secret)|-password)",
    _assigned_keys: rf"(?i:(?:key(?:[_-]?id|s)?|secret|token|credentials?){_QUOTED}?(?:[:=]|\Z))",
    command_passwords: tools_in,
    passwords: r"(?i:passw|passphrase|passcode|pass=|pwd|pw=|secret|cred|-auth|_auth=|token=|_key=)"
    rf"|[-_](?:token|apikey|key|pass)(?:=|\Z|{_QUOTED})",
    set_passwords: r"(?i:assw|requirepass|masterauth|identified\Z|env\Z|:_auth|basicauth\("
    rf"|(?:auth|cookies)(?:=|\Z|{_QUOTED})|(?:pass|pw)(?:[]:=]|\Z|{_QUOTED}))",
    _emails: r"[A-Za-z0-9._%+-]@[A-Za-z0-9-]+\.",
    _home_paths: r"/home/|[/\\]Users[/\\]",
}
"""In the order of preference where two kinds overlap, each with a pattern of words: in a text without a word that the
pattern is found in, the finder finds nothing and is not asked."""

HINT = re.compile(
    r"[@%\\&^\uff01-\uff5e]|://|:aa|/(?:home|users)/|priva|eyj|beare|auth|cooki|key|token|secret|cred|pass|pwd"
    r"|pw[=:\]\"']|pw\Z|identified\Z|env\Z|assw|sg\.|ya29\.|hv[bs]\.|[sp]k\.eyj|dp\.[ps]t\.|atlasv1\.|hooks\.sl|webhook"
)
"""What stands (in lower case) in every word that a finder asks for, but for names of tools and beginnings of keys."""

ACROSS_LINES = tuple(find for find in FINDERS if find not in {_emails, _home_paths, _private_keys})
"""Those whose secrets a terminal or a mail may have broken over lines. Names of people are no such words."""
