"""What decides an agent's next step: a protocol of one method, scripted agents, and one that looks words up.

Scripted and real models run in the same loop and are metered at the same place, so their ledgers agree by construction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from combee.errors import CallError
from combee.model import Usage
from combee.swarm.context import Call, Entry
from combee.swarm.mail import Mail
from combee.swarm.world import AgentRow

__all__ = [
    "AgentModel",
    "FailedReplyError",
    "Policy",
    "PolicyModel",
    "Reply",
    "ToolSpec",
    "View",
    "first_words",
    "lookup",
    "use",
]


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
    """What an agent has before it when it decides: its window, the message it works on, and the question behind it."""

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
class Reply:
    """What an agent does next: tools to use, or a text that ends the turn. `usage` None: metered by the window."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None


class FailedReplyError(CallError):
    """A reply that gave nothing usable and was charged for all the same; `usage` says how much."""

    def __init__(self, error: CallError, usage: Usage) -> None:
        super().__init__(error.message, kind=error.kind, hint=error.hint)
        self.usage = usage


class AgentModel(Protocol):
    """Anything that decides for an agent. `slow` says that a reply takes time, so that others go on meanwhile.

    One with a true `briefed` is told in words of its world: name, peers, channels, documents, issues, rules.
    """

    @property
    def slow(self) -> bool:
        """Whether a reply waits for something outside this process."""
        ...

    async def reply(self, view: View) -> Reply:
        """Return the next reply; raises `CallError` when nothing can be had."""
        ...


Policy = Callable[[View], "Reply | str"]
"""The whole of a scripted agent. Plain text ends the turn."""


def use(name: str, number: int = 0, /, **arguments: str) -> Call:
    """Return the use of a tool, for policies; `number` tells several in one reply apart."""
    return Call(f"c{number}", name, json.dumps(arguments, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class PolicyModel:
    """The plain driver: a policy function, no model, no network; thousands fit in one process."""

    policy: Policy
    slow: bool = field(default=False, init=False)

    async def reply(self, view: View) -> Reply:
        """Return what the policy says."""
        said = self.policy(view)
        return Reply(said) if isinstance(said, str) else said


_WORD = re.compile(r"\w+")


async def first_words(entries: Sequence[Entry], tokens: int) -> str:
    """Sum up without a model: what was asked and said, the newest first; `Summarise` cuts it to size."""
    return "\n".join(entry.text for entry in reversed(entries) if entry.role != "tool" and entry.text)


def lookup(view: View) -> Reply | str:
    """Read what is told (a path), answer with the line that shares most words with the question, else ask a reader."""
    mail = view.mail
    if mail.kind == "tell":
        return "Read." if view.results() else Reply(calls=(use("read", path=mail.body),))
    if mail.kind in {"answer", "report"}:
        return mail.body
    line, hits = _best_line(view, mail)
    results = view.results()
    if hits >= 2 or mail.hops >= 2 or (results and not results[-1].text.startswith("Asked")):
        return line or "I do not know."
    if results:
        return "Waiting."
    words = [word for word in mail.body.split() if "/" in word]
    return Reply(calls=(use("ask", question=mail.body, subject=mail.subject or (words[0] if words else "/")),))


def _best_line(view: View, mail: Mail) -> tuple[str, int]:
    asked = {word for word in _WORD.findall(mail.body.lower()) if len(word) > 3}
    best, most = "", 0
    for entry in view.entries:
        if entry.role == "tool" and not entry.text.startswith(("Asked", "error:")):
            for line in entry.text.split("\n"):
                hits = len(asked & set(_WORD.findall(line.lower())))
                if hits > most:
                    best, most = line, hits
    return best, most
