"""Run the cells of a bench: each an ordinary run in a folder of its own, then scored on the test rows.

A cell that is done is a file, `cell.json`, and never run again; one that was stopped goes on from its journals. Limits
hold over all cells of a bench: each may take what the others left.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from combee.bench.definition import Cell
from combee.errors import BudgetError, StorageError, UsageError
from combee.files import write_whole
from combee.kernel.journal import Journal
from combee.kernel.learn import Evaluation, FinishReason
from combee.kernel.playbook import Playbook
from combee.kernel.runner import run_sync
from combee.model.ledger import CallRow, Totals
from combee.report import read_run
from combee.run.estimates import Forecast, check_budget, check_scoring, forecast_run, forecast_scoring, work_on
from combee.run.execute import Finished, execute
from combee.run.folders import JOURNAL
from combee.run.methods import RunDisplay, prepare
from combee.run.settings import Settings
from combee.run.spec import connect, load_tasks
from combee.run.words import counted
from combee.tasks import TaskSet

__all__ = ["BenchRun", "CellResult", "Outlook", "Taken", "forecast_cells"]

_PER_SAMPLE = 2  # calls: an answer and a reflection
_HELPFUL = 3  # votes of a bullet that counts as proven, in the paper
_REACHED = "The limit of all runs together is reached."


@dataclass(frozen=True, slots=True)
class Taken:
    """What models were asked and charged. `cost` is in US dollars, None where a price is not known."""

    calls: int = 0
    tokens: int = 0
    cost: float | None = 0.0

    def __add__(self, other: Taken) -> Taken:
        """Return both together."""
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Taken(self.calls + other.calls, self.tokens + other.tokens, cost)


@dataclass(frozen=True, slots=True)
class CellResult:
    """What a cell came to.

    Attributes:
        rows: Of each test task: id, right parts, parts.
        entries: Bullets of the playbook.
        helpful: Those with three helpful votes or more.
        calls: Calls of learning. Of the embedded agent those that a model would have got: an answer and a reflection a
            sample, and what aggregates.
        chain: Calls of learning that wait for each other.
        seconds: Of learning, over all resumes.
        learning: What models took for learning; None: the embedded agent.
        scoring: The same for scoring.
        unlearned: Samples that failed for outside reasons.
        measured: What else was measured, by the name of the metric: of a size (`scale`).
    """

    rows: tuple[tuple[str, int, int], ...]
    entries: int
    helpful: int
    calls: int
    chain: int
    seconds: float
    learning: Taken | None
    scoring: Taken | None
    unlearned: int = 0
    measured: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def taken(self) -> Taken:
        """All that models took."""
        return (self.learning or Taken()) + (self.scoring or Taken())

    @classmethod
    def read(cls, path: Path) -> CellResult:
        """Read what was written as `cell.json`. Raises `StorageError` where that is damaged."""
        try:
            data = cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
            for name in ("learning", "scoring"):
                data[name] = None if data[name] is None else Taken(**data[name])
            return cls(**{**data, "rows": tuple((str(task), int(h), int(t)) for task, h, t in data["rows"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            hint = "Take the file away: the cell is scored anew, from its journals."
            raise StorageError(f"{path} cannot be read: {error}", hint=hint) from error


@dataclass
class BenchRun:
    """A bench at work in a folder.

    Args:
        folder: Where cells and pages lie; cells that several benches have in common lie there once.
        cells: All cells.
        limits: max_cost, max_calls and max_tokens of all cells together.
        display: Makes what shows one cell at work.
    """

    folder: Path
    cells: Sequence[Cell]
    limits: Mapping[str, float]
    display: Callable[[], RunDisplay]

    def __post_init__(self) -> None:
        self.tasks: dict[str, TaskSet] = {}
        self.done: dict[Cell, CellResult] = {}
        self.stopped: str | None = None
        """Why the cells that are missing were not run: a limit."""
        self.fresh = 0
        """Cells that were run by this process."""
        self.begun: dict[Path, Taken] = {}
        """What the cells took that are begun and not done."""
        self.failed: dict[Cell, str] = {}
        """Why a cell was left: test rows that could not be scored."""
        self.beside: Sequence[BenchRun] = ()
        """Other benches of the same command, which share the limits."""

    def load(self) -> None:
        """Load all task sets and the cells that are done already. Raises `UsageError` for data that is not there."""
        for cell in self.cells:
            if cell.tasks not in self.tasks:
                found = load_tasks(cell.spec)
                if not found.train or not any(task.target is not None for task in found.test):
                    raise UsageError(f"{cell.tasks} has no training rows, or no test rows with an answer.")
                self.tasks[cell.tasks] = found
        self.place = {cell: self.folder / "cells" / cell.folder(self._data(cell)) for cell in self.cells}
        for cell, place in self.place.items():
            if (place / "cell.json").is_file():
                self.done[cell] = CellResult.read(place / "cell.json")
            elif cell.spec.calls_models and place.is_dir():
                self.begun[place] = _taken(place) + _taken(place / "scores")

    def _data(self, cell: Cell) -> str:
        return self.tasks[cell.tasks].digest()

    @property
    def missing(self) -> list[Cell]:
        """The cells that are still to be run."""
        return [cell for cell in self.cells if cell not in self.done]

    def run(self, say: Callable[[Cell, CellResult], None]) -> None:
        """Run what is missing; stop where a limit is reached. Call `load` first.

        Raises:
            UsageError: A limit does not reach for the first step of all.
            RunError: A cell could not learn; those done are kept, and its own journals too.
        """
        for cell in self.missing:
            if cell in self.done:  # equal settings under two names
                continue
            self.stopped = self._run(cell)
            if self.stopped is not None:
                return
            if cell in self.done:
                self.fresh += 1
                say(cell, self.done[cell])

    @property
    def taken(self) -> Taken:
        """All that models took for the cells that are done, and those that are begun."""
        return sum(self._by_place().values(), Taken())

    def _by_place(self) -> dict[Path, Taken]:
        return self.begun | {self.place[cell]: one.taken for cell, one in self.done.items()}

    def _left(self, place: Path, own: Taken) -> dict[str, float]:
        """Return what the limits leave for a cell that took its `own`; one that several benches have counts once."""
        places: dict[Path, Taken] = {}
        for run in (self, *self.beside):
            places |= run._by_place()
        places[place] = own
        taken = sum(places.values(), Taken())
        used = {"max_cost": taken.cost or 0.0, "max_calls": taken.calls, "max_tokens": taken.tokens}
        return {name: limit - used[name] for name, limit in self.limits.items()}

    def _within(self, cell: Cell, own: Taken | None = None) -> Settings | None:
        """Return a cell's settings with what is left as their limits; None where nothing is."""
        left = self._left(self.place[cell], own or Taken())
        return None if any(one <= 0 for one in left.values()) else cell.spec.over({"budget": left})

    def _run(self, cell: Cell) -> str | None:
        """Run a cell; return the limit that ended it, if one did."""
        place = self.place[cell]
        spec = self._within(cell)
        if spec is None:
            return _REACHED
        try:
            if not cell.empty and not (place / JOURNAL).exists() and (said := self._too_little(cell, spec)):
                return said
            return self._learn_and_score(cell, spec)
        except BudgetError:
            return _REACHED
        finally:
            if cell not in self.done and spec.calls_models:
                self.begun[place] = _taken(place) + _taken(place / "scores")

    def _learn_and_score(self, cell: Cell, spec: Settings) -> str | None:
        place, tasks = self.place[cell], self.tasks[cell.tasks]
        done = None if cell.empty else execute(prepare(spec, place), place, self.display())
        if done is not None and done.result.reason is FinishReason.BUDGET:
            return _REACHED
        limited = self._within(cell, _taken(place))
        if limited is None:
            return _REACHED
        book = Playbook() if done is None else done.result.best
        found = self._score(limited, tasks, book, place / "scores")
        if not found.complete:
            first = next(iter(found.errors.values()))
            self.failed[cell] = f"{counted(len(found.errors), 'test row')} could not be scored: {first}"
            return None
        result = _result(found, book, done, place, spec.calls_models)
        place.mkdir(parents=True, exist_ok=True)
        write_whole(place / "cell.json", json.dumps(dataclasses.asdict(result)))
        self.begun.pop(place, None)
        self.done |= {one: result for one, other in self.place.items() if other == place}
        return None

    def _too_little(self, cell: Cell, spec: Settings) -> str | None:
        """Return why what is left is too little for one step of a new cell; with nothing taken yet that is an error."""
        try:
            check_budget(spec, work_on(spec, self.tasks[cell.tasks]))
        except UsageError as error:
            if not any(run.done or run.begun for run in (self, *self.beside)):
                raise
            return f"What is left is too little: {error.message}"
        return None

    def _score(self, spec: Settings, tasks: TaskSet, book: Playbook, place: Path) -> Evaluation:
        prepared = connect(spec, tasks)

        async def score(journal: Journal | None) -> Evaluation:
            scope = None if journal is None else journal.scope(seed=0, epoch=0, step=0)
            try:
                return await prepared.score(tasks.test, book, scope)
            finally:
                await prepared.agent.aclose()

        if prepared.agent.models is None:
            return run_sync(score(None))
        with Journal.open(place) as journal:
            prepared.agent.attach(journal)
            return run_sync(score(journal))


def _taken(folder: Path) -> Taken:
    """Return what the journal of a folder says models took; nothing where there is none."""
    totals = Totals()
    if (folder / JOURNAL).exists():
        with Journal.open(folder, create=False, read_only=True) as journal:
            for row in journal.calls():
                totals.add(CallRow.from_json(cast("dict[str, Any]", row)))
    return Taken(totals.calls, totals.tokens, None if totals.unpriced else totals.cost)


def _result(found: Evaluation, book: Playbook, done: Finished | None, place: Path, with_model: bool) -> CellResult:
    steps = () if done is None else done.result.steps
    ended = None if done is None else read_run(place, rows=False).finished
    learning = _taken(place) if with_model else None
    would = sum(_PER_SAMPLE * step.batch + step.calls for step in steps)
    return CellResult(
        rows=tuple((task, score.hits, score.total) for task, score in found.scores.items()),
        entries=len(book),
        helpful=sum(bullet.helpful >= _HELPFUL for bullet in book),
        calls=would if learning is None else learning.calls,
        chain=sum(_PER_SAMPLE + step.depth for step in steps),
        seconds=0.0 if ended is None else ended.seconds,
        learning=learning,
        scoring=_taken(place / "scores") if with_model else None,
        unlearned=0 if done is None else len(done.result.unlearned),
    )


@dataclass(frozen=True, slots=True)
class Outlook:
    """What cells would take together. `cost` is None where a price is not known."""

    cells: int
    calls: int
    tokens: int
    cost: float | None
    minutes: float


def forecast_cells(run: BenchRun, cells: Sequence[Cell]) -> tuple[dict[tuple[str, str], Outlook], list[str]]:
    """Return what cells of a bench would take, by (tasks, arm), and what that rests on, in lines; calls nothing.

    Raises:
        UsageError: The price of a model is not known, and there is a limit in money.
    """
    found: dict[tuple[str, str], Outlook] = {}
    said: list[str] = []
    known: dict[tuple[str, str, object], Mapping[str, Any]] = {}
    for cell in cells:
        if cell.group not in known:  # a seed changes no estimate
            known[cell.group], lines = _forecast(cell, run.tasks.get(cell.tasks))
            said += [line for line in lines if line not in said]
        one, name = known[cell.group], (cell.tasks, cell.arm)
        old = found.get(name, Outlook(0, 0, 0, 0.0, 0.0))
        cost = None if old.cost is None or one["cost"] is None else old.cost + one["cost"]
        calls, tokens = old.calls + one["calls"], old.tokens + one["tokens"]
        found[name] = Outlook(old.cells + 1, calls, tokens, cost, old.minutes + one["minutes"])
    return found, said


def _forecast_learning(spec: Settings, tasks: TaskSet) -> Forecast:
    """Return what learning and the score on the test rows would take."""
    config = spec.learn_config()
    if spec.agent.method == "ace":
        # The score on the test rows is one validation at the end.
        work = dataclasses.replace(work_on(spec, tasks), validation=len(tasks.test))
        return forecast_run(spec.over({"learn": {"eval_every": len(tasks.train) * config.epochs}}), work)
    # A search scores a minibatch twice, with the parent and with the candidate, and the candidate on the validation
    # rows; reflections are made of the scores. The test rows come on top, as if they were validation rows.
    rows = len(tasks.val) or len(tasks.train)
    size = len(tasks.train) if config.batch == "auto" else min(config.batch, len(tasks.train))
    like = spec.over({"agent": {"method": "ace"}, "learn": {"eval_every": size}})
    steps = -(-len(tasks.train) * config.epochs // size)
    work = dataclasses.replace(work_on(like, tasks), validation=rows + -(-len(tasks.test) // steps))
    return forecast_run(like, work)


def _forecast(cell: Cell, tasks: TaskSet | None) -> tuple[Mapping[str, Any], list[str]]:
    if tasks is None or not cell.spec.calls_models:
        return {"calls": 0, "tokens": 0, "cost": 0.0, "minutes": 0.0}, []
    if cell.empty:
        check_scoring(cell.spec, tasks.test, {"none": Playbook()})
        found = forecast_scoring(cell.spec, tasks.test, {"none": Playbook()})
    else:
        found = _forecast_learning(cell.spec, tasks)
    table = {"steps": None, **found.data}
    rests = [str(table["assumed"])] if "assumed" in table else []
    if cell.spec.agent.method != "ace":
        rests.append("gepa as the loop, with a second rollout for each reflection, every candidate validated.")
    return table, [*rests, *(line for line in found.lines if line.startswith(("Price of", "The price of")))]
