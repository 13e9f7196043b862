"""The frame of every page: one file, nothing from the network, one script of our own (and a policy that says so).

The script searches the tables of answers, and bullets; in plots it shows the values under the pointer, zooms into what
is dragged over (a double click goes back) and hides a line when its name is clicked; it keeps the head of a live page
fresh. Nothing on a page needs it to be read.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from combee import __version__
from combee.report.html import PAGE, Html, Piece, cut, el, fold, join, table
from combee.report.svg import Plot
from combee.run.rows import RunRows, ScoredRow

__all__ = [
    "SCRIPT",
    "Section",
    "asked",
    "bullet_anchor",
    "facts",
    "figures",
    "filter_box",
    "page",
    "rows_section",
    "when",
]

SCRIPT = Path(__file__).with_name("page.js").read_text(encoding="utf-8")

_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading that the navigation names."""

    anchor: str
    title: str
    body: Sequence[Piece]


def page(title: str, head: Sequence[Piece], sections: Sequence[Section], *, live: str | None = None) -> str:
    """Return the whole page; `live` is the address that the script fetches the head from, of a run that goes on."""
    links = [el("a", section.title, href=f"#{section.anchor}") for section in sections]
    main = el(
        "main",
        el(
            "header",
            el("div", *head, id="live", data_at=live),
            el("nav", *links, aria_label="Sections") if links else None,
        ),
        *(
            el("section", el("h2", section.title, id=section.anchor), *section.body, aria_labelledby=section.anchor)
            for section in sections
        ),
        el("footer", f"Written by Combee {__version__} on {when(time.time())}."),
    )
    meta = join(
        [
            el("meta", charset="utf-8"),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="color-scheme", content="light dark"),
            el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            el("link", rel="icon", href="data:,"),
            el("title", title),
            el("style", Html(PAGE)),
        ],
        "\n",
    )
    body = f"<body>\n{main}\n<script>{SCRIPT}</script>\n</body>"
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{meta}\n</head>\n{body}\n</html>\n'


def facts(pairs: Sequence[tuple[str, Piece]]) -> Html:
    """Return the few numbers that matter most, large; each with what it is."""
    return el("div", *(el("div", el("b", value), el("span", name)) for name, value in pairs), class_="facts")


def figures(plots: Sequence[Plot]) -> Html:
    """Return plots side by side where there is room."""
    return el("div", *(el("figure", plot.inline()) for plot in plots), class_="plots")


def when(seconds: float) -> str:
    """Return a time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


MOST_ROWS = 500  # of each table
MOST_TEXT = 2_000  # characters of a question
_LONG = 280  # characters of a question that are shown at once


def filter_box(target: str, only: str | None = None) -> Html:
    """Return a box that searches the rows or list items below the element `target`; `only` names a tick for failures.

    It shows only where scripts run: without them all rows stand there.
    """
    tick = None
    if only is not None:
        tick = el("label", el("input", type="checkbox"), f" {only}")
    search = el("input", type="search", placeholder="search", aria_label=f"Search {target}")
    return el("p", search, " ", tick, " ", el("span", class_="dim"), class_="filter", hidden="", data_of=target)


def asked(question: str, *, whole: bool = True) -> Html:
    """Return a question; of a long one its end, where what is asked mostly stands, the `whole` when it is clicked."""
    if len(question) <= _LONG or not whole:
        return el("div", question if len(question) <= _LONG else f"… {question[-_LONG:]}", dir="auto")
    return el("div", fold(f"… {question[-_LONG:]}", cut(question, MOST_TEXT)), dir="auto")


def bullet_anchor(name: str) -> str:
    """Return the id of a bullet's place on the page."""
    return f"bullet-{name}"


def rows_section(rows: RunRows, shown: frozenset[str]) -> Section | None:
    """Return the rows of a run; `shown` are bullets that the page holds. None where there is nothing to show."""
    body: list[Piece] = []
    if rows.validation:
        body += _table("validation", "Validation, with the best version", rows.validation, shown)
    if rows.training:
        body += _table("training", "Training, before each was learned from", rows.training, shown)
    if rows.missing is not None:
        body.append(el("p", f"The answers cannot be shown beside their questions: {rows.missing}", class_="dim"))
    return Section("rows", "Rows", body) if body else None


def _table(name: str, title: str, rows: Sequence[ScoredRow], shown: frozenset[str]) -> list[Piece]:
    wrong = sum(not row.passed for row in rows)
    heads = ("", "task", "question", "answer", "right answer", "bullets")
    cells = [
        (
            _mark(row),
            el("span", cut(row.task, 80), class_="key"),
            asked(row.question, whole=not row.passed),
            _answer(row),
            "" if row.passed else cut(row.expected or "–", 200),
            _bullets(row, shown),
        )
        for row in rows[:MOST_ROWS]
    ]
    note = f"{len(rows):,} rows, {wrong:,} of them not right; those stand first."
    note += f" The first {MOST_ROWS:,} are listed." if len(rows) > MOST_ROWS else ""
    content = el("div", table(heads, cells), id=f"rows-{name}", class_="long answers")
    return [el("h3", title), el("p", note, class_="dim"), filter_box(f"rows-{name}", "only failures"), content]


def _mark(row: ScoredRow) -> Html:
    if row.error is not None:
        return el("b", "failed", class_="down")
    if row.passed:
        return el("b", "right", class_="up")
    return el("b", "wrong" if row.total == 1 else f"{row.hits} of {row.total}", class_="down")


def _answer(row: ScoredRow) -> Piece:
    return cut(row.error or row.answer or "–", 300)


def _bullets(row: ScoredRow, shown: frozenset[str]) -> Html:
    """Return the bullets that were used, each a link to its place, and how many were in view."""
    links = [
        el("a", name, href=f"#{bullet_anchor(name)}", class_="key") if name in shown else el("span", name, class_="key")
        for name in row.used[:8]
    ]
    more = f" and {len(row.used) - 8:,} more" if len(row.used) > 8 else ""
    seen = "" if row.view is None else f" of {len(row.view):,} in view"
    return join([join(links, " "), el("span", f"{more}{seen}" or ("–" if not links else ""), class_="dim")])
