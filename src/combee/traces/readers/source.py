"""One file or folder as a reader sees it: bounded reads, records with their line, and a report of what was lost.

Nothing here follows links, waits on pipes, or holds more than one record in memory. A record is one JSON line, one
whole JSON document or one member of an archive; a record over the limit is named and passed over. Notices of one file
with one reason are joined (first line, how many), so a file of a million bad lines costs one entry.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from combee.kernel.journal import clean_text
from combee.traces.readers.shape import (
    SPACE,
    Kind,
    Shape,
    bounded_lines,
    open_regular,
    parse_json,
    read_bounded,
    shape_of,
    whole_records,
)

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
    _sessions: dict[int, str] = field(default_factory=dict)
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

    def is_new(self, session: str, record: str) -> bool:
        """Whether a record with this unique name was met in no other session: forks and resumed copies repeat it."""
        return self._sessions.setdefault(hash(record), session) == session if record else True

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


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Bounds in bytes (or characters of text, for `trace`) that keep memory flat whatever the files hold."""

    record: int = 64 << 20
    """One JSON line, document or archive member."""
    held: int = 64 << 20
    """Records of unfinished traces held at a time, where a file mixes traces (spans, runs)."""
    trace: int = 256 << 20
    """Text of one trace; later steps are cut and named."""


@dataclass
class Source:
    """A file or folder to read. `name` is its path below the folder that was asked for."""

    path: Path
    name: str
    report: Report
    limits: ReadLimits = field(default_factory=ReadLimits)
    folder: bool = False
    taken: frozenset[str] | None = None
    """A folder reader that used only some of the entries names them here; the others are then read on their own."""
    belongs: bool = False
    """Set by a reader for a file whose content is read with another one (a sub-agent's file)."""

    @property
    def kind(self) -> Kind:
        """What it is: a folder, one JSON document, lines of JSON, a zip archive, or something else."""
        return "folder" if self.folder else self._shape.kind

    @property
    def first(self) -> tuple[object, ...]:
        """The first JSON values of a file (the only one of a document); empty for a folder or an archive."""
        return () if self.folder else self._shape.first

    @property
    def reason(self) -> str:
        """Why a file of kind `other` cannot be read."""
        return "" if self.folder else self._shape.reason

    @property
    def reason_line(self) -> int | None:
        """The line of `reason`, where there is one."""
        return None if self.folder else self._shape.line

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The entries of a folder, sorted; links are left out."""
        if not self.folder:
            return ()
        try:
            with os.scandir(self.path) as entries:
                return tuple(sorted(entry.name for entry in entries if not entry.is_symlink()))
        except OSError:
            return ()

    def child(self, name: str) -> Source:
        """Return an entry of this folder, given by its path below it."""
        path = self.path / name
        below = clean_text(f"{self.name}/{name}" if self.name else name)
        return Source(path, below, self.report, self.limits, folder=path.is_dir() and not path.is_symlink())

    def quiet(self) -> Source:
        """Return the same place with a report of its own: to look at it before it is known whose it is."""
        return Source(self.path, self.name, Report(), self.limits, folder=self.folder)

    def skip(self, reason: str, line: int | None = None) -> None:
        """Name something of this file that was not read."""
        self.report.skip(self.name or self.path.name, reason, line)

    def note(self, reason: str, line: int | None = None) -> None:
        """Name something that was read, but changed or assumed."""
        self.report.note(self.name or self.path.name, reason, line)

    def records(self) -> Iterator[tuple[int, object]]:
        """Yield (line, value) of every JSON value of the file; each line that cannot be read is named."""
        shape = self._shape
        if shape.values is not None:
            yield from shape.values
        elif shape.kind == "lines":
            yield from self._lines()

    def read_bytes(self, limit: int | None = None) -> bytes | None:
        """Return the whole file, or None (named) where it is larger than the limit or cannot be opened."""
        bound = self.limits.record if limit is None else limit
        try:
            with open_regular(self.path) as file:
                data = read_bounded(file, bound)
        except (OSError, EOFError, zlib.error) as error:
            self.skip(f"cannot be opened: {getattr(error, 'strerror', None) or error}")
            return None
        if data is None:
            self.skip(f"larger than {bound >> 20} MiB")
            return None
        return data

    def read_json(self, limit: int | None = None) -> object:
        """Return the JSON document in the file, or None (named) where there is none."""
        data = self.read_bytes(limit)
        if data is None:
            return None
        try:
            return parse_json(data)
        except ValueError as error:
            self.skip(str(error), getattr(error, "line", None))
            return None

    def _lines(self) -> Iterator[tuple[int, object]]:
        try:
            with open_regular(self.path) as file:
                for line, data in bounded_lines(file, self.limits.record):
                    if data is None:
                        self.skip(f"line longer than {self.limits.record >> 20} MiB", line)
                    elif data.strip(SPACE):
                        yield from ((line, value) for value in self._values(data, line))
        except (OSError, EOFError, zlib.error) as error:
            self.skip(f"cannot be read to its end: {getattr(error, 'strerror', None) or error}")

    def _values(self, data: bytes, line: int) -> list[object]:
        """Return the JSON values of a line: one, or those that a crash left of it."""
        if b"\0" in data:
            self.note("NUL bytes were left out", line)
            data = data.replace(b"\0", b"")
            if not data.strip(SPACE):
                return []
        try:
            return [parse_json(data)]
        except ValueError as error:
            trouble = str(error)
        if trouble == "not UTF-8":
            data = data.decode("utf-8", "replace").encode()
            try:
                found: list[object] = [parse_json(data)]
            except ValueError as error:
                trouble = str(error)
            else:
                self.note("bytes that are not UTF-8 were replaced", line)
                return found
        self.skip(trouble, line)
        return whole_records(data)

    @cached_property
    def _shape(self) -> Shape:
        try:
            with open_regular(self.path) as file:
                return shape_of(file, self.limits.record)
        except OSError as error:
            return Shape("other", reason=f"cannot be opened: {error.strerror or error}")
        except (EOFError, zlib.error) as error:
            return Shape("other", reason=f"a damaged gzip file: {error}")


_MOST_CLOSED = 1_000_000


@dataclass(slots=True)
class RecordGroup:
    """The records of one trace with their lines."""

    key: str
    records: list[tuple[int, dict[str, object]]] = field(default_factory=list)
    size: int = 0


def grouped(
    source: Source, records: Iterable[tuple[int, str, dict[str, object], int]], what: str
) -> Iterator[RecordGroup]:
    """Yield groups of (line, key, record, size in bytes); `what` names one record in a notice."""
    open_groups: dict[str, RecordGroup] = {}
    closed: set[int] = set()
    held = 0
    for line, key, record, size in records:
        group = open_groups.pop(key, None)
        if group is None:
            if hash(key) in closed:
                source.skip(f"{what} that came after its trace was closed (too many traces are mixed)", line)
                continue
            group = RecordGroup(key)
        open_groups[key] = group  # last touched stands last
        group.records.append((line, record))
        group.size += size
        held += size
        while held > source.limits.held and len(open_groups) > 1:
            oldest = open_groups.pop(next(iter(open_groups)))
            held -= oldest.size
            if len(closed) < _MOST_CLOSED:
                closed.add(hash(oldest.key))
            yield oldest
    yield from open_groups.values()
