"""The inside of a worker: the agent and the map of a local run, over scopes that hold the rows sent with a job."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

from combee.errors import CombeeError
from combee.kernel.learn import LiveTasks
from combee.kernel.learn.sampling import run_task
from combee.kernel.playbook import Playbook, from_json
from combee.model import Budget
from combee.run.settings import Settings
from combee.run.spec import make_agent
from combee.workers.carried import carried_scope
from combee.workers.protocol import Chunk, Failure, Job, JobResult, Recipe, WorkerBudget, WorkerState

_calls: ContextVar[list[Mapping[str, Any]] | None] = ContextVar("calls", default=None)


class Workshop:
    """Does jobs. What it did is kept until the driver says that it is in the journal, so a new driver finds it.

    Raises:
        UsageError: The agent cannot be made here: a key is missing in this environment, say.
    """

    def __init__(self, recipe: Recipe) -> None:
        spec = Settings.from_json(dict(recipe.settings)).with_functions(recipe.functions)
        self._agent = make_agent(spec)
        config = spec.learn_config()
        self._map = LiveTasks(self._agent.generator, self._agent.reflector, recipe.scorer, config.view_tokens)
        self._answer = partial(run_task, self._agent.generator, view_tokens=config.view_tokens)
        self._began = time.monotonic()
        self._books: dict[str, Playbook] = {}
        self._jobs: dict[str, asyncio.Task[JobResult]] = {}
        if self._agent.models is not None:
            self._agent.models.call_log.elsewhere = _note

    @property
    def state(self) -> WorkerState:
        """Jobs that are done or under way, and what was spent."""
        models = self._agent.models
        if models is None:
            return WorkerState(tuple(self._jobs))
        budget = models.budget
        return WorkerState(tuple(self._jobs), WorkerBudget(budget.cost, budget.calls, budget.tokens))

    async def work(self, chunk: Chunk) -> tuple[JobResult, ...]:
        """Do the jobs of a chunk, at once; return what came of them."""
        for key in chunk.forget:
            self._jobs.pop(key, None)
        models = self._agent.models
        if models is not None:
            self._allow(models.budget, chunk.allowance)
        book = self._book(chunk.book)
        again = {job.key for job in chunk.jobs if job.key in self._jobs}
        for job in chunk.jobs:
            if job.key not in self._jobs:
                self._jobs[job.key] = asyncio.ensure_future(self._one(job, book))
        outcomes = await asyncio.gather(*(asyncio.shield(self._jobs[job.key]) for job in chunk.jobs))
        for outcome in outcomes:
            if outcome.failure is not None:  # it may be tried again under the same key
                self._jobs.pop(outcome.key, None)
        return tuple(dataclasses.replace(one, again=True) if one.key in again else one for one in outcomes)

    async def aclose(self) -> None:
        """Close connections."""
        for task in self._jobs.values():
            task.cancel()
        await self._agent.aclose()

    def _allow(self, budget: Budget, allowance: WorkerBudget) -> None:
        """Raise the limits to what this worker may spend by now."""
        budget.max_cost, budget.max_calls, budget.max_tokens = allowance.cost, allowance.calls, allowance.tokens
        if allowance.minutes is not None:
            budget.max_minutes = allowance.minutes + (time.monotonic() - self._began) / 60

    def _book(self, text: str) -> Playbook:
        if text not in self._books:
            self._books = {text: from_json(text)}  # the last one: chunks of one step follow each other
        return self._books[text]

    async def _one(self, job: Job, book: Playbook) -> JobResult:
        scope, store = carried_scope(job.place, job.known)
        calls: list[Mapping[str, Any]] = []
        _calls.set(calls)  # a task has a context of its own
        failure = None
        try:
            if job.role is None:
                await self._map(job.sample, book, scope, job.attempt)
            else:
                await self._answer(job.sample, book, scope, role=job.role, attempt=job.attempt)
        except CombeeError as error:
            failure = Failure.of(error)
        except Exception as error:  # noqa: BLE001 - the agent may be the user's own: the driver reports what it raised
            failure = Failure("RunError", f"a worker failed: {type(error).__name__}: {error}")
        return JobResult(job.key, tuple(store.added), tuple(calls), failure)


def _note(row: Mapping[str, Any]) -> None:
    calls = _calls.get()
    if calls is not None:
        calls.append(row)
