"""`combee eval`: the score of a playbook on held-out tasks, beside the agent without one."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from combee.cli.config import read_config
from combee.cli.kept import kept_spec
from combee.cli.options import Place, task_options
from combee.cli.rundir import find_run, open_book
from combee.cli.spec import Prepared, RunSpec, prepare
from combee.cli.unfinished import scores_kept
from combee.cli.words import counted, typed, with_program
from combee.errors import RunError, UsageError
from combee.journal import Journal, Scope
from combee.learn import Evaluation, Score
from combee.playbook import Playbook
from combee.runner import run_sync

__all__ = ["command"]


@click.command(name="eval")
@click.argument("what", required=False)
@click.argument("source", required=False)
@task_options
@click.option("--split", type=click.Choice(["train", "val", "test"]), default="test", show_default=True)
@click.option("--version", default="best", show_default=True, help="A label (best, last, stable) or a digest.")
@click.option("--config", "config_path", type=Place(), help="Settings file. [combee.toml if there]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(what: str | None, source: str | None, split: str, version: str, **options: Any) -> int:
    """Score the playbook of WHAT (a run or a file) on SOURCE (default: the run's own tasks), learning nothing."""
    if what is not None and source is None and Path(what).suffix in {".jsonl", ".csv"}:
        raise UsageError(
            f"{what} is a file of tasks; eval takes RUN [TASKS].", hint=f"Write: {typed('eval', 'RUN', what)}"
        )
    book, name = open_book(what, version)
    prepared = prepare(_spec(what, source, options))
    tasks = {"train": prepared.tasks.train, "val": prepared.tasks.val, "test": prepared.tasks.test}[split]
    if not any(task.target is not None for task in tasks):
        raise UsageError(f"{prepared.tasks.name} has no {split} tasks with an answer.", hint="Choose another --split.")

    async def both(scope: Scope) -> tuple[Evaluation, Evaluation]:
        try:
            return await prepared.score(tasks, book, scope), await prepared.score(tasks, Playbook(), scope)
        finally:
            await prepared.agent.aclose()

    with scores_kept("eval", prepared) as answers:
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
        return RunSpec(tasks=tasks, agent=kept.agent, model=kept.model, learn=kept.learn, prices=kept.prices)
    return RunSpec.of(read_config(options["config_path"]), tasks=given)


def interval(scores: Sequence[Score], *, resamples: int = 1000) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the accuracy, drawn over tasks: parts of one task are not independent."""
    draw = random.Random(0)
    shares = []
    for _ in range(resamples):
        sample = draw.choices(scores, k=len(scores))
        shares.append(sum(score.hits for score in sample) / sum(score.total for score in sample))
    shares.sort()
    return shares[int(0.025 * resamples)], shares[int(0.975 * resamples) - 1]


def _print(name: str, split: str, prepared: Prepared, found: Evaluation, without: Evaluation, *, as_json: bool) -> None:
    if as_json:
        data = {
            "playbook": name,
            "tasks": prepared.tasks.name,
            "split": split,
            "accuracy": found.accuracy,
            "hits": found.hits,
            "total": found.total,
            "without_playbook": without.accuracy,
            "errors": found.errors,
            "about": prepared.tasks.about,
        }
        click.echo(json.dumps(data, ensure_ascii=False))
        return
    if found.total:
        low, high = interval(list(found.scores.values()))
        click.echo(
            f"{prepared.tasks.name}, {split}: {found.accuracy:.3f} ({found.hits} of {found.total}; "
            f"95 % interval {low:.3f} to {high:.3f}) with {name}"
        )
    if without.accuracy is not None:
        click.echo(f"without a playbook: {without.accuracy:.3f}")
    for task, error in list(found.errors.items())[:5]:
        click.echo(with_program(f"not scored: {task}: {error}"), err=True)
    if found.errors:
        click.echo(
            f"{counted(len(found.errors), 'task')} could not be scored: do not compare this score with others.",
            err=True,
        )
    click.echo(f"note: {prepared.tasks.about}")
