"""What all environments share: tasks in folders, trials held against the limits of a run, records that are read.

A trial is scored by its verdict, and reflected on as a recorded run.

The answer of such a rollout is its verdict in a line ("1 (6 of 6 tests)"), its reasoning the place of its record below
the folder of the run. So a secret that an agent printed meets the redactor before anybody reads it.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from combee.ace.roles import describe_outcome, shown_trace
from combee.errors import BudgetError, CallErrorKind, StorageError, UsageError
from combee.kernel.journal import Scope, current_purchase
from combee.kernel.learn import Curator, Reflection, Rollout, Score, Scorer, Task, TraceReflector
from combee.kernel.playbook import Playbook
from combee.model import CallRow, Models, Usage, open_models
from combee.model.clients import CallCounter
from combee.model.settings import ROLES
from combee.redaction import Redactor, Trace
from combee.run.settings import Settings
from combee.run.spec import Agent
from combee.tasks import TaskSet
from combee.tasks.files import counts_of
from combee.traces.mining import JudgedReflector, MiningCurator, MiningReflector, safe
from combee.traces.readers import read

__all__ = [
    "TARGET",
    "ReadingReflector",
    "TrialAccount",
    "Verdicts",
    "acting",
    "folder_of",
    "refuse_unknown_cost",
    "tasks_in_folders",
]

_SPLITS = ("train", "val", "test")
_SHOWN = 1_000  # tokens of a record beside what was found in it
TARGET = "1"
"""What a task's answer is compared with: a verdict that begins with 1 or more is a pass."""


class Verdicts:
    """Scores a verdict: a task is passed or not, as Terminal-Bench and AppWorld's task goal completion count."""

    fingerprint = "verdict"

    def __call__(self, task: Task, answer: str) -> Score:
        """Return one of one for a verdict that begins with a number from 1 on."""
        return Score(int(float(answer.split(maxsplit=1)[0]) >= 1), 1, answer)


@dataclass(frozen=True)
class ReadingReflector:
    """Reads the record of a trial, and has it reflected on.

    Args:
        inner: Reflects on recorded runs.
        models: Their journal says where the folder of the run is.
        redactor: Takes secrets out; None: nobody does.
    """

    inner: TraceReflector
    models: Models
    redactor: Redactor | None

    async def reflect(
        self, task: Task, rollout: Rollout, score: Score | None, playbook: Playbook, scope: Scope
    ) -> Reflection | None:
        """Return what the trial teaches. Raises `StorageError` where its record is gone."""
        reflection = await self.inner.reflect_trace(self._record(rollout), playbook, scope)
        return None if reflection is None else replace(reflection, task=task.id, labels=task.labels)

    def done(self, rollout: Rollout) -> tuple[str, str]:
        """Return the task and what was done, without secrets. Raises `StorageError` where the record is gone."""
        record = self._record(rollout)
        return shown_trace(record, _SHOWN, task_only=True), shown_trace(record, _SHOWN)

    def ended(self, rollout: Rollout) -> str:
        """Return how a trial ended, without secrets. Raises `StorageError` where its record is gone."""
        return describe_outcome(self._record(rollout).outcome)

    def _record(self, rollout: Rollout) -> Trace:
        place = folder_of(self.models) / rollout.reasoning
        found = next(read(place).once(), None) if place.exists() else None
        if found is None:
            raise StorageError(f"{place} is gone, or cannot be read.", hint="Put it back, or begin another run.")
        return safe(found, self.redactor)[0]


def tasks_in_folders(
    spec: Settings, kind: str, main: str, question: Callable[[Path], str], scorer: Scorer, *, whole: bool
) -> TaskSet:
    """Return tasks that are a folder each: all in one, or in the folders train, val and test.

    Args:
        spec: The settings; `tasks.source` is the folder.
        kind: The kind of environment, in words for a person.
        main: What a folder that is a task holds.
        question: Reads the text of a task from its folder.
        scorer: Scores the verdict of a trial.
        whole: All tasks are test tasks, where they are not in folders of their own.

    Raises:
        UsageError: No folder is named, it holds no task, a text cannot be read, or the sizes cannot be met.
    """
    source = spec.tasks.source
    if source is None or not Path(source).is_dir():
        hint = f"Name a folder with a folder for each task, in which there is {main}."
        raise UsageError(f"The tasks of {kind} are in a folder; {source or 'none'} is not one.", hint=hint)
    root, table = Path(source), spec.tasks
    sizes = (table.train, table.val, table.test)

    def below(folder: Path) -> list[Path]:
        return sorted(path.parent for path in folder.glob(f"*/{main}"))

    split = {name: below(root / name)[:size] for name, size in zip(_SPLITS, sizes, strict=True)}
    if not any(split.values()):
        paths = below(root)
        counts = counts_of(len(paths), (0, 0, 1) if whole else (0.6, 0.0, 0.4), sizes)
        random.Random(f"{kind.lower()} {table.seed}").shuffle(paths)
        ends = list(itertools.accumulate(counts, initial=0))
        split = {name: sorted(paths[a:b]) for name, (a, b) in zip(_SPLITS, itertools.pairwise(ends), strict=True)}
    if not any(split.values()):
        raise UsageError(f"{root} holds no task: no folder with {main} and a text.")

    def task(path: Path) -> Task:  # its id is its place below the folder, so that two splits may have one name
        try:
            return Task(path.relative_to(root).as_posix(), question(path), TARGET)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"The text of {path} cannot be read: {error}") from error

    train, val, test = (tuple(map(task, split[name])) for name in _SPLITS)
    about = ", ".join(f"{len(one)} {name}" for name, one in zip(_SPLITS, (train, val, test), strict=True) if one)
    name = root.resolve().name
    return TaskSet(name, kind.lower(), train, val, test, scorer, about=f"{kind} tasks: {about}")


def refuse_unknown_cost(spec: Settings) -> None:
    """Refuse a limit in money where nothing says what a trial may cost. Raises `UsageError`."""
    if "max_cost" in spec.limits() | spec.limits("generator") and spec.environment.dollars is None:
        hint = "Set environment.dollars: US dollars that one trial may cost at most (0.5, say)."
        raise UsageError("A limit in money needs to know what a trial may cost.", hint=hint)


@dataclass
class TrialAccount:
    """Holds trials against the limits of a run, and books each as one call.

    It is booked at the tokens and the price that it reports; without a price, at the most that a trial may cost.

    Args:
        models: Whose limits and whose ledger.
        name: Who is paid.
        dollars: The most that a trial may cost.
    """

    models: Models
    name: str
    dollars: float | None
    _counter: CallCounter = field(default_factory=CallCounter)

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """Hold what a trial may cost while it is done. Raises `BudgetError`, when trials under way have come home."""
        budget = self.models.role_budgets.get("generator", self.models.budget)
        try:
            held = await budget.reserve(Usage(0, 0), self.dollars)
        except BudgetError:
            await self._counter.idle()
            raise
        self._counter.enter()
        try:
            yield
        finally:
            budget.settle(held, None, None, counted=False)
            self._counter.leave()

    def book(
        self, item: str, *, valid: bool, usage: Usage | None, cost: float | None, seconds: float, lost: int
    ) -> None:
        """Book a trial that ended.

        Args:
            item: The task.
            valid: It was judged.
            usage: Its tokens.
            cost: Its price in US dollars.
            seconds: How long it took.
            lost: How many others of the task a kill broke off: they may have been paid for besides.
        """
        if (purchase := current_purchase()) is not None:
            purchase.lost = 0  # the trials on disk know better
        cost = cost if cost is not None else self.dollars
        outcome = "ok" if valid else CallErrorKind.AGENT.value
        row = CallRow(self.name, "generator", item, 0, 0, outcome, "yes", usage, cost, 0.0, seconds, time.time())
        self.models.absorb(row, lost=lost)


def folder_of(models: Models) -> Path:
    """Return the folder that the journal of these models lies in. Raises `UsageError` where there is none."""
    folder = models.call_log.folder
    if folder is None:
        raise UsageError("Trials need a folder to be kept in.", hint="Give the run a folder.")
    return folder


def acting(spec: Settings, agent: Agent) -> tuple[Agent, Models]:
    """Return an agent that reads records and writes lessons, and the models with the limits that hold for trials too.

    Without a model code finds the lessons, as it does in recorded traces.
    """
    tasks = spec.tasks
    redactor = Redactor(cast("dict[str, str]", tasks.patterns)) if tasks.redact else None
    curator: Curator
    inner: TraceReflector
    if agent.models is None:
        limits = spec.budget.given()
        if own := [role for role in ROLES if limits.get(role)]:
            raise UsageError(f"[budget.{own[0]}] does nothing without a model.", hint="Limit the run: [budget].")
        models, inner, curator = open_models({}, budget=limits), MiningReflector(), MiningCurator()
    else:
        models, curator = agent.models, agent.curator
        users = None if tasks.users == "auto" else tasks.users
        inner = JudgedReflector(
            cast("TraceReflector", agent.reflector), None, users, evidence=tasks.shown == "evidence"
        )
    return replace(agent, reflector=ReadingReflector(inner, models, redactor), curator=curator, models=models), models
