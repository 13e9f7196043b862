"""`combee report`: one HTML file about a run, finished or not."""

from __future__ import annotations

import json
from pathlib import Path

import click

from combee.report import write_report
from combee.run.folders import find_run
from combee.terminal.options import Place

__all__ = ["command"]


@click.command(name="report")
@click.argument("run", required=False)
@click.option("--out", type=Place(), help="File to write. [report.html in the run's folder]")
@click.option("--json", "as_json", is_flag=True, help="Print the path as JSON.")
def command(run: str | None, out: Path | None, as_json: bool) -> None:
    """Write the report of RUN (default: the latest), also while it goes on. It opens without any network."""
    written = write_report(find_run(run), out)
    click.echo(json.dumps({"written": str(written)}, ensure_ascii=False) if as_json else written)
