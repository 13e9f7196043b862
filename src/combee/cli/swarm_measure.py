"""`combee swarm measure`: tables and verdicts as text, JSON, or Markdown with plots beside it; kept as they come."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from combee.files import place_for, write_whole
from combee.run.words import counted
from combee.swarm.measure import Curve, Experiment, Table, check_names, measure
from combee.terminal.options import Place

__all__ = ["apart", "as_markdown", "as_text", "measure_command", "save_plots"]

_NEAR = 0.08  # of the width and height of a plot


@click.command("measure", short_help="Test what is said of swarms; each claim gets its verdict.")
@click.argument("names", nargs=-1)
@click.option("--quick", is_flag=True, help="Small sizes and one seed, the same code: 6 to 9 seconds of one core.")
@click.option("--out", type=Place(), help="Markdown file to write; plots go into plots/ beside it.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, one experiment a line.")
def measure_command(names: tuple[str, ...], quick: bool, out: Path | None, as_json: bool) -> None:
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
        click.echo(f"{len(done)} of {counted(len(chosen), 'experiment')} done{where}.", err=True)
        raise


def as_text(experiment: Experiment) -> str:
    """Return an experiment for a terminal."""
    lines = [f"\n== {experiment.name}: {experiment.setting}"]
    for table in experiment.tables:
        cells = (table.columns, *table.rows)
        wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines.append(f"-- {table.title}")
        lines += ["  ".join(map(str.ljust, row, wide)).rstrip() for row in cells]
    for claim in experiment.claims:
        lines += [f"{claim.verdict.upper()}: {claim.text}", f"    {claim.condition}"]
    return "\n".join(lines)


def _markdown(table: Table) -> str:
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    return "\n".join([row(table.columns), row(["---"] * len(table.columns)), *map(row, table.rows)])


def as_markdown(experiments: Sequence[Experiment], plots: str) -> str:
    """Return all experiments as Markdown; `plots` is the way from the page to the drawings."""
    claims = [claim for one in experiments for claim in one.claims]
    rows = tuple((claim.text, f"**{claim.verdict}**", claim.condition) for claim in claims)
    parts = ["# Claims about swarms, measured", _markdown(Table("", ("claim", "verdict", "numbers"), rows))]
    for one in experiments:
        parts.append(f"## {one.name.capitalize()}\n\n{one.setting}")
        for table in one.tables:
            parts += [f"{table.title}:"] if len(one.tables) > 1 else []
            parts.append(_markdown(table))
        parts += [f"![{curve.title}]({plots}/swarm-{curve.name}.svg)" for curve in one.curves]
    return "\n\n".join(parts) + "\n"


def save_plots(experiments: Sequence[Experiment], folder: Path) -> list[Path]:
    """Draw every curve into a folder."""
    from combee.report.svg import Series, line_plot

    folder.mkdir(parents=True, exist_ok=True)
    return [
        line_plot(
            [
                Series(name, points, dashed=name == curve.guide, dots=name != curve.guide)
                for name, points in apart(curve).items()
            ],
            title=curve.title, x=curve.x, y=curve.y, log_x=curve.log_x, log_y=curve.log_y, zero=not curve.log_y,
        ).save(folder / f"swarm-{curve.name}.svg")
        for one in experiments
        for curve in one.curves
    ]  # fmt: skip


def apart(curve: Curve) -> dict[str, list[tuple[float, float]]]:
    """Return the lines without points that stand so near to the one before that their marks would meet; ends stay."""

    def shown(point: tuple[float, float]) -> bool:
        return (point[0] > 0 or not curve.log_x) and (point[1] > 0 or not curve.log_y)

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        return math.log(x) if curve.log_x else x, math.log(y) if curve.log_y else y

    lines = {name: list(filter(shown, points)) for name, points in curve.series.items()}
    axes = list(zip(*(place(point) for points in lines.values() for point in points), strict=True))
    spans = [max(values) - min(values) or 1.0 for values in axes]

    def near(one: tuple[float, float], other: tuple[float, float]) -> bool:
        steps = (abs(a - b) / span for a, b, span in zip(place(one), place(other), spans, strict=True))
        return math.hypot(*steps) < _NEAR

    kept: dict[str, list[tuple[float, float]]] = {}
    for name, points in lines.items():
        line = points[:1]
        for point in points[1:-1]:
            if not near(point, line[-1]):
                line.append(point)
        if len(line) > 1 and near(points[-1], line[-1]):
            line.pop()  # the end stays, and not the one before it
        kept[name] = line + points[1:][-1:]
    return kept
