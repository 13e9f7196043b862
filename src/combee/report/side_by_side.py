"""Runs, or files of `combee eval --json`, side by side: the rows that flipped, and score against cost.

Runs that answered no tasks, since they learned from recorded ones, are compared by what their playbooks say.

Rows are paired by their task. The difference of two scores has an interval for paired shares, with half an observation
added to each of the four cells, so that few rows cannot look sure (Agresti and Min 2005).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from combee.errors import UsageError
from combee.kernel.journal import JSON
from combee.report.html import Html, Piece, cut, el, join, table
from combee.report.page import Section, asked, figures, filter_box, page
from combee.report.read import read_run
from combee.report.svg import Plot, Series, line_plot
from combee.run.folders import find_run
from combee.run.rows import ScoredRow, interval, read_rows, rows_from_json

__all__ = [
    "HEADS",
    "Paired",
    "Side",
    "flipped",
    "only",
    "paired",
    "pareto_plots",
    "read_side",
    "side_to_json",
    "sides_page",
    "table_cells",
]

_Z = 1.959964  # of a normal distribution, for 95 %
_MOST_ROWS = 2_000

HEADS = ("", "score", "95 % interval", "paired, against the first", "seconds", "calls", "tokens", "dollars", "bullets")
Kind = Literal["validation", "training", "eval", "none"]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the runs or evaluations compared. Figures that are unknown are None; `kind` says which rows these are."""

    name: str
    kind: Kind
    rows: tuple[ScoredRow, ...]
    seconds: float | None = None
    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    bullets: int | None = None
    texts: tuple[str, ...] = ()

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Right parts and parts of each row that was scored."""
        return [(row.hits, row.total) for row in self.rows if row.total]

    @property
    def score(self) -> float | None:
        """Share of right parts; None where nothing was scored."""
        total = sum(parts for _, parts in self.parts)
        return sum(hits for hits, _ in self.parts) / total if total else None


@dataclass(frozen=True, slots=True)
class Paired:
    """By how much a side's score is above the base's on the `rows` that both scored, with its 95 % interval.

    `gained` and `lost` count the rows that scored higher and lower.
    """

    rows: int
    difference: float
    low: float
    high: float
    gained: int
    lost: int


def read_side(name: str) -> Side:
    """Read a run, or a file of `combee eval --json`.

    Raises:
        UsageError: It is neither, or has neither rows nor bullets.
    """
    path = Path(name)
    if path.is_file():
        return _of_file(path)
    folder = find_run(name)
    record, rows = read_run(folder, rows=False), read_rows(folder)
    chosen = rows.validation or rows.training
    texts = () if record.book is None else tuple(bullet.text for bullet in record.book)
    if not chosen and not texts:
        raise UsageError(f"{name} has no rows to compare.", hint=rows.missing or "It answered no tasks.")
    totals = record.ledger.values()
    unpriced = any(one.unpriced for one in totals)
    return Side(
        name=folder.name,
        kind="validation" if rows.validation else "training" if rows.training else "none",
        rows=chosen,
        seconds=None if record.finished is None else record.finished.seconds,
        calls=sum(one.calls for one in totals),
        tokens=sum(one.tokens for one in totals),
        cost=None if unpriced else sum(one.cost for one in totals),
        bullets=len(texts),
        texts=texts,
    )


def _of_file(path: Path) -> Side:
    try:
        data = cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
        spent = data.get("model") or {"calls": 0, "tokens": 0, "cost": 0.0}
        return Side(
            name=path.stem,
            kind="eval",
            rows=rows_from_json(data["rows"]),
            seconds=data.get("seconds"),
            calls=spent["calls"],
            tokens=spent["tokens"],
            cost=spent["cost"],
            bullets=data["bullets"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        hint = "Give runs, or files that `combee eval RUN --json > FILE` wrote."
        raise UsageError(f"{path} is neither a run nor the result of an eval.", hint=hint) from None


def paired(base: Side, other: Side) -> Paired | None:
    """Return how the other differs from the base; None where they have no scored row in common."""
    first = {row.task: row.hits / row.total for row in base.rows if row.total}
    differences = [row.hits / row.total - first[row.task] for row in other.rows if row.total and row.task in first]
    if not differences:
        return None
    size = len(differences) + 2
    mean = sum(differences) / size
    spread = max(0.0, (sum(one * one for one in differences) + 1) / size - mean * mean)
    half = _Z * math.sqrt(spread / size)
    gained, lost = sum(one > 0 for one in differences), sum(one < 0 for one in differences)
    difference = sum(differences) / len(differences)
    return Paired(len(differences), difference, max(-1.0, mean - half), min(1.0, mean + half), gained, lost)


def flipped(sides: Sequence[Side]) -> list[tuple[ScoredRow, ...]]:
    """Return the tasks that all sides answered and not all got right or wrong; those the last side lost come first."""
    by_task = [{row.task: row for row in side.rows} for side in sides]
    common = [task for task in by_task[0] if all(task in rows for rows in by_task)]
    groups = [tuple(rows[task] for rows in by_task) for task in common]
    odd = [group for group in groups if len({row.passed for row in group}) > 1]
    return sorted(odd, key=lambda group: (group[-1].passed, [row.passed for row in group]))


def only(side: Side, base: Side) -> tuple[list[str], list[str]]:
    """Return the lessons that only the base has, and those that only the side has."""
    mine, theirs = set(side.texts), set(base.texts)
    return [text for text in base.texts if text not in mine], [text for text in side.texts if text not in theirs]


def table_cells(sides: Sequence[Side]) -> list[tuple[str, ...]]:
    """Return a row of text for each side, under `HEADS`."""
    return [_cells(side, sides[0]) for side in sides]


def _cells(side: Side, base: Side) -> tuple[str, ...]:
    low, high = interval(side.parts)
    against = None if side is base else paired(base, side)
    return (
        side.name,
        "–" if side.score is None else f"{side.score:.3f}",
        f"{low:.3f} to {high:.3f}" if side.parts else "–",
        "–" if against is None else f"{against.difference:+.3f} ({against.low:+.3f} to {against.high:+.3f})",
        "–" if side.seconds is None else f"{side.seconds:,.1f}",
        *("–" if count is None else f"{count:,}" for count in (side.calls, side.tokens)),
        "unknown" if side.cost is None else f"{side.cost:.4f}",
        "–" if side.bullets is None else f"{side.bullets:,}",
    )


def pareto_plots(sides: Sequence[Side]) -> list[Plot]:
    """Draw score against seconds, tokens and dollars, if more than one side has them; a line joins the best."""
    kinds = (("seconds", "seconds of work"), ("tokens", "tokens of models"), ("cost", "US dollars"))
    return [plot for name, label in kinds if (plot := _pareto(sides, name, label)) is not None]


def _pareto(sides: Sequence[Side], name: str, label: str) -> Plot | None:
    places = {side: getattr(side, name) for side in sides if side.score is not None and getattr(side, name)}
    if len(places) < 2:
        return None
    series = [
        Series(side.name, [(at, side.score or 0.0)], [interval(side.parts)], line=False) for side, at in places.items()
    ]
    best = -1.0
    front = []
    for side in sorted(places, key=lambda one: (places[one], -(one.score or 0.0))):
        if (side.score or 0.0) > best:
            best = side.score or 0.0
            front.append((float(places[side]), best))
    if len(front) > 1:
        series.append(Series("most for what it takes", front, dots=False, dashed=True))
    return line_plot(series, title=f"Score by {label}", x=label, y="share right", log_x=True, y_limits=(0.0, 1.0))


def side_to_json(side: Side, base: Side) -> dict[str, JSON]:
    """Return the figures of a side as JSON."""
    low, high = interval(side.parts)
    against = None if side is base else paired(base, side)
    return {
        "name": side.name,
        "rows": side.kind,
        "score": side.score,
        "interval": [low, high],
        "against_first": None
        if against is None
        else {
            "rows": against.rows,
            "difference": against.difference,
            "interval": [against.low, against.high],
            "gained": against.gained,
            "lost": against.lost,
        },
        "seconds": side.seconds,
        "calls": side.calls,
        "tokens": side.tokens,
        "cost": side.cost,
        "bullets": side.bullets,
        "lessons": None
        if side is base or not (side.texts and base.texts)
        else cast("JSON", dict(zip(("only_first", "only_this"), only(side, base), strict=True))),
    }


def sides_page(sides: Sequence[Side]) -> str:
    """Return the comparison as a page."""
    names = ", ".join(side.name for side in sides)
    odd = flipped(sides)
    head: list[Piece] = [el("h1", f"{len(sides)} side by side"), el("p", names, class_="dim")]
    plots = pareto_plots(sides)
    body: list[Piece] = [table(HEADS, table_cells(sides), numbers=range(1, len(HEADS)))]
    sections = [Section("scores", "Scores and what they took", [*body, figures(plots) if plots else None])]
    if any(side.rows for side in sides):
        sections.append(Section("rows", f"Rows that flipped ({len(odd):,})", _flips(sides, odd)))
    else:
        sections.append(Section("lessons", "Lessons", _lessons(sides)))
    return page(f"{names} · Combee", head, sections)


def _lessons(sides: Sequence[Side]) -> list[Piece]:
    """Return what only one of two playbooks says, each side against the first."""
    pieces: list[Piece] = []
    for side in sides[1:]:
        for name, texts in zip((sides[0].name, side.name), only(side, sides[0]), strict=True):
            pieces += [el("h3", f"Only in {name} ({len(texts):,})"), el("ul", *(el("li", text) for text in texts))]
    return pieces


def _flips(sides: Sequence[Side], odd: Sequence[tuple[ScoredRow, ...]]) -> list[Piece]:
    if not odd:
        return [el("p", "All sides got the same rows right and the same rows wrong.", class_="dim")]
    heads = ("task", "question", "right answer", *(side.name for side in sides))
    cells = [
        (
            el("span", group[0].task, class_="key"),
            asked(group[0].question),
            cut(group[0].expected or "–", 200),
            *(_answer(row) for row in group),
        )
        for group in odd[:_MOST_ROWS]
    ]
    return [filter_box("flips"), el("div", table(heads, cells), id="flips", class_="long")]


def _answer(row: ScoredRow) -> Html:
    mark = el("b", "right" if row.passed else "wrong", class_="up" if row.passed else "down")
    return join([mark, " ", cut(row.answer or row.error or "–", 160)])
