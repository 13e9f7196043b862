"""Candidates of a search as drawings: who came from whom, and who is best at what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from combee.report.html import Html, Piece, cut, el, join
from combee.report.scale import number
from combee.report.search import GepaCandidate, Search
from combee.report.svg import Plot
from combee.report.tree import curve

__all__ = ["front_plot", "lineage_plot"]

MOST_CANDIDATES = 120  # drawn in the tree, and those they came from
MOST_ROWS, MOST_COLUMNS = 24, 150  # of the front
_WIDE, _HIGH, _GAP_X, _GAP_Y, _TOP = 96, 36, 28, 10, 46
_CELL = 14


def lineage_plot(search: Search, most: int = MOST_CANDIDATES) -> Plot:
    """Draw candidates from left to right by generation, the best `most` of them with all that they came from."""
    shown = _with_ancestors(search.candidates, most)
    generation: dict[int, int] = {}
    for one in shown:
        generation[one.index] = 1 + max(
            (generation[parent] for parent in one.parents if parent in generation), default=-1
        )
    rows = _rows(shown)
    places = {
        one.index: (
            10 + generation[one.index] * (_WIDE + _GAP_X),
            round(_TOP + rows[one.index] * (_HIGH + _GAP_Y), 1),
        )
        for one in shown
    }
    edges = []
    for one in shown:
        x, y = places[one.index]
        for x0, y0 in (places[parent] for parent in one.parents if parent in places):
            edges.append(curve(x0 + _WIDE, y0 + _HIGH / 2, x, y + _HIGH / 2))
    heads = [
        el("text", "seed" if turn == 0 else f"generation {turn}", x=10 + turn * (_WIDE + _GAP_X), y=34, class_="label")
        for turn in range(max(generation.values(), default=-1) + 1)
    ]
    best = search.best
    boxes = [_box(one, *places[one.index], search, best=one is best) for one in shown]
    whole = len(shown) == len(search.candidates)
    title = "Lineage" if whole else f"Lineage of {len(shown)} of {len(search.candidates)} candidates"
    return Plot(
        title,
        max(420, 20 + len(heads) * (_WIDE + _GAP_X) - _GAP_X),
        _TOP + (max(rows.values(), default=0) + 1) * (_HIGH + _GAP_Y),
        join([el("text", title, x=10, y=16, class_="title"), *heads, *edges, *boxes]),
    )


def _with_ancestors(candidates: Sequence[GepaCandidate], most: int) -> list[GepaCandidate]:
    """Return the best candidates and those they came from, by index."""
    known = {one.index: one for one in candidates}
    kept: set[int] = set()
    for one in sorted(candidates, key=lambda one: (-one.score, one.index)):
        if len(kept) >= most:
            break
        ask = [one.index]
        while ask:
            index = ask.pop()
            if index in known and index not in kept:
                kept.add(index)
                ask += known[index].parents
    return [known[index] for index in sorted(kept)]


def _rows(shown: Sequence[GepaCandidate]) -> Mapping[int, float]:
    """Return the row of each: a leaf has its own, a parent the middle of its children's (first parents count)."""
    children: dict[int | None, list[int]] = defaultdict(list)
    indices = {one.index for one in shown}
    for one in shown:
        older = (parent for parent in one.parents if parent in indices and parent < one.index)
        children[next(older, None)].append(one.index)
    rows: dict[int, float] = {}
    order: list[int] = []
    ask = list(reversed(children[None]))
    while ask:
        index = ask.pop()
        order.append(index)
        ask += reversed(children[index])
    leaves = 0
    for index in order:
        if not children[index]:
            rows[index], leaves = leaves, leaves + 1
    for index in reversed(order):
        if children[index]:
            rows[index] = sum(rows[child] for child in children[index]) / len(children[index])
    return rows


def _box(one: GepaCandidate, x: float, y: float, search: Search, *, best: bool) -> Html:
    top = max(candidate.score for candidate in search.candidates)
    share = min(1.0, max(0.0, one.score / max(top, 1.0)))
    kind = "box best" if best else "box front" if one.index in search.front else "box"
    said = "best" if best else "on the front" if one.index in search.front else f"iteration {one.iteration}"
    tip = f"Candidate {one.index}, iteration {one.iteration}: {one.score:.4g} on {len(one.scores)} validation records"
    parts: list[Piece] = [
        el("title", tip),
        el("rect", x=x, y=y, width=_WIDE, height=_HIGH, rx=5, class_=kind),
        el("rect", x=x, y=y, width=round(_WIDE * share, 1), height=_HIGH, rx=5, class_="fill"),
        el("text", f"#{one.index}", x=x + 8, y=y + 15, class_="label"),
        el("text", number(round(one.score, 3)), x=x + _WIDE - 8, y=y + 15, class_="end label"),
        el("text", said, x=x + 8, y=y + 29, class_="small"),
    ]
    return el("g", *parts)


def front_plot(search: Search) -> Plot | None:
    """Draw each validation record (columns) for the candidates of the front (rows); None without a front.

    A cell is as dark as its score; a dot marks the best score of its column.
    """
    wins = search.wins()
    front = sorted(
        (one for one in search.candidates if one.index in search.front), key=lambda one: (-wins[one.index], -one.score)
    )[:MOST_ROWS]
    names = sorted({name for one in front for name in one.scores}, key=_natural)[:MOST_COLUMNS]
    if not names:
        return None
    scores = [score for one in search.candidates for score in one.scores.values()]
    low, high = min(0.0, *scores), max(1.0, *scores)
    tops = {name: max(one.scores[name] for one in search.candidates if name in one.scores) for name in names}
    left, top = 58, 30
    parts: list[Piece] = []
    for row, one in enumerate(front):
        y = top + row * (_CELL + 2)
        parts.append(el("text", f"#{one.index}", x=left - 8, y=y + 11, class_="end label"))
        for column, name in enumerate(names):
            if name not in one.scores:
                continue
            score = one.scores[name]
            x = left + column * (_CELL + 2)
            shade = round(0.08 + 0.72 * (score - low) / (high - low), 3)
            tip = el("title", f"#{one.index}, {cut(name, 80)}: {number(score)}")
            parts.append(el("rect", tip, x=x, y=y, width=_CELL, height=_CELL, rx=2, class_="cell", opacity=shade))
            if score == tops[name] > low:
                parts.append(el("circle", cx=x + _CELL / 2, cy=y + _CELL / 2, r=2, class_="ground"))
    bottom = top + len(front) * (_CELL + 2)
    parts.append(el("text", f"{len(names)} validation records", x=left, y=bottom + 16))
    title = "Pareto front: who is right where"
    width = max(420, left + len(names) * (_CELL + 2) + 10)
    return Plot(title, width, bottom + 26, join([el("text", title, x=10, y=16, class_="title"), *parts]))


def _natural(name: str) -> tuple[int, str]:
    return len(name), name  # task-2 before task-10
