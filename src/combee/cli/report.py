"""`combee report`: one HTML file about a run, finished or not."""

from __future__ import annotations

from pathlib import Path

import click

from combee.cli.rundir import find_run
from combee.report import write_report

__all__ = ["command"]


@click.command(name="report")
@click.argument("run", required=False)
@click.option("--out", type=click.Path(path_type=Path), help="File to write. [report.html in the run's folder]")
def command(run: str | None, out: Path | None) -> None:
    """Write the report of RUN (default: the latest), also while it goes on. It opens without any network."""
    click.echo(write_report(find_run(run), out))
