"""A model beside the code: it is shown what code found in a run, judges it and words it, under the rules of origin.

The evidence of a run is what code found, the calls that failed, and the user's messages that code cannot judge: some
hundred tokens instead of thousands. A run without any is not asked about. A lesson that repeats what another one than
the agent wrote, names his addresses or orders what he ordered, is held back whoever worded it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from combee.kernel.journal import Scope
from combee.kernel.learn import Reflection, TraceReflector
from combee.kernel.playbook import Playbook
from combee.redaction import Step, Trace, clean
from combee.traces.mining.attempts import attempts
from combee.traces.mining.lesson import MinedLesson, Standing, first_words
from combee.traces.mining.survey import Survey, findings
from combee.traces.mining.users import Users, users_of, what_users_said

_MOST_FAILED = 8
_MOST_SHOWN = 700  # characters of one step
_BUDGET = 1_500  # tokens


def evidence_of(trace: Trace, found: Sequence[MinedLesson], users: Users) -> Trace | None:
    """Return a run cut down to what a model is to judge, or None where there is nothing.

    Its first step says what code found; the others keep the numbers of the recorded run.
    """
    wanted = {step for lesson in found for step in lesson.steps}
    wanted |= {attempt.step for attempt in attempts(trace) if attempt.worked is False and len(wanted) < _MOST_FAILED}
    said = what_users_said(trace, users)
    asked = {*said.unjudged, *(lesson.steps[0] for lesson in said.corrections)}
    wanted |= asked | {at - 1 for at in asked}
    if not wanted:
        return None
    calls = {call.id for step in trace.steps if step.index in wanted for call in step.tool_calls if call.id}
    lines = [f"- {lesson.text} (step {', '.join(map(str, lesson.steps))})" for lesson in found]
    lines += [f"- The user's message in step {at} may set the agent right: judge it." for at in said.unjudged]
    head = "Found by code in this run; judge each, correct it or leave it out:\n" + "\n".join(lines)
    steps = [
        step for step in trace.steps if step.index in wanted or (step.answers is not None and step.answers in calls)
    ]
    opening = [Step(0, "system", head)] if lines else []
    cut = replace(trace, steps=(*opening, *steps), outcome=trace.outcome)
    return clean(cut, _BUDGET, output_limit=_MOST_SHOWN)


@dataclass(frozen=True, slots=True)
class JudgedReflector:
    """Reflects on recorded runs with a model under the rules of origin.

    Args:
        inner: the model's reflector.
        surveyed: what code found over all runs; without it each run is looked at alone.
        users: who the users are; None: judged run by run.
        evidence: show only the evidence of a run, and nothing of a run without any.
    """

    inner: TraceReflector
    surveyed: Survey | None = None
    users: Users | None = None
    evidence: bool = False

    async def reflect_trace(self, trace: Trace, playbook: Playbook, scope: Scope) -> Reflection | None:
        """Return what the model says of the run, without what is another one's."""
        users = self.users or users_of(trace)
        shown: Trace | None = trace
        if self.evidence:
            known = self.surveyed.by_trace.get(trace.id) if self.surveyed is not None else None
            shown = evidence_of(trace, findings(trace, users)[0] if known is None else known, users)
        if shown is None:
            return None
        reflection = await self.inner.reflect_trace(shown, playbook, scope)
        return None if reflection is None else _own(reflection, Standing(trace, users), scope, strict=self.evidence)


def _own(reflection: Reflection, standing: Standing, scope: Scope, *, strict: bool) -> Reflection | None:
    """Return a reflection without lessons in another one's words; `strict`: nor a command that stands nowhere."""
    reasons = {lesson: standing.against_worded(lesson) for lesson in reflection.lessons}
    if strict:
        reasons = {lesson: reason or standing.invented(lesson) for lesson, reason in reasons.items()}
    held = {lesson: reason for lesson, reason in reasons.items() if reason}
    if not held:
        return reflection
    problems = [f"a lesson was held back ({reason}): {first_words(lesson)}" for lesson, reason in held.items()]
    scope.decide(f"problems/origin/{reflection.trace}", problems)
    kept = tuple(lesson for lesson in reflection.lessons if lesson not in held)
    # what the model thought about the run may repeat the same words
    return replace(reflection, lessons=kept, text="\n".join(kept)) if kept or reflection.votes else None
