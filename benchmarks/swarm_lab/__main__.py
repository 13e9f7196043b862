"""`python -m benchmarks.swarm_lab`: tables and verdicts as text, JSON, or Markdown; each is kept as it comes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks.swarm_lab import EXPERIMENTS
from benchmarks.swarm_lab.pages import as_markdown, as_text, save_plots
from benchmarks.swarm_lab.result import Experiment, Setting
from combee.errors import CombeeError, UsageError, did_you_mean
from combee.files import place_for, write_whole

__all__ = ["main"]


@click.command("swarm_lab")
@click.argument("names", nargs=-1)
@click.option("--quick", is_flag=True, help="Small sizes and two seeds, the same code: some seconds of one core.")
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(1), default=10, show_default=True, help="How many; 2 where quick.")
@click.option("--out", type=click.Path(path_type=Path), help="Markdown file to write; plots go into plots/ beside it.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, one experiment a line.")
def command(names: tuple[str, ...], *, quick: bool, seed: int, seeds: int, out: Path | None, as_json: bool) -> None:
    """Run the experiments NAMES (default: all) on what is said of swarms, and give each claim its verdict.

    All of them take about a quarter of an hour of one core. Ctrl-C keeps those that are done.
    """
    for name in names:
        if name not in EXPERIMENTS:
            raise UsageError(f"there is no experiment {name!r}", hint=did_you_mean(name, EXPERIMENTS))
    chosen = names or tuple(EXPERIMENTS)
    setting = Setting(quick, seed, 2 if quick else seeds)
    typed = " ".join(["python -m benchmarks.swarm_lab", *names, f"--seed {seed} --seeds {setting.count}"])
    if out is not None:  # said before minutes of work
        save_plots((), place_for(out).parent / "plots")
    done: list[Experiment] = []
    began = time.monotonic()
    try:
        for name in chosen:
            click.echo(f"[{len(done) + 1}/{len(chosen)}] {name} ({time.monotonic() - began:.0f} s so far)", err=True)
            done.append(EXPERIMENTS[name](setting))
            click.echo(json.dumps(asdict(done[-1]), ensure_ascii=False) if as_json else as_text(done[-1]))
            if out is not None:
                save_plots(done[-1:], out.parent / "plots")
                write_whole(out, as_markdown(done, "plots", typed + (" --quick" if quick else "")))
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
