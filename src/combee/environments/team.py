"""Teams of coding agents as an environment: a task is a repository, a trial the user's program for the team in a copy.

The playbook is the rules that the team reads. The score has parts, so it is counted in hundredths of its total; the
joined trace of state and git history is the record that is reflected on.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, pstdev
from typing import cast

from combee.environments.acting import (
    ReadingReflector,
    TrialAccount,
    acting,
    folder_of,
    refuse_unknown_cost,
    tasks_in_folders,
)
from combee.errors import CallError, CallErrorKind, UsageError
from combee.export import scored_text, slug
from combee.kernel.journal import Scope, hash_json
from combee.kernel.learn import Evaluation, Rollout, Score, Task
from combee.kernel.playbook import Playbook, digest
from combee.model import Models
from combee.model.operations import find_ids
from combee.redaction import Trace
from combee.run.environments import Looked
from combee.run.settings import Settings
from combee.run.spec import Agent
from combee.tasks import TaskSet
from combee.team.trial import RECORD, TeamProgram, TeamTrials, words_of
from combee.traces.mining import safe

__all__ = ["TeamAgent", "TeamScorer", "Teams"]

_PARTS = re.compile(r"(\w+) (\d\.\d\d)(?=[,)])")
_NO_MODEL = (
    "without a model nothing is learned of a team: code finds what tools failed, and a team's record is of talk, tasks "
    "and commits. Name one: --model NAME"
)
_COST = re.compile(r"\$([\d.]+)")


class TeamScorer:
    """Scores the verdict of a trial in hundredths."""

    fingerprint = "team score"

    def __call__(self, task: Task, answer: str) -> Score:
        """Return so many hundredths of 100; the detail says the parts, and what was missed."""
        return Score(round(100 * float(answer.split(maxsplit=1)[0])), 100, answer)


class Teams:
    """Repositories that a team works on; `tasks.source` holds a folder for each, with `task.md` and `repository`."""

    keys = frozenset({"kind", "program", "test", "junit", "testers", "in_flight", "dollars", "minutes"})

    def tasks(self, spec: Settings, *, whole: bool) -> TaskSet:
        """Return the tasks. Raises `UsageError` where there are none, or one has no repository."""
        found = tasks_in_folders(spec, "Team", "task.md", _question, TeamScorer(), whole=whole)
        return found if spec.calls_models else dataclasses.replace(found, notes=(*found.notes, _NO_MODEL))

    def agent(self, spec: Settings, agent: Agent) -> Agent:
        """Return the agent that has trials done. Raises `UsageError` where what it needs is not said or not there."""
        refuse_unknown_cost(spec)
        if missing := [one for one in (_git(), _program(spec)) if not one.ok]:
            raise UsageError(f"{missing[0].name}: {missing[0].found}.", hint=missing[0].fix)
        made, models = acting(spec.over({"tasks": {"shown": "runs"}}), agent)
        return dataclasses.replace(made, name="team", generator=TeamAgent(spec, models, made.reflector))

    def summary(self, tasks: Sequence[Task], found: Evaluation) -> list[str]:
        """Return the spread over repositories, the mean of each part, and the cost of a trial where it is known."""
        verdicts = [found.rollouts[task.id].answer for task in tasks if task.id in found.scores]
        if not verdicts:
            return []
        totals = [float(said.split(maxsplit=1)[0]) for said in verdicts]
        parts: dict[str, list[float]] = {}
        for said in verdicts:
            for name, value in _PARTS.findall(said.partition(")")[0] + ")"):
                parts.setdefault(name, []).append(float(value))
        count = f"{len(totals)} repositor{'y' if len(totals) == 1 else 'ies'}"
        lines = [f"over {count}: {min(totals):.2f} to {max(totals):.2f}, standard deviation {pstdev(totals):.2f}"]
        lines += [", ".join(f"{name} {mean(values):.2f}" for name, values in parts.items())]
        costs = [float(cost[1]) for said in verdicts if (cost := _COST.search(said.partition(")")[0]))]
        lines += [f"a trial: ${mean(costs):.4f} (${min(costs):.4f} to ${max(costs):.4f})"] if costs else []
        return lines

    def look(self, spec: Settings) -> list[Looked]:
        """Look for git, the program, and the folder of the tasks."""
        try:
            tasks = Looked("tasks", ok=True, found=self.tasks(spec, whole=True).about)
        except UsageError as error:
            tasks = Looked("tasks", ok=False, found=error.message, fix=error.hint or "")
        return [_git(), _program(spec), tasks]


def _question(folder: Path) -> str:
    if not (folder / "repository").is_dir():
        raise UsageError(
            f"{folder} has no repository.", hint="Put the git repository into it, as the folder repository."
        )
    return (folder / "task.md").read_text(encoding="utf-8")


def _git() -> Looked:
    there = shutil.which("git") is not None
    return Looked("git", there, "found" if there else "it is not on the PATH", "Install git 2.38 or later.")


def _program(spec: Settings) -> Looked:
    fix = 'Set environment.program: what has the team work, such as "python team.py {rules}".'
    if spec.environment.program is None:
        return Looked("team", ok=False, found="no program is named", fix=fix)
    try:
        first = words_of(spec.environment.program, Path())[0]
    except UsageError as error:
        return Looked("team", ok=False, found=error.message, fix=error.hint or fix)
    if shutil.which("sh") is None or shutil.which(first) is None:
        return Looked("team", ok=False, found=f"{first} cannot be started from here", fix=fix)
    return Looked("team", ok=True, found=first)


class TeamAgent:
    """Does each task as a trial of the team."""

    def __init__(self, spec: Settings, models: Models, reflector: object) -> None:
        table = spec.environment
        self._program = TeamProgram(str(table.program), table.test, table.junit, tuple(table.testers), table.minutes)
        self.fingerprint = f"team {hash_json(list(dataclasses.astuple(self._program)))[:12]}"
        self._models, self._root = models, Path(str(spec.tasks.source)).resolve()
        redactor = cast("ReadingReflector", reflector).redactor
        self._safe: Callable[[Trace], Trace] = lambda trace: safe(trace, redactor)[0]
        self._account = TrialAccount(models, "team", table.dollars)
        self._slots = asyncio.Semaphore(table.in_flight)

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Return the verdict, and where the record of the trial is kept.

        Raises:
            CallError: The program failed, or left nothing that can be judged.
            BudgetError: A limit is reached; trials under way have come home by then.
            RunError: The tests cannot be run.
        """
        folder = folder_of(self._models).resolve()
        rules = scored_text(playbook) if len(playbook) else ""
        name = f"{slug(task.id)}-{hash_json([task.id, scope.address, digest(playbook), self.fingerprint])[:12]}"
        trials = TeamTrials(folder / "trials", self._program, self._safe)
        async with self._slots:
            trial = trials.found(name)
            if trial is None:
                async with self._account.held():
                    trial = await trials.run(self._root / task.id, rules, name)
        self._account.book(
            task.id,
            valid=not trial.trouble,
            usage=trial.usage,
            cost=trial.cost,
            seconds=trial.seconds,
            lost=trials.broken_off(name),
        )
        if trial.trouble:
            raise CallError(f"the trial of {task.id} gave no score: {trial.trouble}", kind=CallErrorKind.AGENT)
        record = trial.folder / RECORD
        used = find_ids(record.read_text(encoding="utf-8"), playbook).known
        return Rollout(task.id, trial.verdict, used, record.relative_to(folder).as_posix())
