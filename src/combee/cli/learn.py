"""`combee learn`: from tasks or recorded traces to a playbook. `combee resume`: on from where a run stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from combee.cli.finish import finish, print_finished
from combee.errors import DataError, UsageError
from combee.files import real_path
from combee.kernel.aggregate import BASELINES
from combee.kernel.journal import Journal
from combee.kernel.learn import forget_snapshot
from combee.kernel.playbook import load
from combee.run.folders import check_traces, find_run, new_run, refuse_device
from combee.run.methods import forecast, methods, prepare
from combee.run.options import mended, over_options, refuse_another_model
from combee.run.settings import read_settings
from combee.run.spec import kept_spec
from combee.terminal.options import (
    PathType,
    budget_options,
    config_option,
    dry_run_option,
    endpoint_options,
    json_option,
    mend_options,
    options_of,
    patterns_of,
    print_forecast,
    quiet_option,
    say_aside,
    set_option,
    setting,
)


def _start(path: Path | None) -> str | None:
    """Return where the book to begin with lies. What is wrong with it is said here, of the name that was typed."""
    if path is None:
        return None
    refuse_device(path)
    if path.is_dir():
        raise DataError("is a folder", path=path, hint=f"Name a file, such as {path / 'playbook.json'}.")
    load(path)
    return str(real_path(path))


def _patterns(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    return patterns_of(texts)


def _traces(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a place that cannot hold traces, by the name that was typed."""
    if path is not None:
        check_traces(path)
    return path


_shown = options_of(
    setting("--from", "tasks.traces", "Recorded traces to learn from, not SOURCE.", type=PathType(), callback=_traces),
    setting("--question", "tasks.question", "Column with the question. [found]", metavar="COLUMN"),
    setting("--answer", "tasks.answer", "Column with the right answer. [found]", metavar="COLUMN"),
    setting("--scorer", "tasks.scorer", "exact, numeric:0.01, tags, regex, or package.module:function. [found]"),
    endpoint_options,
    setting("--max-cost", "budget.max_cost", "US dollars the run may cost.", metavar="DOLLARS"),
    setting(
        "--method",
        "agent.method",
        "How it learns: ace, gepa, or a package's. [ace]",
        metavar="NAME",
        shell_complete=lambda context, option, begun: [name for name in methods() if name.startswith(begun)],
    ),
    setting(
        "--aggregate",
        "learn.aggregate",
        "How reflections become one update. [combee]",
        type=click.Choice(sorted(BASELINES)),
    ),
    setting("--batch", "learn.batch", "Samples a step, or auto. [40]", metavar="N"),
    setting("--epochs", "learn.epochs", "How often all samples are seen. [1]", metavar="N"),
    click.option("--start", type=PathType(), help="A playbook to go on from (.json, .md, .txt)."),
    click.option("--name", help="Name of the run below runs/."),
    click.option("--out", type=PathType(), help="Folder of the run, in place of runs/NAME."),
    config_option,
    set_option,
    dry_run_option,
    quiet_option,
    json_option,
)

# Short forms of settings that few need: not in the help, and named with their --set when they are used.
_SHORT = (
    *(setting(f"--{name}", f"tasks.{name}") for name in ("id", "encoding", "train", "val", "test", "format")),
    setting("--data-dir", "tasks.data_dir", type=PathType()),
    setting("--users", "tasks.users", type=click.Choice(["auto", "developers", "customers", "graders"])),
    setting("--no-redact", "tasks.redact", is_flag=True, flag_value=False),
    setting("--agent", "agent.kind"),
    setting("--prompts", "agent.prompts", type=PathType()),
    setting("--forget", "agent.forget"),
    setting("--metric-calls", "agent.metric_calls"),
    setting("--reflection-rounds", "agent.reflection_rounds"),
    setting("--max-in-flight", "model.max_in_flight"),
    setting("--workers", "workers.kind"),
    setting("--workers-at", "workers.address"),
    *(setting(f"--max-{name}", f"budget.max_{name}") for name in ("calls", "tokens", "minutes")),
    *(setting(f"--{name}/--no-{name}", f"learn.{name}") for name in ("pipeline", "guard")),
    setting("--guard-validate/--no-guard-validate", "learn.guard_validate"),
    *(
        setting(f"--{name.replace('_', '-')}", f"learn.{name}")
        for name in ("max_items", "quorum", "token_budget", "on_full", "eval_every", "concurrency", "seed")
    ),
)


@click.command(name="learn")
@click.argument("source", required=False)
@_shown
@options_of(*_SHORT)
@click.option("--redact", "patterns", multiple=True, hidden=True, callback=_patterns)
def learn_command(source: str | None, config_path: Path | None, **options: Any) -> None:
    """Learn a playbook from SOURCE: tags, finer, formula, a .jsonl or .csv file, or a folder with train/val/test.

    Everything else is a setting: in combee.toml, or --set KEY=VALUE. `combee config show` lists all with their values.
    """
    if source is not None and options["tasks__traces"] is not None:
        what = f"Both --from and {source!r} are given."
        raise UsageError(what, hint="Learn from traces or from tasks, not from both.")
    if options["learn__seed"] is not None and options["tasks__traces"] is None:
        options["tasks__seed"] = options["learn__seed"]  # as a user means it: another seed is other rows too
    spec = over_options(read_settings(config_path), {"tasks__source": source, **options})
    spec = spec.over({"start": _start(options["start"])})
    quiet, as_json = options["quiet"], options["as_json"]
    say = (lambda sentence: None) if quiet or as_json else say_aside
    for hint in _short_forms(options):
        say(hint)
    if options["dry_run"]:
        print_forecast(forecast(spec, say), as_json=as_json)
        return
    folder = new_run(options["name"], options["out"], f"{spec.stem}-{spec.learn_config().aggregate}")
    prepared = prepare(spec, folder, say)
    print_finished(finish(prepared, folder, quiet=quiet, as_json=as_json), as_json=as_json)


def _short_forms(options: Mapping[str, Any]) -> list[str]:
    """Return what to say of options that the help does not show."""
    known = click.get_current_context().command.params
    hidden = {one.name: one.opts[0] for one in known if isinstance(one, click.Option) and one.hidden}
    given = [name for name in hidden if "__" in str(name) and options.get(str(name)) is not None]
    notes = [f"note: {hidden[name]} is short for --set {str(name).replace('__', '.')}=..." for name in given]
    return [f"{note} --set tasks.seed=..." if note.startswith("note: --seed ") else note for note in notes]


@click.command(name="resume")
@click.argument("run", required=False)
@setting("--model", "model.name", "Another model, for a run that keeps no results yet.", metavar="NAME")
@mend_options
@setting("--workers", "workers.kind", "Where samples are worked on: local, processes, or ray.", metavar="KIND")
@setting("--workers-at", "workers.address", "HOST:PORT of a Ray cluster.", metavar="ADDRESS")
@click.option("--replay", is_flag=True, help="Replay the run from its first step, not from its last snapshot.")
@budget_options
@quiet_option
@json_option
def resume_command(run: str | None, replay: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Go on with RUN (default: the latest). Settings come from the run itself; stored results are not bought again.

    What was wrong can be put right: endpoint, key, pace, price. The run keeps the new setting. Limits count what the
    whole run takes, not what is left; without a new one the old one holds.
    """
    folder = find_run(run)
    with Journal.open(folder, create=False, read_only=True) as journal:
        old = kept_spec(journal, folder)
        results = journal.count_results()
    spec = mended(old, options)
    refuse_another_model(old, spec, results)
    prepared = prepare(spec, folder)
    if replay:
        with Journal.open(folder, create=False) as journal:
            forget_snapshot(journal)
    print_finished(finish(prepared, folder, quiet=quiet, as_json=as_json), as_json=as_json)
