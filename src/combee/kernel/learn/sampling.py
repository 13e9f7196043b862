"""The map: one sample in, one reflection out. Live tasks are worked on and scored; recorded traces are only read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

from combee.kernel.journal import JSON, Scope
from combee.kernel.learn.codec import reflection_from_json, reflection_to_json
from combee.kernel.learn.roles import Generator, Reflection, Reflector, Rollout, Score, Scorer, Task, TraceReflector
from combee.kernel.learn.trace import Trace
from combee.kernel.playbook import Playbook, digest, tokens, view

__all__ = ["LiveTasks", "RecordedTraces", "Sample", "SampleMap", "Sampled", "run_task"]


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


class SampleMap(Protocol[S_contra]):
    """Works on one sample with the playbook as it stands. Raises `CallError` for reasons outside the sample."""

    async def __call__(self, sample: S_contra, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Return what was learned from the sample."""
        ...


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
    shown = playbook
    if view_tokens is not None and tokens(playbook) > view_tokens:
        shown = view(playbook, task.question, view_tokens)
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
    role: str = field(default="reflect")

    async def __call__(self, sample: Trace, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Reflect on the trace."""

        async def work() -> JSON:
            reflection = await self.reflector.reflect_trace(sample, playbook, scope)
            return None if reflection is None else reflection_to_json(reflection)

        inputs: JSON = {"trace": sample.id, "playbook": digest(playbook)}
        kept = await scope.once(self.role, sample.id, inputs, work, attempt=attempt)
        return Sampled(reflection_from_json(kept, sample.labels))
