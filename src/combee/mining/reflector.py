"""The reflector and the curator that learn from recorded runs without a model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from combee.journal import Scope
from combee.learn import Reflection
from combee.lexical import LexicalCurator, LexicalMethod
from combee.mining.finding import MISTAKES, STRATEGIES, Finding
from combee.mining.survey import Survey, survey
from combee.playbook import Add, Delta, Playbook, Vote, VoteKind, delta_of
from combee.trace import Trace, redact_trace

__all__ = ["MiningCurator", "MiningReflector"]


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


class MiningCurator(LexicalCurator):
    """The embedded curator, with each lesson filed under the section of its kind."""

    def method(self, playbook: Playbook, scope: Scope) -> LexicalMethod:
        """Return the method of one step."""
        return _Filing(self, scope.address)


class _Filing(LexicalMethod):
    """Writes what its base writes, into other sections."""

    def _written(self, entering: Mapping[str, tuple[str, ...]], m: int, node: str) -> Delta:
        written = LexicalMethod._written(self, entering, m, node)
        return delta_of(_filed(each) if isinstance(each, Add) else each for each in written)


def _filed(add: Add) -> Add:
    return Add(section_of(add.text), add.text, add.sources)


def section_of(text: str) -> str:
    """Return the section of a lesson by how it begins; every kind has its own beginning."""
    starts = ("A dead end: ", "The test ", "The user corrected ", "In the task ")
    recurring = text.startswith(starts) or "in run after run" in text
    return STRATEGIES if recurring else MISTAKES
