"""What a report shows, read from a run's journal alone, beside a process that may be writing to it.

An event of another version of Combee that lacks something is counted and left out, never guessed.

Lessons lost, and where: for each reflection that no step took in, the node it was lost at and the reason.

A search of gepa as its recorder told it: candidates, proposals, skips and errors, in the order they came. The classes
have the names and fields of the events in the journal; the page must not need gepa to be installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from combee.errors import UsageError
from combee.kernel.aggregate import Node
from combee.kernel.journal import JSON, Journal, Version
from combee.kernel.learn import (
    Alerted,
    BatchChosen,
    GuardJudged,
    LearnConfig,
    ReduceFailed,
    RunFinished,
    RunStarted,
    SampleRefused,
    StepFinished,
    StepStarted,
    Validated,
    reflection_name,
)
from combee.kernel.playbook import Playbook, from_json
from combee.model.ledger import CallRow, Totals
from combee.model.types import Usage
from combee.run.baselines import BASELINES_KEY
from combee.run.findings import unused_of
from combee.run.rows import RunRows, read_rows

__all__ = [
    "GepaCandidate",
    "GepaError",
    "GepaFinished",
    "GepaFront",
    "GepaIteration",
    "GepaProposal",
    "GepaSkipped",
    "GepaStarted",
    "Loss",
    "RunRecord",
    "ScanTree",
    "Search",
    "losses",
    "read_run",
]

T = TypeVar("T")

_FAILED = "failed/"  # decisions of the loop begin so, followed by the sample


@dataclass(frozen=True, slots=True)
class GepaStarted:
    """The search began; `trainset` and `valset` are numbers of records."""

    components: tuple[str, ...]
    trainset: int
    valset: int


@dataclass(frozen=True, slots=True)
class GepaCandidate:
    """A candidate with its `score`, the mean of `scores` by validation record, and metric calls made until then.

    `texts` holds of each component {"text": ...}, or {"version": digest} of a playbook in the journal.
    """

    iteration: int
    index: int
    parents: tuple[int, ...]
    score: float
    scores: Mapping[str, float]
    metric_calls: int
    texts: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class GepaProposal:
    """What became of a proposal. `before` and `after` are scores by record of the minibatch, or their sum alone."""

    iteration: int
    status: str
    reason: str
    candidate: int | None
    parents: tuple[int, ...]
    before: tuple[float, ...] | float | None
    after: tuple[float, ...] | float
    components: Mapping[str, Mapping[str, JSON]] | None = None


@dataclass(frozen=True, slots=True)
class GepaFront:
    """The candidates that are among the best at some validation record."""

    front: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GepaIteration:
    """An iteration ended; `metric_calls` counts from the start of the search."""

    iteration: int
    metric_calls: int


@dataclass(frozen=True, slots=True)
class GepaSkipped:
    """A parent gave nothing to reflect on."""

    iteration: int
    parent: int
    reason: str


@dataclass(frozen=True, slots=True)
class GepaError:
    """An iteration ended with an error of this type."""

    iteration: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class GepaFinished:
    """The search ended."""

    metric_calls: int


@dataclass(frozen=True, slots=True)
class Search:
    """A search as far as it went; `candidates` by index."""

    started: GepaStarted | None
    candidates: tuple[GepaCandidate, ...]
    proposals: tuple[GepaProposal, ...]
    front: frozenset[int]
    iterations: tuple[GepaIteration, ...]
    skipped: tuple[GepaSkipped, ...]
    errors: tuple[GepaError, ...]
    finished: GepaFinished | None

    @property
    def best(self) -> GepaCandidate | None:
        """The candidate with the best mean score; the earliest of equals, as gepa has it."""
        return max(self.candidates, key=lambda one: one.score, default=None)

    def wins(self) -> Counter[int]:
        """Return at how many validation records each candidate is among the best."""
        tops: dict[str, float] = {}
        for one in self.candidates:
            for name, score in one.scores.items():
                tops[name] = max(score, tops.get(name, score))
        return Counter(
            one.index for one in self.candidates for name, score in one.scores.items() if score == tops[name]
        )


@dataclass(frozen=True, slots=True)
class ScanTree:
    """One aggregation of one step. `attempt` counts how often the guard had asked for another one before."""

    epoch: int
    step: int
    attempt: int
    nodes: tuple[Node, ...]
    uncovered: tuple[str, ...]
    failed: tuple[str, ...]
    covered: int
    claimed: int


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run as its journal has it now. `finished` is None for a run that goes on, or was killed.

    `failures`: why samples gave nothing, each by step and sample; `lessons`: the texts of what is not covered, by
    reflection, `said`: the whole text of those that bullets rest on; `search`: None unless gepa looked for the book;
    `book`: the best version, or else the last, named by `label`; `start`: the one that the run began with.
    """

    name: str
    spec: Mapping[str, JSON] = field(default_factory=dict)
    config: LearnConfig | None = None
    started: RunStarted | None = None
    finished: RunFinished | None = None
    starts: int = 0
    first: float | None = None
    latest: float | None = None
    begun_steps: tuple[StepStarted, ...] = ()
    steps: tuple[StepFinished, ...] = ()
    validations: tuple[Validated, ...] = ()
    verdicts: tuple[GuardJudged, ...] = ()
    refused: tuple[SampleRefused, ...] = ()
    unused: Mapping[str, int] = field(default_factory=dict)
    scans: tuple[ScanTree, ...] = ()
    choices: tuple[BatchChosen, ...] = ()
    alerts: tuple[Alerted, ...] = ()
    reduce_failures: tuple[ReduceFailed, ...] = ()
    failures: tuple[tuple[int, str, str], ...] = ()
    search: Search | None = None
    ledger: Mapping[str, Totals] = field(default_factory=dict)
    versions: tuple[Version, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    book: Playbook | None = None
    start: Playbook | None = None
    label: str = ""
    lessons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    rows: RunRows = field(default_factory=RunRows)
    baselines: Mapping[str, float] = field(default_factory=dict)
    unreadable: int = 0

    @property
    def last_scans(self) -> tuple[ScanTree, ...]:
        """The aggregation of each step that counted: the last attempt."""
        return tuple({scan.step: scan for scan in self.scans}.values())


def read_run(folder: Path, *, rows: bool = True) -> RunRecord:
    """Read the journal in a run's folder; with `rows` each answer too, which are scored again for it.

    Raises:
        UsageError: There is no run.
        StorageError: The journal is damaged.
    """
    with Journal.open(folder, create=False, read_only=True) as journal:
        record = _read(journal, folder.resolve().name)
    return dataclasses.replace(record, rows=read_rows(folder)) if rows else record


def _read(journal: Journal, name: str) -> RunRecord:
    events = _Events()
    for event in journal.events():
        events.take(event.kind, event.data, event.time)
    versions, labels = journal.versions(), journal.labels()
    spec = journal.meta("spec") or journal.meta("swarm")
    label = next((known for known in ("best", "last") if known in labels), "")
    ledger, odd = _ledger(journal.calls())
    scans = tuple(events.scans)
    missing = {key for scan in {scan.step: scan for scan in scans}.values() for key in scan.uncovered}
    finished = events.all(RunFinished)
    book = from_json(journal.text(labels[label])) if label else None
    cited = {source for bullet in book or () for source in bullet.sources}
    lessons, said = _reflections(journal, missing, cited)
    return RunRecord(
        name=name,
        spec=spec if isinstance(spec, dict) else {},
        config=_config(spec),
        started=next(reversed(events.all(RunStarted)), None),
        finished=finished[-1] if finished and events.ended else None,
        starts=len(events.all(RunStarted)),
        first=events.first,
        latest=events.latest,
        begun_steps=events.all(StepStarted),
        steps=events.all(StepFinished),
        validations=events.all(Validated),
        verdicts=events.all(GuardJudged),
        refused=events.all(SampleRefused),
        unused=unused_of(journal),
        scans=scans,
        choices=events.all(BatchChosen),
        alerts=events.all(Alerted),
        reduce_failures=events.all(ReduceFailed),
        failures=_failures(journal),
        search=_search(events),
        ledger=ledger,
        versions=versions,
        labels=labels,
        book=book,
        start=from_json(journal.text(versions[0].digest)) if versions else None,
        label=label,
        lessons=lessons,
        said=said,
        baselines=cast("dict[str, float]", journal.meta(BASELINES_KEY) or {}),
        unreadable=events.unreadable + odd,
    )


class _Events:
    """Events by type, in order; `ended` while the last end has no start after it."""

    _TYPES: Mapping[str, type] = {
        kind.__name__: kind
        for kind in (
            RunStarted,
            StepStarted,
            StepFinished,
            Validated,
            GuardJudged,
            SampleRefused,
            BatchChosen,
            Alerted,
            ReduceFailed,
            RunFinished,
            GepaStarted,
            GepaCandidate,
            GepaProposal,
            GepaFront,
            GepaIteration,
            GepaSkipped,
            GepaError,
            GepaFinished,
        )
    }

    def __init__(self) -> None:
        self.scans: list[ScanTree] = []
        self.unreadable = 0
        self.ended = False
        self.first: float | None = None
        self.latest: float | None = None
        self._found: dict[type, list[object]] = {}

    def take(self, kind: str, data: JSON, at: float) -> None:
        self.first = at if self.first is None else self.first
        self.latest = at
        if kind == "Scan":
            self._take_scan(data)
            return
        wanted = self._TYPES.get(kind)
        if wanted is None:
            return
        value = _build(wanted, data)
        if value is None:
            self.unreadable += 1
            return
        self._found.setdefault(wanted, []).append(value)
        self.ended = wanted is RunFinished or (self.ended and wanted is not RunStarted)

    def _take_scan(self, data: JSON) -> None:
        raw = dict(data) if isinstance(data, dict) else {}
        nodes = raw.get("nodes")
        built = [_build(Node, node) for node in nodes] if isinstance(nodes, list) else []
        scan = _build(ScanTree, raw | {"nodes": cast("JSON", [])})
        if scan is None or None in built:
            self.unreadable += 1
        else:
            self.scans.append(dataclasses.replace(scan, nodes=tuple(node for node in built if node is not None)))

    def all(self, kind: type[T]) -> tuple[T, ...]:
        return tuple(cast("list[T]", self._found.get(kind, [])))


def _search(events: _Events) -> Search | None:
    candidates = {one.index: one for one in events.all(GepaCandidate)}
    started, fronts, ends = events.all(GepaStarted), events.all(GepaFront), events.all(GepaFinished)
    if not (started or candidates):
        return None
    return Search(
        started=started[-1] if started else None,
        candidates=tuple(candidates[index] for index in sorted(candidates)),
        proposals=events.all(GepaProposal),
        front=frozenset(fronts[-1].front) if fronts else frozenset(),
        iterations=events.all(GepaIteration),
        skipped=events.all(GepaSkipped),
        errors=events.all(GepaError),
        finished=ends[-1] if ends else None,
    )


def _build(kind: Callable[..., T], data: JSON) -> T | None:
    """Make a frozen dataclass of the values it knows, lists as tuples; None where one that it needs is missing."""
    if not isinstance(data, dict):
        return None
    known = {item.name for item in dataclasses.fields(cast("Any", kind))}
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in known}
    with contextlib.suppress(TypeError):
        return kind(**plain)
    return None


def _config(spec: JSON) -> LearnConfig | None:
    """Return the settings of the loop; None where a library call made the run, or another version of Combee."""
    learn = spec.get("learn") if isinstance(spec, dict) else None
    if not isinstance(learn, dict):
        return None
    try:
        return LearnConfig.from_json(learn)
    except (UsageError, TypeError):
        return None


def _failures(journal: Journal) -> tuple[tuple[int, str, str], ...]:
    """Return step, sample and reason of each attempt at a sample that failed."""
    return tuple(
        (place.step, name.removeprefix(_FAILED), str(value))
        for place, name, value in journal.decisions()
        if name.startswith(_FAILED)
    )


def _ledger(rows: Iterable[JSON]) -> tuple[dict[str, Totals], int]:
    """Return the sums by role, and how many rows could not be read."""
    found, odd = dict[str, Totals](), 0
    for row in rows:
        usage = row.get("usage") if isinstance(row, dict) else None
        call = _build(CallRow, row)
        spent = _build(Usage, usage) if usage is not None else None
        if call is None or (usage is not None and spent is None):
            odd += 1
            continue
        found.setdefault(call.role, Totals()).add(dataclasses.replace(call, usage=spent))
    return dict(sorted(found.items())), odd


def _reflections(
    journal: Journal, missing: set[str], cited: set[str]
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the lessons of the missing reflections, and the text of the cited ones: results of their samples."""
    lessons, said = dict[str, tuple[str, ...]](), dict[str, str]()
    for address, value in journal.results("reflect") if missing or cited else ():
        name = reflection_name(address.item, address.place.epoch)
        if not isinstance(value, dict):
            continue
        if name in missing and isinstance(value.get("lessons"), list):
            lessons[name] = tuple(str(lesson) for lesson in cast("list[JSON]", value["lessons"]))
        if name in cited:
            said[name] = str(value.get("text", ""))
    return lessons, said


@dataclass(frozen=True, slots=True)
class Loss:
    """A reflection whose content is not in the step's delta. `node` is the node it was lost at, "" for none."""

    step: int
    key: str
    node: str
    reason: str


def losses(record: RunRecord) -> Iterator[Loss]:
    """Yield every loss of the run in the order of steps (last attempts only: a retried step lost nothing)."""
    for scan in record.last_scans:
        yield from _losses_of(scan)


def _losses_of(scan: ScanTree) -> Iterator[Loss]:
    wanted = set(scan.uncovered)
    if not wanted:
        return
    readers: dict[str, list[Node]] = {key: [] for key in wanted}
    losers: dict[str, list[Node]] = {key: [] for key in wanted}
    for node in scan.nodes:
        if node.level == 0:
            for key in wanted.intersection(node.inputs):
                readers[key].append(node)
        for key in wanted.intersection(node.lost):
            losers[key].append(node)
    failed = set(scan.failed)
    for key in scan.uncovered:
        where, reason = _explain(readers[key], losers[key], failed=key in failed)
        yield Loss(scan.step, key, where, reason)


def _explain(readers: Sequence[Node], losers: Sequence[Node], *, failed: bool) -> tuple[str, str]:
    if failed:
        broken = next((node for node in reversed(readers) if node.error), None)
        if broken is None:
            return "", "No call that answered had read it."
        return broken.name, f"No call that read it answered: {broken.error}"
    if not readers:
        return "", "It was left out before the aggregation: no call read it."
    above = [node for node in losers if node.level > 0]
    if above:
        last = max(above, key=lambda node: (node.level, node.round))
        why = f" ({last.error})" if last.error else ""
        return last.name, f"It came in and was not in what came out{why}."
    wrote = [node for node in losers if node.error is None]
    if wrote:
        return wrote[-1].name, f"{_times(len(wrote))} and no lesson that was written holds its numbers and terms."
    return "", "Its numbers and terms are not in the final delta."


def _times(count: int) -> str:
    return "It was read" if count == 1 else f"It was read {count} times"
