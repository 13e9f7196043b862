"""A recorded run of an agent as plain data: steps, tool calls, outcome, labels.

Readers of any format produce this; reflectors read it. An outcome that only the agent itself states is a claim, not a
result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Outcome", "Role", "Step", "ToolCall", "Trace"]

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
