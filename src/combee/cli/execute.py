"""Run a prepared run in its folder, to its end or until it is stopped; write the playbook, say how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import click

from combee.cli.display import Display, make_display
from combee.cli.gepa_run import METHOD, check_gepa, learn_by_gepa
from combee.cli.main import INTERRUPTED
from combee.cli.mending import how_to_go_on
from combee.cli.rundir import JOURNAL, has_results
from combee.cli.spec import Prepared
from combee.cli.spent import faults_of, maybe_paid, spent, spent_lines
from combee.cli.words import counted, typed
from combee.errors import CombeeError, RunError, UsageError
from combee.kernel.journal import JSON, Journal
from combee.kernel.learn import FinishReason, LearnResult, learn
from combee.kernel.learn.batching import announcement
from combee.kernel.pace import explain
from combee.kernel.playbook import Playbook, from_json, load, save, tokens
from combee.kernel.runner import run_sync
from combee.model.settings import ROLES
from combee.report import REPORT_NAME, write_report

__all__ = ["SPEC_KEY", "Finished", "execute", "print_finished"]

SPEC_KEY = "spec"


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that came to an end."""

    folder: Path
    prepared: Prepared
    result: LearnResult
    reused: int
    bought: int
    bought_again: int


def execute(prepared: Prepared, folder: Path, *, quiet: bool, as_json: bool) -> Finished:
    """Learn in `folder`; the same call on a folder that holds a part of the run goes on with it.

    A run that the user stops says so and ends the command: as JSON with the keys of any other end.
    """
    named = _named_start(prepared, folder)
    by_gepa = prepared.spec.agent.get("method") == METHOD
    if by_gepa:
        check_gepa(prepared)
    models = prepared.agent.models
    display = make_display(quiet=quiet or as_json, faults=lambda: sum(faults_of(models).values()))
    with Journal.open(folder) as journal, display:
        _same_data(journal, prepared)
        prepared.agent.attach(journal)
        journal.set_meta(SPEC_KEY, prepared.spec.to_json())  # what was refused is not kept
        start = _first_version(journal) or named
        try:
            if by_gepa:
                result = learn_by_gepa(prepared, start, journal, display)
            else:
                result = run_sync(_learn(prepared, start, journal, display))
        except KeyboardInterrupt as stop:
            display.close()
            if as_json:
                click.echo(json.dumps(_stopped(journal, folder, prepared), ensure_ascii=False))
            lost = maybe_paid(models)
            click.echo(f"Stopped; every answer is kept.{lost} Go on with: {typed('resume', folder)}", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from stop
        except RunError as error:
            told = how_to_go_on(error, prepared.spec, folder, kept=has_results(journal))
            told += maybe_paid(models)
            error.hint = f"{error.hint}\n  {told}" if error.hint else told
            display.shorten(error)
            raise
        _write_books(folder, result)
        stats = journal.stats()
    _write_report(folder)
    return Finished(folder, prepared, result, stats.reused, stats.bought, stats.bought_again)


async def _learn(prepared: Prepared, start: Playbook | None, journal: Journal, display: Display) -> LearnResult:
    try:
        return await learn(
            prepared.samples,
            prepared.sample_map,
            prepared.agent.curator,
            config=prepared.config,
            start=start,
            validate=prepared.validate if prepared.tasks.val else None,
            judge=prepared.judge,
            journal=journal,
            observe=display.observe,
        )
    finally:
        await prepared.agent.aclose()


def _named_start(prepared: Prepared, folder: Path) -> Playbook | None:
    """The book that a new run is to begin with; it is read before anything is written."""
    begun = (folder / JOURNAL).exists()
    return None if prepared.spec.start is None or begun else load(prepared.spec.start)


def _first_version(journal: Journal) -> Playbook | None:
    """The book that a run began with: what became of its file since then is of no matter."""
    versions = journal.versions()
    return from_json(journal.text(versions[0].digest)) if versions else None


def _same_data(journal: Journal, prepared: Prepared) -> None:
    """A run goes on only with the data it began with: else its replay would be another run."""
    digest = prepared.digest()
    known = journal.meta("tasks")
    if known is None:
        journal.set_meta("tasks", digest)
    elif known != digest:
        raise UsageError(
            "The tasks have changed since this run began.", hint="Put the old file back, or start a new run."
        )


def _write_books(folder: Path, result: LearnResult) -> None:
    save(result.best, folder / "playbook.json")
    save(result.best, folder / "playbook.md")


def _write_report(folder: Path) -> None:
    """A page that cannot be written takes nothing from a run that is done."""
    try:
        write_report(folder)
    except CombeeError as error:
        click.echo(f"The report was not written: {error}", err=True)


def _batch(result: LearnResult) -> JSON:
    """Return the choice of the batch size; None where it was fixed."""
    if result.choice is None:
        return None
    return cast("JSON", asdict(announcement(len(result.steps), result.choice)))


def _stopped(journal: Journal, folder: Path, prepared: Prepared) -> dict[str, JSON]:
    """Return what a run that was stopped came to, from its journal; samples are given up at the end only."""
    labels = journal.labels()
    version = labels.get("best") or labels.get("last")
    book = Playbook() if version is None else from_json(journal.text(version))
    validated = [cast("dict[str, JSON]", event.data) for event in journal.events("Validated")]
    stats = journal.stats()
    return {
        "run": str(folder),
        "reason": FinishReason.INTERRUPTED.value,
        "detail": "stopped by the user",
        "bullets": len(book),
        "tokens": tokens(book),
        "steps": sum(1 for _ in journal.events("StepFinished")),
        "unlearned": [],
        "validation": {name: validated[-1][name] for name in ("hits", "total")} if validated else None,
        "calls": {"bought": stats.bought, "reused": stats.reused, "bought_again": stats.bought_again},
        "batch": None,
        "model": spent(prepared.agent.models),
    }


def print_finished(done: Finished, *, as_json: bool, more: Mapping[str, JSON] | None = None) -> None:
    """Say what a run gave, for a person or as JSON; `more` goes into the JSON."""
    result = done.result
    validation = result.validations[-1] if result.validations else None
    if as_json:
        summary: dict[str, JSON] = {
            "run": str(done.folder),
            "reason": result.reason.value,
            "detail": result.detail,
            "bullets": len(result.best),
            "tokens": tokens(result.best),
            "steps": len(result.steps),
            "unlearned": cast("JSON", list(result.unlearned)),
            "validation": None if validation is None else {"hits": validation.hits, "total": validation.total},
            "calls": {"bought": done.bought, "reused": done.reused, "bought_again": done.bought_again},
            "batch": _batch(result),
            "model": spent(done.prepared.agent.models),
        }
        click.echo(json.dumps(summary | dict(more or {}), ensure_ascii=False))
        return
    lines = [f"{result.reason.value}: {result.detail}"]
    lines.append(f"playbook   {_size(result.best)} → {done.folder / 'playbook.md'}")
    if result.last.bullets != result.best.bullets:
        lines.append(
            f"           best by validation; the last version has {_size(result.last)} ({done.folder.name}@last)"
        )
    if validation is not None and validation.total:
        best = max((v.hits / v.total for v in result.validations if v.total and not v.errors), default=None)
        shown = f"{validation.hits / validation.total:.3f} at the end"
        lines.append(f"validation {shown}" + ("" if best is None else f", best {best:.3f}"))
    if shares := _training(result):
        each = " (one figure an epoch)" if len(shares) > 1 else ""
        lines.append(f"training   {' → '.join(shares)} before learning from each sample{each}")
    lines.append(f"work       {done.bought} results made, {done.reused} taken from the journal")
    lines += spent_lines(done.prepared.agent.models)
    if result.choice is not None:
        first, *rest = explain(result.choice).split("\n")
        lines += [f"pace       {first}", *(f"           {line}" for line in rest)]
    if result.unlearned:
        lines.append(f"not worked {counted(len(result.unlearned), 'sample')} failed for outside reasons")
    lines.append(f"report     {done.folder / REPORT_NAME}")
    lines.append(f"next       {_next(done)}")
    click.echo("\n".join(lines))


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
        use = ("eval",) if done.prepared.tasks.kind != "traces" else ("export", "--to", "skill")
        steps += [typed("show", done.folder), typed(*use, done.folder)]
    return " · ".join(steps) or "the playbook is empty; what came of each step stands in the report"


def _raised(done: Finished) -> str | None:
    """Return the command that goes on with twice the limit that ended the run; None where no such limit did."""
    models = done.prepared.agent.models
    if done.result.reason is not FinishReason.BUDGET or models is None:
        return None
    words = {"max_calls": " call", "max_tokens": " tokens", "max_minutes": " minutes", "max_cost": "$"}
    limits, reached = done.prepared.spec.budget, done.result.detail.partition(" is reached")[0]
    ended = [name for name, word in words.items() if limits.get(name) is not None and word in reached]
    if not ended:  # a limit of one role, which no option raises
        return typed("resume", done.folder, "--config", "combee.toml") if any(limits.get(r) for r in ROLES) else None
    twice = 2 * limits[ended[0]]
    shown = twice if isinstance(twice, int) else f"{twice:g}"
    return typed("resume", done.folder, f"--{ended[0].replace('_', '-')}", shown)
