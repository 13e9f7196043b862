"""What a reading run counted, and what it could not read: nothing is dropped without a name.

Notices of one file with one reason are joined (first line, how many), so a file of a million bad lines costs one entry.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Notice", "Report"]

_MOST = 100_000


@dataclass(slots=True)
class Notice:
    """`count` things of one kind in one file; `line` is that of the first (from 1), None for the file as a whole."""

    path: str
    reason: str
    line: int | None = None
    count: int = 1

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        more = f" ({self.count} times)" if self.count > 1 else ""
        return f"{where}: {self.reason}{more}"


@dataclass(slots=True)
class Report:
    """Counts of one reading run.

    `formats` maps a reader's name to its traces, `files` to its files or folders; `lost` counts what was not read,
    `twice` the runs that `ReadResult.once` met again, `links` the further names of files that were read once, `unnamed`
    the notices past the number that is kept.
    """

    formats: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    tool_calls: int = 0
    twice: int = 0
    links: int = 0
    lost: int = 0
    unnamed: int = 0
    _skipped: dict[tuple[str, str], Notice] = field(default_factory=dict)
    _notes: dict[tuple[str, str], Notice] = field(default_factory=dict)

    @property
    def skipped(self) -> tuple[Notice, ...]:
        """What was not read, in the order in which it was met."""
        return tuple(self._skipped.values())

    @property
    def notes(self) -> tuple[Notice, ...]:
        """What was read, but changed or assumed."""
        return tuple(self._notes.values())

    @property
    def traces(self) -> int:
        """How many traces were read."""
        return self.formats.total()

    def again(self, kind: str, steps: int, tool_calls: int) -> None:
        """Count a trace as met twice that was counted as read."""
        self.formats[kind] -= 1
        self.formats += Counter()  # without those of which none is left
        self.steps -= steps
        self.tool_calls -= tool_calls
        self.twice += 1

    def skip(self, path: str, reason: str, line: int | None = None) -> None:
        """Name something that was not read."""
        self.lost += 1
        self._add(self._skipped, path, reason, line)

    def note(self, path: str, reason: str, line: int | None = None) -> None:
        """Name something that was read, but changed or assumed."""
        self._add(self._notes, path, reason, line)

    def _add(self, where: dict[tuple[str, str], Notice], path: str, reason: str, line: int | None) -> None:
        known = where.get((path, reason))
        if known is not None:
            known.count += 1
        elif len(where) < _MOST:
            where[path, reason] = Notice(path, reason, line)
        else:
            self.unnamed += 1

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.formats.items())) or "none"
        lines = [f"{self.traces} traces ({kinds}), {self.steps} steps, {self.tool_calls} tool calls"]
        if self.twice:
            lines.append(f"met before, so left out: {self.twice}")
        for title, notices in (("not read", self.skipped), ("noted", self.notes)):
            if notices:
                lines.append(f"{title}: {sum(notice.count for notice in notices)} in {len(notices)} places")
                lines += [f"  {notice}" for notice in notices]
        if self.unnamed:
            lines.append(f"and {self.unnamed} more notices that are only counted")
        return "\n".join(lines)
