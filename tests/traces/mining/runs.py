"""Recorded runs as short rows of (command, output, exit code), for the tests of mining."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from combee.redaction import Outcome, Role, Step, ToolCall, Trace
from combee.traces.mining import survey

Row = tuple[str, str, int | None]


def recorded(
    *rows: Row,
    name: str = "t1",
    task: str = "mend it",
    passed: bool | None = None,
    meta: Mapping[str, str] | None = None,
) -> Trace:
    """Return a trace with a user's task and one shell call a row."""
    steps = [Step(0, "user", task)]
    for number, (command, output, code) in enumerate(rows):
        call = ToolCall(f"c{number}", "bash", command)
        steps.append(Step(len(steps), "assistant", "", (call,)))
        error = None if code is None else code != 0
        steps.append(Step(len(steps), "tool", output, answers=f"c{number}", is_error=error))
    outcome = None if passed is None else Outcome(success=passed)
    return Trace(name, task, tuple(steps), outcome, meta=dict(meta or {}))


def talk(*turns: tuple[str, str], name: str = "t1") -> Trace:
    """Return a trace of plain messages."""
    steps = tuple(Step(number, cast("Role", role), text) for number, (role, text) in enumerate(turns))
    return Trace(name, turns[0][1], steps)


def lessons(trace: Trace) -> list[tuple[str, str]]:
    """Return kind and text of what one run teaches by itself."""
    return [(each.kind, each.text) for each in survey([trace]).by_trace[trace.id]]
