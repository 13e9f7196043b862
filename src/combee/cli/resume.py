"""`combee resume`: a replay of the journal up to where the run stopped, and then on."""

from __future__ import annotations

from typing import Any

import click

from combee.cli.finish import finish, print_finished
from combee.kernel.journal import Journal
from combee.run.folders import find_run
from combee.run.mending import mended, refuse_another_model
from combee.run.methods import prepare
from combee.run.spec import kept_spec
from combee.terminal.options import budget_options, mend_options

__all__ = ["command"]


@click.command(name="resume")
@click.argument("run", required=False)
@click.option("--model", "model_name", metavar="NAME", help="Another model, for a run that keeps no results yet.")
@mend_options
@budget_options
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(run: str | None, quiet: bool, as_json: bool, **options: Any) -> None:
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
