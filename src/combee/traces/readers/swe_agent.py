"""SWE-agent trajectories (`.traj`): `history` as sent to the model, `trajectory` of actions and observations, `info`.

History is the fuller of the two and is preferred; what `trajectory` knows beyond it (the last observation) is added.
Demonstrations inside the history are not part of the run and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import ToolCall, Trace
from combee.traces.readers.draft import Draft
from combee.traces.readers.messages import Piece, content_text, pieces
from combee.traces.readers.outcomes import submitted
from combee.traces.readers.source import Source
from combee.traces.readers.values import objects, rows, table, text

__all__ = ["SweAgentReader"]


class SweAgentReader:
    """Reads one run a file."""

    name = "swe_agent"

    def sniff(self, source: Source) -> float:
        """Look for actions with observations, or a history whose messages name their agent."""
        for value in source.first:
            record = table(value)
            for step in list(objects(record.get("trajectory")))[:2]:
                if "action" in step and "observation" in step:
                    return 0.95
            for message in list(objects(record.get("history")))[:3]:
                if "role" in message and ("agent" in message or "message_type" in message or "action" in message):
                    return 0.85
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the run of each record."""
        for line, value in source.records():
            record = table(value)
            draft = Draft(source)
            history = list(objects(record.get("history")))
            steps = list(objects(record.get("trajectory")))
            if any(text(message.get("role")) == "assistant" and not message.get("is_demo") for message in history):
                _from_history(draft, history, steps, line)
            else:
                _opening(draft, history, line)
                _from_steps(draft, steps, line)
            info = table(record.get("info"))
            meta = {
                "agent": "swe-agent",
                "task_id": text(record.get("instance_id")) or text(info.get("instance_id")),
                "submission": text(info.get("submission")),
            }
            yield from draft.trace(outcome=submitted(text(info.get("exit_status"))), meta=meta, line=line)


def _opening(draft: Draft, history: list[dict[str, object]], line: int) -> None:
    for message in history:
        draft.pieces(pieces(message), line=line)


def _from_history(draft: Draft, history: list[dict[str, object]], steps: list[dict[str, object]], line: int) -> None:
    agents = {text(message.get("agent")) for message in history} - {""}
    main = text(history[0].get("agent")) if history else ""
    waiting: str | None = None
    actions = 0
    for message in history:
        if message.get("is_demo"):
            draft.source.note("demonstration messages are not part of the run", line)
            continue
        agent = text(message.get("agent")) if len(agents) > 1 and text(message.get("agent")) != main else None
        found = pieces(message)
        for piece in found:
            if piece.role == "assistant":
                action = text(message.get("action"))
                if action.strip() and not piece.calls:
                    piece.calls = (ToolCall(f"action-{actions}", "bash", action.strip("\n")),)
                actions += 1 if action or piece.calls else 0
                waiting = piece.calls[-1].id if piece.calls else None
            elif waiting is not None and piece.role in {"user", "tool"}:
                piece.role = "tool"
                piece.answers = piece.answers or waiting
                waiting = None
            draft.add(piece, agent=agent, line=line)
    if waiting is not None and 0 < actions <= len(steps):
        observation = content_text(steps[actions - 1].get("observation"))
        if observation:
            draft.add(Piece("tool", observation, answers=waiting), line=line)
    if actions < len(steps):
        _from_steps(draft, steps[actions:], line, first=actions)


def _from_steps(draft: Draft, steps: list[dict[str, object]], line: int, first: int = 0) -> None:
    for at, step in enumerate(steps, first):
        action = text(step.get("action"))
        call = ToolCall(f"action-{at}", "bash", action.strip("\n"))
        said = text(step.get("response")) or text(step.get("thought"))
        draft.add(Piece("assistant", said, (call,) if action.strip() else ()), line=line)
        observation = content_text(step.get("observation"))
        if observation:
            draft.add(Piece("tool", observation, answers=call.id if action.strip() else None), line=line)
    if not steps and not rows(draft.steps):
        draft.source.skip("neither history nor trajectory holds a step", line)
