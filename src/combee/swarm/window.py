"""The bounded context of an agent: metered entries, and ways to hand over when it is full.

A strategy is given the entries that must go and returns the text that stands for them. That it fired, and what it took
out, is recorded in the world; nothing that was in a context is deleted from disk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = [
    "Call",
    "Compaction",
    "Entry",
    "Newest",
    "Refuse",
    "Summarise",
    "ToDisk",
    "Window",
    "WriteSummary",
    "count",
    "spoken",
    "whole_lines",
]

EntryRole = Literal["system", "user", "assistant", "tool"]


def count(text: str) -> int:
    """Return the tokens of a text by the plain rule of four characters to one."""
    return -(-len(text) // 4)


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
    length = 0
    for line in lines:
        if count("x" * (length + len(line))) > tokens:
            break
        kept.append(line)
        length += len(line) + 1
    return "\n".join(kept)


class Compaction(Protocol):
    """What is done when a window is full."""

    @property
    def name(self) -> str:
        """What the record calls it."""
        ...

    @property
    def thinks(self) -> bool:
        """Whether it reads the whole window and writes, which the ledger charges as a thought."""
        ...

    async def compact(self, entries: Sequence[Entry], window: Window, agent: str) -> list[Entry] | None:
        """Return what takes the place of all these entries, or None when nothing may be taken out (it is full then)."""
        ...


@dataclass(frozen=True, slots=True)
class Refuse:
    """Never compacts: a full agent is full, and its questions go elsewhere."""

    name: str = "refuse"
    thinks: bool = False

    async def compact(self, entries: Sequence[Entry], window: Window, agent: str) -> list[Entry] | None:
        """Return None."""
        return None


@dataclass(frozen=True, slots=True)
class Newest:
    """Keeps the newest entries whole, up to a share of the window."""

    share: float = 0.25
    name: str = "newest"
    thinks: bool = False

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
    thinks: bool = True

    async def compact(self, entries: Sequence[Entry], window: Window, agent: str) -> list[Entry] | None:
        """Return one entry, the summary."""
        text = whole_lines((await self.write(entries, self.tokens)).split("\n"), self.tokens)
        return [Entry("user", text, kind="summary")]


@dataclass(frozen=True, slots=True)
class ToDisk:
    """Writes every entry to notes first (`keep` returns the pointer), then lists as many pointers as fit.

    Nothing is lost; what is no longer listed can be found by search only.
    """

    keep: Callable[[str, Entry], str]
    tokens: int
    name: str = "to disk"
    thinks: bool = False

    async def compact(self, entries: Sequence[Entry], window: Window, agent: str) -> list[Entry] | None:
        """Return one entry with pointers, the newest first."""
        pointers: list[str] = []
        for entry in entries:
            if entry.kind == "summary":
                pointers = entry.text.split("\n")[::-1] + pointers
            elif entry.text:
                pointers.append(self.keep(agent, entry))
        return [Entry("user", whole_lines(pointers[::-1], self.tokens), kind="summary")]
