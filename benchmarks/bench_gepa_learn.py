"""Learning with gepa on Formula, with a scripted student, at equal metric calls: batch 40 under Combee and without.

The student is right exactly if the formula that a task needs stands in its prompt; as reflection model it keeps each
new formula of a call over m records with probability exp(-m/40). So the curves show how many lessons come through and
what that takes. They do not show that a model learns, writes well, or generalises.
Writes docs/evidence/plots/gepa.svg and .md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench_gepa import main_branch
from benchmarks.gepa_watch import Counting, Curve, Quiet, Watched
from combee.gepa import CombeeReflection, TaskAdapter
from combee.kernel.learn import Task
from combee.kernel.playbook import Playbook, to_text
from combee.mock.student import GepaStudent, lesson_of
from combee.report.svg import Plot, Series, line_plot
from combee.tasks import TaskSet, load

M0 = 40.0
METRIC_CALLS = 1_500
VAL = 50
SEEDS = range(3)
SEED_TEXT = "Answer questions on finance with one number."
PLOTS = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "plots"


@dataclass(frozen=True)
class Way:
    """One way to reflect. `playbook`: the candidate is a playbook instead of a text."""

    name: str
    batch: int
    make: Callable[[Any, int], Any]
    playbook: bool = False


@dataclass(frozen=True)
class Row:
    """What one run came to; `curve` has (metric calls, test accuracy, reflection calls, tokens, latencies in a row)."""

    name: str
    accuracy: float
    calls: float
    tokens: float
    latencies: float
    iterations: float
    curve: tuple[tuple[float, float, float, float, float], ...]


def stateless(lm: Any, seed: int) -> Any:
    from gepa.proposer.reflective_mutation.reflection_lm import StatelessReflectionLM

    return StatelessReflectionLM(lm)


def combee(lm: Any, seed: int) -> Any:
    return CombeeReflection(lm, seed=seed)


def paper(lm: Any, seed: int) -> Any:
    return CombeeReflection(lm, seed=seed, preset="paper")


def gepas_own(lm: Any, seed: int) -> Any:
    import random

    from gepa.proposer.reflective_mutation.combee import ComBEEReflectionLM  # type: ignore[import-not-found]

    return ComBEEReflectionLM(lm, rng=random.Random(seed))


WAYS = (
    Way("gepa's default, batch 3", 3, stateless),
    Way("naive, batch 40", 40, stateless),
    Way("naive, batch 100", 100, stateless),
    Way("Combee, batch 40", 40, combee),
    Way("Combee, preset paper, batch 40", 40, paper),
    Way("Combee, delta mode, batch 40", 40, combee, playbook=True),
)


def one_run(way: Way, tasks: TaskSet, lessons: dict[str, str], seed: int) -> Row:
    """Run a way once and return what came of it."""
    from gepa.api import optimize

    student = GepaStudent(tasks, lessons, m0=M0, seed=seed)
    lm = Counting(student)
    seed_text = to_text(Playbook()) if way.playbook else SEED_TEXT
    adapter = TaskAdapter(tasks, student, concurrency=1)
    reflection = way.make(lm, seed)

    def accuracy(candidate: dict[str, str]) -> float:
        scores = adapter.evaluate(tasks.test, candidate).scores
        return sum(scores) / len(scores)

    curve = Curve(lm, accuracy)
    result = optimize(
        seed_candidate={"system": seed_text},
        trainset=list(tasks.train),
        valset=list(tasks.val[:VAL]),
        adapter=adapter,
        reflection_strategy=Watched(reflection, curve),
        reflection_minibatch_size=way.batch,
        max_metric_calls=METRIC_CALLS,
        callbacks=[curve],  # type: ignore[list-item]  # gepa calls of it what it has
        logger=Quiet(),
        seed=seed,
    )
    final = accuracy(dict(result.best_candidate))  # type: ignore[arg-type]  # a dict, since the seed was one
    curve.point()
    adapter.close()
    if isinstance(reflection, CombeeReflection):
        reflection.close()
    return Row(way.name, final, lm.calls, lm.tokens, curve.latencies, curve.iterations, tuple(curve.points))


def mean(rows: list[Row]) -> Row:
    """Return the means; the curve is that of the first seed."""
    n = len(rows)

    def of(name: str) -> float:
        return float(sum(getattr(row, name) for row in rows)) / n

    parts = [of(name) for name in ("accuracy", "calls", "tokens", "latencies", "iterations")]
    return Row(rows[0].name, *parts, rows[0].curve)


def unlearned(tasks: TaskSet, lessons: dict[str, str]) -> Row:
    """Return the row of the text that all begin with."""
    with TaskAdapter(tasks, GepaStudent(tasks, lessons), concurrency=1) as adapter:
        scores = adapter.evaluate(tasks.test, {"system": SEED_TEXT}).scores
    return Row("unlearned", sum(scores) / len(scores), 0, 0, 0, 0, ())


def on_main(path: str) -> Row:
    """Return the row of gepa main's own ComBEE, run in a process of its own."""
    env = dict(os.environ) | {"PYTHONPATH": path}
    command = [sys.executable, "-m", "benchmarks.bench_gepa_learn", "child"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    values = json.loads(done.stdout.splitlines()[-1])
    return Row(**values | {"curve": tuple(tuple(point) for point in values["curve"])})


def child() -> None:
    """Run gepa main's own ComBEE and print its row as JSON."""
    tasks, lessons = formula()
    way = Way("gepa main, its ComBEE, batch 40", 40, gepas_own)
    print(json.dumps(asdict(mean([one_run(way, tasks, lessons, seed) for seed in SEEDS]))))


def formula() -> tuple[TaskSet, dict[str, str]]:
    """Return the tasks, and the formula that each needs."""
    tasks, shown = load("formula"), load("formula", options=True)
    by_id: dict[str, Task] = {task.id: task for task in shown}
    return tasks, {task.id: lesson_of(task, by_id[task.id]) for task in tasks}


def plots(rows: list[Row]) -> list[Plot]:
    """Return the curves against metric calls and against latencies."""
    drawn = [row for row in rows if row.curve]
    by_calls = [Series(row.name, [(point[0], point[1]) for point in row.curve]) for row in drawn]
    by_time = [Series(row.name, [(max(1, point[4]), point[1]) for point in row.curve]) for row in drawn]
    return [
        line_plot(by_calls, title="Formula, scripted student", x="metric calls", y="test accuracy", y_limits=(0, 1)),
        line_plot(
            by_time,
            title="The same against time",
            x="latencies after each other",
            y="test accuracy",
            log_x=True,
            y_limits=(0, 1),
        ),
    ]


def table(rows: list[Row]) -> str:
    """Return a markdown table."""
    lines = ["| way | test accuracy | reflection calls | reflection tokens | latencies in a row | iterations |"]
    lines.append("|---|---|---|---|---|---|")
    lines += [
        f"| {r.name} | {r.accuracy:.3f} | {r.calls:,.0f} | {r.tokens:,.0f} | {r.latencies:,.0f} | {r.iterations:,.0f} |"
        for r in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write table and plots."""
    tasks, lessons = formula()
    rows = [unlearned(tasks, lessons)]
    for way in WAYS:
        rows.append(mean([one_run(way, tasks, lessons, seed) for seed in SEEDS]))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    path = main_branch()
    if path:
        rows.append(on_main(path))
    about = (
        f"Written by `python -m benchmarks gepa_learn`. Formula: {len(tasks.train)} training tasks, {VAL} of "
        f"{len(tasks.val)} validation tasks, {len(tasks.test)} held out; {METRIC_CALLS:,} metric calls each; means "
        f"over {len(SEEDS)} seeds, curves of the first. **A scripted student, simulated forgetting** (m0 = {M0:.0f}): "
        "it answers right exactly if the formula stands in its prompt, and a call over m records keeps each new "
        "formula with probability exp(−m/40). It proves how many lessons come through and what that takes; it does not "
        "prove that a model learns or writes well."
    )
    PLOTS.mkdir(parents=True, exist_ok=True)
    drawn = plots(rows)
    drawn[0].save(PLOTS / "gepa.svg")
    drawn[1].save(PLOTS / "gepa-time.svg")
    shown = ["![accuracy over metric calls](gepa.svg)", "![accuracy over time](gepa-time.svg)"]
    text = "\n\n".join(["# GEPA on Formula", about, *shown, table(rows)]) + "\n"
    (PLOTS / "gepa.md").write_text(text, encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child()
    else:
        main()
