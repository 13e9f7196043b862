"""What `combee swarm measure` shows: tables and verdicts as text, JSON, or Markdown with plots beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from combee.report.svg import Series, line_plot
from combee.swarm.measure import Experiment, Table

__all__ = ["as_markdown", "as_text", "save_plots"]


def as_text(experiment: Experiment) -> str:
    """Return an experiment for a terminal."""
    lines = [f"\n== {experiment.name}: {experiment.setting}"]
    for table in experiment.tables:
        wide = [max(len(row[n]) for row in (table.columns, *table.rows)) for n in range(len(table.columns))]
        lines += [
            "  ".join(cell.ljust(wide[n]) for n, cell in enumerate(row)).rstrip()
            for row in (table.columns, *table.rows)
        ]
    for claim in experiment.claims:
        lines += [f"{claim.verdict.upper()}: {claim.text}", f"    {claim.condition}"]
    return "\n".join(lines)


def _markdown(table: Table) -> str:
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    return "\n".join([row(table.columns), row(["---"] * len(table.columns)), *map(row, table.rows)])


def as_markdown(experiments: Sequence[Experiment], plots: str) -> str:
    """Return all experiments as Markdown; `plots` is the way from the page to the drawings."""
    claims = [(claim, one.name) for one in experiments for claim in one.claims]
    parts = [
        _markdown(
            Table(
                "", ("claim", "verdict", "numbers"), tuple((c.text, f"**{c.verdict}**", c.condition) for c, _ in claims)
            )
        )
    ]
    for one in experiments:
        parts.append(f"### {one.name.capitalize()}\n\n{one.setting}")
        parts += [_markdown(table) for table in one.tables]
        parts += [f"![{curve.title}]({plots}/swarm-{curve.name}.svg)" for curve in one.curves]
    return "\n\n".join(parts) + "\n"


def save_plots(experiments: Sequence[Experiment], folder: Path) -> list[Path]:
    """Draw every curve into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        line_plot(
            [Series(name, points, dashed=name == "one window each") for name, points in curve.series],
            title=curve.title, x=curve.x, y=curve.y, log_x=curve.log_x, log_y=curve.log_y, zero=not curve.log_y,
        ).save(folder / f"swarm-{curve.name}.svg")
        for one in experiments
        for curve in one.curves
    ]  # fmt: skip
