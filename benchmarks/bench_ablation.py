"""The paper's ablations on FiNER: group size 6 to 20 at batch 50, with and without shuffle; copies p; k from n or p·n.

Preset "paper" (two levels, p = 2) with SIMULATED FORGETTING (m0 = 40; the top call counts updates: an assumption), and
the group sizes once more without simulation, under an output limit of 4,096 tokens a call. Train rows keep the order of
the file. Writes docs/evidence/plots/ablation.md and two plots. Run: python -m benchmarks.bench_ablation (minutes).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from benchmarks.bench_finer import Direct, accuracy
from combee.kernel.aggregate import Paper, plan, scan
from combee.kernel.journal import MemoryScope
from combee.kernel.playbook import Playbook, apply
from combee.lexical import LexicalCurator
from combee.report import Plot, Series, line_plot
from combee.tasks import TaskSet, load

BATCH = 50
SIZES = range(6, 21)
SEEDS = range(3)
M0 = 40.0
LIMIT = 4096
PLOTS = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "plots"


@dataclass(frozen=True)
class Point:
    """Means over the seeds; `spread` is the standard deviation of the accuracy."""

    accuracy: float
    spread: float
    entries: float
    kept: float
    calls: float


async def run(tasks: TaskSet, paper: Paper, copies: int, curator: LexicalCurator) -> tuple[float, int, float, int]:
    """Return accuracy on test, entries, lessons kept of those offered, and calls of one run over the train rows."""
    work = Direct(tasks)
    book, offered, kept, calls = Playbook(), 0, 0, 0
    for step, start in enumerate(range(0, len(tasks.train), BATCH)):
        scope = MemoryScope(step=step)
        done = [await work(task, book, scope, 0) for task in tasks.train[start : start + BATCH]]
        items = [found.reflection for found in done if found.reflection is not None and found.reflection.lessons]
        shape = plan(len(items), preset=paper, copies=copies)
        found = await scan(items, curator.method(book, scope), shape, seed=curator.seed * 1000 + step)
        offered += sum(len(item.lessons) for item in items)
        kept += len(found.delta)
        calls += found.calls
        book = apply(book, found.delta, step=step).playbook
    return accuracy(await work.hits(tasks.test, book)), len(book), kept / offered, calls


def point(tasks: TaskSet, paper: Paper, curator: LexicalCurator, *, copies: int = 2) -> Point:
    """Run with each seed."""
    runs = [asyncio.run(run(tasks, paper, copies, replace(curator, seed=seed))) for seed in SEEDS]
    rates = [found[0] for found in runs]
    mean = sum(rates) / len(rates)
    spread = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1))
    entries, kept, calls = (sum(found[place] for found in runs) / len(runs) for place in (1, 2, 3))
    return Point(mean, spread, entries, kept, calls)


Sizes = dict[int, Point]
"""Group size to what was measured with it."""


def sizes(tasks: TaskSet, curator: LexicalCurator, *, shuffle: bool) -> Sizes:
    """Return the points of all group sizes."""
    return {size: point(tasks, Paper(group_size=size, shuffle=shuffle), curator) for size in SIZES}


def chart(lines: Mapping[str, Sizes], what: str, measure: Callable[[Point], tuple[float, float]]) -> Plot:
    """Draw a measure (mean and spread, both shares) over group size; a band is the spread to both sides."""
    series = []
    for name, found in lines.items():
        means = {size: measure(one) for size, one in found.items()}
        band = [(mean - spread, mean + spread) for mean, spread in means.values()]
        series.append(Series(name, [(size, mean) for size, (mean, _) in means.items()], spread=band))
    title = f"FiNER, batch {BATCH}, two levels, p = 2: {what}"
    return line_plot(series, title=title, x="reflections a group", y=what, zero=False)


def table(rows: Sequence[tuple[str, Point]], first: str) -> str:
    """Return a markdown table."""
    head = f"| {first} | accuracy | entries | lessons kept | calls |\n|---|---|---|---|---|"
    lines = [
        f"| {name} | {one.accuracy:.3f} ± {one.spread:.3f} | {one.entries:.0f} | {one.kept:.0%} | {one.calls:.0f} |"
        for name, one in rows
    ]
    return "\n".join([head, *lines])


def write(lines: Mapping[str, Sizes], copies: Sequence[tuple[str, Point]]) -> str:
    """Write the page and its plots; return the page."""
    about = (
        f"Written by `python -m benchmarks.bench_ablation`. Batch {BATCH}, preset `paper`, accuracy over the tags of "
        f"the 220 test rows, mean ± standard deviation over {len(SEEDS)} seeds. **Simulated forgetting**: m0 = "
        f"{M0:.0f}; in the top call m counts updates (an assumption). It strikes each lesson alone, whatever its "
        "neighbours, so here a shuffle can change nothing but chance: the paper's gain by shuffling is not to be seen. "
        f"The output limit of {LIMIT:,} tokens a call simulates nothing; it binds in the top call, whatever the groups."
    )
    images = "![accuracy](ablation.svg)\n\n![lessons kept](ablation-kept.svg)"
    parts = ["# Ablation on FiNER", about, images]
    for name, found in lines.items():
        parts += [f"## {name}", table([(str(size), one) for size, one in found.items()], "group")]
    parts.append("## Copies and number of groups (simulated forgetting)")
    parts.append(table(copies, "p and k"))
    text = "\n\n".join(parts) + "\n"
    PLOTS.mkdir(parents=True, exist_ok=True)
    (PLOTS / "ablation.md").write_text(text, encoding="utf-8")
    chart(lines, "accuracy", lambda one: (one.accuracy, one.spread)).save(PLOTS / "ablation.svg")
    chart(lines, "share of lessons kept", lambda one: (one.kept, 0.0)).save(PLOTS / "ablation-kept.svg")
    return text


def main() -> None:
    """Measure, print, and write the table and the plot."""
    tasks = load("finer")
    forgetting, limited = LexicalCurator(forget=M0), LexicalCurator(output_limit=LIMIT)
    lines = {
        "forgetting, shuffled": sizes(tasks, forgetting, shuffle=True),
        "forgetting, not shuffled": sizes(tasks, forgetting, shuffle=False),
        "output limit, shuffled": sizes(tasks, limited, shuffle=True),
        "output limit, not shuffled": sizes(tasks, limited, shuffle=False),
    }
    roots: tuple[Literal["n", "pn"], ...] = ("n", "pn")
    copies = [
        (f"p = {p}, k = ⌊√{'n' if root == 'n' else '(pn)'}⌋", point(tasks, Paper(k_of=root), forgetting, copies=p))
        for p in (1, 2, 3, 4)
        for root in roots
    ]
    print(write(lines, copies))


if __name__ == "__main__":
    main()
