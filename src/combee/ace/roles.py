"""ACE's Generator and Reflector on any model (arXiv 2510.04618, section 3).

The Generator does a task with the playbook before it and never reads the target. The Reflector says what a scored
rollout, or a recorded run, teaches; the right answer is read there and nowhere else. More than one round shows the
model its own reflection and asks for a better one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from combee.ace.prompts import GENERATOR, REFLECTOR, Prompts, Shown, fence, show_bullets
from combee.ace.replies import cited_ids, votes_of
from combee.errors import CallError, CallErrorKind, UsageError
from combee.kernel.journal import Scope
from combee.kernel.learn.roles import Reflection, Rollout, Score, Task
from combee.kernel.playbook import Playbook
from combee.model import ChatModel
from combee.model.answer_text import why_refused, why_unusable
from combee.model.asking import as_text, ask, ask_and_keep
from combee.model.operations import find_ids
from combee.model.settings import CallOptions
from combee.redaction import Outcome, Step, Trace, clean, redact


class AceGenerator:
    """One call a task. The target is never read here.

    Args:
        model: Any model.
        prompts: The prompts; ours by default.
        options: Length, temperature and seed of the replies.
    """

    def __init__(self, model: ChatModel, *, prompts: Prompts | None = None, options: CallOptions | None = None) -> None:
        self._model = model
        self._prompts = prompts or Prompts.load()
        self._options = options or CallOptions()
        self._shown = Shown()

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Do the task.

        Raises:
            CallError: The call failed, or the reply was not in form after a re-ask.
        """
        values = {"playbook": self._shown(playbook), "task": fence("task", task.question)}
        reply = await ask(
            self._model,
            self._prompts["generator"].render(values),
            scope,
            role="generator",
            item=task.id,
            schema=GENERATOR,
            required=("final_answer",),
            options=self._options,
            why=why_refused,  # an answer may be the name of an error
        )
        return Rollout(
            task=task.id,
            answer=as_text(reply["final_answer"]),
            used=cited_ids(reply.get("bullet_ids"), playbook),
            reasoning=as_text(reply.get("reasoning")),
        )


def shown_trace(trace: Trace, tokens: int, *, task_only: bool = False) -> str:
    """Return the run (or only its task) in about so many tokens, secrets taken out."""
    cleaned = clean(trace, tokens)
    text = cleaned.task if task_only else "\n".join(_step(step) for step in cleaned.steps)
    return redact(text).text or "(nothing recorded)"


def _step(step: Step) -> str:
    who = step.role if step.agent is None else f"{step.role} ({step.agent})"
    failed = " failed" if step.is_error else ""
    lines = [f"[{step.index}] {who}{failed}: {step.text}".rstrip()]
    lines += [f"    calls {call.name} {call.arguments}" for call in step.tool_calls]
    return "\n".join(lines)


def describe_outcome(outcome: Outcome | None) -> str:
    """Return how a run ended, in words; a success that only the agent states is called a claim."""
    if outcome is None:
        return "not known"
    result = {True: "success", False: "failure", None: "not judged"}[outcome.success]
    parts = [f"{result} (the agent's own claim, not checked)" if outcome.claimed else result]
    if outcome.score is not None:
        parts.append(f"score {outcome.score:g}")
    failed = [name for name, passed in outcome.tests.items() if not passed]
    if outcome.tests:
        parts.append(f"{len(outcome.tests) - len(failed)} of {len(outcome.tests)} tests passed")
    if failed:
        parts.append(f"failed: {', '.join(failed[:20])}")
    if outcome.detail:
        parts.append(outcome.detail)
    return redact("; ".join(parts)).text


TRACE_TOKENS = 16_000
_FEWEST_TRACE_TOKENS = 1_000
_AGAIN = (
    "Your earlier reflection on this run follows. Write a better one: what did it miss, where is it too general, which "
    "exact name, number, formula or condition is missing? Repeat what was right in it."
)
_LABELS = {"error_identification": "Error", "root_cause_analysis": "Cause", "correct_approach": "Correct approach"}
_NOTHING = frozenset({"", "none", "n/a", "nothing", "no error", "null", "-"})


class AceReflector:
    """Reflects on live rollouts (`reflect`) and on recorded runs (`reflect_trace`).

    Args:
        model: Any model.
        prompts: The prompts; ours by default.
        options: Length, temperature and seed of the replies.
        rounds: Times the model reflects on one run; ends early when a round says nothing new.
        trace_tokens: To how many tokens a recorded run is cleaned before it is read.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prompts: Prompts | None = None,
        options: CallOptions | None = None,
        rounds: int = 1,
        trace_tokens: int = TRACE_TOKENS,
    ) -> None:
        if rounds < 1:
            raise UsageError(f"reflection_rounds is {rounds}", hint="Give 1 or more.")
        if trace_tokens < _FEWEST_TRACE_TOKENS:
            raise UsageError(f"trace_tokens is {trace_tokens}", hint=f"Give {_FEWEST_TRACE_TOKENS} or more.")
        self._model = model
        self._prompts = prompts or Prompts.load()
        self._options = options or CallOptions()
        self._rounds = rounds
        self._trace_tokens = trace_tokens

    async def reflect(
        self, task: Task, rollout: Rollout, score: Score | None, playbook: Playbook, scope: Scope
    ) -> Reflection | None:
        """Return what the rollout teaches.

        Raises:
            CallError: The call failed, or the reply was not in form after a re-ask.
        """
        shown = _part(playbook, rollout.used)
        outcome = _outcome(score)
        values = {
            "bullets": show_bullets(shown),
            "task": fence("task", task.question),
            "reasoning": fence("reasoning", rollout.reasoning or "(not given)"),
            "answer": fence("answer", rollout.answer),
            "outcome": fence("outcome", outcome),
            "target": fence("target", "(not known)" if task.target is None else task.target),
        }
        reply = await self._rounds_of("reflector", values, task.id, scope)
        passed = None if score is None else score.passed
        return self._reflection(reply, task.id, task.id, shown, passed=passed, labels=task.labels, scope=scope)

    async def reflect_trace(self, trace: Trace, playbook: Playbook, scope: Scope) -> Reflection | None:
        """Return what a recorded run teaches. A run that is too long for the model is cut down further, and said so.

        Raises:
            CallError: The call failed, also with a quarter of the run; or the reply was not in form after a re-ask.
        """
        limit = self._trace_tokens
        while True:
            text = shown_trace(trace, limit)
            shown = _part(playbook, find_ids(text, playbook).known)
            values = {
                "bullets": show_bullets(shown),
                "task": fence("task", shown_trace(trace, limit, task_only=True)),
                "trace": fence("trace", text),
                "outcome": fence("outcome", describe_outcome(trace.outcome)),
            }
            try:
                reply = await self._rounds_of("trace_reflector", values, trace.id, scope)
                break
            except CallError as error:
                if error.kind is not CallErrorKind.CONTEXT_TOO_LONG or limit // 2 < self._trace_tokens // 4:
                    raise
                limit //= 2
                scope.decide(f"problems/reflector/{trace.id}", [f"too long: cut to {limit} tokens"])
        outcome = trace.outcome
        passed = None if outcome is None or outcome.claimed else outcome.success
        return self._reflection(reply, trace.id, trace.id, shown, passed=passed, labels=trace.labels, scope=scope)

    async def _rounds_of(self, prompt: str, values: Mapping[str, str], item: str, scope: Scope) -> dict[str, Any]:
        """Return the reply of the last round; earlier rounds are kept, since nobody else keeps them."""
        previous = ""
        for turn in range(1, self._rounds + 1):
            call = ask if turn == self._rounds else ask_and_keep
            reply = await call(
                self._model,
                self._prompts[prompt].render({**values, "previous": previous}),
                scope,
                role="reflector",
                item=item if turn == 1 else f"{item}/round{turn}",
                schema=REFLECTOR,
                required=("key_insight",),
                options=self._options,
            )
            body = _body(reply)
            if turn > 1 and body in previous:
                break
            previous = f"{_AGAIN}\n{fence('previous', body)}"
        return reply

    def _reflection(
        self,
        reply: Mapping[str, Any],
        trace: str,
        task: str,
        shown: Playbook,
        *,
        passed: bool | None,
        labels: Mapping[str, str],
        scope: Scope,
    ) -> Reflection:
        head = {True: "The run was right.", False: "The run was wrong.", None: "The run was not scored."}[passed]
        text = f"{head}\n{_body(reply)}".strip()
        identity = f"{task}~{hashlib.blake2b(text.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"
        votes, problems = votes_of(reply.get("bullet_tags"), shown, identity)
        if problems:
            scope.decide(f"problems/reflector/{task}/tags", list(problems))
        return Reflection(
            id=identity,
            trace=trace,
            task=task,
            text=text,
            lessons=_lessons(reply),
            votes=votes,
            passed=passed,
            labels=labels,
        )


def _part(playbook: Playbook, ids: tuple[str, ...]) -> Playbook:
    bullets = (playbook.get(name) for name in ids)
    return Playbook(tuple(bullet for bullet in bullets if bullet is not None), counter=playbook.counter)


def _outcome(score: Score | None) -> str:
    if score is None:
        return "not scored"
    verdict = "right" if score.passed else "wrong"
    detail = f"; {score.detail}" if score.detail else ""
    return f"{verdict}: {score.hits} of {score.total}{detail}"


def _lessons(reply: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the separate lessons: the lines of the insight, without list marks."""
    lessons: dict[str, None] = {}
    for line in as_text(reply.get("key_insight")).splitlines():
        lesson = line.strip().removeprefix("- ").removeprefix("* ").strip()
        if lesson.casefold().rstrip(".") not in _NOTHING and why_unusable(lesson) is None:
            lessons[lesson] = None
    return tuple(lessons)


def _body(reply: Mapping[str, Any]) -> str:
    """Return what a curator reads of a reflection. Each lesson stands on a line of its own after `Lesson:`."""
    lines = []
    for key, label in _LABELS.items():
        answer = as_text(reply.get(key))
        if answer.casefold().rstrip(".") not in _NOTHING:
            lines.append(f"{label}: {' '.join(answer.split())}")
    return "\n".join([*lines, *(f"Lesson: {lesson}" for lesson in _lessons(reply))])
