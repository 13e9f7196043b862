"""One message and the agent that handles it: deliver it once, think and use tools until there is a text, pass it on.

Every stretch between two thoughts is one step of the world, so a killed turn goes on after its last thought.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from combee.errors import CallError
from combee.swarm.brain import View
from combee.swarm.context import append
from combee.swarm.endings import end, fail, full, relay
from combee.swarm.lessons import lessons_entry
from combee.swarm.mail import Mail, awaited, finish, get_mail
from combee.swarm.routing import bounce
from combee.swarm.tools import perform
from combee.swarm.window import Call, Entry, Window
from combee.swarm.work import Work, begin_thought, book, booked_in_any_case, make_room
from combee.swarm.world import AgentRow

if TYPE_CHECKING:
    from combee.swarm.swarm import Swarm

__all__ = ["handle"]


_SAME_MISTAKE = 5  # thoughts in a row that make one call and get one error: the next ones would too, and are paid


class _NoRoomError(Exception):
    """Undoes a step whose outcome does not fit into the window."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens


async def handle(swarm: Swarm, mail: Mail) -> None:
    """Handle one message to its end. What goes wrong is reported to the sender; only our own errors are raised."""
    agent = swarm.world.agent(mail.recipient)
    if agent is None or agent.state == "dead" or agent.incarnation != mail.incarnation:
        bounce(swarm, mail, "dead")
        return
    if agent.state == "full" and mail.kind == "ask":
        bounce(swarm, mail, "full")
        return
    ask = get_mail(swarm.world, mail.thread) if mail.thread is not None else None
    cause = get_mail(swarm.world, ask.cause) if ask is not None and ask.cause is not None else None
    current = mail if mail.kind == "ask" else cause if cause is not None and cause.kind == "ask" else None
    work = _begin(swarm, agent, mail, current)
    try:
        if mail.state == "queued" and not await _deliver(work):
            return
        if mail.kind == "digest" or (ask is not None and awaited(swarm.world, agent.name, ask.cause)):
            with swarm.world.step():  # nothing to think about, or the last answer is still to come
                finish(swarm.world, mail.id, "done")
        elif current is not None and current.target not in {"", agent.name}:
            relay(work, current)
        else:
            await _think(work)
    except CallError as error:
        fail(work, error.message, outside=True)


def _begin(swarm: Swarm, agent: AgentRow, mail: Mail, current: Mail | None) -> Work:
    """Return the work on a message: a question to an agent that forks goes to a copy of it as it is now."""
    forks = mail.kind == "ask" and agent.mode == "fork" and mail.target in {"", agent.name}
    if not forks:
        return Work(swarm, agent, swarm.window(agent), mail, current, _steps(swarm, agent, mail))
    key = f"fork/{mail.id}"
    origin = swarm.window(agent)
    with swarm.world.step():
        last = swarm.world.one("SELECT max(id) FROM events") or (None,)
        rows = origin.entries[-1].row if origin.entries else 0  # rows only grow
        copy = swarm.world.spawn(
            f"{agent.name}~{mail.id}", role=agent.role, parent=agent.name, mode="serial", window=agent.window, key=key,
            fork=(agent.name, rows, last[0] or 0),
        )  # fmt: skip
    if mail.state == "queued":
        swarm.windows[copy.name, copy.incarnation] = origin.copy()
    return Work(swarm, copy, swarm.window(copy), mail, current, _steps(swarm, copy, mail))


def _steps(swarm: Swarm, agent: AgentRow, mail: Mail) -> int:
    """Return the thoughts that were had for a message before; summaries and what was cancelled are none."""
    if mail.state == "queued":
        return 0
    sql = "SELECT count(*) FROM spend WHERE agent = ? AND mail = ? AND purpose = ?"
    row = swarm.world.one(sql, agent.name, mail.id, mail.kind)
    return int(row[0]) if row else 0


async def _deliver(work: Work) -> bool:
    mail = work.mail
    said = {"ask": "asks", "answer": "answers", "tell": "says", "report": "reports", "digest": "(copy)"}[mail.kind]
    entry = Entry("user", f"{mail.sender} {said}: {mail.body}", kind=mail.kind, mail=mail.id)
    told = _lessons(work)
    if not await make_room(work, entry.tokens + (told.tokens if told else 0), lessons=told is None):
        full(work)
        return False
    with work.swarm.world.step():
        if finish(work.swarm.world, mail.id, "delivered"):
            if told is not None:
                append(work.swarm.world, work.agent, work.window, replace(told, mail=mail.id))
            append(work.swarm.world, work.agent, work.window, entry)
    return True


def _lessons(work: Work) -> Entry | None:
    """Return the view of the playbook that comes with a question; who only hands it on gets none."""
    mail, agent = work.mail, work.agent
    if mail.kind != "ask" or mail.target not in {"", agent.origin}:
        return None
    return lessons_entry(work.swarm.lessons, agent.role, mail.body, work.window.entries)


async def _think(work: Work) -> None:
    swarm = work.swarm
    brain = swarm.brain(work.agent.role)
    while True:
        if not await _use_tools(work):
            return
        if (why := _no_end(work)) is not None:
            fail(work, why)
            return
        view = View(work.agent, work.mail, work.current, tuple(work.window.entries), work.window.room(), swarm.tools)
        begin_thought(work)
        with booked_in_any_case(work):
            thought = await brain.think(view)
        book(work, thought, work.mail.kind)
        work.step += 1  # it is paid, whatever becomes of it
        said = Entry("assistant", thought.text, kind="thought", calls=thought.calls)
        fits = await make_room(work, said.tokens)
        if not fits and thought.calls:
            full(work)
            return
        with swarm.world.step():
            if fits:
                append(swarm.world, work.agent, work.window, said)
            if not thought.calls:
                end(work, thought.text)
                return


def _no_end(work: Work) -> str | None:
    """Return why a message is given up: its thoughts are used up, or the last ones made one mistake again and again."""
    most = work.swarm.limits.max_steps
    results = [entry.text for entry in reversed(work.window.entries) if entry.role == "tool"]
    stuck = len(results) >= _SAME_MISTAKE and results[0].startswith("error:") and _repeats(work.window)
    if not stuck and work.step < most:
        return None
    said = f"; the last tool said: {results[0][:200]}" if results else ""
    if stuck:
        return f"no end in sight: the last {_SAME_MISTAKE} thoughts made the same call, which is none{said}"
    how = "a thought that calls no tool would have ended it"
    return f"no end after {work.step} thoughts: {how}, and max_steps in [options] says how many there may be{said}"


def _repeats(window: Window) -> bool:
    """Return whether the last thoughts all made the same calls and were told the same."""
    turns: list[tuple[tuple[str, ...], ...]] = []
    told: list[str] = []
    for entry in reversed(window.entries):
        if entry.role == "tool":
            told.append(entry.text)
        elif entry.kind == "thought" and told:
            turns.append((tuple(f"{call.name} {call.arguments}" for call in entry.calls), tuple(told)))
            told = []
        else:
            break
        if len(turns) == _SAME_MISTAKE:
            break
    return len(turns) == _SAME_MISTAKE and len(set(turns)) == 1


async def _use_tools(work: Work) -> bool:
    """Use the tools of the last thought that have no result yet. False: a result cannot fit, and the agent is full."""
    thought, done = _last_thought(work.window)
    for number, call in enumerate(thought.calls if thought else ()):
        if number < done:
            continue
        try:
            _use_tool(work, call, number)
        except _NoRoomError as none:
            if not await make_room(work, none.tokens, tail=number + 1):
                full(work)
                return False
            _use_tool(work, call, number)
    return True


def _last_thought(window: Window) -> tuple[Entry | None, int]:
    for results, entry in enumerate(reversed(window.entries)):
        if entry.role != "tool":
            return (entry if entry.kind == "thought" and entry.calls else None), results
    return None, 0


def _use_tool(work: Work, call: Call, number: int) -> None:
    with work.swarm.world.step():
        entry = Entry("tool", perform(work, call, number), kind="result", answers=call.id)
        if work.window.room() < entry.tokens:
            raise _NoRoomError(entry.tokens)
        append(work.swarm.world, work.agent, work.window, entry)
