"""What a bench found, as a table for a terminal, as JSON, and as one HTML page with plots.

The seeds of a cell are one row: the share right over all of them, with the interval of the test rows (a row that is
answered once a seed counts as one row, not as several), and how far the seeds lie apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from combee.bench.cells import BenchRun, CellResult, Outlook
from combee.bench.definition import At, Bench, Cell, PaperTable
from combee.files import write_whole
from combee.kernel.journal import JSON
from combee.mock.student import STUDENT
from combee.report.html import Piece, el, table
from combee.report.page import Section, figures, page
from combee.report.svg import Plot, Series, line_plot
from combee.run.rows import interval

__all__ = ["BenchRow", "expected_table", "notes_of", "plain_table", "result_to_json", "rows_of_bench", "write_page"]

_NONE = "–"
_WIDE = 10  # from which an axis is logarithmic


@dataclass(frozen=True, slots=True)
class BenchRow:
    """The cells that differ in their seed only."""

    tasks: str
    arm: str
    at: At
    results: tuple[CellResult, ...]
    paper: PaperTable | None
    learns: bool = True

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Right parts and parts of each test row, over all seeds."""
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for result in self.results:
            for task, hits, total in result.rows:
                sums[task][0] += hits
                sums[task][1] += total
        return [(hits, total) for hits, total in sums.values()]

    @property
    def score(self) -> float:
        """Share of right parts, over all seeds."""
        return sum(hits for hits, _ in self.parts) / max(1, sum(total for _, total in self.parts))

    @property
    def interval(self) -> tuple[float, float]:
        """Where the score lies with 95 % confidence, as far as the test rows decide that."""
        return interval(self.parts)

    @property
    def apart(self) -> float | None:
        """The standard deviation of the score over the seeds; None with one."""
        shares = [sum(h for _, h, _ in one.rows) / max(1, sum(t for *_, t in one.rows)) for one in self.results]
        if len(shares) < 2:
            return None
        mean = sum(shares) / len(shares)
        return math.sqrt(sum((share - mean) ** 2 for share in shares) / (len(shares) - 1))

    def mean(self, measure: Callable[[CellResult], float | None]) -> float | None:
        """Return the mean over the seeds; None where one of them has no value."""
        values = [value for one in self.results if (value := measure(one)) is not None]
        return sum(values) / len(values) if len(values) == len(self.results) else None


_MEASURES: dict[str, tuple[str, Callable[[CellResult], float | None], str]] = {
    "entries": ("entries", lambda one: one.entries, ",.0f"),
    "helpful": ("helpful ≥ 3", lambda one: one.helpful, ",.0f"),
    "calls": ("calls", lambda one: one.calls, ",.0f"),
    "chain": ("chain", lambda one: one.chain, ",.0f"),
    "minutes": ("minutes", lambda one: one.seconds / 60, ",.3g"),
    "tokens": ("tokens", lambda one: None if one.learning is None else one.learning.tokens, ",.0f"),
    "cost": ("dollars", lambda one: None if one.learning is None else one.learning.cost, ".4f"),
    "kept": ("kept", lambda one: one.measured.get("kept"), ".4f"),
    "reads": ("reads an item", lambda one: one.measured.get("reads"), ".2f"),
    "cpu": ("CPU µs an item", lambda one: one.measured.get("cpu"), ",.0f"),
    "memory": ("memory MB", lambda one: one.measured.get("memory"), ",.0f"),
    "disk": ("disk MB", lambda one: one.measured.get("disk"), ",.1f"),
    "opened": ("opened s", lambda one: one.measured.get("opened"), ",.2f"),
    "replayed": ("replayed s", lambda one: one.measured.get("replayed"), ",.2f"),
}


def rows_of_bench(run: BenchRun) -> list[BenchRow]:
    """Return a row for each group of cells of which one at least is done, by task set, in the order of the bench."""
    groups: dict[tuple[str, str, At], list[CellResult]] = {}
    first: dict[tuple[str, str, At], Cell] = {}
    for cell in run.cells:
        first.setdefault(cell.group, cell)
        if cell in run.done:
            groups.setdefault(cell.group, []).append(run.done[cell])
    return [
        BenchRow(cell.tasks, cell.arm, cell.at, tuple(groups[group]), cell.paper, not cell.empty)
        for group, cell in first.items()
        if group in groups
    ]


def _whole_table(bench: Bench, rows: Sequence[BenchRow]) -> list[list[str]]:
    """Return the heads and the rows, without columns that say nothing in any row."""
    varied = {_in_words(arm.vary) for arm in bench.table.arms if arm.vary is not None}
    heads = ["tasks", "arm", varied.pop() if len(varied) == 1 else "at"]
    for name in bench.table.metrics:
        heads += ["score", "95 % interval", "± seeds"] if name == "score" else [_MEASURES[name][0]]
    lines = [[*heads, "seeds", "paper"], *(_cells(bench, row) for row in rows)]
    said = [any(line[column] != _NONE for line in lines[1:]) for column in range(len(lines[0]))]
    return [[cell for cell, is_said in zip(line, said, strict=True) if is_said] for line in lines]


def _in_words(key: str) -> str:
    return key.rpartition(".")[2].replace("_", " ")


def _cells(bench: Bench, row: BenchRow) -> list[str]:
    at = f"{row.at:,}" if type(row.at) is int else str(row.at)
    found = [row.tasks, row.arm, _NONE if row.at is None else at]
    for name in bench.table.metrics:
        if name == "score":
            low, high = row.interval
            found += [f"{row.score:.3f}", f"{low:.3f} to {high:.3f}"]
            found.append(_NONE if row.apart is None else f"{row.apart:.3f}")
        else:
            _, measure, form = _MEASURES[name]
            value = row.mean(measure) if row.learns else None
            found.append(_NONE if value is None else format(value, form))
    return [*found, str(len(row.results)), _of_paper(row.paper)]


def _of_paper(paper: PaperTable | None) -> str:
    if paper is None:
        return _NONE
    said = [] if paper.score is None else [f"{paper.score:.3f}"]
    said += [] if paper.entries is None else [f"{paper.entries} entries"]
    said += [] if paper.helpful is None else [f"{paper.helpful} helpful ≥ 3"]
    said += [] if paper.said is None else [paper.said]
    return ", ".join(said)


def _aligned(rows: Sequence[Sequence[str]], left: Iterable[int]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    to_left = set(left)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in to_left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def plain_table(bench: Bench, rows: Sequence[BenchRow]) -> str:
    """Return the table in plain text."""
    return _aligned(_whole_table(bench, rows), (0, 1))


def expected_table(found: dict[tuple[str, str], Outlook]) -> str:
    """Return what is to come as a plain table."""
    costs = [one.cost for one in found.values()]
    known = [cost for cost in costs if cost is not None]
    whole = Outlook(
        sum(one.cells for one in found.values()),
        sum(one.calls for one in found.values()),
        sum(one.tokens for one in found.values()),
        sum(known) if len(known) == len(costs) else None,
        sum(one.minutes for one in found.values()),
    )
    heads = ["tasks", "arm", "runs", "calls", "tokens", "dollars", "minutes"]
    rows = [heads, *([*name, *_expected(one)] for name, one in found.items()), ["all", "", *_expected(whole)]]
    return _aligned(rows, (0, 1))


def _expected(one: Outlook) -> list[str]:
    cost = "unknown" if one.cost is None else f"{one.cost:.2f}"
    return [str(one.cells), f"{one.calls:,}", f"{one.tokens:,}", cost, f"{one.minutes:,.1f}"]


def notes_of(bench: Bench, run: BenchRun) -> list[str]:
    """Return what has to be known to read the table."""
    found = [bench.table.about.strip()]
    if bench.of_sizes:
        found.append(_forgetting(bench))
        return found
    with_model = sorted({cell.spec.model_of("generator").name for cell in run.cells if cell.spec.calls_models})
    embedded = any(not cell.spec.calls_models for cell in run.cells)
    if embedded:
        found.append(
            "The embedded agent works, not a language model: it votes for labels by the lessons that are most alike. "
            "Calls are those that a model would have got; minutes are those of this machine."
        )
    if embedded and bench.table.forget is not None:
        found.append(_forgetting(bench))
    for name, tasks in run.tasks.items():
        found.append(f"{name}: {len(tasks.train)} training rows, {len(tasks.test)} test rows. {tasks.about}")
        found += [f"{name}: {note}" for note in tasks.notes]
        if embedded and not tasks.labelled:
            found.append(
                f"{name}: answers are numbers, which the embedded agent cannot work out: its score says nothing here, "
                "its entries say what aggregation kept."
            )
    if STUDENT in with_model:
        found.append(
            "REHEARSED: a scripted student answers over HTTP. It is right exactly if the lesson of a label stands in "
            "its prompt: that shows how many lessons arrive, not that a model learns."
        )
    if with_model:
        found.append(f"Models: {', '.join(with_model)}. Calls, tokens and dollars are those of learning alone.")
    found.append(
        "chain: calls of learning that wait for each other, an answer and a reflection a step and the levels of "
        "aggregation. The interval is that of the test rows; ± is the standard deviation over the seeds. The paper's "
        "values are DeepSeek-V3.1's, on its own rows."
    )
    if lost := sum(one.unlearned for one in run.done.values()):
        found.append(f"{lost} samples failed for outside reasons and were not learned from.")
    return found


def _forgetting(bench: Bench) -> str:
    return (
        f"SIMULATED FORGETTING: a call over m reflections keeps each lesson with probability "
        f"exp(-m/{bench.table.forget:g}), fitted to the paper's entries. It shows what an aggregation does with "
        "a forgetful model, not what any model forgets."
    )


def _rows_to_json(rows: Sequence[BenchRow]) -> list[JSON]:
    """Return the rows as JSON; what is not known is null."""
    found: list[JSON] = []
    for row in rows:
        data: dict[str, JSON] = {"tasks": row.tasks, "arm": row.arm, "at": row.at, "seeds": len(row.results)}
        data |= {"score": row.score, "interval": list(row.interval), "score_sd": row.apart}
        data |= {name: row.mean(measure) if row.learns else None for name, (_, measure, _) in _MEASURES.items()}
        data["paper"] = None if row.paper is None else row.paper.given()
        found.append(data)
    return found


def write_page(path: Path, benches: Sequence[tuple[Bench, BenchRun]]) -> Path:
    """Write the results of benches as one page, whole or not at all, and return its path. Raises as `write_whole`."""
    title = benches[0][0].table.title if len(benches) == 1 else "Benches"
    missing = sum(len(run.missing) for _, run in benches)
    head: list[Piece] = [el("h1", title)]
    if missing:
        head.append(el("p", f"Not whole: {missing} of {sum(len(run.cells) for _, run in benches)} runs are missing."))
    return write_whole(path, page(f"{title} · Combee", head, [_section(*one) for one in benches]))


def _section(bench: Bench, run: BenchRun) -> Section:
    rows = rows_of_bench(run)
    heads, *cells = _whole_table(bench, rows)
    body: list[Piece] = [el("ul", *(el("li", note) for note in notes_of(bench, run)))]
    for name in dict.fromkeys(row.tasks for row in rows):
        plots = [plot for plot in _plots(bench, [row for row in rows if row.tasks == name]) if plot is not None]
        body += [el("h3", name), figures(plots)] if plots else []
    body.append(table(heads, cells, numbers=range(2, len(heads))))
    return Section(bench.name, bench.table.title, body)


def _plots(bench: Bench, rows: Sequence[BenchRow]) -> list[Plot | None]:
    with_model = any(row.results[0].learning for row in rows)
    found = [
        _pareto(rows, "chain", "calls that wait for each other") if "score" in bench.table.metrics else None,
        _pareto(rows, "minutes", "minutes of learning") if with_model else None,
        _pareto(rows, "cost", "dollars of learning"),
    ]
    varied = {arm.name: arm.vary for arm in bench.table.arms if arm.vary is not None}
    curves = bench.table.metrics if bench.of_sizes else ("score", "entries")
    for key in dict.fromkeys(varied.values()):
        own = [row for row in rows if varied.get(row.arm) == key]
        found += [_curve(own, _in_words(key), what) for what in curves]
    return found


def _by_arm(rows: Sequence[BenchRow]) -> dict[str, list[BenchRow]]:
    found: dict[str, list[BenchRow]] = {}
    for row in rows:
        found.setdefault(row.arm, []).append(row)
    return found


def _pareto(rows: Sequence[BenchRow], name: str, label: str) -> Plot | None:
    """Draw the score against what it takes; a dashed line joins those that nothing beats in both."""
    places = {i: at for i, row in enumerate(rows) if row.learns and (at := row.mean(_MEASURES[name][1]))}
    if len(places) < 2:
        return None
    series = []
    for arm in _by_arm(rows):
        own = [i for i in places if rows[i].arm == arm]
        points, spread = [(places[i], rows[i].score) for i in own], [rows[i].interval for i in own]
        series.append(Series(arm, points, spread, line=False))
    front: list[tuple[float, float]] = []
    for i in sorted(places, key=lambda one: (places[one], -rows[one].score)):
        if not front or rows[i].score > front[-1][1]:
            front.append((places[i], rows[i].score))
    if len(front) > 1:
        series.append(Series("most for what it takes", front, dots=False, dashed=True))
    drawn = [one for one in series if one.points]
    x = f"{label} (log)"
    return line_plot(drawn, title=f"Score by {label}", x=x, y="share right", log_x=True, y_limits=(0.0, 1.0))


def _curve(rows: Sequence[BenchRow], at: str, what: str) -> Plot | None:
    """Draw score or entries by what the arms vary, and the paper's values beside as marks of their own."""
    score, series = what == "score", list[Series]()
    for arm, own in _by_arm(rows).items():
        points = _points((row.at, row.score if score else row.mean(_MEASURES[what][1])) for row in own)
        if len(points) > 1:
            whole = score and len(points) == len(own)
            series.append(Series(arm, points, [row.interval for row in own] if whole else ()))
        paper = _points((row.at, getattr(row.paper, what, None)) for row in own if row.paper is not None)
        if paper:
            series.append(Series(f"{arm}, in the paper", paper, line=False))
    if not series:
        return None
    limits, y = ((0.0, 1.0), "share right") if score else (None, _MEASURES[what][0])
    across = [x for one in series for x, _ in one.points]
    log = min(across) > 0 and max(across) >= _WIDE * min(across)
    x = f"{at} (log)" if log else at
    said = what if score else y
    title = f"{said[0].upper()}{said[1:]} by {at}"
    return line_plot(series, title=title, x=x, y=y, log_x=log, whole_x=not log, y_limits=limits)


def _points(pairs: Iterable[tuple[At, float | None]]) -> list[tuple[float, float]]:
    return [(float(x), y) for x, y in pairs if isinstance(x, int | float) and y is not None]


def result_to_json(bench: Bench, run: BenchRun) -> dict[str, JSON]:
    """Return a bench's results as JSON."""
    taken = run.taken
    return {
        "bench": bench.name,
        "rows": _rows_to_json(rows_of_bench(run)),
        "runs": len(run.cells),
        "missing": len(run.missing),
        "fresh": run.fresh,
        "stopped": run.stopped,
        "taken": asdict(taken),
        "notes": list(notes_of(bench, run)),
    }
