"""The three roles of ACE as protocols, and the data that passes between them (arXiv 2510.04618, section 3).

A role gets a `Scope` (the journal at one step) so that paid work is bought once. Roles raise `CallError` when they
could not do their work for a reason outside the task: the loop tries it again, and never scores or reflects on it.

A `Trace` is a recorded run of an agent as plain data, produced by readers of any format. Its id is a hash of what it
holds, so the same run has the same id wherever its file lies; labels and `meta` (file names, models, costs) are left
out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from combee.kernel.aggregate import Method
from combee.kernel.journal import Scope
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


Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool; `arguments` is the text as recorded (JSON or a command line)."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Step:
    """One message or tool result.

    `answers` is the id of the tool call whose result this is; `agent` names a side chain.
    """

    index: int
    role: Role
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    is_error: bool | None = None
    timestamp: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the run ended.

    `claimed` marks a success that nobody but the agent checked; `tests` maps test names to passed.
    """

    success: bool | None = None
    score: float | None = None
    claimed: bool = False
    tests: Mapping[str, bool] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """One run. `id` is stable for the same content; `labels` (tenant, clearance) decide which playbook it may reach."""

    id: str
    task: str
    steps: tuple[Step, ...]
    outcome: Outcome | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, str] = field(default_factory=dict)


def trace_id(task: str, steps: Sequence[Step], outcome: Outcome | None, run: str = "") -> str:
    """Return `t-` and 24 hex digits. Texts must encode as UTF-8.

    `run` is the name that the format itself gives this run (a trial's uuid): two runs that went alike stay two.
    """
    digest = hashlib.blake2b(digest_size=12)

    def take(*texts: str | None) -> None:
        # Each part is led by its length, so that no two different lists of parts join to one text.
        parts = [f"{-1 if text is None else len(text)}:{text or ''}" for text in texts]
        digest.update("".join(parts).encode())

    take(task)
    if run:
        take(f"run {run}")
    for step in steps:
        head = f"{step.role} {step.is_error} {len(step.tool_calls)}"
        take(head, step.text, step.answers, step.timestamp, step.agent)
        for call in step.tool_calls:
            take(call.id, call.name, call.arguments)
    if outcome is not None:
        take(f"{outcome.success} {outcome.score} {outcome.claimed}", outcome.detail)
        for name, passed in sorted(outcome.tests.items()):
            take(f"{passed} {name}")
    return f"t-{digest.hexdigest()}"
