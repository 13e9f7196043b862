"""`combee eval`: the score of a playbook on held-out tasks, beside the agent without one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from combee.errors import RunError, UsageError
from combee.kernel.journal import Journal, Scope
from combee.kernel.learn import Evaluation
from combee.kernel.playbook import Playbook
from combee.kernel.runner import run_sync
from combee.report.interval import interval, share_text
from combee.run.config import read_config
from combee.run.estimates import check_scoring, forecast_scoring
from combee.run.folders import find_run, open_book
from combee.run.mending import for_scoring, mended
from combee.run.methods import prepare
from combee.run.spec import Prepared, RunSpec, kept_spec, load_tasks
from combee.run.spent import spent, spent_lines
from combee.run.unfinished import scores_kept
from combee.run.words import counted, typed, with_program
from combee.terminal.options import budget_options, mend_options, print_forecast, say_aside, task_options

__all__ = ["command"]


@click.command(name="eval")
@click.argument("what", required=False)
@click.argument("source", required=False)
@task_options
@click.option("--split", type=click.Choice(["train", "val", "test"]), default="test", show_default=True)
@click.option("--version", default="best", show_default=True, help="A label (best, last, stable) or a digest.")
@mend_options
@budget_options
@click.option("--dry-run", is_flag=True, help="Say what it would take, and call nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(what: str | None, source: str | None, split: str, version: str, **options: Any) -> int:
    """Score the playbook of WHAT (a run or a file) on SOURCE (default: the run's own tasks), learning nothing.

    Every task is answered twice: with the playbook and without one. Limits count this command, not the run; without an
    option they are those below [budget] in combee.toml.
    """
    if what is not None and source is None and Path(what).suffix in {".jsonl", ".csv"}:
        raise UsageError(
            f"{what} is a file of tasks; eval takes RUN [TASKS].", hint=f"Write: {typed('eval', 'RUN', what)}"
        )
    book, name = open_book(what, version)
    spec = _spec(what, source, options)
    found = load_tasks(spec)
    tasks = {"train": found.train, "val": found.val, "test": found.test}[split]
    if not any(task.target is not None for task in tasks):
        raise UsageError(f"{found.name} has no {split} tasks with an answer.", hint="Choose another --split.")
    books = {"with it": book, "without": Playbook()}
    if options["dry_run"]:
        print_forecast(forecast_scoring(spec, tasks, books), as_json=options["as_json"])
        return 0
    check_scoring(spec, tasks, books)
    prepared = prepare(spec)

    async def both(scope: Scope) -> tuple[Evaluation, Evaluation]:
        try:
            return await prepared.score(tasks, book, scope), await prepared.score(tasks, Playbook(), scope)
        finally:
            await prepared.agent.aclose()

    with scores_kept("eval", prepared, tasks, book, say=say_aside) as answers:
        with_book, without = run_sync(both(answers.scope))
        answers.complete = with_book.complete and without.complete
        _print(name, split, prepared, with_book, without, as_json=options["as_json"])
    if not with_book.scores and options["as_json"]:
        return RunError.exit_code  # one object, which holds the errors
    if not with_book.scores:
        raise RunError("Not one task could be scored.", hint=next(iter(with_book.errors.values()), None))
    return 0


def _spec(what: str | None, source: str | None, options: dict[str, Any]) -> RunSpec:
    names = ("question", "answer", "id", "scorer", "train", "val", "test", "data_dir")
    given = {name: options[name] for name in names} | {"source": source}
    if source is None and (what is None or not Path(what).is_file()):
        folder = find_run(what.rsplit("@", 1)[0] if what else None)
        with Journal.open(folder, create=False, read_only=True) as journal:
            kept = kept_spec(journal, folder)
        tasks = dict(kept.tasks) | {key: value for key, value in given.items() if value is not None}
        return for_scoring(dataclasses.replace(kept, tasks=tasks, guard={}, start=None), options)
    return mended(RunSpec.of(read_config(options["config_path"]), tasks=given), {**options, "config_path": None})


def _print(name: str, split: str, prepared: Prepared, found: Evaluation, without: Evaluation, *, as_json: bool) -> None:
    rows = [(score.hits, score.total) for score in found.scores.values()]
    if as_json:
        data = {
            "playbook": name,
            "tasks": prepared.tasks.name,
            "split": split,
            "accuracy": found.accuracy,
            "hits": found.hits,
            "total": found.total,
            "without_playbook": without.accuracy,
            "interval": list(interval(rows)) if rows else None,
            "errors": found.errors,
            "about": prepared.tasks.about,
            "model": spent(prepared.agent.models),
        }
        click.echo(json.dumps(data, ensure_ascii=False))
        return
    if found.total:
        click.echo(f"{prepared.tasks.name}, {split}: {found.accuracy:.3f} ({share_text(rows)}) with {name}")
    if without.accuracy is not None:
        click.echo(f"without a playbook: {without.accuracy:.3f}")
    for line in spent_lines(prepared.agent.models):
        click.echo(line)
    for task, error in list(found.errors.items())[:5]:
        click.echo(with_program(f"not scored: {task}: {error}"), err=True)
    if found.errors:
        click.echo(
            f"{counted(len(found.errors), 'task')} could not be scored: do not compare this score with others.",
            err=True,
        )
    click.echo(f"note: {prepared.tasks.about}", err=True)
