"""The plot of docs/evidence/quality.md: accuracy on FiNER by way to aggregate, simulated forgetting.

Needs COMBEE_DATA. Run: python -m benchmarks.quality_plot [file.svg]
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from benchmarks.bench_finer import M0, SEEDS, accuracy, reordered, run
from combee.kernel.learn import LearnConfig
from combee.lexical import LexicalCurator
from combee.report.svg import Mark, Series, line_plot
from combee.tasks import TaskSet, load

BATCHES = (1, 16, 40, 125, 250, 499)
WAYS = ("naive", "summarize", "paper", "combee")


def mean(tasks: TaskSet, config: LearnConfig) -> tuple[float, float, float]:
    """Return mean, lowest and highest accuracy over the seeds."""
    rates = []
    for seed in SEEDS:
        curator = LexicalCurator(forget=M0, seed=seed)
        rates.append(accuracy(asyncio.run(run(reordered(tasks, seed), replace(config, seed=seed), curator)).hits))
    return fmean(rates), min(rates), max(rates)


def main() -> None:
    """Measure and draw."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/evidence/plots/quality-finer.svg")
    tasks = load("finer")
    base = LearnConfig(guard=False)
    series = []
    for how in WAYS:
        found = [(batch, mean(tasks, replace(base, batch=batch, aggregate=how))) for batch in BATCHES[1:]]
        points = [(float(batch), values[0]) for batch, values in found]
        series.append(Series(how, points, spread=[values[1:] for _, values in found]))
        print(how, [(batch, round(value, 3)) for batch, value in points], flush=True)
    one, _, _ = mean(tasks, replace(base, batch=1))
    print("sequential", round(one, 3))
    line_plot(
        series,
        title="FiNER under simulated forgetting (m0 = 40): accuracy by samples a step, mean and range of five orders",
        x="samples a step",
        y="accuracy on 220 test rows",
        log_x=True,
        marks=[Mark(one, "sequential")],
    ).save(path)


if __name__ == "__main__":
    main()
