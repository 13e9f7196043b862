"""Score a playbook on held-out tasks, learning nothing.

A task that failed for an outside reason is shown, never scored 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from combee.errors import CallError
from combee.kernel.journal import MemoryScope, Scope
from combee.kernel.learn.roles import Generator, Score, Scorer, Task
from combee.kernel.learn.sampling import run_task
from combee.kernel.playbook import Playbook
from combee.kernel.runner import LocalRunner, Runner

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores by task id, and the errors of tasks that could not be scored."""

    scores: dict[str, Score]
    errors: dict[str, str]

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
) -> Evaluation:
    """Return the scores of all tasks with a target; tasks that fail are tried `attempts` times in rounds."""
    scope = scope if scope is not None else MemoryScope()
    runner = runner if runner is not None else LocalRunner()
    scores: dict[str, Score] = {}
    errors: dict[str, str] = {}
    waiting = [task for task in tasks if task.target is not None]
    for attempt in range(attempts):

        async def one(task: Task, attempt: int = attempt) -> Score:
            rollout = await run_task(
                generator, task, playbook, scope, role="eval", attempt=attempt, view_tokens=view_tokens
            )
            return scorer(task, rollout.answer)

        results = await runner.run(one, waiting)
        errors = {}
        failed: list[Task] = []
        for task, done in zip(waiting, results, strict=True):
            if done.value is not None:
                scores[task.id] = done.value
            else:
                errors[task.id] = _reason(done.error)
                failed.append(task)
        if not failed:
            break
        waiting = failed
    return Evaluation({task.id: scores[task.id] for task in tasks if task.id in scores}, errors)


def _reason(error: CallError | None) -> str:
    return error.message if error is not None else "the agent gave no result"
