"""The page that compares ways to aggregate: entries kept and accuracy by method, and what each of them cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from combee.bench.compare import WayResult
from combee.files import write_whole
from combee.report.html import Html, Piece, el, table
from combee.report.page import Section, figures, page
from combee.report.svg import Plot, Series, bar_plot, line_plot

__all__ = ["MethodTable", "comparison_page", "write_comparison"]


@dataclass(frozen=True, slots=True)
class MethodTable:
    """Ways compared under one condition; `notes` say what a reader must know about it."""

    title: str
    notes: Sequence[str]
    rows: Sequence[WayResult]


def write_comparison(path: Path, title: str, about: Sequence[str], tables: Sequence[MethodTable]) -> Path:
    """Write the page of a comparison, whole or not at all, and return its path. Raises as `write_whole`."""
    return write_whole(path, comparison_page(title, about, tables))


def comparison_page(title: str, about: Sequence[str], tables: Sequence[MethodTable]) -> str:
    """Return the page of a comparison as HTML; `about` are sentences below the title."""
    head: list[Piece] = [el("h1", title), *(el("p", text) for text in about)]
    return page(title, head, [_section(i, one) for i, one in enumerate(tables, start=1)])


def _section(number: int, one: MethodTable) -> Section:
    plots = [_bars(one, "kept"), _bars(one, "accuracy"), _growth(one), _chains(one)]
    notes = el("ul", *(el("li", note) for note in one.notes))
    return Section(f"table{number}", one.title, [notes, figures(plots), _table(one.rows)])


def _bars(one: MethodTable, what: str) -> Plot:
    names = [row.way for row in one.rows]
    if what == "accuracy":
        values = [row.accuracy for row in one.rows]
        limits = (0.0, 1.0)
        return bar_plot(names, {what: values}, title="Held-out accuracy", x="share right", x_limits=limits)
    series: dict[str, Sequence[float | None]] = {
        "lessons that went in": [float(row.lessons) for row in one.rows],
        "kept, word for word": [float(row.kept) for row in one.rows],
    }
    return bar_plot(names, series, title="Lessons in and kept", x="distinct lessons")


def _growth(one: MethodTable) -> Plot:
    """Draw the entries of each book by the samples seen."""
    series = []
    for row in one.rows:
        seen, points = 0, [(0.0, 0.0)]
        steps = row.result.steps
        for i, step in enumerate(steps):
            seen += step.batch
            if i % max(1, len(steps) // 60) == 0 or i == len(steps) - 1:
                points.append((float(seen), float(step.bullets)))
        series.append(Series(row.way, points, dots=len(points) <= 20))
    return line_plot(series, title="Entries by samples seen", x="samples seen", y="bullets", whole_x=True)


def _chains(one: MethodTable) -> Plot:
    names = [row.way for row in one.rows]
    values = {"chain": [float(row.chain) for row in one.rows]}
    return bar_plot(names, values, title="Longest chain of calls", x="calls that wait for each other")


def _table(rows: Sequence[WayResult]) -> Html:
    heads = ("way", "samples a step", "lessons", "kept", "entries", "accuracy", "calls", "reads an item", "chain", "s")
    cells: list[tuple[Piece, ...]] = [
        (
            row.way,
            row.batch,
            row.lessons,
            f"{row.kept} ({row.kept / max(row.lessons, 1):.0%})",
            row.entries,
            f"{row.accuracy:.3f}",
            f"{row.calls:,}",
            f"{row.reads_per_item:.2f}",
            f"{row.chain:,}",
            f"{row.seconds:.2f}",
        )
        for row in rows
    ]
    return table(heads, cells, numbers=range(1, 10))
