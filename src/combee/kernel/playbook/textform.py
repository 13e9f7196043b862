r"""The text that agents read and people edit: written, measured, read back.

It is the ACE form `[id] helpful=N harmful=N :: text` under `## SECTION` lines, or AppWorld's `[id] text`. One line is
one bullet: a line break is written `\n`, and only backslashes before an `n` or a line break are doubled, so `\alpha`
stays as it is. High-water mark and token counter travel in a comment at the end. Texts of other tools and texts edited
by hand are read too; what cannot be a bullet, a section or the continuation of a bullet is reported with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from combee.errors import UsageError
from combee.kernel.playbook.counting import TokenCounter, token_counter
from combee.kernel.playbook.model import Bullet, Parsed, Playbook, Problem
from combee.kernel.playbook.sections import (
    DEFAULT_SECTION,
    canonical_section,
    is_blank_section,
    is_writable_id,
    make_id,
    number_of,
)
from combee.kernel.playbook.text import count_lone_surrogates, split_lines

_RUN_BEFORE_BREAK = re.compile(r"(\\*)(\n|n)")
_MARK_LINE = "<!-- combee playbook: high_water={high_water} counter={counter} -->"
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
    return _MARK_LINE.format(high_water=book.high_water, counter=book.counter) + "\n"


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
    if book.kept.tokens is None:
        sections = [bullet.section for bullet in book.bullets]
        headings = [now for before, now in zip(["", *sections], sections, strict=False) if now != before]
        units = sum([line_units(bullet, counter) for bullet in book.bullets])
        units += sum(counter.units(heading_line(section)) for section in headings)
        book.kept.tokens = counter.total(units + counter.units("\n") * max(0, len(headings) - 1))
    return book.kept.tokens


def line_units(bullet: Bullet, counter: TokenCounter) -> int:
    """Return the units of a bullet's line; measured once, since versions share most of their bullets."""
    if bullet._units is None or bullet._units[0] != counter.name:
        object.__setattr__(bullet, "_units", (counter.name, counter.units(bullet_line(bullet))))
    return cast("tuple[str, int]", bullet._units)[1]


_MARK = re.compile(r"<!-- combee playbook: high_water=([0-9]{1,18}) counter=(\S+) -->\s*")
_HEADING = re.compile(r"\s{0,3}#{2,6}(?:\s+(.*))?")
_ACE = re.compile(
    r"\s{0,3}(?:[-*]\s+)?\[([^\[\]\s]+)\]\s*"
    r"helpful\s*=\s*([0-9]{1,18})[\s,]*harmful\s*=\s*([0-9]{1,18})\s*::(?: (.*)|(.*))",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"\s{0,3}(?:[-*]\s+)?\[([^\W\d_][^\[\]\s]*-[0-9]+)\](?!\()(?: (.*)|(.*))")
_BROKEN = re.compile(
    r"\s{0,3}(?:[-*]\s+)?(?:\[[^\[\]]{0,40}\]?|[^\[\]\s]*\])?\s*(?:helpful|harmful)\s*=", re.IGNORECASE
)
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|[0-9]{1,3}[.)])\s+(\S.*)")
_LATEX_N = re.compile(
    r"\\(?:n(?:abla|eq?|u|ot(?:in)?|i|leq|geq|mid|cong|sim|exists|parallel|subseteq|warrow|earrow|atural|ewline|ewcommand|oindent|onumber|ormalsize))(?![A-Za-z])"
)


@dataclass(slots=True)
class _Reader:
    """The state while lines go by.

    `gap` counts blank lines since the last bullet, kept when its text goes on after them.
    """

    ours: bool
    section: str = DEFAULT_SECTION
    headed: bool = False
    bullets: list[Bullet] = field(default_factory=list)
    unnumbered: list[int] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    open: list[str] = field(default_factory=list)
    gap: int = 0
    problems: list[Problem] = field(default_factory=list)

    def report(self, line: int, reason: str, shown: str = "", *, skipped: bool = True) -> None:
        self.problems.append(Problem(line, reason, shown[:80], skipped))

    def text(self, raw: str) -> str:
        if "\\n" not in raw:
            return raw
        if self.ours:
            return unescape(raw)
        # Other tools do not escape. There `\n` may be a line break or the start of a formula's command; the latter
        # keeps its backslash.
        return unescape(_LATEX_N.sub(lambda match: "\\" + match[0], raw))

    def close(self) -> None:
        """Give the last bullet the lines that followed it."""
        if self.open:
            last = self.bullets[-1]
            self.bullets[-1] = replace(last, text="\n".join([last.text, *self.open]))
        self.open = []
        self.gap = 0

    def heading(self, number: int, name: str | None) -> None:
        self.close()
        if is_blank_section(name):
            self.report(number, f"a section without a name; its bullets go to {DEFAULT_SECTION}", skipped=False)
        self.section = canonical_section(name)
        self.headed = True

    def bullet(self, number: int, bullet_id: str, text: str, helpful: int = 0, harmful: int = 0) -> None:
        if self.open:
            self.close()
        self.gap = 0
        if not self.headed:
            self.report(
                number, f"no section line before this bullet; it goes to {DEFAULT_SECTION}", text, skipped=False
            )
            self.headed = True
        if not bullet_id or bullet_id in self.seen:
            reason = f"the id {bullet_id} is used twice" if bullet_id else "a bullet without an id"
            self.report(number, f"{reason}; it gets a new one", text, skipped=False)
            self.unnumbered.append(len(self.bullets))
        self.seen.add(bullet_id)
        self.bullets.append(Bullet(bullet_id, self.section, self.text(text), helpful, harmful))

    def other(self, number: int, line: str) -> None:
        """A line that is neither heading nor bullet.

        The last bullet goes on, or a list item without an id, or nothing we know.
        """
        in_section = bool(self.bullets) and self.bullets[-1].section == self.section and self.headed
        unnumbered = in_section and self.unnumbered[-1:] == [len(self.bullets) - 1]
        item = _LIST_ITEM.fullmatch(line)
        if in_section and _BROKEN.match(line):
            # Whoever edits by hand must hear that this is no bullet of its own.
            self.report(number, "not a bullet that can be read; it is kept as text", line, skipped=False)
        if item and (not in_section or unnumbered):
            self.bullet(number, "", item[1])
        elif in_section and not line.lstrip().startswith("<!--"):
            self.open += [""] * self.gap + [line]
            self.gap = 0
        elif not line.lstrip().startswith(("<!--", "# ")):
            self.report(number, "not a bullet, not a section", line)


def from_text(text: str) -> Parsed:
    """Read a playbook from text.

    Bullets before any `##` line go to the default section; lines that follow a bullet belong to it; list items without
    an id, and ids used twice, get new ids. Each of these is reported, with its line counted from 1.
    """
    lone = count_lone_surrogates(text)
    lines = split_lines(text.removeprefix("\ufeff"))
    marks = [match for line in lines if line.startswith("<!--") and (match := _MARK.fullmatch(line))]
    reader = _Reader(ours=bool(marks))
    if lone:
        reader.report(1, f"{lone} lone surrogate(s) replaced by U+FFFD", skipped=False)
    for number, line in enumerate(lines, start=1):
        _read_line(reader, number, line)
    reader.close()
    high_water = max(
        [int(match[1]) for match in marks] + [number_of(bullet.id) for bullet in reader.bullets], default=0
    )
    for index in reader.unnumbered:
        high_water += 1
        bullet = reader.bullets[index]
        reader.bullets[index] = replace(bullet, id=make_id(bullet.section, high_water))
    counter = marks[-1][2] if marks else "chars/4"
    return Parsed(Playbook(tuple(reader.bullets), high_water, counter), tuple(reader.problems))


def _read_line(reader: _Reader, number: int, line: str) -> None:
    if match := _ACE.fullmatch(line):
        bullet_id, helpful, harmful, text, tight = match.groups()
        reader.bullet(number, bullet_id, tight if text is None else text, int(helpful), int(harmful))
    elif not line.strip():
        reader.gap += 1
    elif match := _PLAIN.fullmatch(line):
        text = match[2] if match[2] is not None else match[3]
        if LOOKS_LIKE_COUNTERS.match(text):
            reader.report(number, "counters that cannot be read; the line is kept as text", line, skipped=False)
        reader.bullet(number, match[1], text)
    elif match := _HEADING.fullmatch(line):
        reader.heading(number, match[1])
    elif not _MARK.fullmatch(line):
        reader.other(number, line)
