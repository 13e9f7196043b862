"""`combee learn`: from a task set or a file of your own to a playbook."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from combee.cli.calibrate import with_calibration
from combee.cli.dryrun import print_estimate
from combee.cli.finish import finish, print_finished
from combee.cli.gepa_run import METHOD, print_worst_case
from combee.errors import DataError, UsageError
from combee.files import real_path
from combee.kernel.aggregate import BASELINES
from combee.kernel.playbook import load
from combee.run.config import read_config
from combee.run.estimates import check_budget
from combee.run.folders import new_run, refuse_device
from combee.run.methods import prepare
from combee.run.spec import RunSpec
from combee.run.tables import refuse_unknown_prices, tables_of
from combee.run.words import with_program
from combee.terminal.options import BatchSize, Number, Place, budget_options, model_options, task_options

__all__ = ["command"]

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


UNASKED = "nothing was named to learn from: these are the built-in practice tasks (your own: `combee learn FILE`)"
MODEL_ONLY = (
    "prompts", "reflection_rounds", "max_cost", "max_calls", "max_tokens", "base_url", "api_key_env", "max_in_flight",
)  # fmt: skip


def _no_idle_options(options: Mapping[str, Any], kind: str) -> None:
    """An option that would do nothing is a mistake, not a wish."""
    idle = [name for name in MODEL_ONLY if options.get(name) is not None] if kind == "lexical" else []
    if idle:
        raise UsageError(f"--{idle[0].replace('_', '-')} does nothing without a model.", hint="Add --agent ace.")
    if options["metric_calls"] is not None and options["method"] != METHOD:
        raise UsageError("--metric-calls does nothing without gepa.", hint="Add --method gepa.")


def _start(path: Path | None) -> str | None:
    """Return where the book to begin with lies. What is wrong with it is said here, of the name that was typed."""
    if path is None:
        return None
    refuse_device(path)
    if path.is_dir():
        raise DataError("is a folder", path=path, hint=f"Name a file, such as {path / 'playbook.json'}.")
    load(path)
    return str(real_path(path))


@click.command(name="learn")
@click.argument("source", required=False)
@click.option("--from", "from_path", type=Place(), help="Recorded traces to learn from instead.")
@click.option("--format", "trace_format", help="Their format. [found by content]")
@click.option("--redact", multiple=True, metavar="KIND=REGEX", help="A secret of your own; may be given often.")
@click.option("--no-redact", is_flag=True, help="Keep what traces hold as it is, secrets too.")
@task_options
@click.option(
    "--agent", type=click.Choice(["lexical", "ace"]), help="Who works on the tasks. [lexical; ace with --model]"
)
@click.option("--method", type=click.Choice(["ace", "gepa"]), help="How the playbook is learned. [ace]")
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
    "--quorum", type=Number(0, 1, min_open=True), help="Share of samples to wait for; the rest joins later. [1.0]"
)
@click.option("--guard-validate/--no-guard-validate", default=None, help="Score each version before it counts. [no]")
@click.option("--token-budget", type=click.IntRange(1), help="Tokens the playbook may have. [80000]")
@click.option("--on-full", type=click.Choice(["refuse", "evict"]), help="A new lesson in a full playbook. [refuse]")
@click.option("--eval-every", type=click.IntRange(1), help="Samples between two validations. [100]")
@click.option("--concurrency", type=click.IntRange(1), help="Samples worked on at once. [64]")
@click.option("--guard/--no-guard", default=None, help="Check each update before it counts. [guard]")
@click.option("--seed", type=int, help="Decides every shuffle. [0]")
@click.option("--forget", type=Number(0, min_open=True), help="Simulate forgetting with this m0 (lexical agent).")
@click.option("--start", type=Place(), help="A playbook to go on from (.json, .md, .txt).")
@click.option("--name", help="Name of the run below runs/.")
@click.option("--out", type=Place(), help="Folder of the run, instead of runs/NAME.")
@click.option("--config", "config_path", type=Place(), help="Settings file. [combee.toml if there]")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(source: str | None, config_path: Path | None, **options: Any) -> None:
    """Learn a playbook from SOURCE: tags, finer, formula, a .jsonl or .csv file, or a folder with train/val/test."""
    tasks = {name: options[name] for name in ("question", "answer", "id", "scorer", "train", "val", "test", "data_dir")}
    config = read_config(config_path)
    tables = tables_of(options, config.model)
    agent = {"forget": options["forget"], "reflection_rounds": options["reflection_rounds"]}
    agent |= {"method": options["method"], "metric_calls": options["metric_calls"]}
    agent["kind"] = options["agent"] or tables["agent"].pop("kind")
    _no_idle_options(options, agent["kind"] or config.agent.get("kind", "lexical"))
    spec = RunSpec.of(
        config,
        tasks=tasks | {"source": source},
        agent=tables["agent"] | agent,
        model=tables["model"],
        budget=tables["budget"],
        prices=tables["prices"],
        learn={name: options[name] for name in LEARN},
        start=_start(options["start"]),
    )
    if spec.agent.get("kind") == "ace":
        refuse_unknown_prices(spec.model, spec.budget, spec.prices)
    spec, calibrated = with_calibration(spec)
    if options["from_path"] is not None:
        from combee.cli.from_traces import learn_from_traces, with_traces

        learn_from_traces(with_traces(spec, source, options), options)
        return
    if options["dry_run"]:
        check_budget(spec)
        tell = print_worst_case if spec.agent.get("method") == METHOD else print_estimate
        tell(spec, as_json=options["as_json"])
        return
    check_budget(spec)
    prepared = prepare(spec, Path())
    folder = new_run(options["name"], options["out"], f"{prepared.tasks.name}-{prepared.config.aggregate}")
    quiet, as_json = options["quiet"], options["as_json"]
    if not quiet and not as_json:
        unasked = () if spec.tasks.get("source") else (UNASKED,)
        for note in (*unasked, prepared.tasks.about, *prepared.tasks.notes, *calibrated):
            click.echo(with_program(f"note: {note}"), err=True)
    print_finished(finish(prepared, folder, quiet=quiet, as_json=as_json), as_json=as_json)
