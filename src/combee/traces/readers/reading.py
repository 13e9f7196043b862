"""Reads a file or a folder of any size, format by content, one trace at a time; the known readers.

The walk follows no links, reads each real file once, and names everything that gave no trace. Installed packages offer
readers of their own under the entry point group `combee.readers`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Protocol, runtime_checkable

from combee.errors import UsageError, did_you_mean
from combee.kernel.journal import JOURNAL_NAME
from combee.redaction import Trace, trace_from_data
from combee.run.plugins import READERS, load, offered
from combee.traces.readers.aide import AideReader
from combee.traces.readers.aider import AiderReader
from combee.traces.readers.archive import unpacked
from combee.traces.readers.claude_code import ClaudeCodeReader, ClaudeStreamReader, QwenCodeReader
from combee.traces.readers.clawteam import ClawTeamReader
from combee.traces.readers.cline import ClineReader
from combee.traces.readers.codex import CodexReader, CodexStreamReader
from combee.traces.readers.copilot import CopilotChatReader, CopilotReader
from combee.traces.readers.gemini import AdkReader, GeminiReader, GeminiStreamReader
from combee.traces.readers.harbor import AtifReader, HarborReader
from combee.traces.readers.inspect_ai import InspectReader
from combee.traces.readers.kimi import KimiReader
from combee.traces.readers.langchain import LangGraphReader, LangSmithReader
from combee.traces.readers.langfuse import LangfuseReader
from combee.traces.readers.openai_chat import OpenAIAgentsReader, OpenAIChatReader
from combee.traces.readers.openclaw import OpenClawReader
from combee.traces.readers.opencode import OpenCodeReader
from combee.traces.readers.openhands import OpenHandsReader
from combee.traces.readers.otel_genai import OtelReader
from combee.traces.readers.source import ReadLimits, Report, Source
from combee.traces.readers.swe_agent import MiniSweAgentReader, SweAgentReader
from combee.traces.readers.tau_bench import TauBenchReader
from combee.traces.readers.terminal_bench import TerminalBenchReader
from combee.traces.readers.values import rows, table
from combee.traces.readers.verdicts import is_report, judged, verdicts_in


@runtime_checkable
class TraceReader(Protocol):
    """Reads the traces of one format.

    A reader is given every file and folder (`source.folder`) that no other reader took; it looks at `source.first`,
    `source.kind` or `source.names`, never at the name of the file alone. An attribute `fields` may name what stands in
    its records: of a file that nobody reads it tells which format the file nearly is.
    """

    name: str

    def sniff(self, source: Source) -> float:
        """Return how sure it is, from 0 (not mine) to 1; the surest gets the source, if it is at least 0.5 sure."""
        ...

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the traces one by one; what cannot be read is named with `source.skip(reason, line)`."""
        ...


class OwnReader:
    """Reads `{"combee_trace": 1, ...}` lines."""

    name = "combee"
    fields = ("combee_trace", "id", "task", "steps")

    def sniff(self, source: Source) -> float:
        """Look for the version field."""
        return 1.0 if any(isinstance(value, dict) and "combee_trace" in value for value in source.first) else 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield each line's trace as it was written."""
        for line, value in source.records():
            try:
                yield trace_from_data(value)
            except ValueError as error:
                source.skip(str(error), line)


_BUILT_IN: tuple[TraceReader, ...] = (
    OwnReader(),
    HarborReader(),
    TerminalBenchReader(),
    AtifReader(),
    SweAgentReader(),
    MiniSweAgentReader(),
    OpenHandsReader(),
    QwenCodeReader(),
    ClaudeCodeReader(),
    ClaudeStreamReader(),
    CodexReader(),
    CodexStreamReader(),
    OpenClawReader(),
    GeminiReader(),
    GeminiStreamReader(),
    AdkReader(),
    KimiReader(),
    AiderReader(),
    ClineReader(),
    OpenCodeReader(),
    CopilotReader(),
    CopilotChatReader(),
    InspectReader(),
    LangSmithReader(),
    LangGraphReader(),
    LangfuseReader(),
    OtelReader(),
    ClawTeamReader(),
    OpenAIAgentsReader(),
    TauBenchReader(),
    AideReader(),
    OpenAIChatReader(),
)


@cache
def readers() -> tuple[TraceReader, ...]:
    """Return all readers, those of other packages first, so that a sharper reader of a known format can be installed.

    Raises:
        UsageError: an installed package offers something that is not a reader.
    """
    foreign: list[TraceReader] = []
    for point in offered(READERS).values():
        made = load(point, make=True)
        if not isinstance(made, TraceReader):
            raise UsageError(
                f"the trace reader {point.name!r} ({point.value}) has no name, sniff and read",
                hint="See combee.traces.readers.TraceReader for what a reader must have.",
            )
        foreign.append(made)
    return (*foreign, *_BUILT_IN)


def reader(name: str) -> TraceReader:
    """Return the reader of that name.

    Raises:
        UsageError: there is none; the hint names the nearest.
    """
    known = {each.name: each for each in reversed(readers())}
    if name not in known:
        raise UsageError(f"no reader for the trace format {name!r}", hint=did_you_mean(name, known))
    return known[name]


_SURE = 0.5
_NEARLY, _LOOKED_AT = 0.5, 5
_DEEPEST_ARCHIVE = 3
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


def read(path: str | Path, format: str = "auto", *, limits: ReadLimits | None = None) -> ReadResult:  # noqa: A002 - the API
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
    forced = None if format == "auto" else reader(format)
    report = Report()
    folder = root.is_dir()
    source = Source(root, "" if folder else root.name, report, limits or ReadLimits(), folder=folder)
    walk = _Walk(readers() if forced is None else (forced,), forced, root if folder else root.parent)
    return ReadResult(walk.all_below(source) if folder else walk.file(source), report)


@dataclass(slots=True)
class _Walk:
    """One way through files and folders: `chosen` are the readers to choose from, `forced` is the one asked for."""

    chosen: tuple[TraceReader, ...]
    forced: TraceReader | None
    root: Path
    seen: set[tuple[int, int]] = field(default_factory=set)
    archives: int = 0
    verdicts: Mapping[str, bool] = field(default_factory=dict)
    """Of the folder that is read: what a report says of each instance."""

    def all_below(self, source: Source) -> Iterator[Trace]:
        yield from self.folder(source, 0)
        report = source.report
        if not (report.traces or report.lost or report.links or report.notes):
            report.skip(self.root.name or str(self.root), "there is no file in it")

    def file(self, source: Source) -> Iterator[Trace]:
        """Yield the traces of one file, read by the surest of the chosen readers, or by the one that was asked for."""
        if source.kind == "archive" and _surest(source, self.chosen) is None:
            yield from self.archive(source)
            return
        best = self.forced or _surest(source, self.chosen)
        if best is None and self.verdicts and is_report(source.first[0] if source.first else None):
            return  # read with its folder
        if best is None or (self.forced is not None and source.kind == "other"):
            source.skip(source.reason or _nearly(source, self.chosen), source.reason_line)
        else:
            yield from (judged(trace, source, self.verdicts) for trace in _run(best, source))

    def archive(self, source: Source) -> Iterator[Trace]:
        """Yield the traces in an archive: it is unpacked for as long as it is read."""
        if self.archives >= _DEEPEST_ARCHIVE:
            source.skip(f"archives nested more than {_DEEPEST_ARCHIVE} deep")
            return
        with unpacked(source) as folder:
            inside = _Walk(self.chosen, self.forced, folder, archives=self.archives + 1)
            yield from inside.folder(Source(folder, source.name, source.report, source.limits, folder=True), 0)

    def folder(self, source: Source, depth: int) -> Iterator[Trace]:
        if depth > _DEEPEST:
            source.skip(f"folders nested more than {_DEEPEST} deep")
            return
        taker = _surest(source, self.chosen)
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
        if depth and JOURNAL_NAME in names:
            source.skip("a run of Combee: name its folder to read what it kept")
            return
        above = self.verdicts
        self.verdicts = verdicts_in(source) or above
        for name in names:
            if source.taken is None or name not in source.taken:
                yield from self.entry(source.child(name), name, depth)
        self.verdicts = above

    def entry(self, source: Source, name: str, depth: int) -> Iterator[Trace]:
        try:
            found = source.path.lstat()
        except OSError as error:
            source.skip(f"cannot be opened: {error.strerror or error}")
            return
        if stat.S_ISLNK(found.st_mode):
            _name_link(source, self.root)
        elif stat.S_ISDIR(found.st_mode):
            if name in _NOT_SEARCHED:
                source.skip("folder not searched for traces")
            else:
                yield from self.folder(source, depth + 1)
        elif not stat.S_ISREG(found.st_mode):
            source.skip("not a regular file")
        else:
            if found.st_nlink > 1:
                identity = (found.st_dev, found.st_ino)
                if identity in self.seen:
                    source.report.links += 1
                    return
                self.seen.add(identity)
            yield from self.file(source)


def _surest(source: Source, chosen: tuple[TraceReader, ...]) -> TraceReader | None:
    best: TraceReader | None = None
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


def _nearly(source: Source, chosen: tuple[TraceReader, ...]) -> str:
    """Return why a file of JSON is read by nobody, with the format that it is most like."""
    keys: set[str] = set()
    for value in source.first[:_LOOKED_AT]:
        for record in [value] if isinstance(value, dict) else rows(value)[:_LOOKED_AT]:
            keys |= table(record).keys()
            inner = [item for each in table(record).values() for item in (rows(each)[:2] or [each])]
            keys |= {key for each in inner for key in table(each)}
    best, shared, lacks = "", 0.0, set[str]()
    for each in chosen:
        fields = set(getattr(each, "fields", ()))
        share = len(fields & keys) / len(fields) if fields else 0.0
        if share > shared:
            best, shared, lacks = each.name, share, fields - keys
    if shared < _NEARLY:
        return "no reader knows this format"
    without = f", but has no {' and no '.join(sorted(lacks))}" if lacks else ""
    return f"no reader knows this format: it is most like {best}{without}"


def _run(chosen: TraceReader, source: Source) -> Iterator[Trace]:
    report = source.report
    report.files[chosen.name] += 1
    found = 0
    before = report.lost
    try:
        for trace in chosen.read(source):
            found += 1
            read_as = {"format": chosen.name, "source": source.name}
            # A stored trace says itself what it was read from: its format decides who its user is.
            meta = {**read_as, **trace.meta} if chosen.name == OwnReader.name else {**trace.meta, **read_as}
            report.formats[meta["format"]] += 1
            report.steps += len(trace.steps)
            report.tool_calls += sum(len(step.tool_calls) for step in trace.steps)
            yield replace(trace, meta=meta)
    except OSError as error:
        source.skip(f"cannot be read to its end: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - a file that breaks its reader is named; the other files are still read
        source.skip(f"the {chosen.name} reader failed: {type(error).__name__}: {error}")
    if not found and not source.belongs and report.lost == before:
        source.skip(f"{chosen.name}: no trace in it")


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
