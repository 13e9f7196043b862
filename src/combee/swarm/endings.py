"""How the work on a message ends: with an answer, handed on, failed, or because the agent is full."""

from __future__ import annotations

from combee.swarm.brain import Thought
from combee.swarm.directory import credit
from combee.swarm.ledger import charge
from combee.swarm.lessons import LESSONS
from combee.swarm.mail import About, Mail, awaited, finish, send
from combee.swarm.routing import ask_towards, bounce, report
from combee.swarm.work import Work

__all__ = ["end", "fail", "full", "relay"]


def end(work: Work, text: str) -> None:
    """Finish the message; the text is the answer to the question behind it, unless something asked for it is open."""
    world, agent, current = work.swarm.world, work.agent, work.current
    finish(world, work.mail.id, "done")
    if current is None or awaited(world, agent.name, current.id):
        return
    send(
        world, key=f"answer/{current.id}", kind="answer", sender=agent.name, recipient=current.sender, body=text,
        about=About(current.subject, thread=current.origin or current.id),
    )  # fmt: skip
    if agent.fork_of is not None:
        _bring_back(work, agent.fork_of, current, text)
    _leave(work, "answered")


def _leave(work: Work, reason: str) -> None:
    """End an agent that was made for one question."""
    agent = work.agent
    if agent.fork_of is not None or agent.mode == "once":
        work.swarm.world.set_state(agent.name, "dead", reason)
        work.swarm.windows.pop((agent.name, agent.incarnation), None)


def _bring_back(work: Work, name: str, current: Mail, text: str) -> None:
    """Send what a copy learned to the agent it is a copy of: nothing, a bounded digest, or everything."""
    world, origin = work.swarm.world, work.swarm.world.agent(name)
    if origin is None or origin.returns == "none":
        return
    if origin.returns == "digest":
        body = f"I was asked: {current.body}\nI answered: {text}"
        limit = 4 * work.swarm.limits.digest_tokens
        body = body if len(body) <= limit else body[: limit - 1] + "…"
        subjects = [(current.subject, "")] if current.subject else []
    else:
        own = [one for one in work.window.entries if one.row > work.agent.fork_row and one.kind != LESSONS]
        body = "\n".join(entry.text for entry in own)
        subjects = world.rows("SELECT subject, version FROM reads WHERE agent = ?", work.agent.name)
    for subject, version in subjects:
        credit(world, origin.name, origin.incarnation, subject, version)
    send(world, key=f"digest/{current.id}", kind="digest", sender=work.agent.name, recipient=origin.name, body=body)


def relay(work: Work, current: Mail) -> None:
    """Hand a question on to the next on its way, or its answer back. It costs the relay its context, as any message."""
    swarm, mail, name = work.swarm, work.mail, work.agent.name
    with swarm.world.step():
        charge(swarm.world, work.agent, work.window, mail, thought=Thought(mail.body), purpose="relay")
        finish(swarm.world, mail.id, "done")
        if mail.kind == "ask":
            about = About(mail.subject, cause=mail.id)
            key = f"relay/{mail.id}"
            sent = ask_towards(swarm, current.target, key=key, sender=name, body=mail.body, about=about)
            if sent.refused:
                report(swarm, mail, f"{current.target} cannot be reached: {sent.refused}")
            return
        send(
            swarm.world, key=f"answer/{current.id}", kind=mail.kind, sender=name, recipient=current.sender,
            body=mail.body, about=About(mail.subject, thread=current.origin or current.id),
        )  # fmt: skip


def fail(work: Work, why: str, *, outside: bool = False) -> None:
    """Report that no answer will come; `outside`: for a reason that says nothing about the agent."""
    with work.swarm.world.step():
        work.swarm.world.record(
            "failed", work.agent.name, why=why, mail=work.mail.id, outside=outside,
            ask=work.current.id if work.current is not None else None,
        )  # fmt: skip
        finish(work.swarm.world, work.mail.id, "done")
        if work.current is not None:
            report(work.swarm, work.current, why)
        _leave(work, "failed")


def full(work: Work) -> None:
    """Report the agent as full and send the question elsewhere. A copy that is full says so of its origin."""
    world, name = work.swarm.world, work.agent.origin
    with world.step():
        world.record("full", name, used=work.window.used, limit=work.window.limit)
        world.set_state(name, "full")
        if name != work.agent.name:
            _leave(work, "full")
        if work.current is None:
            finish(world, work.mail.id, "done")
        elif work.current.id == work.mail.id:
            bounce(work.swarm, work.mail, "full")
        else:
            fail(work, f"{name} is full")
