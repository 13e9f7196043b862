"""The map of a run, done by workers: what a local run would have written comes back, and is replayed here.

The driver's journal gets the rows, the ledger the calls, the budget what they cost; then the map itself runs over those
rows. So playbook and journal are those of a local run, byte for byte, and a run may go on with another kind of worker.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

from combee.errors import UsageError
from combee.kernel.journal import Purchase, Scope
from combee.kernel.journal.scope import BoundScope, StoredRow, key_of
from combee.kernel.learn import LiveTasks, Rollout, Sampled, Task
from combee.kernel.learn.sampling import run_task
from combee.kernel.playbook import Playbook, digest
from combee.model import CallRow, Models
from combee.run.spec import Prepared
from combee.workers.carried import NotStoredError, ReplayStore, carried_scope, put_rows
from combee.workers.dispatch import Dispatcher
from combee.workers.protocol import Failure, Job, JobResult, Recipe, Worker

T = TypeVar("T")


class CarriedMap:
    """A map whose work is done by workers; `inner` is the map that they run, and the one that identifies the run."""

    def __init__(self, inner: LiveTasks, dispatcher: Dispatcher, models: Models | None) -> None:
        self.inner = inner
        self._dispatcher = dispatcher
        self._models = models

    async def __call__(self, sample: Task, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Work on the task elsewhere, unless the journal has it already. Raises what the map raises."""

        async def work(scope: Scope) -> Sampled:
            return await self.inner(sample, playbook, scope, attempt)

        return await self._carried(work, _job(sample, scope, attempt), playbook, scope)

    async def answer(self, task: Task, playbook: Playbook, scope: Scope, *, role: str, attempt: int) -> Rollout:
        """Do the task elsewhere, unless the journal has it already. Raises what the generator raises."""

        async def work(scope: Scope) -> Rollout:
            inner = self.inner
            return await run_task(
                inner.generator, task, playbook, scope, role=role, attempt=attempt, view_tokens=inner.view_tokens
            )

        return await self._carried(work, _job(task, scope, attempt, role), playbook, scope)

    async def _carried(self, work: Callable[[Scope], Awaitable[T]], job: Job, playbook: Playbook, scope: Scope) -> T:
        """Return what `work` returns over rows that the journal has, or that a worker sends back."""
        store, place = cast("BoundScope", scope).store, job.place
        replay = ReplayStore(store)
        try:
            return await work(BoundScope(replay, place))
        except NotStoredError:
            known = {row.key: row for row in (*replay.rows_read.values(), *store.about(place, job.sample.id))}
        key = key_of("carried", *place.parts(), job.role or "", job.sample.id, job.attempt, digest(playbook))
        purchase = store.begin(key)  # stays marked after a kill or Ctrl-C: it may have been paid for
        job = replace(job, key=key.hex(), known=tuple(known.values()))
        outcome = await self._done(job, playbook, purchase)
        put_rows(store, outcome.rows, purchase)
        last = outcome.rows[-1].key if outcome.rows else b""
        self._dispatcher.forget(job.key, lambda: store.is_on_disk(last))
        if outcome.failure is not None:
            raise outcome.failure.error()
        known.update((row.key, row) for row in outcome.rows)
        return await work(carried_scope(place, known.values())[0])

    async def _done(self, job: Job, playbook: Playbook, purchase: Purchase | None) -> JobResult:
        """Have a job done; if its worker's share of the budget was too small, once more with all that is left."""
        outcome, lost = await self._dispatcher.work(job, playbook)
        self._book(outcome, lost, purchase)
        if outcome.failure is None or not outcome.failure.short:
            return outcome
        known = {row.key: row for row in (*job.known, *outcome.rows)}
        again = replace(job, known=tuple(known.values()))
        rest, lost = await self._dispatcher.work(again, playbook, alone=True)
        self._book(rest, lost, purchase)
        rows: tuple[StoredRow, ...] = (*outcome.rows, *rest.rows)
        failure = rest.failure
        if failure is not None and failure.short and self._models is not None:
            hint = "Raise the limit and run again: what was paid for is kept."
            failure = Failure("BudgetError", f"the budget is used up: {_spent(self._models)}", hint)
        return JobResult(job.key, rows, (), failure)

    def _book(self, outcome: JobResult, lost: int, purchase: Purchase | None) -> None:
        if self._models is None:
            return
        if purchase is not None and outcome.calls:
            lost += purchase.lost
            purchase.lost = 0
        for call in outcome.calls:
            row = CallRow.from_json(call)
            self._models.absorb(row, lost=lost)


def _job(sample: Task, scope: Scope, attempt: int, role: str | None = None) -> Job:
    return Job("", cast("BoundScope", scope).place, sample, attempt, role=role)


def _spent(models: Models) -> str:
    budget = models.budget
    words = {
        "max_cost": f"${budget.cost:.4f} of ${budget.max_cost or 0:g}",
        "max_calls": f"{budget.calls} of {budget.max_calls} calls",
        "max_tokens": f"{budget.tokens} of {budget.max_tokens} tokens",
        "max_minutes": f"{budget.max_minutes or 0:g} minutes",
    }
    return ", ".join(text for name, text in words.items() if getattr(budget, name) is not None)


class Start(Protocol):
    """Begins worker number 0, 1, ... of a run."""

    def __call__(self, number: int, /) -> Awaitable[Worker]:
        """Return the worker. Raises `UsageError` where it cannot begin."""
        ...


@asynccontextmanager
async def carry(prepared: Prepared, start: Start, count: int) -> AsyncGenerator[Prepared]:
    """Yield a run whose tasks are done by `count` workers; they are closed afterwards.

    Raises:
        UsageError: Its map cannot run on workers, or a worker cannot begin.
    """
    inner, workers = live(prepared), prepared.spec.workers
    models = prepared.agent.models
    dispatcher = Dispatcher(
        start,
        count=count,
        in_flight=workers.in_flight,
        chunk=workers.chunk,
        budget=None if models is None else models.budget,
    )
    await dispatcher.begin()
    try:
        carried = CarriedMap(inner, dispatcher, models)
        config = replace(prepared.config, concurrency=max(prepared.config.concurrency, count * workers.in_flight))
        yield replace(prepared, sample_map=carried, answering=carried.answer, config=config)
    finally:
        await dispatcher.close()


def live(prepared: Prepared) -> LiveTasks:
    """Return the map of a run. Raises `UsageError` where it cannot run on workers."""
    if not isinstance(prepared.sample_map, LiveTasks):
        raise UsageError("Workers do tasks; recorded traces are read in this process.", hint="Leave out [workers].")
    return prepared.sample_map


def recipe_of(prepared: Prepared, shares: int) -> Recipe:
    """Return what a worker makes its agent from; limits of endpoints and of roles are divided by `shares`."""
    spec = prepared.spec
    kept = cast("dict[str, Any]", spec.to_json())
    divided = {
        "model": _divided(kept["model"], ("max_in_flight", "requests_per_minute", "tokens_per_minute"), shares),
        "budget": _divided(kept["budget"], ("max_cost", "max_calls", "max_tokens"), shares),
    }
    return Recipe({**kept, **divided}, spec.functions, live(prepared).scorer)


def _divided(table: Mapping[str, Any], keys: tuple[str, ...], shares: int) -> dict[str, Any]:
    """Return a table, and the tables of roles in it, with these limits divided; whole numbers stay 1 at least."""
    divided: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            divided[key] = _divided(value, keys, shares)
        elif key in keys and value is not None:
            divided[key] = max(1, math.floor(value / shares)) if isinstance(value, int) else value / shares
        else:
            divided[key] = value
    return divided
