"""One task set, one embedded agent, several ways to aggregate: what each keeps, scores and costs.

Every way runs the real loop on the same samples in the same order; nothing is taken from a table. The guard is off,
so that each way shows what it does by itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from combee.kernel.journal import Journal, Scope
from combee.kernel.learn import (
    Evaluation,
    Generator,
    LearnConfig,
    LearnResult,
    LiveTasks,
    Observer,
    Reflection,
    Reflector,
    Rollout,
    Score,
    Scorer,
    Task,
    evaluate,
    learn,
)
from combee.kernel.playbook import Playbook, normalize
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector

__all__ = ["Setup", "WayResult", "compare", "sequential"]

CALLS_BEFORE_REDUCE = 2  # a rollout and a reflection stand before the aggregation in every step's chain


@dataclass(frozen=True, slots=True)
class Setup:
    """What is compared on. `forget`: m0 of the simulated forgetting; `output_limit`: tokens that a call may write."""

    train: Sequence[Task]
    test: Sequence[Task]
    scorer: Scorer
    batch: int = 125
    forget: float | None = None
    output_limit: int | None = None
    seed: int = 0
    agent: tuple[Generator, Reflector] | None = None
    """What answers and reflects; None: the embedded agent."""


@dataclass(frozen=True, slots=True)
class WayResult:
    """The figures of one way. `lessons` distinct texts went into aggregation, `kept` of them are in the book.

    `reads_per_item`: how often a reflection was read; `chain`: calls that wait for each other, over all steps.
    """

    way: str
    batch: int
    lessons: int
    kept: int
    entries: int
    accuracy: float
    calls: int
    reads_per_item: float
    chain: int
    seconds: float
    result: LearnResult = field(repr=False)
    evaluation: Evaluation = field(repr=False)


@dataclass
class _RecordingReflector:
    """A reflector that remembers which lessons it returned."""

    inner: Reflector
    lessons: set[str] = field(default_factory=set)

    async def reflect(
        self, task: Task, rollout: Rollout, score: Score | None, playbook: Playbook, scope: Scope
    ) -> Reflection | None:
        reflection = await self.inner.reflect(task, rollout, score, playbook, scope)
        if reflection is not None:
            self.lessons.update(normalize(lesson) for lesson in reflection.lessons)
        return reflection


async def compare(
    setup: Setup, way: str, *, journal: Journal | None = None, observe: Observer | None = None
) -> WayResult:
    """Learn with one way to aggregate and score the result on the held-out tasks.

    `way` is "sequential" (one sample a step) or a name of `combee.kernel.aggregate.BASELINES`.
    """
    batch = 1 if way == "sequential" else setup.batch
    config = LearnConfig(
        batch=batch,
        aggregate="combee" if way == "sequential" else way,
        guard=False,
        near=None,
        seed=setup.seed,
        concurrency=batch,
    )
    generator, inner = setup.agent or (LexicalGenerator(), LexicalReflector())
    reflector = _RecordingReflector(inner)
    curator = LexicalCurator(forget=setup.forget, output_limit=setup.output_limit, seed=setup.seed)
    started = time.perf_counter()
    result = await learn(
        setup.train,
        LiveTasks(generator, reflector, setup.scorer),
        curator,
        config=config,
        journal=journal,
        observe=observe,
    )
    seconds = time.perf_counter() - started
    evaluation = await evaluate(generator, setup.test, setup.scorer, result.last)
    texts = {bullet.text for bullet in result.last}
    items = sum(step.reflections for step in result.steps)
    return WayResult(
        way=way,
        batch=batch,
        lessons=len(reflector.lessons),
        kept=len(reflector.lessons & texts),
        entries=len(result.last),
        accuracy=evaluation.accuracy or 0.0,
        calls=sum(step.calls for step in result.steps),
        reads_per_item=sum(step.reads for step in result.steps) / max(items, 1),
        chain=sum(step.depth + CALLS_BEFORE_REDUCE for step in result.steps),
        seconds=seconds,
        result=result,
        evaluation=evaluation,
    )


def sequential(rows: Sequence[WayResult]) -> WayResult | None:
    """Return the row that the others are measured against; None where it was not run."""
    return next((row for row in rows if row.way == "sequential"), None)
