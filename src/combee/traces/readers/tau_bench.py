"""tau-bench (`traj`, `info`, `reward`) and tau2 (`simulations` with `messages` and `reward_info`): one trace a trial.

The user is a customer, played by a model. The reward is that of the benchmark; what the task asks for is not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from combee.redaction import Trace
from combee.traces.readers.draft import TraceDraft, scored
from combee.traces.readers.messages import pieces
from combee.traces.readers.source import Source
from combee.traces.readers.values import flag, number, objects, rows, table, text, when


def _is_trial(value: object) -> bool:
    record = table(value)
    return isinstance(record.get("traj"), list) and ("reward" in record or "info" in record)


def _is_simulation(value: object) -> bool:
    record = table(value)
    return "task_id" in record and "termination_reason" in record and ("messages" in record or "ticks" in record)


class TauBenchReader:
    """Reads every trial of a file."""

    name = "tau_bench"
    fields = ("task_id", "reward", "info", "traj", "trial")

    def sniff(self, source: Source) -> float:
        """Look for trials with a `traj`, or for simulations."""
        for value in source.first:
            listed = rows(value)[:3] or [value]
            if any(_is_trial(each) or _is_simulation(each) for each in listed):
                return 0.95
            if any(map(_is_simulation, rows(table(value).get("simulations"))[:3])):
                return 0.95
        return 0.0

    def read(self, source: Source) -> Iterator[Trace]:
        """Yield the trials."""
        for line, value in source.records():
            simulations = rows(table(value).get("simulations"))
            info = table(table(value).get("info"))
            for item in simulations or rows(value) or [value]:
                record = table(item)
                if _is_trial(record):
                    yield from _trial(source, record, line)
                elif _is_simulation(record):
                    yield from _simulation(source, record, info, line)
                else:
                    source.skip("neither a trial nor a simulation", line)


def _trial(source: Source, record: dict[str, object], line: int) -> Iterator[Trace]:
    draft = TraceDraft(source)
    for message in rows(record.get("traj")):
        draft.pieces(pieces(message), line=line)
    info = table(record.get("info"))
    draft.run = f"{text(record.get('task_id'))}/{text(record.get('trial'))}"
    meta = {"task_id": text(record.get("task_id")), "trial": text(record.get("trial"))}
    trouble = text(info.get("error"))
    yield from draft.trace(outcome=scored(number(record.get("reward")), detail=trouble), meta=meta, line=line)


def _simulation(source: Source, record: dict[str, object], info: dict[str, object], line: int) -> Iterator[Trace]:
    draft = TraceDraft(source)
    for message in objects(record.get("messages")):
        parts = list(objects(message.get("tool_messages"))) or [message]
        for part in parts:
            # in some domains the customer has tools of his own
            own = part.get("requestor") == "user" or (
                part.get("role") == "user"
                and any(call.get("requestor") == "user" for call in objects(part.get("tool_calls")))
            )
            for piece in pieces({**part, "tool_call_id": part.get("id")} if part.get("role") == "tool" else part):
                if piece.role == "tool" and piece.is_error is None:
                    piece.is_error = flag(part.get("error"))
                draft.add(piece, timestamp=when(part.get("timestamp")), agent="customer" if own else None, line=line)
    if not draft.steps and record.get("ticks"):
        source.skip("a spoken simulation: it holds ticks and no messages", line)
        return
    draft.run = text(record.get("id"))
    judged = table(record.get("reward_info"))
    agent = table(info.get("agent_info"))
    meta = {
        "task_id": "/".join(
            filter(None, (text(table(info.get("environment_info")).get("domain_name")), text(record.get("task_id"))))
        ),
        "trial": text(record.get("trial")),
        "model": text(agent.get("llm")),
    }
    outcome = scored(number(judged.get("reward")), detail=text(record.get("termination_reason")))
    yield from draft.trace(outcome=outcome, meta=meta, line=line)
