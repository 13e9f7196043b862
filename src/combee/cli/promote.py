"""`combee promote`: put a label on a version."""

from __future__ import annotations

import json

import click

from combee.cli.versions import RESERVED
from combee.errors import UsageError
from combee.kernel.journal import Journal
from combee.run.folders import find_run

__all__ = ["command"]


@click.command(name="promote")
@click.argument("run")
@click.argument("version")
@click.option("--to", "label", default="stable", show_default=True, help="stable, canary, or a label of your own.")
@click.option("--note", default="", help="Why; kept in the history of the label.")
@click.option("--json", "as_json", is_flag=True, help="Print the move as JSON.")
def command(run: str, version: str, label: str, note: str, as_json: bool) -> None:
    """Put a label of RUN on VERSION (another label, or the first digits of a digest). `combee rollback` undoes it."""
    if label in RESERVED:
        raise UsageError(f"The label {label!r} is moved by the run itself.", hint="Choose stable or canary.")
    folder = find_run(run)
    with Journal.open(folder, create=False) as journal:
        digest = journal.resolve(version)
        before = journal.labels().get(label)
        journal.label(label, digest, note=note)
    if as_json:
        click.echo(json.dumps({"run": str(folder), "label": label, "version": digest, "before": before}))
    elif before == digest:
        click.echo(f"{label} is on {digest[:12]} already.")
    else:
        click.echo(f"{label}: {before[:12] if before else 'nowhere'} → {digest[:12]}")
