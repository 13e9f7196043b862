"""Commands that did not come back: what fed them, put them in the background, or bounded them, when that worked."""

from __future__ import annotations

from collections.abc import Sequence

from combee.mining.attempts import Attempt
from combee.mining.faults import quoted
from combee.mining.finding import Finding
from combee.mining.repairs import culprit
from combee.mining.shell import Part

__all__ = ["find_hangs"]

_WINDOW = 12
_FEEDERS = ("echo ", "printf ", "yes", "cat ")


def find_hangs(row: Sequence[Attempt]) -> list[Finding]:
    """Return the commands that timed out, and how the same program came back later in the run."""
    found: dict[str, Finding] = {}
    for place, attempt in enumerate(row):
        fault = attempt.fault
        part = culprit(attempt) if fault is not None and fault.kind == "timeout" else None
        if part is None or part.fed or "\n" in part.text or len(part.text) > 120:
            continue
        for later in row[place + 1 : place + 1 + _WINDOW]:
            finding = _came_back(part, attempt, later)
            if finding is not None:
                found.setdefault(finding.key, finding)
                break
    return list(found.values())


def _came_back(part: Part, first: Attempt, later: Attempt) -> Finding | None:
    if not later.worked or later.fault is not None:
        return None
    for each in later.parts:
        if each.program != part.program or each.arguments[:1] != part.arguments[:1]:
            continue
        steps = (first.step, later.step)
        line = " ".join(part.words)
        if part.background:
            if each.background and ">" in each.text and ">" not in part.text and len(each.text) <= 160:
                text = (
                    f"{quoted(f'{part.text} &')} timed out although it was put in the background: its output still "
                    f"held the call. With the output in a file it returned: {quoted(f'{each.text} &')}."
                )
                return Finding("hang", "hang/background output", text, steps)
            continue
        if each.fed.startswith(_FEEDERS) and len(each.fed) + len(each.text) <= 160:
            shown = quoted(f"{each.fed} | {each.text}")
            text = f"{quoted(line)} waits for input and timed out; fed by a pipe it came back: {shown}."
            return Finding("hang", f"hang/{line}/fed", text, steps, line=hash(part.program))
        if each.background and len(each.text) <= 160:
            shown = quoted(f"{each.text} &")
            text = f"{quoted(line)} does not return and timed out; in the background the run could go on: {shown}."
            return Finding("hang", f"hang/{line}/background", text, steps)
    return None
