"""Traces on disk as a run keeps them: redacted, cleaned, one a line; an index in memory instead of the traces.

A learning run needs the ids of all its samples before it begins, and a folder of traces may be larger than memory. So
they are read once, written to the run's folder in this form, and loaded one by one: about 300 bytes a trace stay.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from combee.errors import DataError
from combee.files import whole_file
from combee.kernel.journal import Scope
from combee.kernel.learn import RecordedTraces, Reflection, Sampled
from combee.kernel.playbook import Playbook, Vote, VoteKind
from combee.redaction import Redactor, Trace, clean, from_jsonl, to_jsonl
from combee.run.spread import spread

_VOTE = "vote"
_ANSWERS = frozenset({"target", "answer", "expected", "solution"})


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """Where a trace stands in its file: a sample for the learning loop."""

    id: str
    labels: Mapping[str, str]
    offset: int
    length: int


Fact = TypeVar("Fact")
Result = TypeVar("Result")


@dataclass(slots=True)
class KeptTraces(Generic[Fact]):
    """What was written: traces, those met twice (kept once), what was redacted, by kind, and what was measured."""

    traces: int = 0
    twice: int = 0
    redacted: Counter[str] = field(default_factory=Counter)
    facts: list[Fact] = field(default_factory=list)


def safe(trace: Trace, redactor: Redactor | None) -> tuple[Trace, Mapping[str, int]]:
    """Return the trace as it may be stored and shown: no secrets (with a redactor), no expected answer, no noise.

    Redaction comes first: a secret that cleaning cuts in two would not be known any more.
    """
    counts: Mapping[str, int] = {}
    answers = {trace.meta[key] for key in _ANSWERS & trace.meta.keys()}
    meta = {key: value for key, value in trace.meta.items() if key not in _ANSWERS}
    outcome = trace.outcome
    if outcome is not None and any(answer.strip() and answer.strip() in outcome.detail for answer in answers):
        outcome = replace(outcome, detail="")  # a scorer's explanation that names the expected answer
    trace = replace(trace, meta=meta, outcome=outcome)
    if redactor is not None:
        trace, counts = redactor.trace(trace)
    return clean(trace, None), counts


@dataclass(frozen=True, slots=True)
class Storing(Generic[Fact]):
    """What is done to each trace before it is kept: it may be done in another process.

    Attributes:
        redactor: None leaves secrets where they are.
        measure: Called with the trace as it was read; what it returns is kept beside the trace.
        writes: Whether the trace itself is kept.
    """

    redactor: Redactor | None
    measure: Callable[[Trace], Fact]
    writes: bool = True

    def __call__(self, trace: Trace | str) -> tuple[bytes, Mapping[str, int], Fact]:
        """Return its line, what was redacted in it, and what was measured."""
        trace = trace_of(trace)
        fact = self.measure(trace)
        if not self.writes:
            return b"", {}, fact
        cleaned, counts = safe(trace, self.redactor)
        return line_of(cleaned).encode("utf-8"), counts, fact


def line_of(trace: Trace | str) -> str:
    """Return the line of a trace in a file of stored traces."""
    return trace if isinstance(trace, str) else next(to_jsonl([trace]))


def trace_of(line: Trace | str) -> Trace:
    """Return the trace of such a line."""
    return next(from_jsonl([line])) if isinstance(line, str) else line


def _size_of(trace: Trace | str) -> int:
    if isinstance(trace, str):
        return len(trace)
    calls = sum(len(call.arguments) for step in trace.steps for call in step.tool_calls)
    return calls + sum(len(step.text) for step in trace.steps)


def spread_over(
    work: Callable[[Trace | str], Result], traces: Iterable[Trace | str], processes: int
) -> Iterator[Result]:
    """Yield `work(trace)` for each trace, in order, done by so many processes where there are many (`run.spread`)."""
    return spread(work, traces, weigh=_size_of, processes=processes, pack=line_of)


def keep(
    traces: Iterable[Trace],
    path: Path | None,
    redactor: Redactor | None,
    measure: Callable[[Trace], Fact],
    *,
    processes: int = 1,
) -> KeptTraces[Fact]:
    """Write traces as they may be stored; the file appears when all are in it. Without a path they are only measured.

    Raises:
        StorageError: it cannot be written; nothing is left behind.
    """
    kept, seen = KeptTraces[Fact](), set[str]()

    def new() -> Iterator[Trace]:
        for trace in traces:
            if trace.id in seen:
                kept.twice += 1
            else:
                seen.add(trace.id)
                yield trace

    with nullcontext() if path is None else whole_file(path) as file:
        for line, counts, fact in spread_over(Storing(redactor, measure, path is not None), new(), processes):
            kept.redacted.update(counts)
            kept.traces += 1
            kept.facts.append(fact)
            if file is not None:
                file.write(line)
    return kept


class TraceFile:
    """A file of stored traces with its index.

    Raises:
        DataError: the file is missing, or a line of it is no trace.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        samples: list[StoredTrace] = []
        whole = hashlib.sha256()
        try:
            with path.open("rb") as file:
                offset = 0
                for number, line in enumerate(file, 1):
                    whole.update(line)
                    if line.strip():
                        samples.append(_indexed(line, number, offset, path))
                    offset += len(line)
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
        self.samples: tuple[StoredTrace, ...] = tuple(samples)
        self.digest = whole.hexdigest()

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Trace]:
        for sample in self.samples:
            yield self.load(sample)

    def load(self, sample: StoredTrace) -> Trace:
        """Return one trace."""
        return trace_of(self.line(sample))

    def line(self, sample: StoredTrace) -> str:
        """Return one trace as it stands in the file."""
        with self.path.open("rb") as file:
            file.seek(sample.offset)
            return file.read(sample.length).decode("utf-8")


def _indexed(line: bytes, number: int, offset: int, path: Path) -> StoredTrace:
    try:
        value = json.loads(line)
        labels = value.get("labels") or {}
        return StoredTrace(str(value["id"]), dict(labels), offset, len(line))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DataError("not a stored trace", path=path, line=number) from error


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The map of the learning loop over stored traces: each is loaded when its turn comes."""

    file: TraceFile
    reflect: RecordedTraces

    async def __call__(self, sample: StoredTrace, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Reflect on one stored trace. A stored vote needs no reflection: it is one."""
        trace = self.file.load(sample)
        votes = _votes(trace)
        if not votes:
            return await self.reflect(trace, playbook, scope, attempt)
        reflection = Reflection(trace.id, trace.id, trace.id, "a vote", votes=votes, labels=trace.labels)
        return Sampled(reflection)


def vote_trace(identity: str, bullet: str, kind: str, labels: Mapping[str, str]) -> Trace:
    """Return a vote on a bullet as a trace without steps: it comes into a learning run as other traces do."""
    return Trace(identity, "", (), labels=dict(labels), meta={_VOTE: f"{bullet}={VoteKind(kind).value}"})


def _votes(trace: Trace) -> tuple[Vote, ...]:
    bullet, equals, kind = trace.meta.get(_VOTE, "").partition("=")
    if trace.steps or not equals or kind not in {each.value for each in VoteKind}:
        return ()
    return (Vote(trace.id, bullet, VoteKind(kind)),)
