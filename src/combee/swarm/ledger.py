"""Who paid which tokens for whose message: one row a call of a model, summed up by edge and by agent."""

from __future__ import annotations

from dataclasses import dataclass

from combee.swarm.agents import Reply
from combee.swarm.context import Window, spoken
from combee.swarm.mail import Mail
from combee.swarm.world import AgentRow, World

__all__ = ["LOST", "Edge", "SwarmTotals", "charge", "edges", "totals"]

LOST = "lost at a kill"
"""The purpose of a reply that was under way when a process was killed."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Everything from one agent to another. `carried`: tokens of the messages; the rest was paid to handle them.

    Copies count as the agent they are copies of. `fresh` tokens are those of `prompt` that no earlier prompt of the
    same context began with (what a prefix cache cannot save).
    """

    sender: str
    recipient: str
    messages: int
    carried: int
    replies: int
    prompt: int
    fresh: int
    completion: int


@dataclass(frozen=True, slots=True)
class SwarmTotals:
    """Sums over a world. `lost` of the replies were under way when a process was killed: maybe paid."""

    messages: int
    carried: int
    replies: int
    prompt: int
    fresh: int
    completion: int
    compactions: int
    lost: int = 0


def charge(
    world: World, agent: AgentRow, window: Window, mail: Mail, *, reply: Reply, purpose: str, lost: int = 0
) -> tuple[int, int]:
    """Record what one reply took: as the model reports it, else as the window measures it; returns calls and tokens.

    Killed processes had begun the same reply `lost` times; each may have taken as much.
    """
    prompt, fresh = window.prompt()
    said = spoken(reply.text, reply.calls)
    usage = reply.usage
    if usage is not None:
        prompt, fresh, said = usage.prompt, min(fresh, usage.prompt - usage.cached), usage.completion
    who = (mail.first, agent.name, agent.incarnation, mail.id, mail.sender, mail.recipient)
    estimated = usage is None or usage.estimated
    sql = (
        "INSERT INTO spend (root, agent, incarnation, mail, sender, recipient, purpose, prompt, fresh, completion,"
        " estimated) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
    )
    with world.step():
        for _ in range(lost):
            world.run(sql, *who, LOST, prompt, fresh, said, True)
        world.run(sql, *who, purpose, prompt, fresh, said, estimated)
    return 1 + lost, (1 + lost) * (prompt + said)


def edges(world: World) -> list[Edge]:
    """Return all edges that carried a message, the most expensive first."""
    sql = """
        WITH real AS (SELECT name, coalesce(fork_of, name) AS who FROM agents),
        sent AS (SELECT s.who AS a, r.who AS b, count(*) AS n, sum(m.tokens) AS t FROM mail m
                 JOIN real s ON s.name = m.sender JOIN real r ON r.name = m.recipient GROUP BY 1, 2),
        paid AS (SELECT s.who AS a, r.who AS b, count(*) AS n, sum(p.prompt) AS p, sum(p.fresh) AS f,
                 sum(p.completion) AS c FROM spend p JOIN real s ON s.name = p.sender
                 JOIN real r ON r.name = p.recipient GROUP BY 1, 2)
        SELECT sent.a, sent.b, sent.n, sent.t, coalesce(paid.n, 0), coalesce(p, 0), coalesce(f, 0), coalesce(c, 0)
        FROM sent LEFT JOIN paid ON paid.a = sent.a AND paid.b = sent.b
        ORDER BY coalesce(p, 0) + coalesce(c, 0) DESC, sent.t DESC, sent.a, sent.b"""
    return [Edge(*row) for row in world.rows(sql)]


def totals(world: World) -> SwarmTotals:
    """Return the sums over everything."""
    mail = world.one("SELECT count(*), coalesce(sum(tokens), 0) FROM mail") or (0, 0)
    columns = "count(*), coalesce(sum(prompt), 0), coalesce(sum(fresh), 0), coalesce(sum(completion), 0)"
    paid = world.one(f"SELECT {columns} FROM spend") or (0, 0, 0, 0)  # noqa: S608 - a constant
    fired = world.value("SELECT count(*) FROM events WHERE kind = 'compacted'")
    lost = world.value("SELECT count(*) FROM spend WHERE purpose = ?", LOST)
    return SwarmTotals(*(*mail, *paid, fired, lost))
