"""What thinks: a protocol of one method, and the plain driver for scripted agents (a function of what they see).

Both drivers run in the same loop and are metered at the same place, so their ledgers agree by construction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from combee.errors import CallError
from combee.model import Usage
from combee.swarm.mail import Mail
from combee.swarm.window import Call, Entry
from combee.swarm.world import AgentRow

__all__ = ["Brain", "FailedThoughtError", "Policy", "ScriptedBrain", "Thought", "ToolSpec", "View", "use"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as an agent sees it. `parameters` says what each is for; all are text."""

    name: str
    about: str
    parameters: Mapping[str, str]
    optional: frozenset[str] = frozenset()

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": {name: {"type": "string", "description": about} for name, about in self.parameters.items()},
            "required": [name for name in self.parameters if name not in self.optional],
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True)
class View:
    """What an agent has before it when it thinks: its window, the message it works on, and the question behind it."""

    agent: AgentRow
    mail: Mail
    current: Mail | None
    entries: Sequence[Entry]
    room: int
    tools: Sequence[ToolSpec] = ()

    def text(self) -> str:
        """Return everything in the window."""
        return "\n".join(entry.text for entry in self.entries)

    def results(self) -> list[Entry]:
        """Return the results of the tools called last, if the last thing done was calling tools."""
        found: list[Entry] = []
        for entry in reversed(self.entries):
            if entry.role != "tool":
                break
            found.insert(0, entry)
        return found


@dataclass(frozen=True, slots=True)
class Thought:
    """What came of thinking: tools to use, or a text that ends the turn. `usage` None: metered by the window."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None


class FailedThoughtError(CallError):
    """A thought that gave nothing usable and was charged for all the same; `usage` says how much."""

    def __init__(self, error: CallError, usage: Usage) -> None:
        super().__init__(error.message, kind=error.kind, hint=error.hint)
        self.usage = usage


class Brain(Protocol):
    """Anything that thinks. `slow` says that a thought takes time, so that others go on meanwhile."""

    @property
    def slow(self) -> bool:
        """Whether thinking waits for something outside this process."""
        ...

    async def think(self, view: View) -> Thought:
        """Return the next thought; raises `CallError` when nothing can be had."""
        ...


Policy = Callable[[View], "Thought | str"]
"""The whole of a scripted agent. Plain text ends the turn."""


def use(name: str, number: int = 0, /, **arguments: str) -> Call:
    """Return the use of a tool, for policies; `number` tells several in one thought apart."""
    return Call(f"c{number}", name, json.dumps(arguments, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class ScriptedBrain:
    """The plain driver: a policy function, no model, no network; thousands fit in one process."""

    policy: Policy
    slow: bool = field(default=False, init=False)

    async def think(self, view: View) -> Thought:
        """Return what the policy says."""
        said = self.policy(view)
        return Thought(said) if isinstance(said, str) else said
