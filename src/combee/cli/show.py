"""`combee show`: a playbook as text or JSON."""

from __future__ import annotations

import click

from combee.kernel.playbook import to_json, to_text
from combee.run.folders import open_book

__all__ = ["command"]


@click.command(name="show")
@click.argument("what", required=False)
@click.option("--version", default="best", show_default=True, help="A label (best, last, stable) or a digest.")
@click.option("--json", "as_json", is_flag=True, help="The lossless JSON form.")
def command(what: str | None, version: str, as_json: bool) -> None:
    """Show the playbook of WHAT: a run (default: the latest), RUN@VERSION, or a playbook file."""
    book, _ = open_book(what, version)
    click.echo(to_json(book) if as_json else to_text(book).rstrip("\n"))
