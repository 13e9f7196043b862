"""`combee versions`: every version of a run's playbook, how it came about, and which labels are on it."""

from __future__ import annotations

import json
import time
from typing import cast

import click

from combee.errors import UsageError
from combee.kernel.journal import JSON, Journal
from combee.run.folders import find_run
from combee.run.words import counted, typed

__all__ = ["RESERVED", "command"]

RESERVED = frozenset({"best", "last"})
"""Labels that the loop moves; a person moves the others."""


@click.command(name="versions")
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def command(run: str | None, as_json: bool) -> None:
    """List the versions of RUN (default: the latest), oldest first."""
    folder = find_run(run)
    with Journal.open(folder, create=False, read_only=True) as journal:
        rows = _rows(journal)
    if not rows:
        raise UsageError(f"{folder} has no version yet.", hint=f"Go on with `{typed('resume', folder)}`.")
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        labels = ", ".join(cast("list[str]", row["labels"]))
        size = "" if row["bullets"] is None else counted(cast("int", row["bullets"]), "bullet")
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(cast("float", row["time"])))
        where = "start" if row["parent"] is None else f"epoch {row['epoch']}, step {row['step']}"
        click.echo(
            f"{str(row['version'])[:12]}  {when}  {where:<18} {size:>12}  {row['verdict'] or '':<14} {labels}".rstrip()
        )


def _rows(journal: Journal) -> list[dict[str, JSON]]:
    labels: dict[str, list[str]] = {}
    for label, digest in journal.labels().items():
        labels.setdefault(digest, []).append(label)
    steps = [cast("dict[str, JSON]", event.data) for event in journal.events("StepFinished")]
    bullets = {str(step["version"]): step["bullets"] for step in steps}
    shown: list[dict[str, JSON]] = []
    for row in journal.versions():
        data = row.data if isinstance(row.data, dict) else {}
        shown.append(
            {
                "version": row.digest,
                "parent": row.parent,
                "epoch": row.epoch,
                "step": row.step,
                "bullets": bullets.get(row.digest),
                "verdict": "forgot traces" if "forgot" in data else data.get("verdict"),
                "labels": cast("JSON", labels.get(row.digest, [])),
                "time": row.time,
            }
        )
    return shown
