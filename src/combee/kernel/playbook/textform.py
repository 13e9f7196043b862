r"""The text that agents read and people edit.

It is the ACE form `[id] helpful=N harmful=N :: text` under `## SECTION` lines, or AppWorld's `[id] text`.
One line is one bullet: a line break is written `\n`, and only backslashes before an `n` or a line break are doubled,
so `\alpha` stays as it is.
The high-water mark and the token counter travel in a comment at the end. Texts of other tools are read too; what was
odd is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from combee.errors import UsageError
from combee.kernel.playbook.counting import token_counter
from combee.kernel.playbook.ids import is_writable_id
from combee.kernel.playbook.model import Bullet, Playbook
from combee.kernel.playbook.sections import canonical_section

__all__ = ["LOOKS_LIKE_COUNTERS", "bullet_line", "escape", "heading_line", "mark_line", "to_text", "tokens", "unescape"]

_RUN_BEFORE_BREAK = re.compile(r"(\\*)(\n|n)")
_MARK = "<!-- combee playbook: high_water={high_water} counter={counter} -->"
LOOKS_LIKE_COUNTERS = re.compile(r"\s*(?:helpful|harmful)\s*=", re.IGNORECASE)
_PLAIN_ID = re.compile(r"[^\W\d_][^\[\]\s]*-[0-9]+")


def _double(match: re.Match[str]) -> str:
    slashes = match[1]
    if match[2] == "n":
        return slashes * 2 + "n" if slashes else "n"
    return slashes * 2 + "\\n"


def _halve(match: re.Match[str]) -> str:
    slashes = len(match[1])
    return "\\" * (slashes // 2) + ("\n" if slashes % 2 else "n")


def escape(text: str) -> str:
    """Return `text` on one line; `unescape` gives it back exactly."""
    return _RUN_BEFORE_BREAK.sub(_double, text) if "\n" in text or "\\n" in text else text


def unescape(line: str) -> str:
    """Undo `escape`."""
    return _RUN_BEFORE_BREAK.sub(_halve, line) if "\\n" in line else line


def heading_line(section: str) -> str:
    """Return the line that opens a section."""
    return f"## {canonical_section(section)}\n"


def mark_line(book: Playbook) -> str:
    """Return the comment that carries what the bullets do not say."""
    return _MARK.format(high_water=book.high_water, counter=book.counter) + "\n"


def bullet_line(bullet: Bullet, style: Literal["ace", "appworld"] = "ace") -> str:
    """Return the line of one bullet.

    AppWorld's form has no counters; a text that would be taken for counters gets the ACE form there.
    """
    text = escape(bullet.text)
    if style == "appworld" and _PLAIN_ID.fullmatch(bullet.id) and not LOOKS_LIKE_COUNTERS.match(text):
        return f"[{bullet.id}] {text}\n"
    return f"[{bullet.id}] helpful={bullet.helpful} harmful={bullet.harmful} :: {text}\n"


def _lines(bullets: Iterable[Bullet], style: Literal["ace", "appworld"]) -> list[str]:
    lines: list[str] = []
    section: str | None = None
    for bullet in bullets:
        if bullet.section != section:
            lines += ["\n", heading_line(bullet.section)] if lines else [heading_line(bullet.section)]
            section = bullet.section
        lines.append(bullet_line(bullet, style))
    return lines


def to_text(book: Playbook, style: Literal["ace", "appworld"] = "ace", *, mark: bool = True) -> str:
    """Return the book as text, sections and bullets in the order of the book.

    `mark=False` leaves out the comment: that is what agents read.

    Raises:
        UsageError: an id cannot stand in brackets, or `style` is unknown.
    """
    if style not in ("ace", "appworld"):
        raise UsageError(f"unknown style {style!r} of playbook text", hint="Known: ace, appworld.")
    for bullet in book.bullets:
        if not is_writable_id(bullet.id):
            raise UsageError(
                f"the bullet id {bullet.id!r} cannot be written as text", hint="Ids hold no blanks and no brackets."
            )
    lines = _lines(book.bullets, style)
    return "".join([*lines, "\n" if lines else "", mark_line(book)] if mark else lines)


def tokens(book: Playbook) -> int:
    """Return the tokens of the text agents read (ACE form without the comment), by the book's own counter.

    An empty book has 0.

    Raises:
        UsageError: the book's counter cannot be used here.
    """
    counter = token_counter(book.counter)
    return counter.total(sum(map(counter.units, _lines(book.bullets, "ace"))))
