"""A message being handled, and the room it needs in its agent's window."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from combee.errors import CallError
from combee.swarm.brain import FailedThoughtError, Thought
from combee.swarm.context import append, compact
from combee.swarm.ledger import LOST, charge
from combee.swarm.lessons import LESSONS
from combee.swarm.mail import Mail
from combee.swarm.window import Entry, Window
from combee.swarm.world import AgentRow

if TYPE_CHECKING:
    from combee.swarm.swarm import Swarm

__all__ = ["Work", "begin_thought", "book", "booked_in_any_case", "make_room"]


@dataclass(slots=True)
class Work:
    """A message being handled: by which agent (or copy of it), in which window, for which question.

    `step` counts the thoughts of this message; it makes the keys of what is done unique. `begun` says how often the
    thought that is under way was begun, by killed processes too; 0 where it is not noted.
    """

    swarm: Swarm
    agent: AgentRow
    window: Window
    mail: Mail
    current: Mail | None
    step: int = 0
    begun: int = 0

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
    if strategy.thinks:
        begin_thought(work)
    with booked_in_any_case(work) if strategy.thinks else nullcontext():
        kept = await strategy.compact(old, window, work.agent.origin)
    if kept is None:
        return False
    if strategy.thinks:
        said = Thought("\n".join(entry.text for entry in kept))
        book(work, said, "compaction")
    compact(work.swarm.world, work.agent, window, kept, strategy.name, tail=rest)
    told = next((entry for entry in reversed(old) if entry.kind == LESSONS), None) if lessons and work.current else None
    kept_it = told is not None and any(entry.text == told.text for entry in window.entries)
    if told is not None and not kept_it and window.room() >= needed + told.tokens:
        append(work.swarm.world, work.agent, window, Entry(told.role, told.text, told.kind))
    return window.room() >= needed


def begin_thought(work: Work) -> None:
    """Put on disk that a thought of a slow brain begins: it may be paid for, and this process may not live to book it.

    A brain that answers at once is not noted: a kill cannot come between asking and booking.
    """
    world = work.swarm.world
    if work.swarm.brain(work.agent.role).slow:
        work.begun = int(world.meta(_mark(work)) or 0) + 1
        world.set_meta(_mark(work), str(work.begun))
        world.flush()


@contextmanager
def booked_in_any_case(work: Work) -> Iterator[None]:
    """Book a call that comes to nothing: what it was charged, or its prompt, which was sent before it was stopped."""
    try:
        yield
    except FailedThoughtError as error:
        book(work, Thought(usage=error.usage), "failed")
        raise
    except asyncio.CancelledError:
        book(work, Thought(), "cancelled")
        raise
    except CallError:  # nothing was charged this time, and the message ends
        if work.begun > 1:
            work.begun -= 1
            book(work, Thought(), LOST)
        _unmark(work)
        raise
    except Exception:  # nothing was charged, and the message is taken up again: a limit is used up
        _unmark(work, keep=work.begun - 1)
        raise


def book(work: Work, thought: Thought, purpose: str) -> None:
    """Book a thought, and what killed processes may have paid for the same."""
    world = work.swarm.world
    with world.step():
        lost = max(0, work.begun - 1)
        charge(world, work.agent, work.window, work.mail, thought=thought, purpose=purpose, lost=lost)
        _unmark(work)


def _unmark(work: Work, keep: int = 0) -> None:
    if work.begun:
        with work.swarm.world.step():
            work.swarm.world.run("DELETE FROM meta WHERE key = ?", _mark(work))
            if keep > 0:
                work.swarm.world.set_meta(_mark(work), str(keep))
    work.begun = 0


def _mark(work: Work) -> str:
    return f"thinks/{work.agent.name}/{work.agent.incarnation}/{work.mail.id}"
