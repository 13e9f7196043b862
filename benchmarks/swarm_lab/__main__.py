"""`python -m benchmarks.swarm_lab`: tables and verdicts as text, JSON, or Markdown; each is kept as it comes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks.swarm_lab import Experiment, check_names, measure
from benchmarks.swarm_lab.pages import as_markdown, as_text, save_plots
from combee.errors import CombeeError
from combee.files import place_for, write_whole

__all__ = ["main"]


@click.command("swarm_lab")
@click.argument("names", nargs=-1)
@click.option("--quick", is_flag=True, help="Small sizes and one seed, the same code: 6 to 9 seconds of one core.")
@click.option("--out", type=click.Path(path_type=Path), help="Markdown file to write; plots go into plots/ beside it.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, one experiment a line.")
def command(names: tuple[str, ...], quick: bool, out: Path | None, as_json: bool) -> None:
    """Run the experiments NAMES (default: all) on what is said of swarms, and give each claim its verdict.

    All of them take two to three minutes of one core. Ctrl-C keeps those that are done.
    """
    chosen = check_names(names)
    if out is not None:  # said before minutes of work
        save_plots((), place_for(out).parent / "plots")
    done: list[Experiment] = []
    began = time.monotonic()
    try:
        for name in chosen:
            click.echo(f"[{len(done) + 1}/{len(chosen)}] {name} ({time.monotonic() - began:.0f} s so far)", err=True)
            done += measure([name], quick=quick)
            click.echo(json.dumps(asdict(done[-1]), ensure_ascii=False) if as_json else as_text(done[-1]))
            if out is not None:
                save_plots(done[-1:], out.parent / "plots")
                write_whole(out, as_markdown(done, "plots"))
    except KeyboardInterrupt:
        where = f" and kept in {out}" if out and done else ""
        click.echo(f"{len(done)} of {len(chosen)} experiments done{where}.", err=True)
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code."""
    try:
        command.main(args=arguments, prog_name="python -m benchmarks.swarm_lab", standalone_mode=False)
    except CombeeError as error:
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
