"""The three roles of ACE as protocols, and the data that passes between them (arXiv 2510.04618, section 3).

A role gets a `Scope` (the journal at one step) so that paid work is bought once. Roles raise `CallError` when they
could not do their work for a reason outside the task: the loop tries it again, and never scores or reflects on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from combee.kernel.aggregate import Method
from combee.kernel.journal import Scope
from combee.kernel.learn.trace import Trace
from combee.kernel.playbook import Delta, Playbook, Vote


@dataclass(frozen=True, slots=True)
class Task:
    """One question. `target` is None where there is nothing to score against; `labels` travel into the trace."""

    id: str
    question: str
    target: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rollout:
    """What an agent did on one task. `used` are bullet ids it says it used (unknown ones are dropped and counted)."""

    task: str
    answer: str
    used: tuple[str, ...] = ()
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """`hits` of `total` parts are right (1 of 1 for a single answer). Accuracy over a set is sum(hits) / sum(total)."""

    hits: int
    total: int
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether every part is right."""
        return self.hits == self.total


class Scorer(Protocol):
    """Compares an answer with the target; never runs either as code."""

    def __call__(self, task: Task, answer: str) -> Score:
        """Return the score of one answer."""
        ...


@dataclass(frozen=True, slots=True)
class Reflection:
    """What was learned from one trace. `lessons` are separate statements; `text` is all that a curator reads."""

    id: str
    trace: str
    task: str
    text: str
    lessons: tuple[str, ...] = ()
    votes: tuple[Vote, ...] = ()
    passed: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary(Reflection):
    """One reflection that stands for several (baseline `summarize`); `origins`: the reflections of each lesson."""

    origins: Mapping[str, tuple[str, ...]] | None = None


class Generator(Protocol):
    """The agent that works with the playbook."""

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Do the task. The target is not to be read."""
        ...


class Reflector(Protocol):
    """Turns a scored rollout into lessons and votes."""

    async def reflect(
        self, task: Task, rollout: Rollout, score: Score | None, playbook: Playbook, scope: Scope
    ) -> Reflection | None:
        """Return what was learned, or None where there is nothing to say."""
        ...


class TraceReflector(Protocol):
    """Turns a recorded run into lessons, without running anything."""

    async def reflect_trace(self, trace: Trace, playbook: Playbook, scope: Scope) -> Reflection | None:
        """Return what was learned, or None where there is nothing to say."""
        ...


class Curator(Protocol):
    """Knows how reflections become a delta; the aggregation engine calls it in leaves."""

    def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        """Return the aggregation method against this version of the playbook."""
        ...
