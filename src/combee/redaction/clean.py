"""Cleaning of a trace for a reader with a bounded window: noise out, long outputs cut in the middle, a token budget.

The budget keeps the task, the failures with the calls that led to them, and the last steps; what else fits comes after,
newest first. Every cut is noted in the text, and step numbers stay those of the recorded run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from combee.kernel.learn.roles import Step, ToolCall, Trace
from combee.kernel.playbook import narrow_length
from combee.redaction.readings import scrub

_DATA_URI = re.compile(
    r"data:([a-zA-Z]{1,20}/[a-zA-Z0-9.+-]{1,60})(?:;[a-zA-Z0-9=.+-]{1,60}){0,4};base64,([A-Za-z0-9+/=_-]*)"
)
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/]{200,}={0,2}")
_BASE64_LINES = re.compile(r"^(?:[A-Za-z0-9+/]{60,120}={0,2}\n){3,}(?:[A-Za-z0-9+/]{1,120}={0,2}$)?", re.MULTILINE)
_SPINNER = re.compile(r"^[\u2800-\u28ff] .*\n?", re.MULTILINE)
_BLANKS = re.compile(r"\n(?:[ \t]*\n){3,}")
_CHARS_PER_TOKEN = 4
_STEP_OVERHEAD = 4  # role, number and separators of a step as shown to a reader


def count_tokens(trace: Trace) -> int:
    """Return the size of a trace in tokens of four characters, with a small constant for each step and call."""
    return _tokens(trace.task) + sum(_step_tokens(step) for step in trace.steps)


def _tokens(text: str) -> int:
    return -(-narrow_length(text) // _CHARS_PER_TOKEN)


def _step_tokens(step: Step) -> int:
    calls = sum(_tokens(call.name) + _tokens(call.arguments) + 2 for call in step.tool_calls)
    return _STEP_OVERHEAD + _tokens(step.text) + calls


def _is_base64(run: str) -> bool:
    """Whether a long run mixes cases and digits as encoded bytes do, unlike an identifier, a path or one letter."""
    sample = run[:2000]
    kinds = (any(c.islower() for c in sample), any(c.isupper() for c in sample), any(c.isdigit() for c in sample))
    return all(kinds) and len(set(sample)) >= 20


def _base64_placeholder(match: re.Match[str]) -> str:
    run = match[0]
    if not _is_base64(run):
        return run
    return f"[base64, {len(run) * 3 // 4} bytes]" + ("\n" if run.endswith("\n") else "")


def clean_text(text: str) -> str:
    """Return the text without terminal codes, overwritten lines and encoded bytes (placeholders say how many)."""
    text = scrub(text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    if not text.isascii():
        text = _SPINNER.sub("", text)
    if ";base64," in text:
        text = _DATA_URI.sub(lambda match: f"[{match[1]}, {len(match[2]) * 3 // 4} bytes]", text)
    if len(text) >= 200:
        text = _BASE64_LINES.sub(_base64_placeholder, _BASE64_RUN.sub(_base64_placeholder, text))
    return _BLANKS.sub("\n\n\n", text)


def _middle_cut(text: str, limit: int) -> str:
    """Return at most `limit` characters: the head, a note of what was cut, and the tail (where errors stand)."""
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text) - limit} characters cut ...]\n"
    room = limit - len(note)
    if room < 16:
        return text[: max(0, limit)]
    head = room * 2 // 5
    return text[:head] + note + text[len(text) - (room - head) :]


def _shorten(step: Step, limit: int) -> Step:
    """Return the step with its text, and each call's arguments, under `limit` characters."""
    text = _middle_cut(clean_text(step.text), limit)
    calls = tuple(
        ToolCall(call.id, call.name, _middle_cut(clean_text(call.arguments), limit)) for call in step.tool_calls
    )
    return step if text == step.text and calls == step.tool_calls else replace(step, text=text, tool_calls=calls)


def _wanted(steps: Sequence[Step], last: int) -> list[int]:
    """Return positions in the order in which they are kept: task, last steps, failures and their calls, the rest."""
    caller = {call.id: at for at, step in enumerate(steps) for call in step.tool_calls if call.id}
    order: dict[int, None] = {}
    first_user = next((at for at, step in enumerate(steps) if step.role == "user" and step.answers is None), None)
    if first_user is not None:
        order[first_user] = None
    for at in range(len(steps) - 1, max(-1, len(steps) - 1 - last), -1):
        order[at] = None
    for at in range(len(steps) - 1, -1, -1):
        if failed(steps[at]):
            order[at] = None
            answers = steps[at].answers
            before = caller.get(answers, at - 1) if answers is not None else at - 1
            if before >= 0:
                order[before] = None
    for at in range(len(steps) - 1, -1, -1):
        if steps[at].role != "system":
            order[at] = None
    for at in range(len(steps)):
        order[at] = None
    return list(order)


def _with_gaps(steps: Sequence[Step], kept: Mapping[int, Step]) -> tuple[Step, ...]:
    """Return the kept steps in order, with one short note where steps were left out."""
    out: list[Step] = []
    gap: list[int] = []
    for at, step in enumerate(steps):
        if at not in kept:
            gap.append(step.index)
            continue
        if gap:
            out.append(_gap(gap))
            gap = []
        out.append(kept[at])
    if gap:
        out.append(_gap(gap))
    return tuple(out)


def _gap(indices: Sequence[int]) -> Step:
    numbers = str(indices[0]) if len(indices) == 1 else f"{indices[0]}-{indices[-1]}"
    return Step(index=indices[0], role="system", text=f"[steps left out: {numbers}]")


def clean(trace: Trace, budget_tokens: int | None = 8000, *, output_limit: int = 6000, last_steps: int = 6) -> Trace:
    """Return a trace that a reflector can read.

    Args:
        trace: any trace; its id is kept, so a lesson can cite the recorded step.
        budget_tokens: upper bound of `count_tokens` of the result; None for no bound.
        output_limit: characters to which one text or one call's arguments are cut in the middle.
        last_steps: how many of the last steps are kept before anything else.
    """
    steps = [_shorten(step, output_limit) for step in trace.steps]
    task = clean_text(trace.task)
    whole = replace(trace, task=task, steps=tuple(steps))
    if budget_tokens is None or count_tokens(whole) <= budget_tokens:
        return whole
    share = max(1, budget_tokens // 4)
    room = share * _CHARS_PER_TOKEN * len(task) // max(1, narrow_length(task))
    task = _middle_cut(task, min(output_limit, room))
    gap_cost = _step_tokens(_gap([10**6, 10**6]))
    left = budget_tokens - _tokens(task) - gap_cost
    limit = max(200, min(output_limit, share * _CHARS_PER_TOKEN // 2))
    kept: dict[int, Step] = {}
    for at in _wanted(steps, last_steps):
        step = _shorten(steps[at], limit)
        cost = _step_tokens(step) + gap_cost  # each kept step may open one gap more
        if cost > left:
            step = _shorten(step, 200)
            cost = _step_tokens(step) + gap_cost
        if cost <= left:
            kept[at] = step
            left -= cost
    meta = {**trace.meta, "cleaned": f"{len(kept)} of {len(steps)} steps kept"}
    gapped = _with_gaps(steps, kept) if kept else ()
    return replace(trace, task=task, steps=gapped, meta=meta)


_EXIT = re.compile(
    r"(?:exit(?:ed with)?(?: code| status)?|return\s?code|returned|status code)[\s:=\"'>]{1,6}(-?\d{1,5})\b(?!\.\d)",
    re.IGNORECASE,
)
_RETURN_CODE = re.compile(r"<returncode>\s*(-?\d{1,5})\s*</returncode>")
_LINE = re.compile(
    r"^.{0,200}?(?:"
    r"Traceback \(most recent call last\)|\b[A-Z]\w{0,60}(?:Error|Exception)\b|\b(?:error|fatal|panic)(?:\[\w+\])?:|"
    r"\berror TS\d+|\bnpm ERR!|command not found|No such file or directory|[Pp]ermission denied|[Cc]onnection refused|"
    r"\bFAILED\b|\b[1-9]\d* failed\b|\b[Cc]annot (?:find|open|access|import)\b|\bENOENT\b|\bEACCES\b|"
    r"\b[Ss]egmentation fault\b|"
    r"\b[Tt]imed out\b|\bUnable to \w+|\bInvalid \w+|\bUnknown (?:option|command|argument)"
    r").{0,400}",
    re.MULTILINE,
)


def _exit_code(text: str) -> int | None:
    marked = _RETURN_CODE.search(text[:400])
    if marked:
        return int(marked[1])
    code: int | None = None
    for match in _EXIT.finditer(text[-600:] if len(text) > 1200 else text):
        code = int(match[1])
    return code


def failed(step: Step) -> bool:
    """Return whether the step is a tool result (or a user's terminal output) that shows a failure."""
    if step.is_error:
        return True
    if step.role not in {"tool", "user"} or (step.role == "user" and step.answers is None):
        return False
    code = _exit_code(step.text)
    if code is not None:
        return code != 0
    return _LINE.search(step.text) is not None
