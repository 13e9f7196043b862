"""`combee refine`: overlapping entries of a playbook joined by a model, under its budget, with nothing lost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from combee.ace import Prompts, Refined, refine
from combee.errors import RunError, UsageError
from combee.files import real_path
from combee.kernel.journal import Journal, Scope
from combee.kernel.learn import delta_to_json
from combee.kernel.playbook import Playbook, check_place, digest, save, to_json
from combee.kernel.runner import LocalRunner, run_sync
from combee.model import Models, open_models
from combee.run.findings import spent, spent_lines
from combee.run.folders import find_run, open_book
from combee.run.options import over_options, refuse_unknown_prices
from combee.run.settings import Settings, read_settings
from combee.run.spec import SPEC_KEY
from combee.run.unfinished import kept_until_the_end, told_what_is_kept
from combee.run.words import counted
from combee.terminal.options import (
    NumberType,
    PathType,
    budget_options,
    config_option,
    model_options,
    print_json,
    say_aside,
)

LABEL = "refined"


@click.command(name="refine")
@click.argument("what", required=False)
@model_options
@budget_options
@click.option("--similarity", type=NumberType(0.01, 1), default=0.2, show_default=True, help="Of related entries.")
@click.option("--cluster", type=click.IntRange(2), default=8, show_default=True, help="Entries in one call at most.")
@click.option("--token-budget", type=click.IntRange(1), help="Tokens the playbook may have.")
@click.option("--concurrency", type=click.IntRange(1), default=64, show_default=True, help="Calls at once.")
@click.option("--out", type=PathType(), help="File to write. [FILE itself; for a run only its journal]")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(what: str | None, **options: Any) -> int:
    """Refine the playbook of WHAT: a run (default: the latest; the result gets the label `refined`), or a file.

    The exit code is 1 where the model answered for no cluster.
    """
    spec = _spec(what, options)
    if what is not None and (Path(what).is_file() or Path(what).suffix in {".json", ".md", ".txt"}):
        found, models = _of_file(Path(what), spec, options)
    else:
        found, models = _of_run(what, spec, options)
    _print(found, models, as_json=options["as_json"])
    return RunError.exit_code if found.failed and found.failed == len(found.clusters) else 0


def _spec(what: str | None, options: dict[str, Any]) -> Settings:
    """Return the settings: those of the run where there is one, with file and options over them."""
    spec = over_options(read_settings(options["config_path"]), options)
    if spec.model_name is None and (what is None or not Path(what).is_file()):
        with Journal.open(find_run(_run_name(what)), create=False, read_only=True) as journal:
            kept = journal.meta(SPEC_KEY)
        if kept is not None:
            given, old = spec.given(), Settings.from_json(kept)
            spec = old.instead(budget={}).over({name: given.get(name, {}) for name in ("model", "budget", "prices")})
    if spec.model_name is None:
        raise UsageError("Refining needs a model.", hint="Give --model NAME, or fill [model] in combee.toml.")
    refuse_unknown_prices(spec)
    return spec


def _run_name(what: str | None) -> str | None:
    return what.rsplit("@", 1)[0] or None if what else None


def _of_file(path: Path, spec: Settings, options: dict[str, Any]) -> tuple[Refined, Models]:
    check_place(options["out"] or path)
    book, _ = open_book(str(path))
    models = open_models(spec.models(), budget=spec.budget.given())
    with kept_until_the_end("refine", models, str(real_path(path)), say_aside) as answers:
        found = _refined(book, models, spec, options, answers.scope)
        save(found.playbook, options["out"] or path)
        answers.complete = not found.failed
    return found, models


def _of_run(what: str | None, spec: Settings, options: dict[str, Any]) -> tuple[Refined, Models]:
    if options["out"] is not None:
        check_place(options["out"])
    book, _ = open_book(what)
    folder = find_run(_run_name(what))
    with Journal.open(folder, create=False) as journal:
        models = open_models(spec.models(), budget=spec.budget.given())
        models.attach(journal, goes_on=False)
        newest = max((bullet.created for bullet in book), default=0)
        scope = journal.scope(seed=0, epoch=0, step=newest, run=LABEL)
        with told_what_is_kept(folder, lambda: journal.stats().bought, models, say_aside):
            found = _refined(book, models, spec, options, scope)
        if found.delta.operations or found.folded:
            name = journal.add_version(
                to_json(found.playbook),
                digest(found.playbook),
                parent=digest(book),
                delta=delta_to_json(found.delta),
                data={"refined": True},
            )
            journal.label(LABEL, name, note="combee refine")
    if options["out"] is not None:
        save(found.playbook, options["out"])
    return found, models


def _refined(book: Playbook, models: Models, spec: Settings, options: dict[str, Any], scope: Scope) -> Refined:
    async def work() -> Refined:
        try:
            return await refine(
                book,
                models.by_role["curator"],
                prompts=Prompts.load(spec.agent.prompts),
                options=models.settings["curator"].options(None),
                threshold=options["similarity"],
                most=options["cluster"],
                budget=options["token_budget"],
                scope=scope,
                runner=LocalRunner(options["concurrency"]),
            )
        finally:
            await models.aclose()

    return run_sync(work())


def _print(found: Refined, models: Models, *, as_json: bool) -> None:
    rewritten = [cluster for cluster in found.clusters if cluster.result == "rewritten"]
    if as_json:
        data = {
            "bullets": len(found.playbook),
            "tokens_before": found.tokens_before,
            "tokens_after": found.tokens_after,
            "rewritten": len(rewritten),
            "failed": found.failed,
            "folded": found.folded,
            "clusters": [asdict(cluster) for cluster in found.clusters],
            "model": spent(models),
        }
        print_json(data)
        return
    click.echo(
        f"{len(rewritten)} of {counted(len(found.clusters), 'cluster')} rewritten, {len(found.playbook)} entries"
    )
    if found.folded:
        click.echo(f"{counted(found.folded, 'duplicate')} joined without a call")
    click.echo(f"tokens {found.tokens_before} → {found.tokens_after}")
    for line in spent_lines(models):
        click.echo(line)
    alike: dict[str, list[str]] = {}
    for cluster in found.clusters:
        alike.setdefault(cluster.result, []).append(", ".join(cluster.ids))
    for result, ids in alike.items():
        click.echo(f"  {result}\n    {'; '.join(ids)}")
