"""The bounded context of an agent: metered entries, ways to hand over when it is full, and all of it on disk.

A strategy is given the entries that must go and returns the text that stands for them. Every entry of every incarnation
stays in the world, also what compaction took out, so that a killed agent goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from combee.kernel.playbook import count_tokens
from combee.swarm.world import AgentRow, World

__all__ = [
    "Call",
    "Compaction",
    "Entry",
    "Newest",
    "Refuse",
    "Summarise",
    "Window",
    "WriteSummary",
    "append",
    "compact",
    "count",
    "history",
    "load",
    "spoken",
    "whole_lines",
]

EntryRole = Literal["system", "user", "assistant", "tool"]


_COLUMNS = "id, role, kind, text, tokens, mail, calls, answers"


def count(text: str) -> int:
    """Return the tokens of a text by the plain rule (`chars/4`)."""
    return count_tokens(text)


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a tool; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


def spoken(text: str, calls: Sequence[Call]) -> int:
    """Return the tokens of what an agent said, with its uses of tools."""
    return count(text) + sum(count(call.name) + count(call.arguments) for call in calls)


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a context. `row` is its number in the world (0: not stored), `mail` the message it came from.

    `tokens` are counted where they are not given.
    """

    role: EntryRole
    text: str
    kind: str = "text"
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    mail: int | None = None
    row: int = 0
    tokens: int = -1

    def __post_init__(self) -> None:
        if self.tokens < 0:
            object.__setattr__(self, "tokens", spoken(self.text, self.calls))


class Window:
    """Entries of one incarnation under a limit in tokens. `seen` tokens of its start were in a prompt before."""

    __slots__ = ("compactions", "entries", "limit", "seen", "used")

    def __init__(self, limit: int, entries: Sequence[Entry] = ()) -> None:
        self.limit = limit
        self.entries: list[Entry] = list(entries)
        self.used = sum(entry.tokens for entry in entries)
        self.seen = 0
        self.compactions = 0

    def room(self) -> int:
        """Return the tokens that still fit."""
        return self.limit - self.used

    def add(self, entry: Entry) -> None:
        """Append; the caller has made room."""
        self.entries.append(entry)
        self.used += entry.tokens

    def prompt(self) -> tuple[int, int]:
        """Return the tokens of a prompt of the whole window, and how many of them are new since the last one."""
        fresh = self.used - self.seen
        self.seen = self.used
        return self.used, fresh

    def copy(self) -> Window:
        """Return a window of its own with the same entries (they are shared, being unchangeable)."""
        other = Window(self.limit)
        other.entries = list(self.entries)
        other.used, other.seen = self.used, self.seen
        return other

    def replace(self, entries: Sequence[Entry]) -> None:
        """Put others in place of all entries, as compaction does: no prefix is left."""
        self.entries = list(entries)
        self.used = sum(entry.tokens for entry in entries)
        self.seen = 0
        self.compactions += 1


def whole_lines(lines: Sequence[str], tokens: int) -> str:
    """Return as many of the first lines as fit, none of them cut."""
    kept: list[str] = []
    for line in lines:
        if count("\n".join((*kept, line))) > tokens:
            break
        kept.append(line)
    return "\n".join(kept)


class Compaction(Protocol):
    """What is done when a window is full."""

    @property
    def name(self) -> str:
        """What the record calls it."""

    @property
    def uses_model(self) -> bool:
        """Whether it reads the whole window and writes, which the ledger charges as a reply."""

    async def compact(self, entries: Sequence[Entry], window: Window, agent: str) -> list[Entry] | None:
        """Return what takes the place of all these entries, or None when nothing may be taken out (it is full then)."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Never compacts: a full agent is full, and its questions go elsewhere."""

    name: str = "refuse"
    uses_model: bool = False

    async def compact(self, entries: Sequence[Entry], window: Window, agent: str) -> list[Entry] | None:
        """Return None."""
        return None


@dataclass(frozen=True, slots=True)
class Newest:
    """Keeps the newest entries whole, up to a share of the window."""

    share: float = 0.25
    name: str = "newest"
    uses_model: bool = False

    async def compact(self, entries: Sequence[Entry], window: Window, agent: str) -> list[Entry] | None:
        """Return the newest entries; a result of a tool never stands without the call before it."""
        kept: list[Entry] = []
        room = int(window.limit * self.share)
        for entry in reversed(entries):
            if entry.tokens > room:
                break
            room -= entry.tokens
            kept.insert(0, entry)
        while kept and kept[0].role == "tool":
            kept.pop(0)
        return kept


WriteSummary = Callable[[Sequence[Entry], int], Awaitable[str]]
"""Writes a summary of the entries in at most so many tokens; whole lines beyond that are left out."""


@dataclass(frozen=True, slots=True)
class Summarise:
    """Puts a summary in the place of everything; the one before is part of what is summed up."""

    write: WriteSummary
    tokens: int
    name: str = "summarise"
    uses_model: bool = True

    async def compact(self, entries: Sequence[Entry], window: Window, agent: str) -> list[Entry] | None:
        """Return one entry, the summary."""
        text = whole_lines((await self.write(entries, self.tokens)).split("\n"), self.tokens)
        return [Entry("user", text, kind="summary")]


def append(world: World, agent: AgentRow, window: Window, entry: Entry) -> Entry:
    """Add an entry to a window and to the world, as one."""
    with world.step():
        calls = json.dumps([[call.id, call.name, call.arguments] for call in entry.calls]) if entry.calls else "[]"
        sql = (
            "INSERT INTO context (agent, incarnation, role, kind, text, tokens, mail, calls, answers, at)"
            " VALUES (?,?,?,?,?,?,?,?,?,?)"
        )
        values = (entry.role, entry.kind, entry.text, entry.tokens, entry.mail, calls, entry.answers, time.time())
        row = world.run(sql, agent.name, agent.incarnation, *values).lastrowid
    stored = replace(entry, row=int(row or 0))
    window.add(stored)
    return stored


def load(world: World, agent: AgentRow) -> Window:
    """Return the window of an agent as it was when the last step was done."""
    window = Window(agent.window)
    if agent.fork_of is not None:
        origin = world.agent(agent.fork_of)
        if origin is not None:
            window = Window(agent.window, _entries(world, origin, agent.fork_row, agent.fork_mark))
    for entry in _entries(world, agent):
        window.add(entry)
    return window


def history(world: World, agent: AgentRow) -> list[Entry]:
    """Return everything that ever stood in the context of an agent's present incarnation, in order."""
    return _entries(world, agent, dropped=True)


def _entries(
    world: World, agent: AgentRow, until: int | None = None, mark: int | None = None, *, dropped: bool = False
) -> list[Entry]:
    """Return entries up to a row, as they were before any compaction later than `mark`."""
    sql = (
        f"SELECT {_COLUMNS} FROM context WHERE agent = ?1 AND incarnation = ?2 AND (?3 IS NULL OR id <= ?3)"  # noqa: S608 - our own columns
        " AND (dropped IS NULL OR dropped > ?4 OR (?5 AND kind != 'moved')) ORDER BY id"
    )
    rows = world.rows(sql, agent.name, agent.incarnation, until, mark, dropped)
    return [
        Entry(role, text, kind, tuple(Call(*call) for call in json.loads(calls)), answers, mail, row, tokens)
        for row, role, kind, text, tokens, mail, calls, answers in rows
    ]


def compact(
    world: World,
    agent: AgentRow,
    window: Window,
    kept: Sequence[Entry],
    strategy: str,
    *,
    tail: Sequence[Entry] = (),
    briefing: Entry,
) -> None:
    """Put `kept`, the briefing and `tail` in the place of all entries; record that.

    Entries of the tail move behind the rest; their old rows are marked, so that `history` has them once.
    """
    before, entries = window.used, len(window.entries)
    with world.step():
        mark = world.record("compacted", agent.name, strategy=strategy, before=before, entries=entries)
        last = max((entry.row for entry in window.entries), default=0)
        sql = "UPDATE context SET dropped = ? WHERE agent = ? AND incarnation = ? AND id <= ? AND dropped IS NULL"
        world.run(sql, mark, agent.name, agent.incarnation, last)
        # A copy owns no rows of its origin's: what it keeps of them it writes as its own.
        own = [entry for entry in kept if entry.row > agent.fork_row] if agent.fork_of else [e for e in kept if e.row]
        for entry in own:
            world.run("UPDATE context SET dropped = NULL WHERE id = ?", entry.row)
        if agent.fork_of is not None:
            world.run("UPDATE agents SET fork_row = 0 WHERE name = ?", agent.name)
        window.replace(own)
        for entry in kept:
            if entry not in own:
                append(world, agent, window, entry)
        append(world, agent, window, briefing)
        for entry in tail:
            world.run("UPDATE context SET kind = 'moved' WHERE id = ?", entry.row)
            append(world, agent, window, entry)
