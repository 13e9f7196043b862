"""Calls that an agent wrote into its text, where the recording has no calls of its own.

Known are the JSON of keystrokes (Terminus), tags (`<execute_bash>`, `<function=...>`, `<invoke name=...>`,
`<tool_call>`, `<execute_command>`) and `Action:` with `Action Input:` (ReAct). What is said next answers the call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from combee.redaction import Step, ToolCall
from combee.traces.readers.values import compact, objects, table, text

_MARKS = (
    '"keystrokes"', "</execute_bash>", "</function>", "</invoke>", "</tool_call>", "</execute_command>", "Action:"
)  # fmt: skip
_BASH = re.compile(r"<execute_bash>\s*(.*?)\s*</execute_bash>", re.DOTALL)
_CLINE = re.compile(r"<execute_command>.*?<command>\s*(.*?)\s*</command>.*?</execute_command>", re.DOTALL)
_TAGGED = re.compile(
    r"<(?:function=(?P<a>[\w.-]{1,80})|invoke name=\"(?P<b>[\w.-]{1,80})\")>(?P<rest>.*?)</(?:function|invoke)>",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"<parameter(?:=| name=\")(?P<name>[\w.-]{1,80})\"?>\n?(?P<value>.*?)\n?</parameter>", re.DOTALL
)
_OBJECT = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
_REACT = re.compile(
    r"^\W{0,4}Action:\W{0,3}(?P<name>[\w .-]{1,60}?)\W{0,3}\n+\W{0,4}Action Input:[ \t]*(?P<given>.*?)\s*"
    r"(?=^\W{0,4}Observation:|\Z)",
    re.MULTILINE | re.DOTALL,
)
_MOST_BRACES = 8


def with_written_calls(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with the calls that stand in the agent's texts; unchanged where there are calls already."""
    if any(step.tool_calls for step in steps):
        return list(steps)
    out: list[Step] = []
    waiting: str | None = None
    for step in steps:
        if step.role == "assistant":
            calls = tuple(_calls(step.text, step.index))
            waiting = calls[-1].id if calls else None
            out.append(replace(step, tool_calls=calls) if calls else step)
        elif waiting is not None and step.role in {"user", "tool"}:
            out.append(replace(step, role="tool", answers=step.answers or waiting))
            waiting = None
        else:
            out.append(step)
    return out


def _calls(said: str, place: int) -> Iterator[ToolCall]:
    if not any(mark in said for mark in _MARKS):
        return
    for at, (name, arguments) in enumerate(_written(said)):
        yield ToolCall(f"written-{place}-{at}", name, arguments)


def _written(said: str) -> Iterable[tuple[str, str]]:
    if '"keystrokes"' in said:
        keys = _keystrokes(said)
        return [("bash", keys)] if keys else []
    lines = [("bash", line) for pattern in (_BASH, _CLINE) for line in pattern.findall(said)]
    tagged = [
        (
            match["a"] or match["b"],
            compact({each["name"]: each["value"] for each in _PARAMETER.finditer(match["rest"])}),
        )
        for match in _TAGGED.finditer(said)
    ]
    loaded = (_loaded(found) for found in _OBJECT.findall(said))
    given = [(text(call.get("name")), compact(call.get("arguments"))) for call in loaded if text(call.get("name"))]
    found = [*lines, *tagged, *given]
    return found or [(match["name"].strip(), match["given"].strip("` \n")) for match in _REACT.finditer(said)]


def _loaded(found: str) -> dict[str, object]:
    try:
        return table(json.loads(found))
    except (ValueError, RecursionError):
        return {}


def _keystrokes(said: str) -> str:
    """Return what is typed into the terminal, a line each."""
    at = said.find("{")
    for _ in range(_MOST_BRACES):
        if at < 0:
            break
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(said, at)
        except (ValueError, RecursionError):
            value = None
        typed = [text(each.get("keystrokes")) for each in objects(table(value).get("commands"))]
        if any(typed):
            return "\n".join(each.rstrip("\n") for each in typed if each.strip())
        at = said.find("{", at + 1)
    return ""
