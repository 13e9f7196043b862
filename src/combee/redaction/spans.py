"""Where a secret stands in a text, and the small steps that all finders share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MARK = "[redacted:"
# A variable, a placeholder, a mask: names a password, holds none.
_NOT_GIVEN = re.compile(
    r"\$\w+|\$[({][\s\S]*|[({<][\s\S]*[)}>]|\{+|%\w+%|%[sdr]|%\(\w+\)s|\*+|\.+|[xX]{3,}|-|…"
    r"|\[[A-Za-z :_-]*\]?|(?:[A-Z]+_){0,4}(?:PASSWORD|PASSWD|PASSPHRASE|PASS|TOKEN|SECRET|API_?KEY)"
)


@dataclass(frozen=True, slots=True)
class Span:
    """One secret at `text[start:end]`."""

    start: int
    end: int
    kind: str


Finder = Callable[[str, str], Iterator[Span]]
"""Takes the text and the same text in lower case (of equal length)."""


def hits(text: str, anchor: str) -> Iterator[int]:
    """Yield each place of the anchor, from the left, without overlap."""
    at = text.find(anchor)
    while at >= 0:
        yield at
        at = text.find(anchor, at + len(anchor))


def is_given(value: str) -> bool:
    """Return whether a word is a password itself, and no variable, placeholder, mask or mark."""
    return bool(value) and MARK not in value and not _NOT_GIVEN.fullmatch(value)
