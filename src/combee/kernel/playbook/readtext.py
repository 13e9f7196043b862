r"""Reading playbook text: ours, the ACE reference's, AppWorld's, or one that a person edited.

Nothing is lost silently: what cannot be a bullet, a section or the continuation of a bullet is reported with its
line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from combee.kernel.playbook.ids import make_id, number_of
from combee.kernel.playbook.model import Bullet, Playbook
from combee.kernel.playbook.problems import Parsed, Problem
from combee.kernel.playbook.sections import DEFAULT_SECTION, canonical_section, is_blank_section
from combee.kernel.playbook.text import count_lone_surrogates, split_lines
from combee.kernel.playbook.textform import LOOKS_LIKE_COUNTERS, unescape

__all__ = ["from_text"]

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

    Bullets before any `##` line go to the default section; lines that follow a bullet belong to it; list items
    without an id, and ids used twice, get new ids.
    Each of these is reported, with its line counted from 1.
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
