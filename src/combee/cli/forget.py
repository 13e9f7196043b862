"""`combee forget`: the playbook as if a trace had never been."""

from __future__ import annotations

import json
from pathlib import Path

import click

from combee.cli.versions import RESERVED
from combee.errors import UsageError
from combee.kernel.journal import Journal
from combee.kernel.learn.history import read_history
from combee.kernel.playbook import check_place, digest, save, to_json
from combee.run.folders import find_run
from combee.run.words import counted, typed
from combee.terminal.options import Place

__all__ = ["command"]


@click.command(name="forget")
@click.argument("run")
@click.option("--trace", "traces", multiple=True, required=True, help="A trace, task or reflection; may be repeated.")
@click.option("--version", default="last", show_default=True, help="The version to start from: a label or a digest.")
@click.option("--to", "label", default="forgot", show_default=True, help="The label to put on the new version.")
@click.option("--out", type=Place(), help="Also write the new playbook (.json, .md, .txt).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(run: str, *, traces: tuple[str, ...], version: str, label: str, out: Path | None, as_json: bool) -> None:
    """Replay RUN without the reflections on a trace; the result is a new version. The journal still holds the trace."""
    if label in RESERVED:
        raise UsageError(f"The label {label!r} is moved by the run itself.", hint="Choose another, or stable.")
    if out is not None:
        check_place(out)
    folder = find_run(run)
    with Journal.open(folder, create=False) as journal:
        old = journal.resolve(version)
        found = read_history(journal).forget(old, traces)
        new = digest(found.playbook)
        row = journal.version(old)
        data = {"forgot": list(found.sources), "of": old, "mixed": [bullet.id for bullet in found.mixed]}
        journal.add_version(to_json(found.playbook), new, parent=old, epoch=row.epoch, step=row.step, data=data)
        journal.label(label, new, note=f"forgot {', '.join(traces)}")
    if out is not None:
        save(found.playbook, out)
    if as_json:
        told: dict[str, object] = {
            "run": str(folder),
            "version": new,
            "label": label,
            "reflections": list(found.sources),
            "removed": [bullet.id for bullet in found.removed],
            "mixed": {bullet.id: bullet.text for bullet in found.mixed},
        }
        click.echo(json.dumps(told, ensure_ascii=False))
        return
    click.echo(f"{counted(len(found.sources), 'reflection')} taken out: {', '.join(found.sources)}")
    click.echo(
        f"gone {counted(len(found.removed), 'bullet')}, left {len(found.playbook)}: the label {label} is on {new[:12]}"
    )
    for bullet in found.removed:
        click.echo(f"- [{bullet.id}] {bullet.text}")
    for bullet in found.mixed:
        click.echo(f"! [{bullet.id}] rests on other reflections too, but its text may hold something: {bullet.text}")
    click.echo(
        f"next: {typed('diff', f'{folder}@{version}', f'{folder}@{label}')} · "
        f"{typed('promote', folder, label, '--to', 'stable')}"
    )
    click.echo("The journal still holds the trace itself: delete the run folder to be rid of it.", err=True)
