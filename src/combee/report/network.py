"""Who talked to whom, as a drawing: agents on a circle, edges as wide as the tokens they carried and caused.

The dearest edges have their tokens written on them, each where it meets no other text; what finds no place is left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from combee.report.html import Html, el, join
from combee.report.svg import Plot, number, text_width

__all__ = ["network"]

_RADIUS, _TOP, _DOT = 250, 60, 6
_LONGEST = 28  # characters of a name that are written
_LABELLED = 24  # edges that have their tokens written on them
_SHARES = (0.36, 0.5, 0.64, 0.28, 0.72)  # of the way, where they may stand: rather not where most edges cross
_HALO = "paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round"


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        """Return whether two boxes share a place."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


class _Agent(NamedTuple):
    """Where an agent stands, and its name beside it; `anchor` is the class that says to which side."""

    x: float
    y: float
    name: str
    text: tuple[float, float]
    anchor: str

    def boxes(self) -> tuple[_Box, _Box]:
        """Return what its dot and its name take."""
        wide, (x, y) = text_width(self.name), self.text
        left = x - {"end": wide, "mid": wide / 2, "": 0}[self.anchor]
        dot = _Box(self.x - _DOT, self.y - _DOT, self.x + _DOT, self.y + _DOT)
        return dot, _Box(left, y - 10, left + wide, y + 3)


def network(edges: Iterable[tuple[str, str, int]], *, most: int = 40) -> Plot:
    """Draw the busiest agents and the edges among them, both ways joined; an edge is a sender, a recipient, tokens."""
    both: dict[tuple[str, str], int] = defaultdict(int)
    busy: dict[str, int] = defaultdict(int)
    for sender, recipient, cost in edges:
        if sender != recipient:
            both[min(sender, recipient), max(sender, recipient)] += cost
            busy[sender] += cost
            busy[recipient] += cost
    names = sorted(sorted(busy, key=lambda name: (-busy[name], name))[:most])
    middle = _RADIUS + 30 + max((text_width(_short(name)) for name in names), default=0)
    agents = {name: _placed(name, number_, len(names), middle) for number_, name in enumerate(names)}
    drawn = [(pair, cost) for pair, cost in both.items() if pair[0] in agents and pair[1] in agents]
    drawn.sort(key=lambda one: -one[1])
    top = max((cost for _, cost in drawn), default=1) or 1
    left_out = len(busy) - len(names)
    title = "Who talked to whom (tokens)" + (f"; {left_out} quieter agents left out" if left_out else "")
    lines = [_edge(agents[a], agents[b], cost / top, f"{a} and {b}: {cost:,} tokens") for (a, b), cost in drawn]
    taken = [box for agent in agents.values() for box in agent.boxes()]
    labels = [_label(agents[a], agents[b], cost, taken) for (a, b), cost in drawn[:_LABELLED]]
    dots = [_dot(agents[name], f"{name}: {busy[name]:,} tokens") for name in names]
    body = join([el("text", title, x=10, y=18, class_="title"), *lines, *labels, *dots])
    return Plot(title, round(2 * middle), 2 * (_TOP + _RADIUS), body)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _placed(name: str, place: int, count: int, middle: float) -> _Agent:
    angle = 2 * math.pi * place / count - math.pi / 2
    across, down = _RADIUS * math.cos(angle), _RADIUS * math.sin(angle)
    side = 0 if abs(across) < 10 else math.copysign(1, across)
    lift = -12 if down < -200 else 20 if down > 200 else 4
    x, y = middle + across, _TOP + _RADIUS + down
    return _Agent(x, y, _short(name), (x + 10 * side, y + lift), "end" if side < 0 else "" if side else "mid")


def _edge(a: _Agent, b: _Agent, share: float, title: str) -> Html:
    width = 0.6 + 7 * math.sqrt(share)
    path = f"M{a.x:.1f} {a.y:.1f}L{b.x:.1f} {b.y:.1f}"
    line = el("path", el("title", title), d=path, class_="path", style=f"stroke-width:{width:.1f};opacity:.55")
    return el("g", line, class_="c0")


def _label(a: _Agent, b: _Agent, cost: int, taken: list[_Box]) -> Html | None:
    """Return the tokens of an edge at the first place on it that is free, and take that place."""
    text = number(cost)
    half = text_width(text, 11) / 2 + 2
    for share in _SHARES:
        x, y = a.x + (b.x - a.x) * share, a.y + (b.y - a.y) * share
        box = _Box(x - half, y - 6, x + half, y + 7)
        if not any(box.meets(other) for other in taken):
            taken.append(box)
            return el("text", text, x=round(x, 1), y=round(y + 4, 1), class_="mid small", style=_HALO)
    return None


def _dot(agent: _Agent, title: str) -> Html:
    dot = el("circle", el("title", title), cx=round(agent.x, 1), cy=round(agent.y, 1), r=_DOT, class_="dot")
    x, y = agent.text
    label = el("text", agent.name, x=round(x, 1), y=round(y, 1), class_=f"label {agent.anchor}".strip(), style=_HALO)
    return el("g", dot, label, class_="c1")
