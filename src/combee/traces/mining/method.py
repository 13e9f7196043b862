"""The reflector and the curator of mined lessons, as the learning loop takes them; no model.

Equal lessons become one operation with all their sources, so what recurs is counted and not repeated. Nothing is lost:
no call is too large for code.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from combee.kernel.aggregate import Method
from combee.kernel.journal import Scope, hash_json
from combee.kernel.learn import Reflection, ReflectionsMethod
from combee.kernel.playbook import Add, Delta, Playbook, Vote, VoteKind, delta_of
from combee.redaction import Trace, redact_trace
from combee.traces.mining.lesson import MinedLesson
from combee.traces.mining.survey import Survey, survey


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

    def _found(self, trace: Trace) -> Sequence[MinedLesson]:
        if self._survey is not None and trace.id in self._survey.by_trace:
            return self._survey.by_trace[trace.id]
        redacted, _ = redact_trace(trace)
        return survey([redacted]).by_trace[trace.id]


def _cited(finding: MinedLesson, trace: Trace) -> str:
    """Return the lesson with its trace and steps: they stand in the reflection, so that the lesson itself can recur."""
    steps = ", ".join(map(str, finding.steps))
    where = f"trace {trace.id}" + (f", step {steps}" if steps else "")
    return f"{finding.text} ({where}; words of {' and '.join(finding.origin)})"


_MISTAKES, _STRATEGIES = "COMMON MISTAKES TO AVOID", "STRATEGIES & INSIGHTS"
_STARTS = ("A dead end: ", "The test ", "The user corrected ", "In the task ")


def _section_of(lesson: str) -> str:
    """Return the section of a mined lesson; every kind has words of its own."""
    return _STRATEGIES if lesson.startswith(_STARTS) or "in run after run" in lesson else _MISTAKES


@dataclass(frozen=True, slots=True)
class MiningCurator:
    """Makes the aggregation method of each step."""

    def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        """Return the method; it depends on nothing but the reflections."""
        return MiningMethod()


@dataclass(frozen=True, slots=True)
class MiningMethod(ReflectionsMethod):
    """Reflections to one delta by code (`combee.kernel.aggregate.Method`)."""

    combine_calls_model: bool = False

    @property
    def fingerprint(self) -> str:
        """Return the hash of what besides the reflections decides a result."""
        return hash_json(["mining", 1])

    def digest(self, item: Reflection) -> str:
        """Return the hash of what the reflection says."""
        return hash_json(list(item.lessons))

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        """Write the lessons of the reflections."""
        sources: dict[str, list[str]] = defaultdict(list)
        for item in items:
            for lesson in item.lessons:
                sources[lesson].append(item.id)
        return delta_of(Add(_section_of(lesson), lesson, tuple(cited)) for lesson, cited in sources.items())

    def coverage(self, items: Sequence[Reflection], delta: Delta) -> list[str]:
        """Return those whose every lesson stands in an operation that cites them."""
        cited = {(source, getattr(operation, "text", "")) for operation in delta for source in operation.sources}
        return [item.id for item in items if all((item.id, Add("", text).text) in cited for text in item.lessons)]
