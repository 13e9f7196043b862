"""`combee demo`: one big aggregation loses lessons, Combee keeps them; on real runs of the embedded agent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from combee.bench import Setup, WayResult, compare, sequential
from combee.bench.compare import MethodTable, write_comparison
from combee.bench.small import Arm, arms, ask_endpoint, ask_local, asked_once, by_meaning, nearest
from combee.errors import UsageError
from combee.files import place_for
from combee.kernel.journal import JSON, Scope
from combee.kernel.runner import run_sync
from combee.model import open_models
from combee.model.local import is_local
from combee.run.findings import spent
from combee.run.options import over_options, refuse_unknown_prices
from combee.run.rows import interval
from combee.run.settings import read_settings
from combee.run.unfinished import kept_until_the_end
from combee.run.words import typed
from combee.tasks import TaskSet, load
from combee.tasks.embedded import ticket_set
from combee.terminal.options import PathType, budget_options, price_option, print_json, say_aside, setting

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
@setting("--model", "model.name", "Let a real model answer: local/smollm2, or one of an endpoint.", metavar="NAME")
@setting("--base-url", "model.base_url", "Its endpoint, like https://api.deepseek.com/v1. [$OPENAI_BASE_URL]")
@setting("--api-key-env", "model.api_key_env", "NAME of the variable with the key.", metavar="VARIABLE")
@price_option
@budget_options
@click.option("--view", type=click.IntRange(1, 3), default=1, show_default=True, help="With --model: bullets in view.")
@click.option(
    "--retrieval",
    type=click.Choice(["words", "embedding"]),
    default="words",
    show_default=True,
    help="With --model: what finds the bullets; embedding takes the extra.",
)
@click.option("--report", type=PathType(), help="Also write the tables and plots as an HTML page.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(
    *, source: str, data_dir: str | None, batch: int, seed: int, report: Path | None, as_json: bool, **options: Any
) -> None:
    """Compare four ways to turn the same reflections into a playbook. Needs no key, no model and no network.

    With --model a real language model answers support tickets whose rules it cannot know, with the bullets that fit
    each ticket best; --tasks and --data-dir are not used then.
    """
    begun = time.perf_counter()
    if report is not None:
        place_for(report)
    if options["model__name"] is not None:
        if report is not None:
            raise UsageError("--report does not go with --model.", hint="Use --json for the figures.")
        _with_model(options, batch=batch, seed=seed, as_json=as_json)
        return
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


def _with_model(options: dict[str, Any], *, batch: int, seed: int, as_json: bool) -> None:
    tasks, name, count = ticket_set(seed=seed), options["model__name"], options["view"]
    labels, choose = tasks.choices or (), nearest if options["retrieval"] == "words" else by_meaning()
    models = None
    if is_local(name):
        complete, close = ask_local(name, labels)
    else:
        spec = over_options(read_settings(None), options)
        refuse_unknown_prices(spec)
        models = open_models(spec.models(), budget=spec.budget.given(), seed=seed)
        complete, close = ask_endpoint(models.by_role["generator"], labels), models.aclose
    if not as_json:
        shown = "bullet" if count == 1 else f"{count} bullets"
        click.echo(f"{name}: {tasks.about}\n{_VIEWS.format(bullets=shown)}\n\n{_ARM_HEAD}")
    found: list[Arm] = []

    async def work(scope: Scope) -> None:
        once = asked_once(complete, scope)
        try:
            async for arm in arms(tasks, once, batch=batch, count=count, choose=choose, concurrency=batch, seed=seed):
                found.append(arm)
                if not as_json:
                    click.echo(_arm_line(arm))
        finally:
            await close()

    begun = time.perf_counter()
    with kept_until_the_end("demo", models, tasks.digest(), say_aside) as answers:
        run_sync(work(answers.scope))
        answers.complete = all(arm.evaluation.complete for arm in found)
        seconds, taken = time.perf_counter() - begun, spent(models)
        if as_json:
            figures = [_arm_to_json(arm) for arm in found]
            print_json({"model": name, "about": tasks.about, "arms": figures, "spent": taken})
            return
        money = f" {taken['calls']} calls, {taken['tokens']} tokens." if taken else ""
        click.echo(f"\n{seconds:.0f} s of work.{money} Equal prompts are asked once, in whichever way they come first.")


_VIEWS = (
    "Each ticket is answered with the playbook's best {bullets} for it in view; a wrong answer becomes a lesson.\n"
    "Simulated forgetting in aggregation, the same for all: a call over m reflections keeps a lesson with probability "
    "exp(-m/40). The answers are the model's own."
)
_ARM_HEAD = (
    "  way            kept / lessons   right bullet first   in first three   accuracy   95 % interval    seconds"
)


def _arm_line(arm: Arm) -> str:
    low, high = interval([(score.hits, score.total) for score in arm.evaluation.scores.values()])
    kept = f"{arm.kept} / {arm.lessons}" if arm.lessons else "-"
    first, three = ("-" if share is None else f"{share:.3f}" for share in (arm.first, arm.in_three))
    return (
        f"  {arm.name:<12}   {kept:>14}   {first:>18}   {three:>14}   {arm.evaluation.accuracy or 0.0:8.3f}"
        f"   {low:.3f} to {high:.3f}   {arm.seconds:8.1f}"
    )


def _arm_to_json(arm: Arm) -> dict[str, JSON]:
    low, high = interval([(score.hits, score.total) for score in arm.evaluation.scores.values()])
    return {
        "arm": arm.name,
        "accuracy": arm.evaluation.accuracy,
        "interval": [low, high],
        "errors": len(arm.evaluation.errors),
        "lessons": arm.lessons,
        "kept": arm.kept,
        "right_first": arm.first,
        "right_in_three": arm.in_three,
        "seconds": round(arm.seconds, 1),
    }


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
