"""Scores on held-out tasks: `combee eval` beside the agent without a playbook, `combee gate` against a baseline.

`gate` is for a CI job: may this playbook replace that one? Its exit code is 1 when it may not. What could not be scored
is not judged: that fails too, but by another word, for it says nothing of the playbook.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from combee.errors import CombeeError, RunError, UsageError, did_you_mean
from combee.kernel.guard import LeakIndex, Trial, compare
from combee.kernel.journal import JSON, Journal, Scope
from combee.kernel.learn import Evaluation, Task
from combee.kernel.playbook import Playbook, digest, from_json, tokens
from combee.kernel.runner import run_sync
from combee.redaction import find_secrets
from combee.run.baselines import baselines
from combee.run.calls import Scoring
from combee.run.environments import environment_of
from combee.run.estimates import check_scoring, forecast_scoring
from combee.run.findings import spent, spent_lines
from combee.run.folders import all_runs, find_run, open_book
from combee.run.gate import Gate, GateLimits, Metrics, gate
from combee.run.methods import carried
from combee.run.options import for_scoring, mended, over_options
from combee.run.rows import ScoredRow, interval, row_lines, rows_of, rows_to_json, share_text
from combee.run.settings import Settings, read_settings
from combee.run.spec import (
    Prepared,
    connect,
    content_learned,
    content_of,
    held_out,
    kept_spec,
    load_tasks,
    tasks_to_score,
    without_sizes,
)
from combee.run.unfinished import scores_kept
from combee.run.words import counted, typed, with_program
from combee.terminal.options import (
    NumberType,
    budget_options,
    dry_run_option,
    json_option,
    mend_options,
    print_forecast,
    print_json,
    rows_options,
    say_aside,
    task_options,
)

if TYPE_CHECKING:
    from combee.model import Models


@click.command(name="eval")
@click.argument("what", required=False)
@click.argument("source", required=False)
@task_options
@click.option("--split", type=click.Choice(["train", "val", "test"]), help="Part of the tasks. [test, or a new file]")
@click.option("--version", default="best", show_default=True, help="A label (best, last, stable) or a digest.")
@mend_options
@budget_options
@rows_options
@dry_run_option
@json_option
def eval_command(what: str | None, source: str | None, split: str | None, version: str, **options: Any) -> int:
    """Score the playbook of WHAT (a run or a file) on SOURCE (default: the run's own tasks), learning nothing.

    Shows the rows that failed; --json has all of them, for `combee compare`. Every task is answered twice: with the
    playbook and without one. Limits count this command, not the run; without an option they are those below [budget] in
    combee.toml.
    """
    if what is not None and source is None and Path(what).suffix in {".jsonl", ".csv"}:
        raise UsageError(
            f"{what} is a file of tasks; eval takes RUN [TASKS].", hint=f"Write: {typed('eval', 'RUN', what)}"
        )
    book, name = open_book(what, version)
    spec, seen = _spec(what, source, options)
    found, split = tasks_to_score(spec, split, seen=seen)
    tasks = found.test if split == "all" else getattr(found, split)
    if source is not None and seen is not None and content_of(spec) == seen:
        say_aside(f"note: {source} is what was learned from: only its {split} tasks are scored")
    books = {"with it": book, "without": Playbook()}
    if options["dry_run"]:
        print_forecast(forecast_scoring(spec, tasks, books), as_json=options["as_json"])
        return 0
    check_scoring(spec, tasks, books)
    prepared, learned = connect(spec, found), _trained_on(what, source)
    known = {task.question for task in learned}
    again = sum(task.question in known for task in tasks)
    if again:
        say_aside(f"note: {again} of these {counted(len(tasks), 'task')} were learned from")

    async def both(scope: Scope) -> tuple[Evaluation, Evaluation]:
        try:
            async with carried(prepared, Path("eval")) as working:
                return await working.score(tasks, book, scope), await working.score(tasks, Playbook(), scope)
        finally:
            await prepared.agent.aclose()

    begun = time.perf_counter()
    with scores_kept("eval", prepared, tasks, book, say=say_aside) as answers:
        with_book, without = run_sync(both(answers.scope))
        answers.complete = with_book.complete and without.complete
        shown = Scoring(book, tasks, split, prepared)
        seconds, train = time.perf_counter() - begun, found.train or learned
        _print(name, shown, (with_book, without), options, train=train, seconds=seconds)
    if not with_book.scores and options["as_json"]:
        return RunError.exit_code  # one object, which holds the errors
    if not with_book.scores:
        raise RunError("Not one task could be scored.", hint=next(iter(with_book.errors.values()), None))
    return 0


def _spec(what: str | None, source: str | None, options: dict[str, Any]) -> tuple[Settings, str | None]:
    """Return the settings: those of the run, or of this folder; and the hash of the file that was learned from."""
    given = {"tasks__source": source} | {name: options[name] for name in options if name.startswith("tasks__")}
    if what is None or not Path(what).is_file():
        folder = find_run(what.rsplit("@", 1)[0] if what else None)
        with Journal.open(folder, create=False, read_only=True) as journal:
            kept = kept_spec(journal, folder)
            seen = content_learned(journal, kept)
        if source is None:
            content = content_of(kept)
            if seen is not None and content not in {None, seen}:
                changed = f"{kept.tasks.source} has changed since it was learned from"
                say_aside(f"note: {changed}: among the tasks that are scored may be some that were learned")
            return for_scoring(over_options(kept, given), options), content
        if kept.tasks.traces is None:
            spec = over_options(kept, given)
            content, same_name = content_of(spec), spec.tasks.source == kept.tasks.source
            if not same_name if content is None else content != seen:
                spec = over_options(without_sizes(kept), given)  # they were those of other tasks
                if same_name:
                    say_aside(f"note: {source} has changed since it was learned from: all of its rows are scored")
            return for_scoring(spec, options), seen
    spec = over_options(read_settings(options["config_path"]), given)
    return mended(spec, {**options, "config_path": None}), None


def _trained_on(what: str | None, source: str | None) -> tuple[Task, ...]:
    """Return the training tasks of the run that is scored on another file; none where it has none to be read."""
    if source is None or what is None or Path(what).is_file():
        return ()
    with suppress(CombeeError):
        folder = find_run(what.rsplit("@", 1)[0])
        with Journal.open(folder, create=False, read_only=True) as journal:
            return load_tasks(kept_spec(journal, folder)).train
    return ()


def _print(
    name: str,
    scored: Scoring,
    both: tuple[Evaluation, Evaluation],
    options: dict[str, Any],
    *,
    train: tuple[Task, ...],
    seconds: float,
) -> None:
    found, without = both
    prepared, split = scored.prepared, scored.split
    parts = [(score.hits, score.total) for score in found.scores.values()]
    environment = environment_of(prepared.spec)
    beside = {} if environment is not None else baselines(train, scored.tasks, prepared.tasks.scorer)
    summaries = [[] if environment is None else environment.summary(scored.tasks, one) for one in both]
    rows = rows_of(scored.tasks, found, scored.book, prepared.config.view_tokens)
    if options["as_json"]:
        plain = rows_of(scored.tasks, without, Playbook())
        data = {
            "playbook": name,
            "tasks": prepared.tasks.name,
            "split": split,
            "accuracy": found.accuracy,
            "hits": found.hits,
            "total": found.total,
            "without_playbook": without.accuracy,
            "baselines": beside,
            "summary": summaries[0],
            "summary_without_playbook": summaries[1],
            "interval": list(interval(parts)) if parts else None,
            "errors": found.errors,
            "about": prepared.tasks.about,
            "bullets": len(scored.book),
            "seconds": round(seconds, 3),
            "model": spent(prepared.agent.models),
            "rows": rows_to_json(rows),
            "rows_without_playbook": rows_to_json(plain),
        }
        print_json(data)
        return
    say_aside(f"note: {prepared.tasks.about}")
    if found.total:
        click.echo(f"{prepared.tasks.name}, {split}: {found.accuracy:.3f} ({share_text(parts)}) with {name}")
        click.echo("".join(f"  {line}\n" for line in summaries[0]), nl=False)
    if without.accuracy is not None:
        click.echo("\n  ".join([f"without a playbook: {without.accuracy:.3f}", *summaries[1]]))
    if beside:
        click.echo(f"without an agent: {_beside(beside)}")
    for line in spent_lines(prepared.agent.models):
        click.echo(line)
    for line in row_lines(rows, options["rows"], find=options["find"], more="--rows N shows more, --json all"):
        click.echo(with_program(line))
    if found.errors:
        click.echo(
            f"{counted(len(found.errors), 'task')} could not be scored: do not compare this score with others.",
            err=True,
        )


def _beside(found: Mapping[str, float]) -> str:
    """Return in words what a score can be set beside that takes no agent at all."""
    words = {"majority": "always the commonest answer", "nearest": "the answer of the most similar training row"}
    return ", ".join(f"{words[name]} {share:.3f}" for name, share in found.items())


_LOST_ROWS = 10  # rows that a gate shows
_WEAK = 0.2  # a smallest drop found above this is said beside the word `passed`


@dataclass(frozen=True, slots=True)
class _Side:
    """A playbook to be compared: its name, and what its run says of the coverage of its lessons, if there is one."""

    name: str
    book: Playbook
    coverage: float | None = None


@dataclass(frozen=True, slots=True)
class _Scored:
    """What a side scored, and the first error of a task that could not be scored."""

    metrics: Metrics
    error: str | None
    rows: tuple[ScoredRow, ...] = ()


@click.command(name="gate")
@click.argument("run", required=False)
@click.option("--baseline", required=True, help="A label or version of RUN, another run (RUN@LABEL), or a file.")
@click.option("--version", default="last", show_default=True, help="What to judge: a label of RUN, or a digest.")
@click.option("--split", type=click.Choice(["val", "test"]), default="val", show_default=True)
@click.option("--max-drop", type=NumberType(0, 1), default=0.05, show_default=True, help="Largest drop allowed.")
@click.option("--alpha", type=NumberType(0, 1), default=0.05, show_default=True, help="Level of the paired test.")
@mend_options
@budget_options
@dry_run_option
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def gate_command(run: str | None, *, baseline: str, version: str, split: str, as_json: bool, **options: Any) -> int:
    """Score RUN (default: the latest) and a baseline on the same held-out tasks.

    Prints `passed` and exits with 0; prints `FAILED` and exits with 1 where RUN is worse; prints `NOT JUDGED`, with the
    first error, and exits with 1 where an outside failure (no endpoint, no key) left too few scores to compare. Limits
    count this command, not the run; without an option they are those below [budget] in combee.toml.
    """
    checked = GateLimits(alpha=options["alpha"], max_drop=options["max_drop"])
    folder = find_run(run)
    with Journal.open(folder, create=False, read_only=True) as journal:
        spec = for_scoring(kept_spec(journal, folder), options)
        new = _version(journal, folder, version)
        old = _baseline(journal, folder, baseline)
    found = load_tasks(spec)
    tasks = [task for task in getattr(found, split) if task.target is not None]
    if not tasks:
        raise UsageError(f"{found.name} has no {split} tasks with an answer.", hint="Choose another --split.")
    if digest(new.book) == digest(old.book):
        return _same(new, old, held_out(found), split, as_json=as_json)
    books = {"the run": new.book, "the baseline": old.book}
    if options["dry_run"]:
        print_forecast(forecast_scoring(spec, tasks, books), as_json=as_json)
        return 0
    check_scoring(spec, tasks, books)
    prepared = connect(spec, found)
    with scores_kept("gate", prepared, tasks, new.book, old.book, say=say_aside) as answers:
        try:
            new_scored, old_scored = run_sync(_both(prepared, tuple(tasks), (new, old), answers.scope))
        except RunError as error:
            new_scored = old_scored = _Scored(Metrics(), str(error))
        answers.complete = new_scored.error is None and old_scored.error is None
        outcome, verdict = _judged(new_scored, old_scored, len(tasks), checked)
        is_live = environment_of(prepared.spec) is not None
        beside = {} if is_live else baselines(found.train, tasks, found.scorer)
        _print_gate(
            verdict,
            outcome,
            (new, new_scored),
            (old, old_scored),
            split,
            as_json=as_json,
            models=prepared.agent.models,
            beside=beside,
        )
    return 0 if outcome.passed else 1


def _same(new: _Side, old: _Side, index: LeakIndex | None, split: str, *, as_json: bool) -> int:
    """Judge a playbook against itself: nothing is bought for that, but what must not stand in it still counts."""
    bad = _violations(new.book, index)
    reasons = (f"{bad} bullets hold a leak or a secret",) if bad else ()
    outcome = Gate(not bad, reasons, ("both are the same playbook: nothing was scored",))
    _print_gate(
        "FAILED" if bad else "passed (the same playbook)",
        outcome,
        (new, _Scored(Metrics(), None)),
        (old, _Scored(Metrics(), None)),
        split,
        as_json=as_json,
    )
    return 1 if bad else 0


def _judged(new: _Scored, old: _Scored, tasks: int, limits: GateLimits) -> tuple[Gate, str]:
    """Return the outcome and the word for it."""
    outcome = gate(new.metrics, old.metrics, limits)
    fault = new.error or old.error
    scored = new.metrics.rows.keys() & old.metrics.rows.keys()
    if fault is not None and not outcome.passed and tasks - len(scored) > limits.max_missing * tasks:
        return Gate(False, (f"the first error: {fault}",), outcome.reasons), "NOT JUDGED"
    if not outcome.passed:
        return outcome, "FAILED"
    smallest = compare(Trial("the baseline", new.metrics.rows, old.metrics.rows), limits.alpha).smallest
    if smallest is None:
        return outcome, "passed (no power)"  # it could not have failed by the test
    if smallest > _WEAK:
        return outcome, f"passed (weak: a loss under {100 * smallest:.0f} points can stay unseen)"
    return outcome, "passed"


def _version(journal: Journal, folder: Path, name: str) -> _Side:
    return _Side(f"{folder}@{name}", from_json(journal.text(journal.resolve(name))), _coverage(journal))


def _baseline(journal: Journal, folder: Path, name: str) -> _Side:
    """Return what the name stands for: first a label or version of the run, then a file or a run."""
    try:
        version = journal.resolve(name)
    except UsageError as error:
        runs = {run.name for run in all_runs()}
        stem = name.rsplit("@", 1)[0]
        if not (Path(name).exists() or Path(stem).is_dir() or stem in runs):
            raise UsageError(
                f"{name!r} is neither a label or version of {folder}, nor a run, nor a file.",
                hint=did_you_mean(name, {*journal.labels(), *runs}),
            ) from error
        book, shown = open_book(name, "last")
        return _Side(shown, book)
    return _Side(f"{folder}@{name}", from_json(journal.text(version)))


def _coverage(journal: Journal) -> float | None:
    steps = [cast("dict[str, int]", event.data) for event in journal.events("StepFinished")]
    read = sum(step["reflections"] for step in steps)
    return None if not read else 1 - sum(step["uncovered"] for step in steps) / read


async def _both(
    prepared: Prepared, tasks: tuple[Task, ...], sides: tuple[_Side, _Side], scope: Scope
) -> tuple[_Scored, _Scored]:
    new, old = sides
    try:
        async with carried(prepared, Path("gate")) as working:
            return await _measured(working, tasks, new, scope), await _measured(working, tasks, old, scope)
    finally:
        await prepared.agent.aclose()


async def _measured(prepared: Prepared, tasks: tuple[Task, ...], side: _Side, scope: Scope) -> _Scored:
    found = await prepared.score(tasks, side.book, scope)
    index = prepared.judge.held_out
    metrics = Metrics(
        rows={task: (score.hits, score.total) for task, score in found.scores.items()},
        errors=len(found.errors),
        coverage=side.coverage,
        entries=len(side.book),
        tokens=tokens(side.book),
        violations=_violations(side.book, index),
    )
    rows = rows_of(tasks, found, side.book, prepared.config.view_tokens)
    return _Scored(metrics, next(iter(found.errors.values()), None), rows)


def _violations(book: Playbook, index: LeakIndex | None) -> int:
    return sum(1 for b in book if find_secrets(b.text) or (index is not None and index.find(b.text)))


def _print_gate(
    verdict: str,
    outcome: Gate,
    new: tuple[_Side, _Scored],
    old: tuple[_Side, _Scored],
    split: str,
    *,
    as_json: bool,
    models: Models | None = None,
    beside: Mapping[str, float] | None = None,
) -> None:
    if as_json:
        data: dict[str, JSON] = {
            "passed": outcome.passed,
            "verdict": verdict.partition(" (")[0],
            "caveat": verdict.partition(" (")[2].removesuffix(")") or None,
            "reasons": list(outcome.reasons),
            "notes": list(outcome.notes),
            "split": split,
            "run": _side_to_json(*new),
            "baseline": _side_to_json(*old),
            "baselines": dict(beside or {}),
            "model": spent(models),
        }
        print_json(data)
        return
    click.echo(f"{verdict}: {new[0].name} against {old[0].name} on {split}")
    for reason in outcome.reasons:
        click.echo(with_program(f"! {reason}"))
    for note in outcome.notes:
        click.echo(f"  {note}")
    for side, scored in (new, old):
        if scored.metrics.rows:
            rows = list(scored.metrics.rows.values())
            click.echo(f"  {scored.metrics.accuracy:.3f} ({share_text(rows)}) with {side.name}")
    if beside:
        click.echo(f"  without an agent: {_beside(beside)}")
    before = {row.task for row in old[1].rows if row.passed}
    lost = [row for row in new[1].rows if not row.passed and row.task in before]
    if lost:
        click.echo(f"  {counted(len(lost), 'row')} right with the baseline, not with the run:")
        for line in row_lines(lost, _LOST_ROWS, more="--json has all"):
            click.echo(with_program(f"  {line}"))
    for line in spent_lines(models):
        click.echo(line)


def _side_to_json(side: _Side, scored: _Scored) -> dict[str, JSON]:
    metrics = scored.metrics
    rows = cast("JSON", rows_to_json(scored.rows))
    return {"name": side.name, "accuracy": metrics.accuracy, "errors": metrics.errors, "rows": rows}
