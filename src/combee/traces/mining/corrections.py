"""Corrections by the user: what a person said was wrong after the agent had acted.

Only a message of the user's own counts, never a tool's output, whatever that calls itself. It is quoted as what the
user said; what reads like an instruction to a model is left out, and so is what a harness says in many runs.
"""

from __future__ import annotations

import re

from combee.redaction import Trace
from combee.traces.mining.faults import is_instruction, quoted, signature
from combee.traces.mining.lesson import MinedLesson

__all__ = ["find_corrections"]

_CORRECTS = re.compile(
    r"^(?:no\b[,.!]|nope\b|wrong\b|that(?:'s| is| was) (?:not|wrong)|not like that|stop\b|don'?t\b|do not\b|"
    r"actually[, ]|"
    r"i (?:said|asked|meant|told)\b|you (?:forgot|missed|broke|should(?:n't| not)? have)|undo\b|revert\b|"
    r"(?:please )?(?:use|run|put|keep|call|write) .{1,80}\b(?:instead|not|rather than)\b|instead[, ]|"
    r"why did you\b|it (?:still )?(?:fails|doesn'?t work|does not work|is (?:still )?(?:broken|wrong)))"
    r"|\b(?:instead of|rather than|should (?:be|have been)) .{2,}",
    re.IGNORECASE,
)
_LONGEST = 300
_HARNESS = re.compile(
    r"returncode|exit code|<\w+>|EXACTLY ONE|```|Observation:|\bformat\b.*\bresponse\b", re.IGNORECASE
)


def find_corrections(trace: Trace) -> list[MinedLesson]:
    """Return what the user set right in this run."""
    found: list[MinedLesson] = []
    acted, first = False, True
    for step in trace.steps:
        if step.role == "assistant":
            acted = acted or bool(step.tool_calls) or bool(step.text.strip())
        if step.role != "user" or step.answers is not None or step.agent is not None:
            continue
        text = " ".join(step.text.split())
        if first:
            first = False
        elif acted and _corrects(text):
            said = f"The user corrected the agent: {quoted(text, _LONGEST)}"
            found.append(MinedLesson("correction", f"correction/{signature(text)}", said, (step.index,)))
    return found


def _corrects(text: str) -> bool:
    if not 8 <= len(text) <= _LONGEST or _HARNESS.search(text) or is_instruction(text):
        return False
    return _CORRECTS.search(text) is not None
