"""`combee bench`: the paper's tables and figures by one command each, with any model; and what data they need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from combee.bench.cells import BenchRun, CellResult, Outlook, forecast_cells
from combee.bench.definition import SMALL_ROWS, Bench, Cell, bench_names, cells_of, read_bench, small
from combee.bench.results import expected_table, notes_of, plain_table, result_to_json, rows_of_bench, write_page
from combee.bench.scale import ScaleRun
from combee.errors import INTERRUPTED, RunError, UsageError
from combee.kernel.journal import JSON
from combee.mock.student import STUDENT, student_served
from combee.run.estimates import NO_CALLS
from combee.run.options import over_options, refuse_unknown_prices
from combee.run.settings import Settings, read_settings
from combee.run.words import counted, with_program
from combee.tasks import DATA_VARIABLE, load
from combee.tasks.published import look
from combee.terminal.display import make_display
from combee.terminal.options import (
    PathType,
    dry_run_option,
    endpoint_options,
    json_option,
    options_of,
    print_json,
    quiet_option,
    say_aside,
    setting,
)

__all__ = ["command"]

OUT = Path("bench-results")

_limits = options_of(
    setting("--max-cost", "budget.max_cost", "US dollars that all runs together may cost.", metavar="DOLLARS"),
    setting("--max-calls", "budget.max_calls", "Calls they may make.", metavar="N"),
    setting("--max-tokens", "budget.max_tokens", "Prompt and reply tokens they may take.", metavar="N"),
)


@click.command(name="bench")
@click.argument("what")
@endpoint_options
@setting("--max-in-flight", "model.max_in_flight", "Calls in flight at most. [found]", metavar="N")
@_limits
@click.option("--seeds", type=click.IntRange(1), help="Times each cell is learned. [as the bench says]")
@click.option("--small", "is_small", is_flag=True, help="A few rows of the built-in tasks, one seed: a rehearsal.")
@setting("--data-dir", "tasks.data_dir", "Folder with the data. [$COMBEE_DATA]", type=PathType())
@click.option("--out", type=PathType(), default=OUT, show_default=True, help="Folder of the runs and the page.")
@dry_run_option
@quiet_option
@json_option
def command(what: str, **options: Any) -> int:
    """Run the bench WHAT: a name, a .toml file, or `all`. `list` names them; `data` says what data they need.

    Without --model the embedded agent works, under simulated forgetting. Each cell is a run of its own below --out:
    what is done is not run again, also after a stop, and limits hold over all of them.
    """
    if what == "list":
        return _list(as_json=options["as_json"])
    if what == "data":
        return _data(options)
    return _bench([read_bench(name) for name in (bench_names() if what == "all" else [what])], what, options)


def _list(*, as_json: bool) -> int:
    benches = [read_bench(name) for name in bench_names()]
    if as_json:
        print_json([{"name": one.name, "title": one.table.title, "tasks": one.table.tasks} for one in benches])
        return 0
    width = max(len(one.name) for one in benches)
    for one in benches:
        runs = sum(len(arm.values) or 1 for arm in one.table.arms) * len(one.table.tasks) * one.table.seeds
        click.echo(f"{one.name:<{width}}  {one.table.title}: {', '.join(one.table.tasks)}; {counted(runs, 'run')}")
    click.echo(with_program("Next: `combee bench NAME --dry-run`, with --model for a real one; --small to rehearse."))
    return 0


def _data(options: dict[str, Any]) -> int:
    """Say what lies in the data folder, and what is to be put there."""
    root = options["tasks__data_dir"] or os.environ.get(DATA_VARIABLE)
    found = look(Path(root).expanduser()) if root else look(Path("no-such-folder"))
    if options["as_json"]:
        rows = [
            {"tasks": one.tasks, "split": one.split, "path": None if one.path is None else str(one.path)}
            | {"rows": one.rows, "as_published": one.as_published, "published": one.expected.name}
            for one in found
        ]
        print_json(rows)
        return 0
    click.echo(f"Data folder: {root or f'none (--data-dir, or {DATA_VARIABLE})'}")
    for one in found:
        name = f"  {one.tasks:<8} {one.split:<5}"
        if one.path is None:
            click.echo(f"{name} missing: {one.expected.name} ({one.expected.rows:,} rows)")
        elif one.as_published:
            click.echo(f"{name} {one.path.name}: {one.rows:,} rows, as published")
        else:
            other = f"NOT the published file ({one.expected.rows:,} rows): scores are not comparable with the paper's"
            click.echo(f"{name} {one.path.name}: {one.rows:,} rows, {other}")
    click.echo(
        "They are files of github.com/ace-agent/ace, folder finance/data (FiNER: CC BY-SA 4.0; Formula: MIT). Get that "
        f"repository and set {DATA_VARIABLE} to the folder: the files are read as they are."
    )
    return 0


def _bench(benches: Sequence[Bench], what: str, options: dict[str, Any]) -> int:
    base, limits = _base(options)
    if options["is_small"]:
        benches = [small(one) for one in benches]
    with ExitStack() as stack:
        rehearsed = None
        if any(one.needs_model for one in benches) and not base.calls_models:
            if options["is_small"]:
                train, test = SMALL_ROWS
                served = student_served(load("tags", sizes=(train, train // 4, test)), m0=benches[0].table.forget)
                url = stack.enter_context(served)
                rehearsed = Settings().over({"model": {"name": STUDENT, "base_url": url}})
            elif what != "all":
                raise UsageError(
                    f"The bench {what} needs a model.", hint="Give --model NAME; --small rehearses it with a student."
                )
            else:
                left = [one.name for one in benches if one.needs_model]
                say_aside(f"Left out without --model: {', '.join(left)}.")
                benches = [one for one in benches if not one.needs_model]
        return _run_benches(benches, what, options, (base, rehearsed or base, limits))


def _run_benches(
    benches: Sequence[Bench], what: str, options: dict[str, Any], bases: tuple[Settings, Settings, dict[str, float]]
) -> int:
    rows = SMALL_ROWS if options["is_small"] else None
    base, with_model, limits = bases
    quiet = options["quiet"] or options["as_json"]
    runs = [
        (ScaleRun if one.of_sizes else BenchRun)(
            options["out"],
            cells_of(one, with_model if one.needs_model else base, seeds=options["seeds"], rows=rows),
            limits,
            lambda: make_display(quiet=quiet or not base.calls_models),
        )
        for one in benches
    ]
    _load(runs, limits)
    if options["dry_run"]:
        return _forecast(benches, runs, options)
    page = options["out"] / f"{Path(what).stem}{'-small' if options['is_small'] else ''}.html"
    if not options["as_json"]:
        click.echo("\n".join(notes_of(benches[0], runs[0])) if len(runs) == 1 else f"{len(runs)} benches.")
    try:
        _run(runs, quiet=quiet)
    except (KeyboardInterrupt, RunError) as error:
        _say_results(benches, runs, page, options)
        told = f"{_so_far(runs)} are done and kept: the same command goes on."
        if isinstance(error, RunError):
            error.hint = f"{error.hint}\n  {told}" if error.hint else told
            raise
        say_aside(f"Stopped; {told}")
        raise click.exceptions.Exit(INTERRUPTED) from error
    _say_results(benches, runs, page, options)
    stopped = next((run.stopped for run in runs if run.stopped is not None), None)
    if stopped is not None:
        say_aside(f"{stopped} {_so_far(runs)} are done: the same command with a higher limit goes on.")
    if failed := [said for run in runs for said in run.failed.values()]:
        hint = f"{_so_far(runs)} are done: the same command asks again for what is missing, and for nothing else."
        raise RunError(f"{counted(len(failed), 'run')} could not be finished: {failed[0]}", hint=hint)
    return 0


def _base(options: dict[str, Any]) -> tuple[Settings, dict[str, float]]:
    """Return the model with its price and place, and the limits of all cells together."""
    given = {name: value for name, value in options.items() if not name.startswith("budget__")}
    base = over_options(read_settings(here=False), given)
    limited = over_options(base, {name: value for name, value in options.items() if name.startswith("budget__")})
    return base, limited.limits()


def _load(runs: Sequence[BenchRun], limits: dict[str, float]) -> None:
    """Load data and what is done already, and refuse limits that cannot be held, before anything is paid."""
    if limits and not any(cell.spec.calls_models for run in runs for cell in run.cells):
        raise UsageError("A limit does nothing here: no model is called.", hint="Leave it out, or give --model.")
    for run in runs:
        for cell in [cell for cell in run.cells if cell.spec.calls_models]:
            refuse_unknown_prices(cell.spec.over({"budget": limits}))
        try:
            run.load()
        except UsageError as error:
            more = "`combee bench data` says what is needed; --small needs none."
            error.hint = f"{error.hint} {more}" if error.hint else more
            raise


def _run(runs: Sequence[BenchRun], *, quiet: bool) -> None:
    whole = sum(len(run.cells) for run in runs)

    def say(cell: Cell, result: CellResult) -> None:
        if quiet:
            return
        at = "" if cell.at is None else f" at {cell.at}"
        score = sum(h for _, h, _ in result.rows) / max(1, sum(t for *_, t in result.rows))
        came_to = f"{score:.3f}" if result.rows else f"{result.measured['kept']:.4f} kept"
        done = sum(len(run.done) for run in runs)
        click.echo(
            f"[{done}/{whole}] {cell.tasks} · {cell.arm}{at} · seed {cell.seed}: {came_to}, "
            f"{result.entries:,} entries, {result.seconds:.1f} s",
            err=True,
        )

    for run in runs:
        run.beside = [other for other in runs if other is not run]
        run.load()  # an earlier bench may have run a cell that this one has too
        run.run(say)
        if run.stopped is not None:
            return


def _so_far(runs: Sequence[BenchRun]) -> str:
    return f"{sum(len(run.done) for run in runs)} of {counted(sum(len(run.cells) for run in runs), 'run')}"


def _forecast(benches: Sequence[Bench], runs: Sequence[BenchRun], options: dict[str, Any]) -> int:
    data: list[JSON] = []
    seen: set[Path] = set()
    whole: dict[tuple[str, str], Outlook] = {}
    for bench, run in zip(benches, runs, strict=True):
        # What two benches have in common, and equal settings under two names, are run once.
        cells = list({run.place[cell]: cell for cell in run.missing if run.place[cell] not in seen}.values())
        seen |= {run.place[cell] for cell in cells}
        found, said = forecast_cells(run, cells)
        whole |= {(bench.name, f"{tasks} {arm}"): one for (tasks, arm), one in found.items()}
        arms: list[JSON] = [{"tasks": tasks, "arm": arm, **asdict(one)} for (tasks, arm), one in found.items()]
        data.append({"bench": bench.name, "done": len(run.done), "missing": arms, "rests_on": list(said)})
        if options["as_json"]:
            continue
        done = f"; {len(run.done)} of {counted(len(run.cells), 'run')} done already" if run.done else ""
        click.echo(f"{bench.table.title} ({bench.name}): {counted(len(cells), 'run')} to come{done}.")
        if any(cell.spec.calls_models for cell in cells):
            click.echo("\n".join([expected_table(found), *said]))
        elif cells:
            click.echo("\n".join(NO_CALLS.lines))
    if options["as_json"]:
        print_json(data)
    elif len(runs) > 1 and any(one.calls for one in whole.values()):
        click.echo(f"All benches; what they have in common is run once.\n{expected_table(whole)}")
    return 0


def _say_results(benches: Sequence[Bench], runs: Sequence[BenchRun], page: Path, options: dict[str, Any]) -> None:
    write_page(page, list(zip(benches, runs, strict=True)))
    if options["as_json"]:
        print_json([result_to_json(bench, run) for bench, run in zip(benches, runs, strict=True)])
        return
    for bench, run in zip(benches, runs, strict=True):
        if rows := rows_of_bench(run):
            click.echo(f"\n{bench.table.title}\n{plain_table(bench, rows)}")
        if run.taken.calls:
            cost = "at an unknown price" if run.taken.cost is None else f"${run.taken.cost:.4f}"
            click.echo(f"Taken, scoring included: {run.taken.calls:,} calls, {run.taken.tokens:,} tokens, {cost}")
    click.echo(f"\npage  {page}")
