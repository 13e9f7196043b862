"""A recorded run of an agent as plain data: steps, tool calls, outcome, labels.

The id of a trace is a hash of what it holds, so the same run has the same id wherever its file lies; labels and `meta`
(file names, models, costs) are left out. Readers of any format produce this; reflectors read it. An outcome that only
the agent itself states is a claim, not a result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

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
