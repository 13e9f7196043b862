"""What a run tells while it works: frozen events, sent to an observer and kept in the journal.

An observer shows or counts; what it raises is swallowed once and reported, so a display cannot break a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class FinishReason(StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    BUDGET = "budget"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunStarted:
    """`samples` over all epochs; `replayed` tells whether an earlier part of this run is in the journal.

    `done` samples lie before the snapshot that it goes on from: nothing more is told of them.
    """

    samples: int
    epochs: int
    replayed: bool
    done: int = 0


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A minibatch of `batch` samples begins."""

    epoch: int
    step: int
    batch: int


@dataclass(frozen=True, slots=True)
class SampleDone:
    """One sample has been worked on and reflected upon, or failed for an outside reason (`error`).

    A failure is no news where it is from before this start: it is tried again in a later step.
    """

    step: int
    sample: str
    hits: int
    total: int
    lessons: int
    error: str | None = None
    is_news: bool = True


@dataclass(frozen=True, slots=True)
class SampleRefused:
    """A sample whose labels may not reach this playbook."""

    sample: str
    reason: str


@dataclass(frozen=True, slots=True)
class StepFinished:
    """A minibatch is in the book.

    `reflections` counts those with lessons, `reads` the reflections read by leaf calls, `depth` the longest chain of
    calls, `late` the samples that a quorum left to the next step. `seconds` is None where parts came from the journal.
    """

    epoch: int
    step: int
    batch: int
    hits: int
    total: int
    reflections: int
    lessons: int
    operations: int
    refused: int
    uncovered: int
    failed: int
    calls: int
    reads: int
    depth: int
    bullets: int
    tokens: int
    version: str
    seconds: float | None
    late: int = 0


@dataclass(frozen=True, slots=True)
class GuardJudged:
    """The guard's verdict on one attempt at a step.

    `reasons` led to it, equal ones in one line; `notes` say what else was seen, among it the smallest drop that a
    comparison could have found. `max_items` is the leaf size of the next attempt, where there is one.
    """

    step: int
    verdict: str
    reasons: tuple[str, ...]
    attempt: int = 0
    notes: tuple[str, ...] = ()
    max_items: int | None = None
    rollback: bool = False
    promote: bool = False


@dataclass(frozen=True, slots=True)
class Alerted:
    """The user's alert command was run for a verdict, or could not be (`detail` says why)."""

    step: int
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class BatchChosen:
    """A batch size was chosen from measured delays, from this step on.

    One pass takes `scale` * b^(-`alpha`) seconds; `exact` is b* before bounds; `curve` has (size, measured, fitted)
    seconds a pass; `sensitivity` has (smallest candidate, b* it would give); `bound` names the bound that changed it.
    """

    step: int
    batch: int
    exact: float | None
    tau: float | None
    scale: float | None
    alpha: float | None
    alpha_error: float | None
    smallest: int | None
    bound: str | None
    fallback: bool
    curve: tuple[tuple[int, float | None, float | None], ...]
    sensitivity: tuple[tuple[int, float], ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReduceFailed:
    """Not one group of a step could be read. Its reflections are kept for the next step; `in_a_row` such steps."""

    step: int
    reflections: int
    in_a_row: int
    reason: str


@dataclass(frozen=True, slots=True)
class Validated:
    """The book was scored on held-out samples. Not comparable with others where `errors` is not 0."""

    step: int
    seen: int
    hits: int
    total: int
    errors: int
    version: str
    best: bool


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The end, always with a reason."""

    reason: FinishReason
    detail: str
    version: str
    bullets: int
    seconds: float


Event = (
    RunStarted
    | StepStarted
    | SampleDone
    | SampleRefused
    | StepFinished
    | GuardJudged
    | Alerted
    | BatchChosen
    | ReduceFailed
    | Validated
    | RunFinished
)
Observer = Callable[[Event], None]
