"""Harbor's tasks (Terminal-Bench 2 and others): an agent acts in a container, a verifier gives the reward.

The task set is a folder of tasks as `harbor download` writes it, or one with the folders train, val and test.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from combee.environments.acting import TARGET, Verdicts, acting, folder_of
from combee.environments.jobs import HarborTrial, Jobs
from combee.errors import BudgetError, CallError, CallErrorKind, UsageError
from combee.kernel.journal import Scope, current_purchase
from combee.kernel.learn import Evaluation, Rollout, Task
from combee.kernel.playbook import Playbook
from combee.model import CallRow, Models, Usage
from combee.model.clients import CallCounter
from combee.run.environments import Looked
from combee.run.settings import Settings
from combee.run.settings_tables import EnvironmentTable
from combee.run.spec import Agent
from combee.tasks import TaskSet
from combee.tasks.files import counts_of

__all__ = ["Harbor"]

_SPLITS = ("train", "val", "test")
_MAIN = "task.toml"


class Harbor:
    """Tasks of Harbor, done by `harbor run`."""

    keys = frozenset({"kind", "agent", "model", "options", "program", "book", "in_flight", "dollars", "minutes"})

    def tasks(self, spec: Settings, *, whole: bool) -> TaskSet:
        """Return the tasks of a folder.

        Raises:
            UsageError: None is named, it holds no task, or the sizes cannot be met.
        """
        source = spec.tasks.source
        if source is None or not Path(source).is_dir():
            hint = "Name a folder with a folder for each task, as `harbor download` writes it."
            raise UsageError(f"Harbor's tasks are in a folder; {source or 'none'} is not one.", hint=hint)
        root, table = Path(source), spec.tasks
        sizes = (table.train, table.val, table.test)
        split = {name: _below(root / name) for name in _SPLITS}
        if not any(split.values()):
            fractions = (0, 0, 1) if whole else (0.6, 0.0, 0.4)
            split = _cut(_below(root), counts_of(len(_below(root)), fractions, sizes), table.seed)
        else:
            split = {name: split[name][:size] for name, size in zip(_SPLITS, sizes, strict=True)}
        if not any(split.values()):
            raise UsageError(f"{root} holds no task: no folder with {_MAIN} and instruction.md.")
        parts = {name: tuple(_task(root, path) for path in paths) for name, paths in split.items()}
        about = ", ".join(f"{len(one)} {name}" for name, one in parts.items() if one)
        train, val, test = (parts[name] for name in _SPLITS)
        return TaskSet(root.resolve().name, "harbor", train, val, test, Verdicts(), about=f"Harbor tasks: {about}")

    def agent(self, spec: Settings, agent: Agent) -> Agent:
        """Return the agent that has trials done. Raises `UsageError` where what it needs is not said."""
        table = spec.environment
        if "max_cost" in spec.limits() | spec.limits("generator") and table.dollars is None:
            hint = "Set environment.dollars: US dollars that one trial may cost at most (0.5, say)."
            raise UsageError("A limit in money needs to know what a trial may cost.", hint=hint)
        if table.agent is None:
            raise UsageError("No agent is named.", hint="Set environment.agent, such as terminus-2 or claude-code.")
        made, models = acting(spec, agent)
        return dataclasses.replace(made, name="harbor", generator=HarborTrials(spec, models))

    def summary(self, tasks: Sequence[Task], found: Evaluation) -> list[str]:
        """Return nothing: the share of passed tasks says it all."""
        return []

    def look(self, table: EnvironmentTable) -> list[Looked]:
        """Look for Harbor and for docker."""
        return [_program(table), _docker(table)]


def _below(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"*/{_MAIN}"))


def _cut(paths: list[Path], counts: Sequence[int], seed: int) -> dict[str, list[Path]]:
    random.Random(f"harbor {seed}").shuffle(paths)
    ends = list(itertools.accumulate(counts, initial=0))
    return {name: sorted(paths[a:b]) for name, (a, b) in zip(_SPLITS, itertools.pairwise(ends), strict=True)}


def _task(root: Path, path: Path) -> Task:
    """Return a task; its id is its place below the folder, so that two splits may have one name."""
    try:
        question = (path / "instruction.md").read_text(encoding="utf-8")
    except FileNotFoundError:  # of several steps, each with its own
        steps = sorted(path.glob("steps/*/instruction.md"))
        question = "\n\n".join(step.read_text(encoding="utf-8") for step in steps)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path / 'instruction.md'} cannot be read: {error}") from error
    return Task(path.relative_to(root).as_posix(), question, TARGET)


def _program(table: EnvironmentTable) -> Looked:
    words = shlex.split(table.program)
    fix = "Install it in a Python 3.12 of its own: uv tool install harbor; or set environment.program to where it is."
    if shutil.which(words[0]) is None:
        return Looked("harbor", ok=False, found=f"{words[0]} is not on the PATH", fix=fix)
    try:
        said = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=120, check=True)  # noqa: S603 - the user's own program
        return Looked("harbor", ok=True, found=said.stdout.strip() or "found")
    except (OSError, subprocess.SubprocessError) as error:
        return Looked("harbor", ok=False, found=f"{table.program} --version fails: {error}", fix=fix)


def _docker(table: EnvironmentTable) -> Looked:
    if {"-e", "--env"} & {word.partition("=")[0] for word in table.options}:
        return Looked("docker", ok=True, found="not needed: environment.options names another kind of environment")
    fix = 'Start docker, or name another kind of environment: environment.options = ["-e", "daytona"].'
    try:
        subprocess.run(["docker", "info"], capture_output=True, timeout=30, check=True)  # noqa: S607 - as Harbor does
        return Looked("docker", ok=True, found="it answers")
    except FileNotFoundError:
        return Looked("docker", ok=False, found="not on the PATH", fix=fix)
    except (OSError, subprocess.SubprocessError):
        return Looked("docker", ok=False, found="it does not answer", fix=fix)


class HarborTrials:
    """Does each task as a trial; trials that are asked for together are one job.

    A trial is booked as one call, at the tokens and the price that its agent reports; where it reports no price, at the
    most that a trial may cost.
    """

    def __init__(self, spec: Settings, models: Models) -> None:
        table = spec.environment
        self.fingerprint = f"harbor {table.agent} {table.model or ''} {table.book} {shlex.join(table.options)}"
        self._table, self._models = table, models
        self._root = Path(str(spec.tasks.source)).resolve()
        self._jobs: Jobs | None = None
        self._counter = CallCounter()

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Return the verdict, and where the trial is kept.

        Raises:
            CallError: It ended without a valid reward.
            BudgetError: A limit is reached; trials under way have come home by then.
        """
        folder = folder_of(self._models).resolve()
        if self._jobs is None:
            self._jobs = Jobs(self._table, folder / "trials")
        place, key = str(self._root / task.id), self._jobs.key_of(playbook, scope.address)
        trial = self._jobs.found(key, place) or await self._bought(self._jobs, place, playbook, key)
        self._book(trial, task.id, lost=self._jobs.lost(key, place, trial))
        if trial.reward is None:
            raise CallError(f"the trial of {task.id} gave no reward: {trial.trouble}", kind=CallErrorKind.AGENT)
        cost = "" if trial.cost is None else f", ${trial.cost:.4f}"
        verdict = f"{trial.reward:g} (reward{cost})"
        return Rollout(task.id, verdict, reasoning=trial.folder.relative_to(folder).as_posix())

    async def _bought(self, jobs: Jobs, place: str, book: Playbook, key: str) -> HarborTrial:
        budget = self._models.role_budgets.get("generator", self._models.budget)
        try:
            held = await budget.reserve(Usage(0, 0), self._table.dollars)
        except BudgetError:
            await self._counter.idle()
            raise
        self._counter.enter()
        try:
            return await jobs.run(place, book, key)
        finally:
            budget.settle(held, None, None, counted=False)
            self._counter.leave()

    def _book(self, trial: HarborTrial, item: str, *, lost: bool) -> None:
        """Book a trial; `lost`: one that a kill broke off may have been paid for besides."""
        if (purchase := current_purchase()) is not None:
            purchase.lost = 0  # the trials on disk know better
        cost = trial.cost if trial.cost is not None else self._table.dollars
        name = f"{self._table.agent}{f' on {self._table.model}' if self._table.model else ''}"
        outcome = "ok" if trial.reward is not None else CallErrorKind.AGENT.value
        row = CallRow(name, "generator", item, 0, 0, outcome, "yes", trial.usage, cost, 0.0, trial.seconds, time.time())
        self._models.absorb(row, lost=int(lost))

    async def aclose(self) -> None:
        """Stop the jobs under way."""
        if self._jobs is not None:
            await asyncio.shield(self._jobs.aclose())
