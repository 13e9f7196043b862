"""A search of gepa as its recorder told it: candidates, proposals, skips and errors, in the order they came.

The classes have the names and fields of the events in the journal; the page must not need gepa to be installed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from combee.kernel.journal import JSON

__all__ = [
    "GepaCandidate",
    "GepaError",
    "GepaFinished",
    "GepaFront",
    "GepaIteration",
    "GepaProposal",
    "GepaSkipped",
    "GepaStarted",
    "Search",
]


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
