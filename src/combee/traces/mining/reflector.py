"""The reflector that learns from recorded runs without a model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from combee.kernel.journal import Scope
from combee.kernel.learn import Reflection
from combee.kernel.playbook import Playbook, Vote, VoteKind
from combee.redaction import Trace, redact_trace
from combee.traces.mining.finding import Finding
from combee.traces.mining.survey import Survey, survey

__all__ = ["MiningReflector"]


class MiningReflector:
    """Turns a run into the lessons that a survey over all runs found in it; without a survey, into its own.

    A lesson that the playbook holds already is seen again: its bullet gets a helpful vote.
    """

    def __init__(self, surveyed: Survey | None = None) -> None:
        self._survey = surveyed

    async def reflect_trace(self, trace: Trace, playbook: Playbook, scope: Scope) -> Reflection | None:
        """Return the lessons with the steps that show them, or None where there are none."""
        found = self._found(trace)
        if not found:
            return None
        lines = [_cited(each, trace) for each in found]
        text = "\n".join(lines)
        identity = f"{trace.id}~{hashlib.blake2b(text.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"
        known = {bullet.text: bullet.id for bullet in playbook}
        lessons = tuple(dict.fromkeys(each.text for each in found))
        outcome = trace.outcome
        return Reflection(
            id=identity,
            trace=trace.id,
            task=trace.meta.get("task_id") or trace.id,
            text=text,
            lessons=lessons,
            votes=tuple(Vote(identity, known[each], VoteKind.HELPFUL) for each in lessons if each in known),
            passed=None if outcome is None or outcome.claimed else outcome.success,
            labels=trace.labels,
        )

    def _found(self, trace: Trace) -> Sequence[Finding]:
        if self._survey is not None and trace.id in self._survey.by_trace:
            return self._survey.by_trace[trace.id]
        redacted, _ = redact_trace(trace)
        return survey([redacted]).by_trace[trace.id]


def _cited(finding: Finding, trace: Trace) -> str:
    """Return the lesson with its trace and steps: they stand in the reflection, so that the lesson itself can recur."""
    steps = ", ".join(map(str, finding.steps))
    where = f"trace {trace.id}" + (f", step {steps}" if steps else "")
    return f"{finding.text} ({where})"
