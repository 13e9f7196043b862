"""A message being handled: the room it needs in its agent's window, the calls it pays for, and how it ends.

It ends with an answer, handed on, failed, refused because it is too long, or because the agent is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

from combee.errors import CallError
from combee.swarm.agents import FailedReplyError, Reply
from combee.swarm.briefing import LESSONS
from combee.swarm.context import Entry, Window, append, compact
from combee.swarm.ledger import LOST, charge
from combee.swarm.mail import About, Mail, awaited, finish, key_of, send
from combee.swarm.state import SwarmState, ask_towards, bounce, report
from combee.swarm.world import AgentRow

__all__ = ["NoRoom", "Turn", "begin_call", "book", "booked_in_any_case", "end", "fail", "make_room", "no_room", "relay"]

NoRoom = Literal["", "full", "too long"]
"""Why something cannot stand in a window: nothing may be taken out, or it would not fit beside what must stay."""


@dataclass(slots=True)
class Turn:
    """A message being handled: by which agent (or copy of it), in which window, for which question.

    `step` counts the replies to this message; it makes the keys of what is done unique. `begun` says how often the
    reply that is under way was begun, by killed processes too; 0 where it is not noted.
    """

    state: SwarmState
    agent: AgentRow
    window: Window
    mail: Mail
    current: Mail | None
    step: int = 0
    begun: int = 0

    hold = 900.0
    until = None

    @property
    def cause(self) -> int:
        """The message for whose sake everything is done: the question, where there is one."""
        return (self.current or self.mail).id


async def make_room(turn: Turn, tokens: int, tail: int = 0, *, lessons: bool = True) -> NoRoom:
    """Compact until so many tokens fit beside the reserve; the last `tail` entries stay. Returns why they cannot.

    With `lessons`, the view of the playbook that compaction took out is put back where it fits.
    """
    state, window, needed = turn.state, turn.window, tokens + turn.state.limits.reserve
    if window.room() >= needed:
        return ""
    split = len(window.entries) - tail
    old, rest = window.entries[:split], window.entries[split:]
    if not old or needed > window.limit:
        return "too long"
    strategy = state.compaction(turn.agent.role)
    if strategy.uses_model:
        begin_call(turn)
    with booked_in_any_case(turn) if strategy.uses_model else nullcontext():
        kept = await strategy.compact(old, window, turn.agent.origin)
    if kept is None:
        return "full"
    if strategy.uses_model:
        book(turn, Reply("\n".join(entry.text for entry in kept)), "compaction")
    compact(state.world, turn.agent, window, kept, strategy.name, tail=rest, briefing=state.briefing(turn.agent))
    shown = next((one for one in reversed(old) if one.kind == LESSONS), None) if lessons and turn.current else None
    kept_it = shown is not None and any(entry.text == shown.text for entry in window.entries)
    if shown is not None and not kept_it and window.room() >= needed + shown.tokens:
        append(state.world, turn.agent, window, Entry(shown.role, shown.text, shown.kind))
    return "" if window.room() >= needed else "too long"


def begin_call(turn: Turn) -> None:
    """Put on disk that a reply of a slow model begins: it may be paid for, and this process may not live to book it.

    A model that answers at once is not noted: a kill cannot come between asking and booking.
    """
    world = turn.state.world
    if turn.state.model(turn.agent.role).slow:
        turn.begun = int(world.meta(_mark(turn)) or 0) + 1
        world.set_meta(_mark(turn), str(turn.begun))
        world.flush()


@contextmanager
def booked_in_any_case(turn: Turn) -> Iterator[None]:
    """Book a call that comes to nothing: what it was charged, or its prompt, which was sent before it was stopped."""
    try:
        yield
    except FailedReplyError as error:
        book(turn, Reply(usage=error.usage), "failed")
        raise
    except asyncio.CancelledError:
        book(turn, Reply(), "cancelled")
        raise
    except CallError:  # nothing was charged this time, and the message ends
        if turn.begun > 1:
            turn.begun -= 1
            book(turn, Reply(), LOST)
        _unmark(turn)
        raise
    except Exception:  # nothing was charged, and the message is taken up again: a limit is used up
        _unmark(turn, keep=turn.begun - 1)
        raise


def book(turn: Turn, reply: Reply, purpose: str) -> None:
    """Book a reply, and what killed processes may have paid for the same."""
    state, mail = turn.state, turn.mail
    with state.world.step():
        lost = max(0, turn.begun - 1)
        calls, tokens = charge(state.world, turn.agent, turn.window, mail, reply=reply, purpose=purpose, lost=lost)
        _unmark(turn)
    state.spend(mail.first, calls, tokens)


def _unmark(turn: Turn, keep: int = 0) -> None:
    if turn.begun:
        with turn.state.world.step():
            turn.state.world.run("DELETE FROM meta WHERE key = ?", _mark(turn))
            if keep > 0:
                turn.state.world.set_meta(_mark(turn), str(keep))
    turn.begun = 0


def _mark(turn: Turn) -> str:
    return f"thinks/{turn.agent.name}/{turn.agent.incarnation}/{turn.mail.id}"


def end(turn: Turn, text: str) -> None:
    """Finish the message; the text is the answer to the question behind it, unless something asked for it is open."""
    world, agent, current = turn.state.world, turn.agent, turn.current
    finish(world, turn.mail.id, "done")
    if current is None or awaited(world, agent.name, current.id):
        return
    send(
        world, key=key_of("answer", current.key), kind="answer", sender=agent.name, recipient=current.sender, body=text,
        about=About(current.subject, thread=current.origin or current.id),
    )  # fmt: skip
    if agent.fork_of is not None:
        _bring_back(turn, agent.fork_of, current, text)
    _leave(turn, "answered")


def _leave(turn: Turn, reason: str) -> None:
    """End an agent that was made for one question."""
    agent = turn.agent
    if agent.fork_of is not None or agent.mode == "once":
        turn.state.world.set_state(agent.name, "dead", reason)
        turn.state.windows.pop((agent.name, agent.incarnation), None)


def _bring_back(turn: Turn, name: str, current: Mail, text: str) -> None:
    """Send what a copy learned to the agent it is a copy of: nothing, a bounded digest, or everything."""
    world, origin = turn.state.world, turn.state.world.agent(name)
    if origin is None or origin.returns == "none":
        return
    if origin.returns == "digest":
        body = f"I was asked: {current.body}\nI answered: {text}"
        limit = 4 * turn.state.limits.digest_tokens
        body = body if len(body) <= limit else body[: limit - 1] + "…"
    else:
        own = [one for one in turn.window.entries if one.row > turn.agent.fork_row and one.kind != LESSONS]
        body = "\n".join(entry.text for entry in own)
    about = About(current.subject, root=current.first)
    key = key_of("digest", current.key)
    send(world, key=key, kind="digest", sender=turn.agent.name, recipient=origin.name, body=body, about=about)


def relay(turn: Turn, current: Mail) -> None:
    """Hand a question on to the next on its way, or its answer back. It costs the relay its context, as any message."""
    state, mail, name = turn.state, turn.mail, turn.agent.name
    with state.world.step():
        charge(state.world, turn.agent, turn.window, mail, reply=Reply(mail.body), purpose="relay")
        finish(state.world, mail.id, "done")
        if mail.kind == "ask":
            about = About(mail.subject, cause=mail.id)
            key = key_of("relay", mail.key)
            sent = ask_towards(state, current.target, key=key, sender=name, body=mail.body, about=about)
            if sent.refused:
                report(state, mail, f"{current.target} cannot be reached: {sent.refused}")
            return
        send(
            state.world, key=key_of("answer", current.key), kind=mail.kind, sender=name, recipient=current.sender,
            body=mail.body, about=About(mail.subject, thread=current.origin or current.id),
        )  # fmt: skip


def fail(turn: Turn, why: str, *, outside: bool = False, kind: str = "failed") -> None:
    """Report that no answer will come; `outside`: for a reason that says nothing about the agent."""
    with turn.state.world.step():
        turn.state.world.record(
            kind, turn.agent.name, why=why, mail=turn.mail.id, outside=outside,
            ask=turn.current.id if turn.current is not None else None,
        )  # fmt: skip
        finish(turn.state.world, turn.mail.id, "done")
        if turn.current is not None:
            report(turn.state, turn.current, why)
        _leave(turn, "failed")


def no_room(turn: Turn, why: NoRoom, tokens: int, what: str) -> None:
    """End a message for which there is no room: refused by itself, or because its agent takes nothing more."""
    if why == "too long":
        most = turn.window.limit - turn.state.limits.reserve
        fail(turn, f"{what} of {tokens:,} tokens is too long for {turn.agent.origin}, who has {most:,}", kind="refused")
    else:
        _full(turn)


def _full(turn: Turn) -> None:
    """Report the agent as full and send the question elsewhere. A copy that is full says so of its origin."""
    world, name = turn.state.world, turn.agent.origin
    with world.step():
        world.record("full", name, used=turn.window.used, limit=turn.window.limit)
        world.set_state(name, "full")
        if name != turn.agent.name:
            _leave(turn, "full")
        if turn.current is None:
            finish(world, turn.mail.id, "done")
        elif turn.current.id == turn.mail.id:
            bounce(turn.state, turn.mail, "full")
        else:
            fail(turn, f"{name} is full")
