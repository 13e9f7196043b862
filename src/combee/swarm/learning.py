"""A living swarm learns: its runs on tasks are traces, a playbook is learned from them, its agents get views of it.

`SwarmTasks` is a sample map of the loop, so journal, resume, guard, versions and report are those of every run.
One epoch over all tasks is one round. Held-out tasks are asked in a copy of the world and leave nothing behind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from combee.kernel.journal import JSON, Scope
from combee.kernel.learn import (
    Evaluation,
    Reflection,
    Sampled,
    Score,
    Scorer,
    Task,
    TraceReflector,
    evaluate,
    reflection_from_json,
    reflection_to_json,
)
from combee.kernel.playbook import Playbook, Vote, VoteKind, digest
from combee.kernel.runner import LocalRunner
from combee.redaction import Outcome, Trace, from_jsonl, to_jsonl
from combee.swarm.crew import Crew
from combee.swarm.ledger import totals
from combee.swarm.lessons import Lessons
from combee.swarm.swarm import Swarm

__all__ = ["Exam", "HeldOutTasks", "SwarmTasks"]


@dataclass(frozen=True, slots=True)
class SwarmTasks:
    """Puts each task to the swarm, scores the answer, and reflects on everything that was done for it.

    Attributes:
        crew: The swarm at work.
        reflector: Reads the trace of a question.
        scorer: Compares an answer with the target.
        run: Name of the learning run; its questions are its own, also when it is resumed.
    """

    crew: Crew
    reflector: TraceReflector
    scorer: Scorer
    run: str

    async def __call__(self, sample: Task, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Work on one task. Bullets that were named count as used, and get a vote for a scored answer."""
        inputs: JSON = {"task": sample.id, "question": sample.question, "playbook": digest(playbook)}

        async def work() -> JSON:
            key = f"{self.run}/{scope.address}/{sample.id}/{attempt}"
            done = await self.crew.work(sample, playbook, key=key)
            return {"answer": done.answer, "used": list(done.used), "trace": "".join(to_jsonl([done.trace]))}

        kept = cast("dict[str, JSON]", await scope.once("rollout", sample.id, inputs, work, attempt=attempt))
        answer, used = str(kept["answer"]), tuple(map(str, cast("list[JSON]", kept["used"])))
        score = self.scorer(sample, answer) if sample.target is not None else None
        trace = _judged(next(from_jsonl([str(kept["trace"])])), sample, answer, score)

        async def reflect() -> JSON:
            reflection = await self.reflector.reflect_trace(trace, playbook, scope)
            return None if reflection is None else reflection_to_json(reflection)

        told: JSON = {"trace": kept["trace"], "playbook": digest(playbook)}
        reflection = reflection_from_json(
            await scope.once("reflect", sample.id, told, reflect, attempt=attempt), sample.labels
        )
        return Sampled(_voted(reflection, sample, score, used), score, used)


def _judged(trace: Trace, task: Task, answer: str, score: Score | None) -> Trace:
    if score is None:
        return replace(trace, labels=task.labels)
    detail = score.detail or f"the answer was {answer!r}"
    return replace(trace, labels=task.labels, outcome=Outcome(score.passed, score.hits / score.total, detail=detail))


def _voted(reflection: Reflection | None, task: Task, score: Score | None, used: tuple[str, ...]) -> Reflection | None:
    """Add a vote for each bullet that was used; an answer that nobody scored says nothing about them."""
    if score is None or not used:
        return reflection
    found = reflection or Reflection(task.id, task.id, task.id, "", labels=task.labels)
    kind = VoteKind.HELPFUL if score.passed else VoteKind.HARMFUL
    others = tuple(vote for vote in found.votes if vote.bullet not in used)
    votes = (*others, *(Vote(found.id, bullet, kind) for bullet in used))
    return replace(found, votes=votes, passed=score.passed)


@dataclass(frozen=True, slots=True)
class Exam:
    """What held-out tasks gave: scores, prompt and reply tokens over all, and how many agents were full in the end."""

    evaluation: Evaluation
    tokens: int
    full: int


@dataclass(frozen=True, slots=True)
class HeldOutTasks:
    """Scores playbooks on tasks that are never learned from, each time in a copy of the world as it is then.

    Copies bring nothing back to their origins there, so that no answer depends on the others.
    """

    swarm: Swarm
    tasks: Sequence[Task]
    scorer: Scorer
    to: str
    attempts: int = 3
    concurrency: int = 64

    async def score(
        self, book: Playbook, scope: Scope, lessons: Lessons, windows: Mapping[str, int] | None = None
    ) -> Exam:
        """Ask all tasks with views of a book; `windows` gives agents another window than they have."""
        with _copy(self.swarm) as copy:
            for name, window in (windows or {}).items():
                with copy.world.step():
                    copy.world.run("UPDATE agents SET window = ? WHERE name = ?", window, name)
            crew = Crew(copy, to=self.to, lessons=lessons)
            before = totals(copy.world)
            try:
                found = await evaluate(
                    crew, self.tasks, self.scorer, book, scope=scope, runner=LocalRunner(self.concurrency),
                    attempts=self.attempts,
                )  # fmt: skip
            finally:
                await crew.aclose()
            after = totals(copy.world)
            spent = after.prompt + after.completion - before.prompt - before.completion
            full = len({event.agent for event in copy.world.events("full")})
        # A replay asks nothing, and says the same.
        cost = cast("list[int]", scope.decide("cost", [spent, full]))
        return Exam(found, *cost)


@contextmanager
def _copy(swarm: Swarm) -> Iterator[Swarm]:
    with (
        tempfile.TemporaryDirectory(prefix="combee-held-out-") as folder,
        swarm.world.copy(Path(folder) / "world.sqlite") as world,
    ):
        with world.step():
            world.run("UPDATE agents SET returns = 'none'")
        yield swarm.on(world)
