"""Runs as traces: one for each agent with its whole context, or one for each question with everyone who worked on it.

Both hold what compaction took out, and copies stand as who they are. The outcome of an agent is what the world knows:
one that failed or was full has failed; whoever answered only claims success.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from combee.kernel.journal import clean_text
from combee.redaction import Outcome, Step, ToolCall, Trace, trace_id
from combee.swarm.context import Entry, history
from combee.swarm.world import AgentRow, World

__all__ = ["question_trace", "traces"]


def traces(world: World) -> Iterator[Trace]:
    """Yield the trace of every agent that did something, in the order they were made."""
    failed = {event.agent: str(event.data.get("why", event.kind)) for event in world.events("failed")}
    failed |= {event.agent: "its window was full" for event in world.events("full")}
    for agent in world.agents(forks=True):
        if agent.mode != "outside":
            trace = _trace(world, agent, failed.get(agent.name))
            if trace is not None:
                yield trace


def _trace(world: World, agent: AgentRow, failure: str | None) -> Trace | None:
    times = dict(world.rows("SELECT id, at FROM context WHERE agent = ? ORDER BY id", agent.name))
    entries = history(world, agent)
    steps = [_step(number, entry, times.get(entry.row)) for number, entry in enumerate(entries)]
    if not steps:
        return None
    task = next((clean_text(entry.text) for entry in entries if entry.kind in {"ask", "tell"}), "")
    done = any(step.role == "assistant" for step in steps)
    outcome = (
        Outcome(success=False, detail=failure) if failure else Outcome(success=True, claimed=True) if done else None
    )
    meta = {"format": "swarm", "agent": agent.name, "role": agent.role, "incarnation": str(agent.incarnation)}
    if agent.fork_of is not None:
        meta["copy_of"] = agent.fork_of
    return Trace(trace_id(task, steps, outcome, agent.name), task, tuple(steps), outcome, meta=meta)


def _step(index: int, entry: Entry, at: float | None = None, agent: str | None = None) -> Step:
    text = clean_text(entry.text)
    calls = tuple(ToolCall(call.id, call.name, clean_text(call.arguments)) for call in entry.calls)
    when = datetime.fromtimestamp(at, UTC).isoformat() if at is not None else None
    wrong = text.startswith("error: ") if entry.role == "tool" else None
    return Step(index, entry.role, text, calls, entry.answers, wrong, when, agent)


def question_trace(world: World, number: int, *, name: str, task: str) -> Trace:
    """Return what was done for one question, by the agent that took it and by all that were asked for its sake.

    Steps of the others name them. Times are left out: the same work gives the same trace.
    """
    rows = _rows(world, number)
    first = rows[0][0] if rows else None
    steps = [
        _step(index, entry, agent=None if agent is first else agent.origin) for index, (agent, entry) in enumerate(rows)
    ]
    meta = {"task_id": name, "format": "swarm"}
    if first is not None:
        meta |= {"agent": first.origin, "role": first.role}
    return Trace(name, task, tuple(steps), meta=meta)


def _rows(world: World, number: int) -> list[tuple[AgentRow, Entry]]:
    """Return the entries that a question led to, in the order they were written.

    Messages belong to it that were caused by it, and answers to them; what an agent says and does belongs to the
    message that was delivered to it last.
    """
    mails = {
        int(row[0]): str(row[1])
        for row in world.rows(
            "WITH RECURSIVE asked (id) AS (VALUES (?1) UNION SELECT m.id FROM mail m JOIN asked a"
            " ON m.cause = a.id OR m.origin = a.id)"
            " SELECT id, recipient FROM mail WHERE id IN asked OR thread IN asked",
            number,
        )
    }
    found: list[tuple[AgentRow, Entry]] = []
    names = set(mails.values()) | {f"{recipient}~{mail}" for mail, recipient in mails.items()}
    for name in sorted(names):
        agent = world.agent(name)
        belongs = False
        for entry in history(world, agent) if agent is not None and agent.mode != "outside" else ():
            belongs = entry.mail in mails if entry.mail is not None else belongs
            if belongs and agent is not None:
                found.append((agent, entry))
    return sorted(found, key=lambda one: one[1].row)
