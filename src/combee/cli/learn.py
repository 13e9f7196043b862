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
from combee.kernel.playbook import load
from combee.run.folders import check_traces, find_run, new_run, refuse_device
from combee.run.mending import mended, refuse_another_model
from combee.run.methods import forecast, prepare
from combee.run.settings import read_settings
from combee.run.spec import kept_spec
from combee.run.tables import tables_of
from combee.terminal.options import (
    BatchSize,
    NumberType,
    PathType,
    budget_options,
    mend_options,
    model_options,
    patterns_of,
    print_forecast,
    say_aside,
    task_options,
)

__all__ = ["learn_command", "resume_command"]

LEARN = (
    "batch",
    "epochs",
    "aggregate",
    "max_items",
    "pipeline",
    "quorum",
    "token_budget",
    "on_full",
    "eval_every",
    "concurrency",
    "guard",
    "guard_validate",
    "seed",
)


MODEL_ONLY = (
    "prompts", "reflection_rounds", "max_cost", "max_calls", "max_tokens", "base_url", "api_key_env", "max_in_flight",
)  # fmt: skip


def _no_idle_options(options: Mapping[str, Any], kind: str) -> None:
    """An option that would do nothing is a mistake, not a wish."""
    idle = [name for name in MODEL_ONLY if options.get(name) is not None] if kind == "lexical" else []
    if idle:
        raise UsageError(f"--{idle[0].replace('_', '-')} does nothing without a model.", hint="Add --agent ace.")


def _start(path: Path | None) -> str | None:
    """Return where the book to begin with lies. What is wrong with it is said here, of the name that was typed."""
    if path is None:
        return None
    refuse_device(path)
    if path.is_dir():
        raise DataError("is a folder", path=path, hint=f"Name a file, such as {path / 'playbook.json'}.")
    load(path)
    return str(real_path(path))


def _traces(tasks: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table [tasks] for recorded traces; options that say how tasks are read have no meaning then."""
    if tasks["source"] is not None:
        what = f"Both --from and {tasks['source']!r} are given."
        raise UsageError(what, hint="Learn from traces or from tasks, not from both.")
    idle = [name for name, value in tasks.items() if value is not None]
    if idle:
        raise UsageError(f"--{idle[0].replace('_', '-')} does nothing with --from: traces hold no tasks.")
    if options["no_redact"] and options["redact"]:
        raise UsageError("--no-redact and --redact exclude each other.", hint="Leave one of them out.")
    check_traces(options["from_path"])
    return {
        "traces": str(real_path(options["from_path"])),
        "format": options["trace_format"],
        "users": options["users"],
        "redact": not options["no_redact"],
        "patterns": patterns_of(options["redact"]),
    }


@click.command(name="learn")
@click.argument("source", required=False)
@click.option("--from", "from_path", type=PathType(), help="Recorded traces to learn from instead.")
@click.option("--format", "trace_format", help="Their format. [found by content]")
@click.option(
    "--users",
    type=click.Choice(["auto", "developers", "customers", "graders"]),
    default="auto",
    help="Who speaks as the user in them: a developer's corrections are learned. [judged by the run]",
)
@click.option("--redact", multiple=True, metavar="KIND=REGEX", help="A secret of your own; may be given often.")
@click.option("--no-redact", is_flag=True, help="Keep what traces hold as it is, secrets too.")
@task_options
@click.option(
    "--agent", type=click.Choice(["lexical", "ace"]), help="Who works on the tasks. [lexical; ace with --model]"
)
@click.option("--method", metavar="NAME", help="How the playbook is learned: ace, gepa, or of a package. [ace]")
@click.option("--metric-calls", type=click.IntRange(1), help="Rollouts that gepa may count (with --method gepa).")
@model_options
@click.option("--reflection-rounds", type=click.IntRange(1), help="Times a model reflects on one run. [1]")
@budget_options
@click.option("--dry-run", is_flag=True, help="Say what the run would take, and call nothing.")
@click.option("--batch", type=BatchSize(), help="Samples a step, or 'auto'. [40]")
@click.option("--epochs", type=click.IntRange(1), help="How often all samples are seen. [1]")
@click.option("--aggregate", type=click.Choice(sorted(BASELINES)), help="How reflections become one update. [combee]")
@click.option("--max-items", type=click.IntRange(1), help="Reflections that one aggregating call may take. [16]")
@click.option("--pipeline/--no-pipeline", default=None, help="Aggregate while samples are worked on. [pipeline]")
@click.option(
    "--quorum", type=NumberType(0, 1, min_open=True), help="Share of samples to wait for; the rest joins later. [1.0]"
)
@click.option("--guard-validate/--no-guard-validate", default=None, help="Score each version before it counts. [no]")
@click.option("--token-budget", type=click.IntRange(1), help="Tokens the playbook may have. [80000]")
@click.option("--on-full", type=click.Choice(["refuse", "evict"]), help="A new lesson in a full playbook. [refuse]")
@click.option("--eval-every", type=click.IntRange(1), help="Samples between two validations. [100]")
@click.option("--concurrency", type=click.IntRange(1), help="Samples worked on at once. [64]")
@click.option("--guard/--no-guard", default=None, help="Check each update before it counts. [guard]")
@click.option("--seed", type=int, help="Decides the rows drawn or cut, groups of reflections, and every shuffle. [0]")
@click.option("--forget", type=NumberType(0, min_open=True), help="Simulate forgetting with this m0 (lexical agent).")
@click.option("--start", type=PathType(), help="A playbook to go on from (.json, .md, .txt).")
@click.option("--name", help="Name of the run below runs/.")
@click.option("--out", type=PathType(), help="Folder of the run, instead of runs/NAME.")
@click.option("--config", "config_path", type=PathType(), help="Settings file. [combee.toml if there]")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Any setting, like learn.near=0.8.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def learn_command(source: str | None, config_path: Path | None, **options: Any) -> None:
    """Learn a playbook from SOURCE: tags, finer, formula, a .jsonl or .csv file, or a folder with train/val/test.

    Everything else is a setting: in combee.toml, or --set KEY=VALUE. `combee config show` lists all with their values.
    """
    file = read_settings(config_path)
    tasks = {name: options[name] for name in ("question", "answer", "id", "scorer", "train", "val", "test", "data_dir")}
    tasks["source"] = source
    if options["from_path"] is not None:
        file, tasks = file.instead(tasks={}), _traces(tasks, options)
    else:
        tasks["seed"] = options["seed"]  # as a user means it: another seed is other rows too
    tables = tables_of(options, file)
    agent = {"forget": options["forget"], "reflection_rounds": options["reflection_rounds"]}
    agent |= {"method": options["method"], "metric_calls": options["metric_calls"]}
    agent["kind"] = options["agent"] or tables["agent"].pop("kind")
    _no_idle_options(options, agent["kind"] or file.agent.kind)
    tables |= {"tasks": tasks, "agent": tables["agent"] | agent, "learn": {name: options[name] for name in LEARN}}
    spec = file.over({**tables, "start": _start(options["start"])}, "an option").with_set(options["sets"])
    quiet, as_json = options["quiet"], options["as_json"]
    if options["dry_run"]:
        print_forecast(forecast(spec), as_json=as_json)
        return
    folder = new_run(options["name"], options["out"], f"{spec.stem}-{spec.learn_config().aggregate}")
    prepared = prepare(spec, folder, (lambda sentence: None) if quiet or as_json else say_aside)
    print_finished(finish(prepared, folder, quiet=quiet, as_json=as_json), as_json=as_json)


# What serves nearly everyone. The other options stay; `--help` leaves them to the settings of the same names.
_SHOWN = {
    "from_path", "question", "answer", "scorer", "val", "model_name", "base_url", "api_key_env", "price", "max_cost",
    "max_calls", "dry_run", "batch", "epochs", "method", "start", "out", "config_path", "sets", "quiet", "as_json",
}  # fmt: skip
for _option in learn_command.params:
    if isinstance(_option, click.Option):
        _option.hidden = _option.name not in _SHOWN


@click.command(name="resume")
@click.argument("run", required=False)
@click.option("--model", "model_name", metavar="NAME", help="Another model, for a run that keeps no results yet.")
@mend_options
@budget_options
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def resume_command(run: str | None, quiet: bool, as_json: bool, **options: Any) -> None:
    """Go on with RUN (default: the latest). Settings come from the run itself; stored results are not bought again.

    What was wrong can be put right: endpoint, key, pace, price. The run keeps the new setting. Limits count what the
    whole run takes, not what is left; without a new one the old one holds.
    """
    folder = find_run(run)
    with Journal.open(folder, create=False, read_only=True) as journal:
        old = kept_spec(journal, folder)
        results = sum(1 for _ in journal.results())
    spec = mended(old, options)
    refuse_another_model(old, spec, results)
    prepared = prepare(spec, folder)
    print_finished(finish(prepared, folder, quiet=quiet, as_json=as_json), as_json=as_json)
