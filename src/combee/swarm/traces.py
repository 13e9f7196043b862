"""Runs of agents as traces: one for each agent with its whole context, also what compaction took out.

Copies stand as traces of their own, so what they did can be learned from too. The outcome is what the world knows: an
agent that failed or was full has failed; whoever answered only claims success.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from combee.swarm.context import history
from combee.swarm.world import AgentRow, World
from combee.trace import Outcome, Step, ToolCall, Trace, plain, trace_id

__all__ = ["traces"]


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
    steps: list[Step] = []
    times = dict(world.rows("SELECT id, at FROM context WHERE agent = ? ORDER BY id", agent.name))
    task = ""
    for entry in history(world, agent):
        text = plain(entry.text)
        if not task and entry.kind in {"ask", "tell"}:
            task = text
        calls = tuple(ToolCall(call.id, call.name, plain(call.arguments)) for call in entry.calls)
        at = datetime.fromtimestamp(times[entry.row], UTC).isoformat() if entry.row in times else None
        wrong = text.startswith("error: ") if entry.role == "tool" else None
        steps.append(Step(len(steps), entry.role, text, calls, entry.answers, wrong, at))
    if not steps:
        return None
    done = any(step.role == "assistant" for step in steps)
    outcome = (
        Outcome(success=False, detail=failure) if failure else Outcome(success=True, claimed=True) if done else None
    )
    meta = {"agent": agent.name, "role": agent.role, "incarnation": str(agent.incarnation)}
    if agent.fork_of is not None:
        meta["copy_of"] = agent.fork_of
    return Trace(trace_id(task, steps, outcome, agent.name), task, tuple(steps), outcome, meta=meta)
