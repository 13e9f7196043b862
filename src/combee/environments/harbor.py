"""Harbor's tasks (Terminal-Bench 2 and others): an agent acts in a container, a verifier gives the reward.

The task set is a folder of tasks as `harbor download` writes it, or one with the folders train, val and test.
"""

from __future__ import annotations

import asyncio
import dataclasses
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from combee.environments.acting import (
    TrialAccount,
    Verdicts,
    acting,
    folder_of,
    refuse_unknown_cost,
    tasks_in_folders,
)
from combee.environments.jobs import PROGRAM, Jobs
from combee.errors import CallError, CallErrorKind, UsageError
from combee.kernel.journal import Scope
from combee.kernel.learn import Evaluation, Rollout, Task
from combee.kernel.playbook import Playbook
from combee.model import Models
from combee.run.environments import Looked
from combee.run.settings import Settings
from combee.run.settings_tables import EnvironmentTable
from combee.run.spec import Agent
from combee.tasks import TaskSet

__all__ = ["Harbor"]


class Harbor:
    """Tasks of Harbor, done by `harbor run`."""

    keys = frozenset({"kind", "agent", "model", "options", "program", "book", "in_flight", "dollars", "minutes"})

    def tasks(self, spec: Settings, *, whole: bool) -> TaskSet:
        """Return the tasks of a folder.

        Raises:
            UsageError: None is named, it holds no task, or the sizes cannot be met.
        """
        return tasks_in_folders(spec, "Harbor", "task.toml", _question, Verdicts(), whole=whole)

    def agent(self, spec: Settings, agent: Agent) -> Agent:
        """Return the agent that has trials done. Raises `UsageError` where what it needs is not said."""
        table = spec.environment
        refuse_unknown_cost(spec)
        if table.agent is None:
            raise UsageError("No agent is named.", hint="Set environment.agent, such as terminus-2 or claude-code.")
        made, models = acting(spec, agent)
        return dataclasses.replace(made, name="harbor", generator=HarborTrials(spec, models))

    def summary(self, tasks: Sequence[Task], found: Evaluation) -> list[str]:
        """Return nothing: the share of passed tasks says it all."""
        return []

    def look(self, spec: Settings) -> list[Looked]:
        """Look for Harbor and for docker."""
        return [_program(spec.environment), _docker(spec.environment)]


def _question(folder: Path) -> str:
    try:
        return (folder / "instruction.md").read_text(encoding="utf-8")
    except FileNotFoundError:  # of several steps, each with its own
        steps = sorted(folder.glob("steps/*/instruction.md"))
        return "\n\n".join(step.read_text(encoding="utf-8") for step in steps)


def _program(table: EnvironmentTable) -> Looked:
    words = shlex.split(table.program or PROGRAM)
    fix = "Install it in a Python 3.12 of its own: uv tool install harbor; or set environment.program to where it is."
    if shutil.which(words[0]) is None:
        return Looked("harbor", ok=False, found=f"{words[0]} is not on the PATH", fix=fix)
    try:
        said = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=120, check=True)  # noqa: S603 - the user's own program
        return Looked("harbor", ok=True, found=said.stdout.strip() or "found")
    except (OSError, subprocess.SubprocessError) as error:
        return Looked("harbor", ok=False, found=f"{shlex.join(words)} --version fails: {error}", fix=fix)


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
    """Does each task as a trial; trials that are asked for together are one job."""

    def __init__(self, spec: Settings, models: Models) -> None:
        table = spec.environment
        self.fingerprint = f"harbor {table.agent} {table.model or ''} {table.book} {shlex.join(table.options)}"
        self._table, self._models = table, models
        self._root = Path(str(spec.tasks.source)).resolve()
        self._jobs: Jobs | None = None
        name = f"{table.agent}{f' on {table.model}' if table.model else ''}"
        self._account = TrialAccount(models, name, table.dollars)

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
        trial = self._jobs.found(key, place)
        if trial is None:
            async with self._account.held():
                trial = await self._jobs.run(place, playbook, key)
        self._account.book(
            task.id,
            valid=trial.reward is not None,
            usage=trial.usage,
            cost=trial.cost,
            seconds=trial.seconds,
            lost=int(self._jobs.lost(key, place, trial)),
        )
        if trial.reward is None:
            raise CallError(f"the trial of {task.id} gave no reward: {trial.trouble}", kind=CallErrorKind.AGENT)
        cost = "" if trial.cost is None else f", ${trial.cost:.4f}"
        verdict = f"{trial.reward:g} (reward{cost})"
        return Rollout(task.id, verdict, reasoning=trial.folder.relative_to(folder).as_posix())

    async def aclose(self) -> None:
        """Stop the jobs under way."""
        if self._jobs is not None:
            await asyncio.shield(self._jobs.aclose())
