"""Experiments as text for a terminal, and as Markdown with plots beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.swarm_lab.result import Curve, Experiment, Table
from combee.report.svg import Series, line_plot

__all__ = ["apart", "as_markdown", "as_text", "save_plots"]

_NEAR = 0.08  # of the width and height of a plot


def as_text(experiment: Experiment) -> str:
    """Return an experiment for a terminal."""
    lines = [f"\n== {experiment.name}: {experiment.setting}"]
    for table in experiment.tables:
        cells = (table.columns, *table.rows)
        wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines.append(f"-- {table.title}")
        lines += ["  ".join(map(str.ljust, row, wide)).rstrip() for row in cells]
    for claim in experiment.claims:
        lines += [f"{claim.verdict.upper()}: {claim.text}", f"    {claim.numbers}"]
    return "\n".join(lines)


def _markdown(table: Table) -> str:
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    return "\n".join([row(table.columns), row(["---"] * len(table.columns)), *map(row, table.rows)])


_ABOUT = """Made by `{command}`: all agents are scripted, every number is
measured once a seed and shown with its 95 % interval over the seeds where they differ. *Holds*: the whole interval is
on the right side in every case tried; *only if*: in some of them; *undecided*: the intervals leave it open; *by
construction*: every seed gave what arithmetic says without a run, so it is a check of the runtime and says nothing
about agents."""


def as_markdown(experiments: Sequence[Experiment], plots: str, command: str) -> str:
    """Return all experiments as Markdown; `plots` is the way from the page to the drawings, `command` made them."""
    claims = [claim for one in experiments for claim in one.claims]
    rows = tuple((claim.text, f"**{claim.verdict}**", claim.numbers) for claim in claims)
    parts = ["# Claims about swarms, measured", _ABOUT.format(command=command)]
    parts.append(_markdown(Table("", ("claim", "verdict", "numbers"), rows)))
    for one in experiments:
        parts.append(f"## {one.name.capitalize()}\n\n{one.setting}")
        for table in one.tables:
            parts += [f"{table.title}:"] if len(one.tables) > 1 else []
            parts.append(_markdown(table))
        parts += [f"![{curve.title}]({plots}/swarm-{curve.name}.svg)" for curve in one.curves]
    return "\n\n".join(parts) + "\n"


def save_plots(experiments: Sequence[Experiment], folder: Path) -> list[Path]:
    """Draw every curve into a folder."""
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
