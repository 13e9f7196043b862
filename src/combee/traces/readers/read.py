"""Reads a file or a folder of any size, format by content, one trace at a time.

The walk follows no links, reads each real file once, and names everything that gave no trace.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from combee.errors import UsageError
from combee.redaction import Trace
from combee.traces.readers.notices import Report
from combee.traces.readers.protocol import Reader
from combee.traces.readers.registry import reader, readers
from combee.traces.readers.source import Limits, Source

__all__ = ["ReadResult", "read", "traces_of"]

_SURE = 0.5
_DEEPEST = 100
_NOT_SEARCHED = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules"})


class ReadResult:
    """An iterator over traces; `report` counts as it goes and is complete when the iterator is used up."""

    def __init__(self, traces: Iterator[Trace], report: Report) -> None:
        self._traces = traces
        self.report = report

    def __iter__(self) -> Iterator[Trace]:
        return self

    def __next__(self) -> Trace:
        return next(self._traces)

    def once(self) -> Iterator[Trace]:
        """Yield each run once: one whose id was met before counts in the report as `twice`, not as a trace."""
        met: set[str] = set()
        for trace in self:
            if trace.id in met:
                calls = sum(len(step.tool_calls) for step in trace.steps)
                self.report.again(trace.meta["format"], len(trace.steps), calls)
            else:
                met.add(trace.id)
                yield trace


def read(path: str | Path, format: str = "auto", *, limits: Limits | None = None) -> ReadResult:  # noqa: A002 - the API
    """Return the traces of a file, or of every file below a folder in the order of their names.

    Args:
        path: a file or a folder; a link given here is followed, links inside the folder are not.
        format: the name of a reader, or `auto` to choose by content file by file.
        limits: bounds on what is held in memory.

    Raises:
        UsageError: no such path, or no such format.
    """
    try:
        root = Path(path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a loop of links; ValueError: a NUL in the path
        raise UsageError(f"cannot read {path}: {error}", hint="Give a file or a folder of traces.") from error
    chosen = readers() if format == "auto" else (reader(format),)
    report = Report()
    folder = root.is_dir()
    source = Source(root, "" if folder else root.name, report, limits or Limits(), folder=folder)
    if folder:
        return ReadResult(_all_below(source, chosen, root), report)
    forced = None if format == "auto" else chosen[0]
    return ReadResult(traces_of(source, chosen, forced), report)


def _all_below(source: Source, chosen: tuple[Reader, ...], root: Path) -> Iterator[Trace]:
    yield from _folder(source, chosen, root, set(), 0)
    report = source.report
    if not (report.traces or report.lost or report.links):
        report.skip(root.name or str(root), "there is no file in it")


def traces_of(source: Source, chosen: tuple[Reader, ...], forced: Reader | None = None) -> Iterator[Trace]:
    """Yield the traces of one file, read by the surest of the chosen readers (or by the forced one)."""
    best = forced or _surest(source, chosen)
    if best is None:
        source.skip(source.reason or "no reader knows this format", source.reason_line)
    elif forced is not None and source.kind == "other":
        source.skip(source.reason, source.reason_line)
    else:
        yield from _run(best, source)


def _surest(source: Source, chosen: tuple[Reader, ...]) -> Reader | None:
    best: Reader | None = None
    surest = 0.0
    for each in chosen:
        try:
            sure = each.sniff(source)
        except Exception as error:  # noqa: BLE001 - one reader's fault must not cost the file
            source.note(f"the {each.name} reader failed to look at it: {type(error).__name__}: {error}")
            continue
        if sure > surest:
            best, surest = each, sure
    return best if surest >= _SURE else None


def _run(chosen: Reader, source: Source) -> Iterator[Trace]:
    report = source.report
    report.files[chosen.name] += 1
    found = 0
    before = report.lost
    try:
        for trace in chosen.read(source):
            found += 1
            report.formats[chosen.name] += 1
            report.steps += len(trace.steps)
            report.tool_calls += sum(len(step.tool_calls) for step in trace.steps)
            yield replace(trace, meta={**trace.meta, "format": chosen.name, "source": source.name})
    except OSError as error:
        source.skip(f"cannot be read to its end: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - a file that breaks its reader is named; the other files are still read
        source.skip(f"the {chosen.name} reader failed: {type(error).__name__}: {error}")
    if not found and not source.belongs and report.lost == before:
        source.skip(f"{chosen.name}: no trace in it")


def _folder(
    source: Source, chosen: tuple[Reader, ...], root: Path, seen: set[tuple[int, int]], depth: int
) -> Iterator[Trace]:
    if depth > _DEEPEST:
        source.skip(f"folders nested more than {_DEEPEST} deep")
        return
    taker = _surest(source, chosen)
    if taker is not None:
        yield from _run(taker, source)
        if source.taken is None:
            return
    try:
        with os.scandir(source.path) as entries:
            names = sorted(entry.name for entry in entries)
    except OSError as error:
        source.skip(f"folder cannot be opened: {error.strerror or error}")
        return
    for name in names:
        if source.taken is None or name not in source.taken:
            yield from _entry(source, name, chosen, root, seen, depth)


def _entry(  # noqa: PLR0917 - the state of the walk, passed by one caller
    parent: Source, name: str, chosen: tuple[Reader, ...], root: Path, seen: set[tuple[int, int]], depth: int
) -> Iterator[Trace]:
    source = parent.child(name)
    try:
        found = source.path.lstat()
    except OSError as error:
        source.skip(f"cannot be opened: {error.strerror or error}")
        return
    if stat.S_ISLNK(found.st_mode):
        _name_link(source, root)
    elif stat.S_ISDIR(found.st_mode):
        if name in _NOT_SEARCHED:
            source.skip("folder not searched for traces")
        else:
            yield from _folder(source, chosen, root, seen, depth + 1)
    elif not stat.S_ISREG(found.st_mode):
        source.skip("not a regular file")
    else:
        if found.st_nlink > 1:
            identity = (found.st_dev, found.st_ino)
            if identity in seen:
                source.report.links += 1
                return
            seen.add(identity)
        yield from traces_of(source, chosen)


def _name_link(source: Source, root: Path) -> None:
    """Count a link to what is read under its own name; name one that leads nowhere or out of the folder."""
    try:
        target = source.path.resolve(strict=True)
    except (OSError, RuntimeError):
        source.skip("link that leads nowhere or in a circle")
        return
    if target == root or root in target.parents:
        source.report.links += 1
    else:
        source.skip("link that leads out of the folder: not followed")
