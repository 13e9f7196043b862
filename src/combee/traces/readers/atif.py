"""ATIF trajectories (Agent Trajectory Interchange Format, versions 1.0 to 1.8) and the loose ones in the wild.

Copied context is left out; embedded sub-agents become side chains of the same trace. ATIF holds no reward: a `success`
in it is the agent's own word. Loose files name calls and fields otherwise, and may give results before their calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import Outcome, Trace
from combee.traces.readers.draft import Draft
from combee.traces.readers.messages import Piece, call_of, content_text, first_text, role_of
from combee.traces.readers.outcomes import claim
from combee.traces.readers.source import Source
from combee.traces.readers.values import flag, number, objects, table, text, when

__all__ = ["AtifReader", "add_trajectory", "is_atif"]

_SOURCES = frozenset({"user", "agent", "system", "assistant", "environment", "tool"})
_ANSWERS = ("source_call_id", "tool_call_id", "call_id")
_DEEPEST = 20


def is_atif(value: object) -> float:
    """Return how sure it is that the value is a trajectory."""
    record = table(value)
    steps = list(objects(record.get("steps")))
    alike = any(
        text(step.get("source")).lower() in _SOURCES
        and ("message" in step or "observation" in step or "tool_calls" in step)
        for step in steps[:5]
    )
    named = text(record.get("schema_version")).upper().startswith("ATIF")
    if named:
        return 1.0
    return 0.75 if alike else 0.0


class AtifReader:
    """Reads one trajectory a record."""

    name = "atif"

    def sniff(self, source: Source) -> float:
        """Look for the schema version, or for steps that have a source and a message."""
        return max((is_atif(value) for value in source.first), default=0.0)

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the trajectory of each record."""
        for line, value in source.records():
            draft = Draft(source)
            add_trajectory(draft, table(value), line=line)
            yield from draft.trace(outcome=_claimed(table(value)), line=line)


def _claimed(record: dict[str, object]) -> Outcome | None:
    for place in (record, table(record.get("extra")), table(record.get("final_metrics")), table(record.get("outcome"))):
        success = flag(place.get("success"))
        if success is not None:
            return claim(success)
    return None


def add_trajectory(
    draft: Draft, record: dict[str, object], *, agent: str | None = None, line: int | None = None, depth: int = 0
) -> None:
    """Add the steps of a trajectory, and those of the sub-agents inside it as side chains."""
    if depth > _DEEPEST:
        draft.source.skip(f"sub-agents nested more than {_DEEPEST} deep", line)
        return
    who = table(record.get("agent"))
    if agent is None:
        found = {
            "agent": text(who.get("name")),
            "model": text(who.get("model_name")),
            "session": text(record.get("session_id")),
            "atif": text(record.get("schema_version")),
        }
        for key, value in found.items():
            draft.meta.setdefault(key, value)
    inside = {text(sub.get("trajectory_id")): sub for sub in objects(record.get("subagent_trajectories"))}
    for step in objects(record.get("steps")):
        if step.get("is_copied_context"):
            draft.source.note("copied context is not read again", line)
            continue
        for name in _add_step(draft, step, agent, line):
            if name in inside:
                add_trajectory(draft, inside.pop(name), agent=name, line=line, depth=depth + 1)
    for at, (name, sub) in enumerate(inside.items()):
        add_trajectory(draft, sub, agent=name or f"subagent-{at + 1}", line=line, depth=depth + 1)
    if agent is None:
        draft.results_after_calls()


def _add_step(draft: Draft, step: dict[str, object], agent: str | None, line: int | None) -> list[str]:
    """Add the message, the calls and the results of one step; return the sub-agents that its results name."""
    stamp = when(step.get("timestamp"))
    role = role_of(step.get("source") or step.get("role"))
    said = content_text(step["message"]) if step.get("message") is not None else content_text(step.get("content") or "")
    thinking = content_text(step.get("reasoning_content") or "").strip()
    if thinking and thinking != said.strip():
        said = f"[thinking] {thinking}\n{said}" if said else f"[thinking] {thinking}"
    calls = tuple(call_of(call) for call in objects(step.get("tool_calls")))
    if role == "tool":
        answers = first_text(step, _ANSWERS)
        piece = Piece("tool", said, calls, answers or None, flag(step.get("is_error")))
    else:
        piece = Piece(role, said, calls)
    draft.add(piece, timestamp=stamp, agent=agent, line=line)
    observation = step.get("observation")
    if isinstance(observation, str):
        only = calls[0].id if len(calls) == 1 and calls[0].id else None
        draft.add(Piece("tool", observation, answers=only), timestamp=stamp, agent=agent, line=line)
        return []
    named: list[str] = []
    listed = observation if isinstance(observation, list) else table(observation).get("results")
    for result in objects(listed):
        answers = first_text(result, _ANSWERS) or (calls[0].id if len(calls) == 1 else "")
        content = result.get("content", result.get("output"))
        said = content_text(content) if content is not None else ""
        piece = Piece("tool", said, (), answers or None, _failed(result))
        draft.add(piece, timestamp=stamp, agent=agent, line=line)
        named += [text(ref.get("trajectory_id")) for ref in objects(result.get("subagent_trajectory_ref"))]
    return named


def _failed(result: dict[str, object]) -> bool | None:
    extra = table(result.get("extra"))
    raw = table(table(extra.get("tool_result_metadata")).get("raw_tool_result"))
    for place in (result, extra, raw):
        known = flag(place.get("is_error"))
        if known is not None:
            return known
        code = number(place.get("exit_code"))
        if code is not None:
            return code != 0
    return None
