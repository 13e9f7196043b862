"""The paper's ablations on FiNER: group size 6 to 20 at batch 50, with and without shuffle; copies p; k from n or p·n.

Preset "paper" (two levels, p = 2) with SIMULATED FORGETTING (m0 = 40; the top call counts updates: an assumption), and
the group sizes once more without simulation, under an output limit of 4,096 tokens a call. Train rows keep the order of
the file. Writes docs/plots/ablation.md with two plots beside it. Run: python -m benchmarks.bench_ablation (minutes).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from benchmarks.bench_finer import Direct, accuracy
from combee.aggregate import Plan, plan, scan
from combee.journal import MemoryScope
from combee.lexical import LexicalCurator
from combee.playbook import Playbook, apply
from combee.tasks import TaskSet, load

BATCH = 50
SIZES = range(6, 21)
SEEDS = range(3)
M0 = 40.0
LIMIT = 4096
PLOTS = Path(__file__).resolve().parent.parent / "docs" / "plots"


@dataclass(frozen=True)
class Shape:
    """How the preset is changed."""

    group_size: int | None = None
    copies: int = 2
    shuffle: bool = True
    k_of: Literal["n", "pn"] = "n"

    def plan(self, n: int) -> Plan:
        """Return the plan for `n` reflections."""
        return plan(
            n, preset="paper", copies=self.copies, group_size=self.group_size, k_of=self.k_of, shuffle=self.shuffle
        )


@dataclass(frozen=True)
class Point:
    """Means over the seeds; `spread` is the standard deviation of the accuracy."""

    accuracy: float
    spread: float
    entries: float
    kept: float
    calls: float


async def run(tasks: TaskSet, shape: Shape, curator: LexicalCurator) -> tuple[float, int, float, int]:
    """Return accuracy on test, entries, lessons kept of those offered, and calls of one run over the train rows."""
    work = Direct(tasks)
    book, offered, kept, calls = Playbook(), 0, 0, 0
    for step, start in enumerate(range(0, len(tasks.train), BATCH)):
        scope = MemoryScope(step=step)
        done = [await work(task, book, scope, 0) for task in tasks.train[start : start + BATCH]]
        items = [found.reflection for found in done if found.reflection is not None and found.reflection.lessons]
        found = await scan(items, curator.method(book, scope), shape.plan(len(items)), seed=curator.seed * 1000 + step)
        offered += sum(len(item.lessons) for item in items)
        kept += len(found.delta)
        calls += found.calls
        book = apply(book, found.delta, step=step).playbook
    return accuracy(await work.hits(tasks.test, book)), len(book), kept / offered, calls


def point(tasks: TaskSet, shape: Shape, curator: LexicalCurator) -> Point:
    """Run with each seed."""
    runs = [asyncio.run(run(tasks, shape, replace(curator, seed=seed))) for seed in SEEDS]
    rates = [found[0] for found in runs]
    mean = sum(rates) / len(rates)
    spread = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1))
    entries, kept, calls = (sum(found[place] for found in runs) / len(runs) for place in (1, 2, 3))
    return Point(mean, spread, entries, kept, calls)


Series = dict[int, Point]
"""Group size to what was measured with it."""

Line = tuple[str, str, Series]
"""Name, colour, points."""


def sizes(tasks: TaskSet, curator: LexicalCurator, *, shuffle: bool) -> Series:
    """Return the points of all group sizes."""
    return {size: point(tasks, Shape(group_size=size, shuffle=shuffle), curator) for size in SIZES}


def chart(lines: Sequence[Line], title: str, measure: Callable[[Point], tuple[float, float]]) -> str:
    """Return an SVG of a measure (mean and spread, both shares) over group size; a bar is the spread to both sides."""
    width, height, left, right, top, bottom = 720, 420, 60, 20, 80, 50
    points = [measure(one) for _, _, series in lines for one in series.values()]
    low = math.floor(min(mean - spread for mean, spread in points) * 50) / 50
    high = math.ceil(max(mean + spread for mean, spread in points) * 50) / 50
    first, last = SIZES[0], SIZES[-1]
    step = max(1, round((high - low) * 50 / 10))

    def x(size: float) -> float:
        return left + (size - first) / (last - first) * (width - left - right)

    def y(rate: float) -> float:
        return height - bottom - (rate - low) / (high - low) * (height - top - bottom)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        "<style>text { font-size: 12px }</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="22">{title}</text>',
    ]
    for tick in range(round(low * 50), round(high * 50) + 1, step):
        at = y(tick / 50)
        out.append(f'<path d="M{left} {at:.1f}H{width - right}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{tick / 50:.2f}</text>')
    out += [f'<text x="{x(size):.1f}" y="{height - 30}" text-anchor="middle">{size}</text>' for size in SIZES]
    out.append(f'<text x="{(left + width) / 2}" y="{height - 8}" text-anchor="middle">reflections a group</text>')
    for place, (name, colour, series) in enumerate(lines):
        found = {size: measure(one) for size, one in series.items()}
        path = " ".join(f"{x(size):.1f},{y(mean):.1f}" for size, (mean, _) in found.items())
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for size, (mean, spread) in found.items():
            out.append(f'<path d="M{x(size):.1f} {y(mean - spread):.1f}V{y(mean + spread):.1f}" stroke="{colour}"/>')
            out.append(f'<circle cx="{x(size):.1f}" cy="{y(mean):.1f}" r="3" fill="{colour}"/>')
        at = 20 + 14 * place
        out.append(f'<text x="{width - right}" y="{at}" text-anchor="end" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def table(rows: Sequence[tuple[str, Point]], first: str) -> str:
    """Return a markdown table."""
    head = f"| {first} | accuracy | entries | lessons kept | calls |\n|---|---|---|---|---|"
    lines = [
        f"| {name} | {one.accuracy:.3f} ± {one.spread:.3f} | {one.entries:.0f} | {one.kept:.0%} | {one.calls:.0f} |"
        for name, one in rows
    ]
    return "\n".join([head, *lines])


def write(lines: Sequence[Line], copies: Sequence[tuple[str, Point]]) -> str:
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
    for name, _, found in lines:
        parts += [f"## {name}", table([(str(size), one) for size, one in found.items()], "group")]
    parts.append("## Copies and number of groups (simulated forgetting)")
    parts.append(table(copies, "p and k"))
    text = "\n\n".join(parts) + "\n"
    PLOTS.mkdir(parents=True, exist_ok=True)
    (PLOTS / "ablation.md").write_text(text, encoding="utf-8")
    title = f"FiNER, batch {BATCH}, two levels, p = 2"
    plots = {
        "ablation.svg": chart(lines, f"{title}: accuracy", lambda one: (one.accuracy, one.spread)),
        "ablation-kept.svg": chart(lines, f"{title}: share of lessons kept", lambda one: (one.kept, 0.0)),
    }
    for name, drawing in plots.items():
        (PLOTS / name).write_text(drawing, encoding="utf-8")
    return text


def main() -> None:
    """Measure, print, and write the table and the plot."""
    tasks = load("finer")
    forgetting, limited = LexicalCurator(forget=M0), LexicalCurator(output_limit=LIMIT)
    lines: list[Line] = [
        ("forgetting, shuffled", "#1f6feb", sizes(tasks, forgetting, shuffle=True)),
        ("forgetting, not shuffled", "#d1495b", sizes(tasks, forgetting, shuffle=False)),
        ("output limit, shuffled", "#2a9d8f", sizes(tasks, limited, shuffle=True)),
        ("output limit, not shuffled", "#b07d2b", sizes(tasks, limited, shuffle=False)),
    ]
    shapes: dict[str, Shape] = {
        f"p = {copies}, k = ⌊√{'n' if k_of == 'n' else '(pn)'}⌋": Shape(copies=copies, k_of=k_of)
        for copies in (1, 2, 3, 4)
        for k_of in ("n", "pn")
    }
    print(write(lines, [(name, point(tasks, shape, forgetting)) for name, shape in shapes.items()]))


if __name__ == "__main__":
    main()
