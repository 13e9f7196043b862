"""`combee demo`: one big aggregation loses lessons, Combee keeps them; on real runs of the embedded agent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from combee.bench import Setup, WayResult, compare, sequential
from combee.files import place_for
from combee.kernel.runner import run_sync
from combee.report import MethodTable, write_comparison
from combee.run.words import typed
from combee.tasks import TaskSet, load
from combee.terminal.options import PathType, print_json

WAYS = ("sequential", "naive", "paper", "combee")
FORGET = 40.0
OUTPUT_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Part:
    """One table: what is done to every call of the curator, in words and as a setting."""

    title: str
    notes: tuple[str, ...]
    forget: float | None = None
    output_limit: int | None = None


PARTS = (
    Part(
        "(a) Simulated forgetting",
        (
            f"A call over m reflections keeps each lesson with probability exp(-m/{FORGET:.0f}).",
            "Fitted to the paper's two counts of entries (264 to 21 at batch 100, 246 to 11 at batch 125).",
            "In the paper preset's top call m counts the updates that come in: an assumption, not a measurement.",
        ),
        forget=FORGET,
    ),
    Part(
        "(b) Nothing simulated: a real output limit",
        (f"Every call may write {OUTPUT_LIMIT} tokens; what does not fit is not written.",),
        output_limit=OUTPUT_LIMIT,
    ),
)


@click.command(name="demo")
@click.option("--tasks", "source", default="tags", show_default=True, help="tags, finer, or a file of your own.")
@click.option("--data-dir", help="Folder that holds finer/ and formula/. [$COMBEE_DATA]")
@click.option("--batch", type=click.IntRange(2), default=125, show_default=True, help="Samples a step.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides data and shuffles.")
@click.option("--report", type=PathType(), help="Also write the tables and plots as an HTML page.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(*, source: str, data_dir: str | None, batch: int, seed: int, report: Path | None, as_json: bool) -> None:
    """Compare four ways to turn the same reflections into a playbook. Needs no key, no model and no network."""
    begun = time.perf_counter()
    if report is not None:
        place_for(report)
    tasks = load(source, data_dir=data_dir, seed=seed)
    if not as_json:
        click.echo(f"{tasks.name}: {len(tasks.train)} training tasks, {len(tasks.test)} held out; batch {batch}.")
        click.echo(f"{tasks.about}\n")
    tables: list[tuple[Part, list[WayResult]]] = []
    for part in PARTS:
        rows = [_row(tasks, part, way, batch=batch, seed=seed) for way in WAYS]
        tables.append((part, rows))
        if not as_json:
            click.echo(_table(part, rows))
    if report is not None:
        about = f"{len(tasks.train)} training tasks, {len(tasks.test)} held out; batch {batch}, seed {seed}."
        shown = [MethodTable(part.title, part.notes, rows) for part, rows in tables]
        write_comparison(report, f"Four ways to learn from {tasks.name}", (about, tasks.about), shown)
    if as_json:
        print_json({part.title: [_plain(row) for row in rows] for part, rows in tables})
    else:
        click.echo(f"{time.perf_counter() - begun:.1f} s of work. Next: {typed('learn', 'YOUR_FILE.jsonl')}")


def _row(tasks: TaskSet, part: Part, way: str, *, batch: int, seed: int) -> WayResult:
    setup = Setup(
        tasks.train,
        tasks.test,
        tasks.scorer,
        batch=batch,
        forget=part.forget,
        output_limit=part.output_limit,
        seed=seed,
    )
    return run_sync(compare(setup, way))


def _plain(row: WayResult) -> dict[str, str | int | float]:
    names = ("way", "batch", "lessons", "kept", "accuracy", "calls", "reads_per_item", "chain", "seconds")
    return {name: getattr(row, name) for name in names}


def _table(part: Part, rows: Sequence[WayResult]) -> str:
    base = sequential(rows)
    lines = [part.title, *(f"  {note}" for note in part.notes), ""]
    lines.append("  way         kept / lessons   accuracy   calls   reads/item   longest chain   seconds")
    for row in rows:
        kept = f"{row.kept} / {row.lessons}"
        lines.append(
            f"  {row.way:<10}  {kept:>14}   {row.accuracy:8.3f}   {row.calls:5}   {row.reads_per_item:10.2f}"
            f"   {row.chain:13}   {row.seconds:7.2f}"
        )
    ours = rows[-1]
    if base is not None and base.kept and base.accuracy:
        lines.append("")
        lines.append(
            f"  combee against sequential: {ours.kept / base.kept:.0%} of its lessons, "
            f"{ours.accuracy / base.accuracy:.0%} of its accuracy, 1/{base.chain / ours.chain:.0f} of its chain."
        )
    return "\n".join([*lines, ""])
