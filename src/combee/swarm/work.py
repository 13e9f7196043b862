"""A message being handled, and the room it needs in its agent's window."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from combee.swarm.brain import FailedThoughtError, Thought
from combee.swarm.context import append, compact
from combee.swarm.ledger import charge
from combee.swarm.lessons import LESSONS
from combee.swarm.mail import Mail
from combee.swarm.window import Entry, Window
from combee.swarm.world import AgentRow

if TYPE_CHECKING:
    from combee.swarm.swarm import Swarm

__all__ = ["Work", "booked_in_any_case", "make_room"]


@dataclass(slots=True)
class Work:
    """A message being handled: by which agent (or copy of it), in which window, for which question.

    `step` counts the thoughts of this message; it makes the keys of what is done unique.
    """

    swarm: Swarm
    agent: AgentRow
    window: Window
    mail: Mail
    current: Mail | None
    step: int = 0

    @property
    def cause(self) -> int:
        """The message for whose sake everything is done: the question, where there is one."""
        return (self.current or self.mail).id


async def make_room(work: Work, tokens: int, tail: int = 0, *, lessons: bool = True) -> bool:
    """Compact until so many tokens fit beside the reserve; the last `tail` entries stay. False: they cannot.

    With `lessons`, the view of the playbook that compaction took out is put back where it fits.
    """
    window, needed = work.window, tokens + work.swarm.limits.reserve
    if window.room() >= needed:
        return True
    split = len(window.entries) - tail
    old, rest = window.entries[:split], window.entries[split:]
    if not old:
        return False
    strategy = work.swarm.compaction(work.agent.role)
    with booked_in_any_case(work) if strategy.thinks else nullcontext():
        kept = await strategy.compact(old, window, work.agent.origin)
    if kept is None:
        return False
    if strategy.thinks:
        said = Thought("\n".join(entry.text for entry in kept))
        _book(work, said, "compaction")
    compact(work.swarm.world, work.agent, window, kept, strategy.name, tail=rest)
    told = next((entry for entry in reversed(old) if entry.kind == LESSONS), None) if lessons and work.current else None
    kept_it = told is not None and any(entry.text == told.text for entry in window.entries)
    if told is not None and not kept_it and window.room() >= needed + told.tokens:
        append(work.swarm.world, work.agent, window, Entry(told.role, told.text, told.kind))
    return window.room() >= needed


@contextmanager
def booked_in_any_case(work: Work) -> Iterator[None]:
    """Book a call that comes to nothing: what it was charged, or its prompt, which was sent before it was stopped."""
    try:
        yield
    except FailedThoughtError as error:
        _book(work, Thought(usage=error.usage), "failed")
        raise
    except asyncio.CancelledError:
        _book(work, Thought(), "cancelled")
        raise


def _book(work: Work, thought: Thought, purpose: str) -> None:
    charge(work.swarm.world, work.agent, work.window, work.mail, thought=thought, purpose=purpose)
