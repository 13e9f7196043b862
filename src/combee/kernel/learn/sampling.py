"""The map: one sample in, one reflection out. Live tasks are worked on and scored; recorded traces are only read.

`evaluate` scores a playbook on held-out tasks and learns nothing. A task that failed for an outside reason is shown,
never scored 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar, cast

from combee.kernel.journal import JSON, MemoryScope, Scope
from combee.kernel.learn.codec import reflection_from_json, reflection_to_json
from combee.kernel.learn.roles import (
    Generator,
    Reflection,
    Reflector,
    Rollout,
    Score,
    Scorer,
    Task,
    Trace,
    TraceReflector,
)
from combee.kernel.playbook import Playbook, digest, tokens, view
from combee.kernel.runner import LocalRunner, Runner


class Sample(Protocol):
    """Something to learn from: a `Task` or a `Trace`."""

    @property
    def id(self) -> str:
        """Stable and unique in the run."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """Tenant, clearance and the like."""
        ...


S_contra = TypeVar("S_contra", bound=Sample, contravariant=True)


@dataclass(frozen=True, slots=True)
class Sampled:
    """What one sample gave. `score` is None where nothing could be scored."""

    reflection: Reflection | None
    score: Score | None = None
    used: tuple[str, ...] = ()


class Answering(Protocol):
    """Does one task, or takes its result from the journal; `run_task` with a generator does."""

    async def __call__(self, task: Task, playbook: Playbook, scope: Scope, *, role: str, attempt: int) -> Rollout:
        """Return the rollout."""
        ...


class SampleMap(Protocol[S_contra]):
    """Works on one sample with the playbook as it stands. Raises `CallError` for reasons outside the sample."""

    async def __call__(self, sample: S_contra, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Return what was learned from the sample."""
        ...


def in_view(playbook: Playbook, question: str, view_tokens: int | None) -> Playbook:
    """Return what an agent gets to see: the whole book, or the part for the question in so many tokens."""
    if view_tokens is None or tokens(playbook) <= view_tokens:
        return playbook
    return view(playbook, question, view_tokens)


async def run_task(
    generator: Generator,
    task: Task,
    playbook: Playbook,
    scope: Scope,
    *,
    role: str = "rollout",
    attempt: int = 0,
    view_tokens: int | None = None,
) -> Rollout:
    """Do one task, or take its result from the journal where the same task met the same playbook at this address."""
    shown = in_view(playbook, task.question, view_tokens)
    inputs: JSON = {"task": task.id, "question": task.question, "playbook": digest(shown)}

    async def work() -> JSON:
        rollout = await generator.generate(task, shown, scope)
        return {"answer": rollout.answer, "used": list(rollout.used), "reasoning": rollout.reasoning}

    kept = cast("dict[str, JSON]", await scope.once(role, task.id, inputs, work, attempt=attempt))
    used = tuple(str(name) for name in cast("list[JSON]", kept["used"]))
    return Rollout(
        task=task.id,
        answer=str(kept["answer"]),
        used=tuple(name for name in used if name in shown),
        reasoning=str(kept["reasoning"]),
    )


@dataclass(frozen=True, slots=True)
class LiveTasks:
    """Rollout, score, reflection for each task."""

    generator: Generator
    reflector: Reflector
    scorer: Scorer
    view_tokens: int | None = None

    async def __call__(self, sample: Task, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Work on the task, score it, and reflect on the result."""
        rollout = await run_task(self.generator, sample, playbook, scope, attempt=attempt, view_tokens=self.view_tokens)
        score = self.scorer(sample, rollout.answer) if sample.target is not None else None

        async def work() -> JSON:
            reflection = await self.reflector.reflect(sample, rollout, score, playbook, scope)
            return None if reflection is None else reflection_to_json(reflection)

        inputs: JSON = {"answer": rollout.answer, "used": list(rollout.used), "reasoning": rollout.reasoning}
        kept = await scope.once("reflect", sample.id, inputs, work, attempt=attempt)
        return Sampled(reflection_from_json(kept, sample.labels), score, rollout.used)


@dataclass(frozen=True, slots=True)
class RecordedTraces:
    """Reflection on recorded runs; nothing is run again."""

    reflector: TraceReflector

    async def __call__(self, sample: Trace, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Reflect on the trace."""

        async def work() -> JSON:
            reflection = await self.reflector.reflect_trace(sample, playbook, scope)
            return None if reflection is None else reflection_to_json(reflection)

        inputs: JSON = {"trace": sample.id, "playbook": digest(playbook)}
        kept = await scope.once("reflect", sample.id, inputs, work, attempt=attempt)
        return Sampled(reflection_from_json(kept, sample.labels))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores and rollouts by task id, and the errors of tasks that could not be scored."""

    scores: dict[str, Score]
    errors: dict[str, str]
    rollouts: dict[str, Rollout] = field(default_factory=dict)

    @property
    def hits(self) -> int:
        """Right parts over all scored tasks."""
        return sum(score.hits for score in self.scores.values())

    @property
    def total(self) -> int:
        """All parts over all scored tasks."""
        return sum(score.total for score in self.scores.values())

    @property
    def accuracy(self) -> float | None:
        """Right parts over all parts; None where nothing was scored."""
        return self.hits / self.total if self.total else None

    @property
    def complete(self) -> bool:
        """Whether every task was scored: only then may the accuracy be compared or accept a version."""
        return not self.errors and bool(self.scores)


async def evaluate(
    generator: Generator,
    tasks: Sequence[Task],
    scorer: Scorer,
    playbook: Playbook,
    *,
    scope: Scope | None = None,
    runner: Runner | None = None,
    attempts: int = 3,
    view_tokens: int | None = None,
    answering: Answering | None = None,
) -> Evaluation:
    """Return the scores of all tasks with a target; tasks that fail are tried `attempts` times in rounds.

    `answering` does the tasks elsewhere, as `generator` with `view_tokens` would.
    """
    answering = answering or partial(run_task, generator, view_tokens=view_tokens)
    scope = scope if scope is not None else MemoryScope()
    runner = runner if runner is not None else LocalRunner()
    scores: dict[str, Score] = {}
    errors: dict[str, str] = {}
    rollouts: dict[str, Rollout] = {}
    waiting = [task for task in tasks if task.target is not None]
    for attempt in range(attempts):

        async def one(task: Task, attempt: int = attempt) -> Score:
            rollout = await answering(task, playbook, scope, role="eval", attempt=attempt)
            rollouts[task.id] = rollout
            return scorer(task, rollout.answer)

        results = await runner.run(one, waiting)
        errors = {}
        failed: list[Task] = []
        for task, done in zip(waiting, results, strict=True):
            if done.value is not None:
                scores[task.id] = done.value
            else:
                errors[task.id] = done.error.message if done.error is not None else "the agent gave no result"
                failed.append(task)
        if not failed:
            break
        waiting = failed
    return Evaluation({task.id: scores[task.id] for task in tasks if task.id in scores}, errors, rollouts)
