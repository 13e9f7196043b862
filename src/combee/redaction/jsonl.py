"""Traces as JSON lines: one trace a line, lossless, versioned, both ways as a stream.

A line is an object that opens with `"combee_trace": 1`. Empty fields are left out. Files are UTF-8; text that UTF-8
cannot hold (lone surrogates) is written as JSON escapes and comes back as it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import cast, get_args

from combee.errors import DataError
from combee.kernel.learn.roles import Outcome, Role, Step, ToolCall, Trace

FORMAT_VERSION = 1
_ROLES = frozenset(get_args(Role))


def _step_to_data(step: Step) -> dict[str, object]:
    data: dict[str, object] = {"i": step.index, "role": step.role, "text": step.text}
    if step.tool_calls:
        data["calls"] = [[call.id, call.name, call.arguments] for call in step.tool_calls]
    optional = {"answers": step.answers, "error": step.is_error, "time": step.timestamp, "agent": step.agent}
    data.update((key, value) for key, value in optional.items() if value is not None)
    return data


def trace_to_data(trace: Trace) -> dict[str, object]:
    """Return the JSON object of one trace."""
    data: dict[str, object] = {"combee_trace": FORMAT_VERSION, "id": trace.id, "task": trace.task}
    outcome = trace.outcome
    if outcome is not None:
        score = outcome.score
        data["outcome"] = {
            "success": outcome.success,
            "score": str(score) if score is not None and not math.isfinite(score) else score,
            "claimed": outcome.claimed,
            "tests": dict(outcome.tests),
            "detail": outcome.detail,
        }
    if trace.labels:
        data["labels"] = dict(trace.labels)
    if trace.meta:
        data["meta"] = dict(trace.meta)
    data["steps"] = [_step_to_data(step) for step in trace.steps]
    return data


class _Fields:
    """Typed access to one JSON object; a wrong type is a ValueError that names the field."""

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{what} is not an object")
        self.value: dict[str, object] = value
        self.what = what

    def fail(self, key: str, wanted: str) -> ValueError:
        return ValueError(f"{self.what}.{key} is not {wanted}")

    def text(self, key: str) -> str:
        value = self.value.get(key)
        if not isinstance(value, str):
            raise self.fail(key, "text")
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self.value.get(key) is None else self.text(key)

    def flag(self, key: str) -> bool | None:
        value = self.value.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.fail(key, "true, false or null")
        return value

    def items(self, key: str) -> list[object]:
        value = self.value.get(key, [])
        if not isinstance(value, list):
            raise self.fail(key, "a list")
        return value

    def table(self, key: str) -> dict[str, object]:
        value = self.value.get(key, {})
        if not isinstance(value, dict):
            raise self.fail(key, "an object")
        return value

    def texts(self, key: str) -> dict[str, str]:
        table = self.table(key)
        if not all(isinstance(value, str) for value in table.values()):
            raise self.fail(key, "an object of texts")
        return cast("dict[str, str]", table)


def _step(value: object, position: int) -> Step:
    fields = _Fields(value, f"steps[{position}]")
    index = fields.value.get("i")
    role = fields.text("role")
    if not isinstance(index, int) or isinstance(index, bool):
        raise fields.fail("i", "a whole number")
    if role not in _ROLES:
        raise fields.fail("role", f"one of {', '.join(sorted(_ROLES))}")
    calls = []
    for call in fields.items("calls"):
        if not isinstance(call, list) or len(call) != 3 or not all(isinstance(part, str) for part in call):
            raise fields.fail("calls", "a list of [id, name, arguments]")
        calls.append(ToolCall(*call))
    return Step(
        index=index,
        role=cast("Role", role),
        text=fields.text("text"),
        tool_calls=tuple(calls),
        answers=fields.optional_text("answers"),
        is_error=fields.flag("error"),
        timestamp=fields.optional_text("time"),
        agent=fields.optional_text("agent"),
    )


def _outcome(data: object) -> Outcome | None:
    if data is None:
        return None
    fields = _Fields(data, "outcome")
    score = fields.value.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float | str | None):
        raise fields.fail("score", "a number")
    try:
        value = None if score is None else float(score)
    except (ValueError, OverflowError):
        raise fields.fail("score", "a number") from None
    tests = fields.table("tests")
    if not all(isinstance(passed, bool) for passed in tests.values()):
        raise fields.fail("tests", "an object of true and false")
    return Outcome(
        success=fields.flag("success"),
        score=value,
        claimed=bool(fields.flag("claimed")),
        tests=cast("Mapping[str, bool]", tests),
        detail=fields.text("detail") if "detail" in fields.value else "",
    )


def trace_from_data(value: object) -> Trace:
    """Return the trace of one JSON object.

    Raises:
        ValueError: a field is missing or of the wrong type (the message names it), or the version is newer than ours.
    """
    fields = _Fields(value, "trace")
    version = fields.value.get("combee_trace")
    if not isinstance(version, int) or version < 1:
        raise ValueError("not a combee trace: no combee_trace version")
    if version > FORMAT_VERSION:
        raise ValueError(f"written by a newer version (trace format {version}, known: {FORMAT_VERSION})")
    return Trace(
        id=fields.text("id"),
        task=fields.text("task"),
        steps=tuple(_step(step, position) for position, step in enumerate(fields.items("steps"))),
        outcome=_outcome(fields.value.get("outcome")),
        labels=fields.texts("labels"),
        meta=fields.texts("meta"),
    )


def to_jsonl(traces: Iterable[Trace]) -> Iterator[str]:
    """Yield one line (with its line end) for each trace; every line encodes as UTF-8."""
    for trace in traces:
        data = trace_to_data(trace)
        line = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        if not line.isascii():
            try:
                line.encode()
            except UnicodeEncodeError:
                line = json.dumps(data, separators=(",", ":"), allow_nan=False)
        yield line + "\n"


def from_jsonl(lines: Iterable[str]) -> Iterator[Trace]:
    """Yield the trace of each line; blank lines are passed over.

    Raises:
        DataError: a line that is not a trace; `line` counts from 1.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            trace = trace_from_data(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise DataError(
                str(error), line=number, hint="Every line must be one trace as written by to_jsonl."
            ) from error
        yield trace
