"""Execute a run, and print how it ended: for a person or as JSON."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import cast

import click

from combee.errors import INTERRUPTED, CombeeError
from combee.kernel.journal import JSON
from combee.kernel.learn import FinishReason, LearnResult
from combee.kernel.pace import explain
from combee.kernel.playbook import Bullet, Playbook, tokens
from combee.model.settings import ROLES
from combee.report import REPORT_NAME, write_report
from combee.run.baselines import BASELINES, contradictions
from combee.run.execute import Finished, Interrupted, baselines_of, execute
from combee.run.findings import spent_lines, taken_so_far
from combee.run.folders import open_book
from combee.run.rows import read_rows, row_lines, rows_to_json
from combee.run.spec import Prepared
from combee.run.words import counted, typed
from combee.terminal.display import make_display
from combee.terminal.options import print_json

_ROWS = 3  # wrong validation rows that the end of a run shows


def finish(prepared: Prepared, folder: Path, *, quiet: bool, as_json: bool) -> Finished:
    """Execute a run with live progress, and write its report. One that the user stops says so and ends the command."""
    models = prepared.agent.models
    display = make_display(quiet=quiet or as_json, beside=lambda: taken_so_far(models))
    try:
        with display:
            done = execute(prepared, folder, display)
    except Interrupted as stop:
        if as_json:
            print_json({**stop.summary, **_seen(prepared, folder)})
        click.echo(f"Stopped; {stop.hint}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from stop
    _write_report(folder)
    return done


def _write_report(folder: Path) -> None:
    """A page that cannot be written takes nothing from a run that is done."""
    try:
        write_report(folder)
    except CombeeError as error:
        click.echo(f"The report was not written: {error}", err=True)


def print_finished(done: Finished, *, as_json: bool) -> None:
    """Say what a run gave, for a person or as JSON."""
    if as_json:
        click.echo(json.dumps(_summary(done) | dict(done.prepared.facts), ensure_ascii=False))
        return
    result = done.result
    lines = [f"{result.reason.value}: {result.detail}"]
    lines.append(f"playbook   {_size(result.best)} → {done.folder / 'playbook.md'}")
    if result.last.bullets != result.best.bullets:
        lines.append(
            f"           best by validation; the last version has {_size(result.last)} ({done.folder.name}@last)"
        )
    lines += _validation_lines(done)
    if shares := _training(result):
        each = " (one figure an epoch)" if len(shares) > 1 else ""
        lines.append(f"training   {' → '.join(shares)} before learning from each sample{each}")
    lines.append(f"work       {done.stats.bought} results made, {done.stats.reused} taken from the journal")
    lines += spent_lines(done.prepared.agent.models)
    if result.choice is not None:
        first, *rest = explain(result.choice).split("\n")
        lines += [f"pace       {first}", *(f"           {line}" for line in rest)]
    if result.unlearned:
        lines.append(f"not worked {counted(len(result.unlearned), 'sample')} failed for outside reasons")
    lines += done.findings.lines()
    if pairs := contradictions(result.best):
        lines.append(f"contradict {counted(len(pairs), 'pair')} of bullets cannot both be right, such as {pairs[0]}")
    lines.append(f"report     {done.folder / REPORT_NAME}")
    lines.append(f"next       {_next(done)}")
    if not done.prepared.tasks.train:
        lines += _top_lines(result.best)
    click.echo("\n".join(lines))


def _summary(done: Finished) -> dict[str, JSON]:
    summary = done.to_json()
    if not done.prepared.tasks.train:  # nothing that could be scored says how good it is
        summary["top"] = _top(done.result.best)
    return summary | _seen(done.prepared, done.folder)


def _seen(prepared: Prepared, folder: Path) -> dict[str, JSON]:
    """Return each answer as far as the run went, what it has to beat, and bullets that contradict each other."""
    if not prepared.tasks.train:
        return {}
    rows, book = read_rows(folder), Playbook()
    with suppress(CombeeError):  # a run that was stopped before its first version
        book, _ = open_book(str(folder))
    return {
        "baselines": cast("JSON", baselines_of(prepared)),
        "contradictions": [cast("JSON", asdict(one)) for one in contradictions(book)],
        "rows": {
            "validation": cast("JSON", rows_to_json(rows.validation)),
            "training": cast("JSON", rows_to_json(rows.training)),
        },
    }


def _validation_lines(done: Finished) -> list[str]:
    """Return the validation score, what it has to beat, and a few rows that are wrong."""
    result = done.result
    validation = result.validations[-1] if result.validations else None
    if validation is None or not validation.total:
        return []
    best = max((v.hits / v.total for v in result.validations if v.total and not v.errors), default=None)
    shown = f"{validation.hits / validation.total:.3f} at the end"
    lines = [f"validation {shown}" + ("" if best is None else f", best {best:.3f}")]
    beside = [f"{BASELINES[name]} {share:.3f}" for name, share in done.baselines.items()]
    lines += [f"           without learning: {', '.join(beside)}"] if beside else []
    rows = row_lines(read_rows(done.folder).validation, _ROWS, more="all stand in the report and in --json")
    return [*lines, *(f"           {line}" for line in rows)]


def _by_support(book: Playbook) -> list[Bullet]:
    return sorted(book, key=lambda bullet: (-len(bullet.sources), bullet.harmful - bullet.helpful, bullet.id))


def _top(book: Playbook) -> JSON:
    return [{"id": one.id, "runs": len(one.sources), "text": one.text} for one in _by_support(book)[:10]]


def _top_lines(book: Playbook) -> list[str]:
    best = _by_support(book)[:5]
    if not best:
        return ["Nothing was learned: no run shows a failure and its fix that could be said in a line."]
    return ["best supported:", *(f"  {counted(len(one.sources), 'run'):>8}  [{one.id}] {one.text}" for one in best)]


def _training(result: LearnResult) -> list[str]:
    """Return the score of each epoch on the training samples, before they were learned from."""
    shares = []
    for epoch in sorted({step.epoch for step in result.steps}):
        steps = [step for step in result.steps if step.epoch == epoch and step.total]
        if steps:
            shares.append(f"{sum(step.hits for step in steps) / sum(step.total for step in steps):.3f}")
    return shares


def _size(book: Playbook) -> str:
    return f"{counted(len(book), 'bullet')}, {counted(tokens(book), 'token')}"


def _next(done: Finished) -> str:
    """Return the commands that are of use now: an empty book is not shown, and traces have no tasks to score."""
    steps = [] if (more := _raised(done)) is None else [more]
    if done.result.best:
        use = ("eval",) if done.prepared.tasks.train else ("export", "--to", "skill")
        steps += [typed("show", done.folder), typed(*use, done.folder)]
    return " · ".join(steps) or "the playbook is empty; what came of each step stands in the report"


def _raised(done: Finished) -> str | None:
    """Return the command that goes on with twice the limit that ended the run; None where no such limit did."""
    models = done.prepared.agent.models
    if done.result.reason is not FinishReason.BUDGET or models is None:
        return None
    words = {"max_calls": " call", "max_tokens": " tokens", "max_minutes": " minutes", "max_cost": "$"}
    limits, reached = done.prepared.spec.limits(), done.result.detail.partition(" is reached")[0]
    ended = [name for name, word in words.items() if name in limits and word in reached]
    if not ended:  # a limit of one role, which no option raises
        own = any(map(done.prepared.spec.limits, ROLES))
        return typed("resume", done.folder, "--config", "combee.toml") if own else None
    twice = 2 * limits[ended[0]]
    shown = twice if isinstance(twice, int) else f"{twice:g}"
    return typed("resume", done.folder, f"--{ended[0].replace('_', '-')}", shown)
