"""One task set, one embedded agent, several ways to aggregate: what each keeps, scores and costs, also as a page.

Every way runs the real loop on the same samples in the same order; nothing is taken from a table. The guard is off,
so that each way shows what it does by itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from combee.files import write_whole
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
from combee.report.html import Html, Piece, el, table
from combee.report.page import Section, figures, page
from combee.report.svg import Plot, Series, bar_plot, line_plot

__all__ = ["MethodTable", "Setup", "WayResult", "compare", "comparison_page", "sequential", "write_comparison"]

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


@dataclass(frozen=True, slots=True)
class MethodTable:
    """Ways compared under one condition; `notes` say what a reader must know about it."""

    title: str
    notes: Sequence[str]
    rows: Sequence[WayResult]


def write_comparison(path: Path, title: str, about: Sequence[str], tables: Sequence[MethodTable]) -> Path:
    """Write the page of a comparison, whole or not at all, and return its path. Raises as `write_whole`."""
    return write_whole(path, comparison_page(title, about, tables))


def comparison_page(title: str, about: Sequence[str], tables: Sequence[MethodTable]) -> str:
    """Return the page of a comparison as HTML; `about` are sentences below the title."""
    head: list[Piece] = [el("h1", title), *(el("p", text) for text in about)]
    return page(title, head, [_section(i, one) for i, one in enumerate(tables, start=1)])


def _section(number: int, one: MethodTable) -> Section:
    plots = [_bars(one, "kept"), _bars(one, "accuracy"), _growth(one), _chains(one)]
    notes = el("ul", *(el("li", note) for note in one.notes))
    return Section(f"table{number}", one.title, [notes, figures(plots), _table(one.rows)])


def _bars(one: MethodTable, what: str) -> Plot:
    names = [row.way for row in one.rows]
    if what == "accuracy":
        values = [row.accuracy for row in one.rows]
        limits = (0.0, 1.0)
        return bar_plot(names, {what: values}, title="Held-out accuracy", x="share right", x_limits=limits)
    series: dict[str, Sequence[float | None]] = {
        "lessons that went in": [float(row.lessons) for row in one.rows],
        "kept, word for word": [float(row.kept) for row in one.rows],
    }
    return bar_plot(names, series, title="Lessons in and kept", x="distinct lessons")


def _growth(one: MethodTable) -> Plot:
    """Draw the entries of each book by the samples seen."""
    series = []
    for row in one.rows:
        seen, points = 0, [(0.0, 0.0)]
        steps = row.result.steps
        for i, step in enumerate(steps):
            seen += step.batch
            if i % max(1, len(steps) // 60) == 0 or i == len(steps) - 1:
                points.append((float(seen), float(step.bullets)))
        series.append(Series(row.way, points, dots=len(points) <= 20))
    return line_plot(series, title="Entries by samples seen", x="samples seen", y="bullets", whole_x=True)


def _chains(one: MethodTable) -> Plot:
    names = [row.way for row in one.rows]
    values = {"chain": [float(row.chain) for row in one.rows]}
    return bar_plot(names, values, title="Longest chain of calls", x="calls that wait for each other")


def _table(rows: Sequence[WayResult]) -> Html:
    heads = ("way", "samples a step", "lessons", "kept", "entries", "accuracy", "calls", "reads an item", "chain", "s")
    cells: list[tuple[Piece, ...]] = [
        (
            row.way,
            row.batch,
            row.lessons,
            f"{row.kept} ({row.kept / max(row.lessons, 1):.0%})",
            row.entries,
            f"{row.accuracy:.3f}",
            f"{row.calls:,}",
            f"{row.reads_per_item:.2f}",
            f"{row.chain:,}",
            f"{row.seconds:.2f}",
        )
        for row in rows
    ]
    return table(heads, cells, numbers=range(1, 10))
