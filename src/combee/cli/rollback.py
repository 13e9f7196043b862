"""`combee rollback`: put a label back to where it was before its last move."""

from __future__ import annotations

import json

import click

from combee.cli.versions import RESERVED
from combee.errors import UsageError, did_you_mean
from combee.kernel.journal import Journal
from combee.run.folders import find_run

__all__ = ["command"]


@click.command(name="rollback")
@click.argument("run")
@click.argument("label", default="stable")
@click.option("--note", default="", help="Why; kept in the history of the label.")
@click.option("--json", "as_json", is_flag=True, help="Print the move as JSON.")
def command(run: str, label: str, note: str, as_json: bool) -> None:
    """Put LABEL (default: stable) of RUN back on the version it was on before."""
    if label in RESERVED:
        raise UsageError(f"The label {label!r} is moved by the run itself.", hint="Roll back stable or canary.")
    folder = find_run(run)
    with Journal.open(folder, create=False) as journal:
        labels = journal.labels()
        if label not in labels:
            hint = did_you_mean(label, labels) if labels else "No version has a label yet."
            raise UsageError(f"{folder} has no label {label!r}.", hint=hint)
        before, digest = labels[label], journal.rollback(label, note=note)
    if as_json:
        click.echo(json.dumps({"run": str(folder), "label": label, "version": digest, "before": before}))
    else:
        click.echo(f"{label}: {before[:12]} → {digest[:12]}")
