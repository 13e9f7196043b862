"""The scan tree as a drawing: leaves at the left, what each node took in and let out, where lessons were lost.

A level with many nodes is folded: neighbours share a box, so that a scan of a thousand leaves is still one look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from combee.kernel.aggregate import Node
from combee.report.html import Html, Piece, cut, el, join, table
from combee.report.scale import number
from combee.report.svg import Plot

__all__ = ["LevelSum", "curve", "level_table", "levels", "tree_plot"]

MOST_BOXES = 24  # nodes of a level drawn one by one
FOLDED = 16  # boxes that a larger level is folded into
_WIDE, _HIGH, _GAP_X, _GAP_Y, _TOP = 204, 34, 64, 9, 46


@dataclass(frozen=True, slots=True)
class LevelSum:
    """The nodes of one level of one round together. `lost` counts keys that came in and are not in what came out."""

    round: int
    level: int
    nodes: int
    failed: int
    entries_in: int
    entries_out: int
    lost: int


@dataclass(frozen=True, slots=True)
class _Box:
    nodes: tuple[Node, ...]
    x: float
    y: float

    @property
    def name(self) -> str:
        first, last = self.nodes[0], self.nodes[-1]
        return first.name if len(self.nodes) == 1 else f"{first.name}…{last.name.rsplit('/', 1)[-1]}"

    @property
    def entries_in(self) -> int:
        return sum(node.entries_in for node in self.nodes if node.error is None)

    @property
    def entries_out(self) -> int:
        return sum(node.entries_out for node in self.nodes)

    @property
    def failed(self) -> int:
        return sum(node.error is not None for node in self.nodes)

    @property
    def lost(self) -> int:
        return sum(len(node.lost) for node in self.nodes)


def levels(nodes: Sequence[Node]) -> tuple[LevelSum, ...]:
    """Return the sums of each level of each round, in the order the scan did them."""
    groups: dict[tuple[int, int], list[Node]] = defaultdict(list)
    for node in nodes:
        groups[node.round, node.level].append(node)
    return tuple(
        LevelSum(
            turn,
            level,
            len(group),
            sum(node.error is not None for node in group),
            sum(node.entries_in for node in group if node.error is None),
            sum(node.entries_out for node in group),
            sum(len(node.lost) for node in group),
        )
        for (turn, level), group in sorted(groups.items())
    )


def level_table(nodes: Sequence[Node]) -> Html:
    """Return the sums of each level as a table."""
    heads = ("round", "level", "nodes", "failed", "in", "out", "reflections lost here")
    rows: list[tuple[Piece, ...]] = [
        (
            row.round,
            f"{row.level} (leaves)" if row.level == 0 else row.level,
            f"{row.nodes:,}",
            row.failed,
            f"{row.entries_in:,} {'reflections' if row.level == 0 else 'lessons'}",
            f"{row.entries_out:,} lessons",
            f"{row.lost:,}",
        )
        for row in levels(nodes)
    ]
    return table(heads, rows, numbers=range(2, 7))


def tree_plot(nodes: Sequence[Node], title: str) -> Plot:
    """Draw the tree; its width follows from the number of levels."""
    columns: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        columns[node.level].append(node)
    drawn = [_folded(columns[level]) for level in sorted(columns)]
    most = max(map(len, drawn), default=1)
    height = _TOP + most * (_HIGH + _GAP_Y) + 8
    boxes = [
        [_Box(group, 10 + i * (_WIDE + _GAP_X), _place(j, len(column), height)) for j, group in enumerate(column)]
        for i, column in enumerate(drawn)
    ]
    flat = [box for column in boxes for box in column]
    heads = [
        el("text", f"level {level}", x=10 + i * (_WIDE + _GAP_X), y=34, class_="label")
        for i, level in enumerate(sorted(columns))
    ]
    body = [el("text", title, x=10, y=16, class_="title"), *heads, _edges(flat), *map(_draw, flat)]
    return Plot(title, max(420, 20 + len(drawn) * _WIDE + (len(drawn) - 1) * _GAP_X), height, join(body))


def _folded(nodes: Sequence[Node]) -> list[tuple[Node, ...]]:
    if len(nodes) <= MOST_BOXES:
        return [(node,) for node in nodes]
    size = -(-len(nodes) // FOLDED)
    turns: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        turns[node.round].append(node)  # rounds do not mix in a box
    return [tuple(part[i : i + size]) for part in turns.values() for i in range(0, len(part), size)]


def _place(index: int, count: int, height: float) -> float:
    room = (height - _TOP - 8) / count
    return round(_TOP + (index + 0.5) * room - _HIGH / 2, 1)


def _edges(boxes: Sequence[_Box]) -> Html:
    """Return one curve for each pair of boxes that hold a child and its parent, thicker for more children."""
    home = {node.name: i for i, box in enumerate(boxes) for node in box.nodes}
    joined: dict[tuple[int, int], int] = defaultdict(int)
    for parent, box in enumerate(boxes):
        for node in box.nodes:
            if node.level == 0:
                continue
            for child in node.inputs:
                if child in home:
                    joined[home[child], parent] += 1
    curves = []
    for (start, end), count in joined.items():
        x1, y1 = boxes[start].x + _WIDE, boxes[start].y + _HIGH / 2
        x2, y2 = boxes[end].x, boxes[end].y + _HIGH / 2
        curves.append(curve(x1, y1, x2, y2, 1.5 if count == 1 else round(min(6.0, 1.5 + count**0.5 / 2), 1)))
    return join(curves)


def curve(x1: float, y1: float, x2: float, y2: float, width: float = 1.5) -> Html:
    """Return a line from left to right that leaves and arrives level."""
    middle = (x1 + x2) / 2
    path = f"M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}"
    return el("path", d=path, class_="edge", stroke_width=width)


def _draw(box: _Box) -> Html:
    kind = "failed" if box.failed == len(box.nodes) else "lossy" if box.lost or box.failed else ""
    share = min(1.0, box.entries_out / box.entries_in) if box.entries_in else 0.0
    what = "✕ failed" if kind == "failed" else f"{number(box.entries_in)} → {number(box.entries_out)}"
    name = box.name if len(box.name) <= 22 else f"{box.name[:21]}…"
    many = f"{len(box.nodes):,} nodes" if len(box.nodes) > 1 else ""
    troubles = [f"{box.failed:,} failed"] if box.failed and len(box.nodes) > 1 else []
    troubles += [f"{box.lost:,} lost"] if box.lost else []
    line = box.y + (14 if many or troubles else 21)
    parts: list[Piece] = [
        el("title", _tip(box)),
        el("rect", x=box.x, y=box.y, width=_WIDE, height=_HIGH, rx=5, class_=f"box {kind}".strip()),
        el("rect", x=box.x, y=box.y, width=round(_WIDE * share, 1), height=_HIGH, rx=5, class_=f"fill {kind}".strip()),
        el("text", name, x=box.x + 8, y=line, class_="small"),
        el("text", many, x=box.x + 8, y=box.y + 28, class_="small") if many else None,
        el("text", what, x=box.x + _WIDE - 8, y=line, class_="end label"),
        el("text", ", ".join(troubles), x=box.x + _WIDE - 8, y=box.y + 28, class_="small end bad")
        if troubles
        else None,
    ]
    return el("g", *parts)


def _tip(box: _Box) -> str:
    what = "reflections" if box.nodes[0].level == 0 else "lessons"
    text = f"{box.name}: {box.entries_in:,} {what} in, {box.entries_out:,} lessons out"
    text += f", {box.lost:,} reflections lost here" if box.lost else ""
    errors = [node.error for node in box.nodes if node.error]
    return f"{text}; {cut(errors[0], 300)}" if errors else text
