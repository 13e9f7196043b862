"""One message and the agent that handles it: deliver it once, think and use tools until there is a text, pass it on.

Every stretch between two thoughts is one step of the world, so a killed turn goes on after its last thought.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from combee.errors import CallError
from combee.swarm.brain import Thought, View
from combee.swarm.context import append, compact
from combee.swarm.directory import credit
from combee.swarm.ledger import charge
from combee.swarm.mail import Mail, awaited, finish, get_mail, send
from combee.swarm.reports import bounce, report
from combee.swarm.tools import TOOL_SPECS, Turn, perform
from combee.swarm.window import Call, Entry, Window
from combee.swarm.world import AgentRow

if TYPE_CHECKING:
    from combee.swarm.swarm import Swarm

__all__ = ["handle"]


class _NoRoomError(Exception):
    """Undoes a step whose outcome does not fit into the window."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens


@dataclass(slots=True)
class _Work:
    """A message being handled: by which agent (or copy of it), in which window, for which question."""

    swarm: Swarm
    agent: AgentRow
    window: Window
    mail: Mail
    current: Mail | None
    step: int = 0


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
    if mail.state == "queued" and not await _deliver(work):
        return
    if mail.kind == "digest" or (ask is not None and awaited(swarm.world, agent.name, ask.cause)):
        with swarm.world.step():  # nothing to think about, or the last answer is still to come
            finish(swarm.world, mail.id, "done")
        return
    if current is not None and current.target not in {"", agent.name}:
        _relay(work, current)
        return
    await _think(work)


def _begin(swarm: Swarm, agent: AgentRow, mail: Mail, current: Mail | None) -> _Work:
    """Return the work on a message: a question to an agent that forks goes to a copy of it as it is now."""
    forks = mail.kind == "ask" and agent.mode == "fork" and mail.target in {"", agent.name}
    if not forks:
        return _Work(swarm, agent, swarm.window(agent), mail, current, _steps(swarm, agent, mail))
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
    return _Work(swarm, copy, swarm.window(copy), mail, current, _steps(swarm, copy, mail))


def _steps(swarm: Swarm, agent: AgentRow, mail: Mail) -> int:
    if mail.state == "queued":
        return 0
    row = swarm.world.one("SELECT count(*) FROM spend WHERE agent = ? AND mail = ?", agent.name, mail.id)
    return int(row[0]) if row else 0


async def _deliver(work: _Work) -> bool:
    mail = work.mail
    said = {"ask": "asks", "answer": "answers", "tell": "says", "report": "reports", "digest": "(copy)"}[mail.kind]
    entry = Entry("user", f"{mail.sender} {said}: {mail.body}", kind=mail.kind, mail=mail.id)
    if not await _make_room(work, entry.tokens):
        _full(work)
        return False
    with work.swarm.world.step():
        if finish(work.swarm.world, mail.id, "delivered"):
            append(work.swarm.world, work.agent, work.window, entry)
    return True


async def _make_room(work: _Work, tokens: int, tail: int = 0) -> bool:
    """Compact until so many tokens fit beside the reserve; the last `tail` entries stay. False: they cannot."""
    window, needed = work.window, tokens + work.swarm.reserve
    if window.room() >= needed:
        return True
    split = len(window.entries) - tail
    old, rest = window.entries[:split], window.entries[split:]
    if not old:
        return False
    strategy = work.swarm.compaction(work.agent.role)
    kept = await strategy.compact(old, window, work.agent.fork_of or work.agent.name)
    if kept is None:
        return False
    if strategy.thinks:
        said = Thought("\n".join(entry.text for entry in kept))
        charge(work.swarm.world, work.agent, window, work.mail, thought=said, purpose="compaction")
    compact(work.swarm.world, work.agent, window, kept, strategy.name, tail=rest)
    return window.room() >= needed


async def _think(work: _Work) -> None:
    swarm = work.swarm
    brain = swarm.brain(work.agent.role)
    while True:
        if not await _use_tools(work):
            return
        if work.step >= swarm.max_steps:
            _fail(work, f"no end after {work.step} thoughts")
            return
        view = View(
            work.agent, work.mail, work.current, tuple(work.window.entries), work.window.room(),
            swarm.tools if swarm.tools is not None else TOOL_SPECS,
        )  # fmt: skip
        try:
            if brain.slow:
                swarm.world.flush()
            thought = await brain.think(view)
        except CallError as error:
            _fail(work, error.message)
            return
        charge(swarm.world, work.agent, work.window, work.mail, thought=thought, purpose=work.mail.kind)
        work.step += 1  # it is paid, whatever becomes of it
        said = Entry("assistant", thought.text, kind="thought", calls=thought.calls)
        fits = await _make_room(work, said.tokens)
        if not fits and thought.calls:
            _full(work)
            return
        with swarm.world.step():
            if fits:
                append(swarm.world, work.agent, work.window, said)
            if not thought.calls:
                _end(work, thought.text)
                return


async def _use_tools(work: _Work) -> bool:
    """Use the tools of the last thought that have no result yet. False: a result cannot fit, and the agent is full."""
    thought, done = _last_thought(work.window)
    for number, call in enumerate(thought.calls if thought else ()):
        if number < done:
            continue
        try:
            _use_tool(work, call, number)
        except _NoRoomError as none:
            if not await _make_room(work, none.tokens, tail=number + 1):
                _full(work)
                return False
            _use_tool(work, call, number)
    return True


def _last_thought(window: Window) -> tuple[Entry | None, int]:
    for results, entry in enumerate(reversed(window.entries)):
        if entry.role != "tool":
            return (entry if entry.kind == "thought" and entry.calls else None), results
    return None, 0


def _use_tool(work: _Work, call: Call, number: int) -> None:
    with work.swarm.world.step():
        turn = Turn(work.swarm, work.agent, work.mail, work.current, work.step)
        entry = Entry("tool", perform(turn, call, number), kind="result", answers=call.id)
        if work.window.room() < entry.tokens:
            raise _NoRoomError(entry.tokens)
        append(work.swarm.world, work.agent, work.window, entry)


def _end(work: _Work, text: str) -> None:
    """Finish the message; the text is the answer to the question behind it, unless something asked for it is open."""
    world, agent, current = work.swarm.world, work.agent, work.current
    finish(world, work.mail.id, "done")
    if current is None or awaited(world, agent.name, current.id):
        return
    send(
        world, key=f"answer/{current.id}", kind="answer", sender=agent.name, recipient=current.sender, body=text,
        subject=current.subject, thread=current.origin or current.id, hop_limit=work.swarm.hop_limit,
    )  # fmt: skip
    if agent.fork_of is not None:
        _bring_back(work, agent.fork_of, current, text)
    if agent.fork_of is not None or agent.mode == "once":
        world.set_state(agent.name, "dead", "answered")
        work.swarm.windows.pop((agent.name, agent.incarnation), None)


def _bring_back(work: _Work, name: str, current: Mail, text: str) -> None:
    """Send what a copy learned to the agent it is a copy of: nothing, a bounded digest, or everything."""
    world, origin = work.swarm.world, work.swarm.world.agent(name)
    if origin is None or origin.returns == "none":
        return
    if origin.returns == "digest":
        body = f"I was asked: {current.body}\nI answered: {text}"
        limit = 4 * work.swarm.digest_tokens
        body = body if len(body) <= limit else body[: limit - 1] + "…"
        subjects = [(current.subject, "")] if current.subject else []
    else:
        own = [entry for entry in work.window.entries if entry.row > (work.agent.fork_row or 0)]
        body = "\n".join(entry.text for entry in own)
        subjects = world.rows("SELECT subject, version FROM reads WHERE agent = ?", work.agent.name)
    for subject, version in subjects:
        credit(world, origin.name, origin.incarnation, subject, version)
    send(world, key=f"digest/{current.id}", kind="digest", sender=work.agent.name, recipient=origin.name, body=body)


def _relay(work: _Work, current: Mail) -> None:
    """Hand a question on to the next on its way, or its answer back. It costs the relay its context, as any message."""
    swarm, mail, name = work.swarm, work.mail, work.agent.name
    with swarm.world.step():
        charge(swarm.world, work.agent, work.window, mail, thought=Thought(mail.body), purpose="relay")
        finish(swarm.world, mail.id, "done")
        if mail.kind == "ask":
            hop = swarm.structure.next_hop(name, current.target)
            target = current.target if hop != current.target else ""
            sent = send(
                swarm.world, key=f"relay/{mail.id}", kind="ask", sender=name, recipient=hop or "", body=mail.body,
                subject=mail.subject, target=target, cause=mail.id, hop_limit=swarm.hop_limit,
            )  # fmt: skip
            if sent.refused:
                report(swarm, mail, f"{current.target} cannot be reached: {sent.refused}")
            return
        send(
            swarm.world, key=f"answer/{current.id}", kind=mail.kind, sender=name, recipient=current.sender,
            body=mail.body, subject=mail.subject, thread=current.origin or current.id,
        )  # fmt: skip


def _fail(work: _Work, why: str) -> None:
    with work.swarm.world.step():
        work.swarm.world.record("failed", work.agent.name, why=why, mail=work.mail.id)
        finish(work.swarm.world, work.mail.id, "done")
        if work.current is not None:
            report(work.swarm, work.current, why)
        if work.agent.fork_of is not None or work.agent.mode == "once":
            work.swarm.world.set_state(work.agent.name, "dead", "failed")


def _full(work: _Work) -> None:
    """Report the agent as full and send the question elsewhere. A copy that is full says so of its origin."""
    world, name = work.swarm.world, work.agent.fork_of or work.agent.name
    with world.step():
        world.record("full", name, used=work.window.used, limit=work.window.limit)
        world.set_state(name, "full")
        if name != work.agent.name:
            world.set_state(work.agent.name, "dead", "full")
    if work.current is None:
        with world.step():
            finish(world, work.mail.id, "done")
    elif work.current.id == work.mail.id:
        bounce(work.swarm, work.mail, "full")
    else:
        _fail(work, f"{name} is full")
