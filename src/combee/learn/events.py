"""What a run tells while it works: frozen events, sent to an observer and kept in the journal.

An observer shows or counts; what it raises is swallowed once and reported, so a display cannot break a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "Event",
    "FinishReason",
    "GuardSpoke",
    "Observer",
    "RunFinished",
    "RunStarted",
    "SampleDone",
    "SampleRefused",
    "StepFinished",
    "StepStarted",
    "Validated",
]


class FinishReason(StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    BUDGET = "budget"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunStarted:
    """`samples` over all epochs; `replayed` tells whether an earlier part of this run is in the journal."""

    samples: int
    epochs: int
    replayed: bool


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A minibatch of `batch` samples begins."""

    epoch: int
    step: int
    batch: int


@dataclass(frozen=True, slots=True)
class SampleDone:
    """One sample has been worked on and reflected upon, or failed for an outside reason (`error`)."""

    step: int
    sample: str
    hits: int
    total: int
    lessons: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SampleRefused:
    """A sample whose labels may not reach this playbook."""

    sample: str
    reason: str


@dataclass(frozen=True, slots=True)
class StepFinished:
    """A minibatch is in the book.

    `reflections` counts those with lessons, `reads` the reflections read by leaf calls, `depth` the longest chain of
    calls.
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


@dataclass(frozen=True, slots=True)
class GuardSpoke:
    """The guard's verdict on one step, with its reasons."""

    step: int
    verdict: str
    reasons: tuple[str, ...]


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


Event = RunStarted | StepStarted | SampleDone | SampleRefused | StepFinished | GuardSpoke | Validated | RunFinished
Observer = Callable[[Event], None]
