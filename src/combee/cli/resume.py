"""`combee resume`: a replay of the journal up to where the run stopped, and then on."""

from __future__ import annotations

import click

from combee.cli.execute import SPEC_KEY, execute, print_finished
from combee.cli.rundir import find_run
from combee.cli.spec import RunSpec, prepare
from combee.errors import StorageError
from combee.journal import Journal

__all__ = ["command"]


@click.command(name="resume")
@click.argument("run", required=False)
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(run: str | None, quiet: bool, as_json: bool) -> None:
    """Go on with RUN (default: the latest). Settings come from the run itself; what was paid is not bought again."""
    folder = find_run(run)
    with Journal.open(folder, create=False, read_only=True) as journal:
        kept = journal.meta(SPEC_KEY)
    if kept is None:
        raise StorageError(f"{folder} holds no settings: it was stopped before it began.", hint="Start a new run.")
    prepared = prepare(RunSpec.from_json(kept))
    print_finished(execute(prepared, folder, quiet=quiet or as_json), as_json=as_json)
