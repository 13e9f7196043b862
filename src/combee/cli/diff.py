"""`combee diff`: what one playbook has that the other has not."""

from __future__ import annotations

import json

import click

from combee.cli.rundir import open_book
from combee.cli.words import counted
from combee.playbook import diff

__all__ = ["command"]


@click.command(name="diff")
@click.argument("old")
@click.argument("new")
@click.option("--json", "as_json", is_flag=True, help="Print the difference as JSON.")
def command(old: str, new: str, as_json: bool) -> None:
    """Compare two playbooks; each is a run, RUN@VERSION, or a file."""
    before, before_name = open_book(old)
    after, after_name = open_book(new)
    found = diff(before, after)
    if as_json:
        data = {
            "added": {bullet.id: bullet.text for bullet in found.added},
            "removed": {bullet.id: bullet.text for bullet in found.removed},
            "changed": {change.after.id: [change.before.text, change.after.text] for change in found.changed},
        }
        click.echo(json.dumps(data, ensure_ascii=False))
        return
    click.echo(
        f"--- {before_name}: {counted(len(before), 'bullet')}\n+++ {after_name}: {counted(len(after), 'bullet')}"
    )
    for bullet in found.removed:
        click.echo(f"- [{bullet.id}] {bullet.text}")
    for change in found.changed:
        click.echo(f"~ [{change.after.id}] {change.before.text} → {change.after.text}")
    for bullet in found.added:
        click.echo(f"+ [{bullet.id}] {bullet.text}")
