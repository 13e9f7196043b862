"""What becomes of messages to the dead and the full: questions go on to the next who knows, or are reported back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from combee.swarm.directory import who_knows
from combee.swarm.mail import About, Mail, finish, send

if TYPE_CHECKING:
    from combee.swarm.swarm import Swarm

__all__ = ["bounce", "report"]


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
        for one in known:
            sent = send(
                world, key=f"{mail.key}~{len(tried)}", kind="ask", sender=mail.sender, recipient=one.agent,
                body=mail.body, about=About(mail.subject, cause=mail.cause, origin=mail.origin or mail.id, tried=tried),
                hop_limit=swarm.limits.hop_limit,
            )  # fmt: skip
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
