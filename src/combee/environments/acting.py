"""What all environments share: a trial is scored by its verdict, and reflected on as a recorded run.

The answer of such a rollout is its verdict in a line ("1 (6 of 6 tests)"), its reasoning the place of its record below
the folder of the run. So a secret that an agent printed meets the redactor before anybody reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from combee.errors import StorageError, UsageError
from combee.kernel.journal import Scope
from combee.kernel.learn import Curator, Reflection, Rollout, Score, Task, TraceReflector
from combee.kernel.playbook import Playbook
from combee.model import Models, open_models
from combee.model.settings import ROLES
from combee.redaction import Redactor, Trace
from combee.run.settings import Settings
from combee.run.spec import Agent
from combee.traces.mining import JudgedReflector, MiningCurator, MiningReflector, safe
from combee.traces.readers import read

__all__ = ["TARGET", "ReadingReflector", "Verdicts", "acting", "folder_of"]

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
        trace, _ = safe(self._record(rollout), self.redactor)
        reflection = await self.inner.reflect_trace(trace, playbook, scope)
        return None if reflection is None else replace(reflection, task=task.id, labels=task.labels)

    def _record(self, rollout: Rollout) -> Trace:
        place = folder_of(self.models) / rollout.reasoning
        found = next(read(place).once(), None) if place.exists() else None
        if found is None:
            raise StorageError(f"{place} is gone, or cannot be read.", hint="Put it back, or begin another run.")
        return found


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
