"""A secret that is hidden from a search but from no reader is taken out too: forms times kinds."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.redaction import redact
from combee.redaction.redact import asked_by
from combee.redaction.secrets import FINDERS
from tests.redaction.test_redact import ALNUM, JWT, PROVIDER_KEYS

# How the secret is written, and where; names are those of settings, code and commands.
NAMED = {
    "discord": ('client.run("{}")', "MTk4NjIyNDgzNDcxOTI1MjQ4." + "Cl2FMQ." + ALNUM[:28]),
    "docker": ('{{"auths": {{"r.example": {{"auth":"{}"}}}}}}', "Ym9iOmh1bnRlcjJodW50ZXIyaHVudGVyMg=="),
    "jwt": ("got {} back", JWT),
    "password": ("DB_PASSWORD={}", "hunter2hunter9x"),
    "quoted": ('password = "{}"', "hunter2hunter9x"),
    "json": ('{{"password": "{}"}}', "hunter2hunter9x"),
    "url": ("postgres://app:{}@db.local:5432/x", "hunter2hunter9x"),
    "bearer": ("Authorization: Bearer {}", ALNUM),
    "aws_secret": ("AWS_SECRET_ACCESS_KEY={}", "wJalrXUtnFEMI7K7MDENGbPxRfiCY0EXAMPLEKEY"),
    "assigned": ("api_key: '{}'", "abc123def456ghi7"),
    "mysql": ("mysql -u root -p{} -e 'select 1'", "hunter2hunter9x"),
    "curl": ("curl -u admin:{} http://h/x", "hunter2hunter9x"),
    "alibaba": ("id {} used", "LTAI" + ALNUM[:20]),
    "vault": ("token hvs.{}", ALNUM),
    "doppler": ("use dp.pt.{}", ALNUM),
}
KINDS = {name: ("key is {} ok", key) for name, key in PROVIDER_KEYS.items() if name != "slack_hook"} | NAMED


def _broken(joint: str) -> Callable[[str], str]:
    return lambda key: key[: len(key) // 2] + joint + key[len(key) // 2 :]


FORMS: dict[str, Callable[[str], str]] = {
    "colour": lambda key: f"\x1b[31m{key[:6]}\x1b[0m\x1b[1m{key[6:]}\x1b[0m",
    "title": _broken("\x1b]0;x\x07"),
    "nul": "\0".join,
    "zero_width": _broken("\u200b"),
    "soft_hyphen": _broken("\u00ad"),
    "byte_order_mark": _broken("\ufeff"),
    "backspace": _broken("Q\b"),
    "overstruck": lambda key: "".join(f"{letter}\b{letter}" for letter in key),
    "wrapped": _broken("\n"),
    "wrapped_by_windows": _broken("\r\n"),
    "wrapped_and_indented": _broken("\n        "),
    "wrapped_in_a_diff": _broken("\n+"),
    "wrapped_in_numbered_lines": _broken("\n   12\t"),
    "wrapped_by_a_shell": _broken("\\\n"),
    "wrapped_in_mail": _broken("=\n"),
    "wrapped_in_json": _broken("\\n"),
    "written_colour": _broken("\\u001b[31m"),
    "written_nul": _broken("\\u0000"),
    "percent": lambda key: "".join(f"%{ord(letter):02X}" for letter in key),
    "some_percent": lambda key: f"%{ord(key[0]):02x}{key[1:9]}%{ord(key[9]):02x}{key[10:]}",
    "entity": lambda key: f"&#{ord(key[0])};{key[1:9]}&#x{ord(key[9]):x};{key[10:]}",
    "escaped": lambda key: f"\\u{ord(key[0]):04x}{key[1:9]}\\x{ord(key[9]):02x}{key[10:]}",
    "wide": lambda key: "".join(chr(ord(letter) + 0xFEE0) for letter in key),
}


def _pieces(key: str) -> list[str]:
    """What must not be left: every ten letters of it in a row."""
    return [key[at : at + 10] for at in range(len(key) - 9)]


def _as_read(text: str) -> str:
    """The text with all that a form put in or wrote otherwise undone, apart from this project's own code for it."""
    text = re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
    text = re.sub(r"\\(?:u00|x)([2-7][0-9a-f])", lambda found: chr(int(found[1], 16)), text)
    text = re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), text)
    text = re.sub(r"&#x([0-9a-f]+);", lambda found: chr(int(found[1], 16)), text)
    text = "".join(chr(ord(letter) - 0xFEE0) if "\uff01" <= letter <= "\uff5e" else letter for letter in text)
    text = re.sub(r"(?:\\u001b|\x1b)\[\d*m|\x1b\]0;x\x07|\\u0000|.\x08|[\0\u200b\u00ad\ufeff]", "", text)
    return re.sub(r"(?:=|\\)?\r?\n(?:\s*\d+\t|\+|\s*)|\\n", "", text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_secret_is_taken_out(kind: str, form: str) -> None:
    around, key = KINDS[kind]
    hidden = FORMS[form](key)
    for text in (around.format(hidden), f"line 1\n{around.format(hidden)}\nthe end\n"):
        stored = redact(text)
        assert sum(stored.counts.values()) >= 1
        left = _as_read(stored.text)
        assert [piece for piece in _pieces(key) if piece in left] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_in_an_address_is_taken_out(kind: str) -> None:
    around, key = KINDS[kind]
    text = "https://x.io/log?line=" + quote(around.format(key), safe="")
    left = _as_read(redact(text).text)
    assert [piece for piece in _pieces(key) if piece in left] == []


@pytest.mark.parametrize("mark", ["+", "-", " ", "> ", "  7 | ", "\\n", "\\t"])
def test_the_mark_of_a_line_hides_no_key(mark: str) -> None:
    for name, key in PROVIDER_KEYS.items():
        if name != "slack_hook":
            assert key[-12:] not in redact(f"diff\\n\n{mark}{key}\n").text


@given(
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(["\x1b[1m", "\0", "\u200b", "x\b", "\n", "\r\n  ", "\\\n"]),
    st.lists(st.floats(0.2, 0.8), min_size=1, max_size=3),
)
def test_wherever_a_secret_is_cut_no_half_of_it_stays(kind: str, cut: str, places: list[float]) -> None:
    around, key = KINDS[kind]
    hidden = key
    for place in sorted({int(place * len(key)) for place in places}, reverse=True):
        if key[place - 1].isalnum() and key[place].isalnum():  # at a colon a line may well end
            hidden = hidden[:place] + cut + hidden[place:]
    left = _as_read(redact(f"a\n{around.format(hidden)}\n").text)
    assert key not in left


@pytest.mark.parametrize(
    "text",
    [
        "version = 1.2.3\nname = tool-kit4\nnumpy==2.1.0\nscipy==1.14.1\n",
        "API_BASE=https://x.example/v1\nMODEL=deepseek-chat2\nTIMEOUT=30\n",
        "token_count = 512\nkey_size = 2048\npassword_length = 12\n",
        "see https://x.example/a%20b%2Fc?d=%7B%22e%22%3A1%7D",
        "the key 1\nthe token 2\npass 3\nfail 4",
        "assert token == key1\nassert secret == name2\n",
        "کتاب\u200cها و 👨\u200d👩\u200d👧 bleiben",
        "diff --git a/key1.py b/key1.py\n--- a/key1.py\n+++ b/key1.py\n+def f(x1):\n+    return x1\n",
        "commit 4701c3c62441077c\nAuthor: x\n\n    Merge 2 branches\n",
        "drwxr-xr-x 2 root root 4096 Dec 1\n-rw-r--r-- 1 root root 1024 Dec 1 auth.py\n",
    ],
)
def test_lines_that_follow_each_other_are_no_broken_secret(text: str) -> None:
    assert redact(text).text == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_finder_is_asked_wherever_it_finds_something(kind: str) -> None:
    """Words decide which finders run; whatever a finder finds in a text that stands alone has to be among its words."""
    around, key = KINDS[kind]
    for form in FORMS.values():
        text = form(around.format(key))
        for number, find in enumerate(FINDERS):
            if any(find(text, text.lower())):
                assert asked_by(text) >> number & 1, find.__name__


def test_what_nobody_sees_is_not_stored() -> None:
    assert redact("a\x1b[31mred\x1b[0m b\0c d\x7fe f\u200bg hiX\b!").text == "ared bc de fg hi!"
