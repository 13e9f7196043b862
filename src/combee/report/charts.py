"""The plots of a run: score, tokens and bullets over steps, lessons a step, batch size, lineage, scan trees.

All of them count steps done: 0 is the start, step k ends at k + 1, and what was measured before step k began (the
training score, as each step's samples are answered before it learns from them) stands at k.

Candidates of a search as drawings: who came from whom, and who is best at what.

The scan tree as a drawing: leaves at the left, what each node took in and let out, where lessons were lost. A level
with many nodes is folded: neighbours share a box, so that a scan of a thousand leaves is still one look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from combee.kernel.aggregate import Node
from combee.kernel.learn import BatchChosen, StepFinished, StepStarted
from combee.report.html import Html, Piece, cut, el, join, table
from combee.report.read import GepaCandidate, Search
from combee.report.svg import Mark, Plot, Series, line_plot, number

__all__ = [
    "LevelSum",
    "batch_plot",
    "curve",
    "front_plot",
    "lessons_plot",
    "level_table",
    "levels",
    "lineage_plot",
    "pace_plot",
    "score_plot",
    "size_plot",
    "tree_plot",
]

MOST_POINTS = 120  # of a line; more steps than this share points
MOST_SINGLE = 20  # scores shown step by step; of more, neighbours with few answers share a point
FEWEST_ANSWERS = 20  # behind such a shared point
_STEPS = "steps done"


def score_plot(steps: Sequence[StepFinished], held: Sequence[tuple[float, float]]) -> Plot | None:
    """Draw the share of right answers; None where nothing was scored. `held` has (steps done, validation score)."""
    groups = _scored(steps)
    training = [
        ((group[0].step + group[-1].step) / 2, sum(step.hits for step in group) / sum(step.total for step in group))
        for group in groups
    ]
    name = "training, before learning from it"
    most = max(map(len, groups), default=1)
    if most > 1:
        name += f" (up to {most} steps a point)"
    series = [Series(name, training, dots=len(training) <= 40), Series("validation", held)]
    series = [one for one in series if one.points]
    if not series:
        return None
    title = "Score" if len(series) > 1 else f"Score ({series[0].name})"
    return line_plot(series, title=title, x=_STEPS, y="share right", y_limits=(0, 1), whole_x=True)


def size_plot(steps: Sequence[StepFinished], what: str, start: int | None = None) -> Plot:
    """Draw `tokens` or `bullets` of the playbook; `start` is what it had before the first step, where that is known."""
    points = [] if start is None else [(0, float(start))]
    points += [(chunk[-1].step + 1, float(getattr(chunk[-1], what))) for chunk in _chunks(steps)]
    series = [Series(what, points, dots=len(points) <= 40)]
    return line_plot(series, title=f"Playbook {what}", x=_STEPS, y=what, whole_x=True)


def lessons_plot(steps: Sequence[StepFinished]) -> Plot:
    """Draw lessons that the reflections brought and operations that were applied (means where steps share a point)."""

    def mean(chunk: Sequence[StepFinished], what: str) -> tuple[float, float]:
        return chunk[-1].step + 1, sum(getattr(step, what) for step in chunk) / len(chunk)

    chunks = _chunks(steps, most=40)
    dots = len(chunks) <= 40
    series = [
        Series("lessons from reflections", [mean(chunk, "lessons") for chunk in chunks], dots=dots),
        Series("operations applied", [mean(chunk, "operations") for chunk in chunks], dots=dots, dashed=True),
    ]
    if any(step.uncovered for step in steps):
        series.append(Series("reflections lost", [mean(chunk, "uncovered") for chunk in chunks], dots=dots))
    return line_plot(series, title="Lessons a step", x=_STEPS, y="lessons", whole_x=True)


def batch_plot(steps: Sequence[StepStarted]) -> Plot:
    """Draw the size of each minibatch."""
    points = [(step.step + 1, float(step.batch)) for step in steps if step.batch]
    series = [Series("batch", points, dots=len(points) <= 60)]
    return line_plot(series, title="Batch size", x=_STEPS, y="samples a step", whole_x=True)


def pace_plot(choice: BatchChosen) -> Plot:
    """Draw seconds of one pass by batch size, measured and fitted, with the size that was chosen."""
    measured = [(float(size), seconds) for size, seconds, _ in choice.curve if seconds is not None]
    series = [Series("measured", measured, line=False)]
    if choice.scale is not None and choice.alpha is not None and len(choice.curve) > 1:
        low, high = choice.curve[0][0], choice.curve[-1][0]
        sizes = [low * (high / low) ** (i / 30) for i in range(31)]
        fitted = [(size, choice.scale * size**-choice.alpha) for size in sizes]
        name = f"fitted: {choice.scale:.3g}·b^−{choice.alpha:.2f} s"
        series.append(Series(name, fitted, dots=False, dashed=True))
    return line_plot(
        series,
        title="Time of one pass by batch size",
        x="samples a step (log)",
        y="seconds a pass (log)",
        log_x=True,
        log_y=True,
        zero=False,
        marks=[Mark(float(choice.batch), f"batch {choice.batch}", "x")],
    )


def _scored(steps: Sequence[StepFinished]) -> list[list[StepFinished]]:
    """Return the scored steps in groups that share a point: each alone up to 20 steps.

    Of more, neighbours are together until they have 20 answers, as the score of fewer says little; but no more of them
    than leave some 20 points.
    """
    scored = [step for step in steps if step.total]
    if len(scored) <= MOST_SINGLE:
        return [[step] for step in scored]
    most, groups = -(-len(scored) // MOST_SINGLE), list[list[StepFinished]]()
    for chunk in _chunks(scored):
        last = groups[-1] if groups else None
        if last and len(last) + len(chunk) <= most and sum(step.total for step in last) < FEWEST_ANSWERS:
            last.extend(chunk)
        else:
            groups.append(list(chunk))
    return groups


def _chunks(steps: Sequence[StepFinished], most: int = MOST_POINTS) -> list[Sequence[StepFinished]]:
    size = max(1, -(-len(steps) // most))
    return [steps[i : i + size] for i in range(0, len(steps), size)]


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
