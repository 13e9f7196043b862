"""Who talked to whom, as a drawing: agents on a circle, edges as wide as the tokens they carried and caused."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from combee.report.html import Html, el, join
from combee.report.svg import Plot
from combee.swarm import Edge

__all__ = ["graph"]

_SIZE, _MIDDLE, _RADIUS = 640, 340, 250
_LABELLED = 24  # edges that have their tokens written on them


def graph(edges: Sequence[Edge], *, most: int = 40) -> Plot:
    """Draw the busiest agents and the edges among them, both ways joined; tokens are prompt and reply tokens."""
    both: dict[tuple[str, str], int] = defaultdict(int)
    busy: dict[str, int] = defaultdict(int)
    for edge in edges:
        if edge.sender != edge.recipient:
            cost = edge.prompt + edge.completion + edge.carried
            both[min(edge.sender, edge.recipient), max(edge.sender, edge.recipient)] += cost
            busy[edge.sender] += cost
            busy[edge.recipient] += cost
    names = sorted(sorted(busy, key=lambda name: (-busy[name], name))[:most])
    place = {name: _place(number, len(names)) for number, name in enumerate(names)}
    drawn = [(pair, cost) for pair, cost in both.items() if pair[0] in place and pair[1] in place]
    drawn.sort(key=lambda one: -one[1])
    top = max((cost for _, cost in drawn), default=1) or 1
    left_out = len(busy) - len(names)
    title = "Who talked to whom (tokens)" + (f"; {left_out} quieter agents left out" if left_out else "")
    lines = [_edge(place[a], place[b], cost / top, f"{a} and {b}: {cost:,} tokens") for (a, b), cost in drawn]
    labels = [_label(place[a], place[b], cost) for (a, b), cost in drawn[:_LABELLED]]
    dots = [_agent(name, place[name], busy[name]) for name in names]
    return Plot(title, _SIZE, _SIZE, join([el("text", title, x=10, y=18, class_="title"), *lines, *labels, *dots]))


def _place(number: int, count: int) -> tuple[float, float]:
    angle = 2 * math.pi * number / max(count, 1) - math.pi / 2
    return 320 + _RADIUS * math.cos(angle), _MIDDLE + _RADIUS * math.sin(angle)


def _edge(a: tuple[float, float], b: tuple[float, float], share: float, title: str) -> Html:
    width = 0.6 + 7 * math.sqrt(share)
    path = f"M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}"
    line = el("path", el("title", title), d=path, class_="path", style=f"stroke-width:{width:.1f};opacity:.55")
    return el("g", line, class_="c0")


def _label(a: tuple[float, float], b: tuple[float, float], cost: int) -> Html:
    # A third of the way, so that labels of crossing lines do not meet in the middle.
    x, y = a[0] + (b[0] - a[0]) * 0.36, a[1] + (b[1] - a[1]) * 0.36
    shown = f"{cost / 1e6:.1f}M" if cost >= 1e6 else f"{cost / 1e3:.1f}k" if cost >= 1e3 else f"{cost}"
    return el("text", shown, x=round(x, 1), y=round(y, 1), class_="mid small")


def _agent(name: str, at: tuple[float, float], cost: int) -> Html:
    x, y = at
    outside = "end" if x < 310 else "mid" if x < 330 else ""
    shift = -10 if x < 310 else 0 if x < 330 else 10
    lift = -12 if y < _MIDDLE - 200 else 20 if y > _MIDDLE + 200 else 4
    dot = el("circle", el("title", f"{name}: {cost:,} tokens"), cx=round(x, 1), cy=round(y, 1), r=6, class_="dot")
    label = el("text", name, x=round(x + shift, 1), y=round(y + lift, 1), class_=f"label {outside}".strip())
    return el("g", dot, label, class_="c1")
