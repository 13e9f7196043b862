"""How questions find who can answer: along the structure, past the dead and the full, or back as a report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from combee.swarm.directory import who_knows
from combee.swarm.mail import About, Mail, Sent, finish, send

if TYPE_CHECKING:
    from combee.swarm.swarm import Swarm

__all__ = ["ask_towards", "bounce", "report"]


def ask_towards(swarm: Swarm, goal: str, *, key: str, sender: str, body: str, about: About) -> Sent:
    """Send a question on its way: straight where the structure allows it, else to the next on the shortest way."""
    asker = swarm.world.agent(sender)
    hop = swarm.structure.next_hop(asker.origin if asker else sender, goal)
    if hop is None:
        swarm.world.record("refused", goal, why="no way", sender=sender, key=key)
        return Sent(refused="no way")
    return send(
        swarm.world, key=key, kind="ask", sender=sender, recipient=hop, body=body,
        about=replace(about, target="" if hop == goal else goal), hop_limit=swarm.limits.hop_limit,
    )  # fmt: skip


def bounce(swarm: Swarm, mail: Mail, why: str) -> None:
    """Take a message back from an agent that is dead or full: a question goes to the next who knows, or is reported."""
    world = swarm.world
    with world.step():
        finish(world, mail.id, "bounced")
        world.record("bounced", mail.recipient, why=why, mail=mail.id, sender=mail.sender)
        if mail.kind != "ask":
            return
        tried = (*mail.tried, mail.target or mail.recipient)
        known = who_knows(world, mail.subject, exclude=(*tried, mail.sender)) if mail.subject else []
        about = About(mail.subject, cause=mail.cause, origin=mail.origin or mail.id, tried=tried)
        for one in known:
            key = f"{mail.key}~{len(tried)}"
            sent = ask_towards(swarm, one.agent, key=key, sender=mail.sender, body=mail.body, about=about)
            if not sent.refused:
                world.record("rerouted", one.agent, mail=sent.id, instead=list(tried))
                return
        report(swarm, mail, f"{mail.recipient} is {why}")


def report(swarm: Swarm, ask: Mail, why: str) -> None:
    """Tell who asked that no answer will come."""
    send(
        swarm.world, key=f"answer/{ask.id}", kind="report", sender=ask.recipient, recipient=ask.sender,
        body=f"No answer: {why}.", about=About(ask.subject, thread=ask.origin or ask.id),
    )  # fmt: skip
