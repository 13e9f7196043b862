"""The driver's side of workers: jobs go out in chunks, limits are lent and given back, lost workers are replaced.

A worker may spend what it was lent, so that all together never exceed the budget of the run. A job that uses up its
worker's share is sent once more with all that is left. A job that was lost with its worker is sent again; what may have
been paid for it stays reserved until it is booked.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from combee.errors import RunError
from combee.kernel.playbook import Playbook, digest, to_json
from combee.model import Budget
from combee.model.budget import Reservation
from combee.workers.protocol import Chunk, Job, JobResult, Worker, WorkerBudget, WorkerLostError, WorkerState

_NOTHING = Reservation(0, 0.0, 0)
_WAITS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before a worker is started again
_LOSSES = 3  # workers that may be lost while at one sample: the sample may be what ends them


@dataclass(slots=True)
class _Waiting:
    """A job, and who waits for it. `alone`: it is sent by itself, with all that is left of the budget."""

    job: Job
    book: Playbook
    alone: bool
    done: asyncio.Future[JobResult]
    lost: int = 0
    reserved: list[Reservation] = field(default_factory=list)


@dataclass(slots=True)
class _Place:
    """A worker with its jobs that are out, what it was lent, and what it spent before.

    `finished`: by job key, whether the results are on disk yet; the worker may forget the job then.
    """

    number: int
    worker: Worker
    spent: WorkerBudget
    out: dict[str, _Waiting] = field(default_factory=dict)
    lent: Reservation = _NOTHING
    finished: dict[str, Callable[[], bool]] = field(default_factory=dict)
    ready: bool = True
    """Not while another worker begins here."""


class Dispatcher:
    """Sends jobs to workers.

    Args:
        start: Begins worker number 0, 1, ...; raises `UsageError` where it cannot begin.
        count: How many workers.
        in_flight: Samples that one worker may work on at once.
        chunk: Samples that one message may hold.
        budget: The budget of the run; None where the agent calls no model.
    """

    def __init__(
        self,
        start: Callable[[int], Awaitable[Worker]],
        *,
        count: int,
        in_flight: int,
        chunk: int,
        budget: Budget | None,
    ) -> None:
        self._start = start
        self._count, self._in_flight, self._chunk = count, in_flight, chunk
        self._budget = budget
        self._places: list[_Place] = []
        self._queue: deque[_Waiting] = deque()
        self._from_before: dict[str, _Place] = {}  # jobs that an earlier driver sent, by who has them
        self._done_by: dict[str, _Place] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._pumping = False
        self._text = ("", "")

    async def begin(self) -> None:
        """Start all workers, and ask what they have from before. Raises `UsageError` where one cannot begin."""
        starting = [asyncio.create_task(self._begin(number)) for number in range(self._count)]
        try:
            await asyncio.gather(*starting)
        except BaseException:
            await asyncio.gather(*starting, return_exceptions=True)
            await self.close()
            raise

    async def close(self) -> None:
        """End all workers."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        await asyncio.gather(*(place.worker.close() for place in self._places), return_exceptions=True)

    async def work(self, job: Job, book: Playbook, *, alone: bool = False) -> tuple[JobResult, int]:
        """Return what came of a job, and how often it was lost: it may have been paid for as often."""
        waiting = _Waiting(job, book, alone, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._pump_soon()
        try:
            return await waiting.done, waiting.lost
        finally:
            for reservation in waiting.reserved:
                self._give_back(reservation)

    async def _begin(self, number: int) -> None:
        worker, state = await self._started(number)
        place = _Place(number, worker, state.spent)
        self._places.append(place)
        self._from_before.update(dict.fromkeys(state.keys, place))

    def forget(self, key: str, is_on_disk: Callable[[], bool]) -> None:
        """Let the worker that did a job forget it once its results are on disk; until then a new driver may ask."""
        self._done_by.pop(key).finished[key] = is_on_disk

    async def _started(self, number: int) -> tuple[Worker, WorkerState]:
        """Start a worker and ask what it has; try again for a while where it is lost before it answers."""
        for wait in (*_WAITS, None):
            worker = await self._start(number)
            try:
                return worker, await worker.state()
            except WorkerLostError as error:
                why = error
            except BaseException:
                await worker.close()
                raise
            await worker.close()
            if wait is not None:
                await asyncio.sleep(wait)
        hint = "Find out what ends it there (often a lack of memory). Finished work is kept."
        raise RunError(f"Worker {number} was lost {len(_WAITS) + 1} times before it began: {why}", hint=hint)

    def _pump_soon(self) -> None:
        """Send what waits at the end of this turn of the event loop, so that chunks fill up."""
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        while self._queue:
            first, ready = self._queue[0], [one for one in self._places if one.ready]
            has_it = self._from_before.get(first.job.key)
            place = has_it if has_it in ready else min(ready, key=lambda one: len(one.out), default=None)
            room = 0 if place is None else self._in_flight - len(place.out)
            if place is None or room < 1 or (first.alone and any(one.out for one in self._places)):
                return
            chunk = self._next_chunk(min(room, self._chunk, math.ceil(len(self._queue) / self._count)))
            place.out.update((waiting.job.key, waiting) for waiting in chunk)
            task = asyncio.create_task(self._send(place, chunk))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    def _next_chunk(self, most: int) -> list[_Waiting]:
        """Take jobs on one book from the queue; one that needs all of the budget, or was sent before, goes alone."""
        chunk = [self._queue.popleft()]
        has_it = self._from_before.pop(chunk[0].job.key, None)
        while len(chunk) < most and self._queue and not (chunk[0].alone or has_it):
            one = self._queue[0]
            if one.alone or one.book is not chunk[0].book or one.job.key in self._from_before:
                break
            chunk.append(self._queue.popleft())
        return chunk

    async def _send(self, place: _Place, chunk: Sequence[_Waiting]) -> None:
        worker, forget = place.worker, tuple(key for key, is_on_disk in place.finished.items() if is_on_disk())
        place.finished = {key: is_on_disk for key, is_on_disk in place.finished.items() if key not in forget}
        try:
            allowance = self._lend(place, 1.0 if chunk[0].alone else 1 / (2 * self._count))
            jobs = tuple(waiting.job for waiting in chunk)
            outcomes = await worker.work(Chunk(self._written(chunk[0].book), jobs, allowance, forget))
            self._settle(place, outcomes)
            for waiting, outcome in zip(chunk, outcomes, strict=True):
                place.out.pop(waiting.job.key, None)
                self._done_by[waiting.job.key] = place
                if not waiting.done.done():
                    waiting.done.set_result(outcome)
        except WorkerLostError as error:
            await self._replace(place, worker, error)
        except Exception as error:  # noqa: BLE001 - whoever waits for these jobs has to know
            self._fail(chunk, error)
        if not place.out:
            self._give_back(place.lent)
            place.lent = _NOTHING
        self._pump_soon()

    async def _replace(self, place: _Place, worker: Worker, why: WorkerLostError) -> None:
        """Put another worker into a place, and its jobs back into the queue."""
        if place.worker is not worker:
            return  # another chunk saw the loss first
        place.ready = False
        lost, place.out = list(place.out.values()), {}
        share = 1 / max(1, len(lost))
        part = Reservation(
            math.ceil(place.lent.tokens * share), place.lent.cost * share, math.ceil(place.lent.calls * share)
        )
        self._give_back(place.lent)
        place.lent = _NOTHING
        for waiting in lost:
            if self._budget is not None:
                waiting.reserved.append(self._budget.lend(0.0, part))
            waiting.lost += 1
        given_up = [waiting for waiting in lost if waiting.lost >= _LOSSES]
        for waiting in given_up:
            message = f"{waiting.lost} workers were lost with sample {waiting.job.sample.id}: {why}"
            self._fail(
                [waiting],
                RunError(message, hint="Find out what this sample needs (often more memory). Finished work is kept."),
            )
        try:
            await worker.close()
            place.worker, state = await self._started(place.number)
            place.spent = state.spent
        except Exception as error:  # noqa: BLE001 - as above
            self._fail([*lost, *self._queue], error)
            self._queue.clear()
            return
        place.ready = True
        self._queue.extendleft(waiting for waiting in reversed(lost) if waiting not in given_up)

    def _fail(self, chunk: Sequence[_Waiting], error: Exception) -> None:
        for waiting in chunk:
            for place in self._places:
                place.out.pop(waiting.job.key, None)
            if not waiting.done.done():
                waiting.done.set_exception(error)

    def _written(self, book: Playbook) -> str:
        if self._text[0] != digest(book):
            self._text = (digest(book), to_json(book))
        return self._text[1]

    def _lend(self, place: _Place, share: float) -> WorkerBudget:
        """Lend a worker a share of what is left on top of what it has; return what it may spend in all."""
        budget, spent = self._budget, place.spent
        if budget is None:
            return WorkerBudget()
        self._give_back(place.lent)
        place.lent = lent = budget.lend(share, place.lent)
        left = budget.seconds_left()
        return WorkerBudget(
            None if budget.max_cost is None else (spent.cost or 0.0) + lent.cost,
            None if budget.max_calls is None else (spent.calls or 0) + lent.calls,
            None if budget.max_tokens is None else (spent.tokens or 0) + lent.tokens,
            None if left is None else left / 60,
        )

    def _settle(self, place: _Place, outcomes: Sequence[JobResult]) -> None:
        """Take what outcomes cost out of what their worker was lent; whoever waits for them books it."""
        rows = [row for outcome in outcomes if not outcome.again for row in outcome.calls]
        cost = sum(row["cost"] or 0.0 for row in rows)
        calls = sum(row["paid"] != "no" for row in rows)
        tokens = sum(map(_tokens, rows))
        was = place.spent
        place.spent = WorkerBudget((was.cost or 0) + cost, (was.calls or 0) + calls, (was.tokens or 0) + tokens)
        if self._budget is not None:
            self._give_back(place.lent)
            lent = place.lent
            rest = Reservation(max(0, lent.tokens - tokens), max(0.0, lent.cost - cost), max(0, lent.calls - calls))
            place.lent = self._budget.lend(0.0, rest)

    def _give_back(self, lent: Reservation) -> None:
        if self._budget is not None:
            self._budget.settle(lent, None, None, counted=False)


def _tokens(row: Mapping[str, Any]) -> int:
    usage = row["usage"] or {}
    return int(usage.get("prompt", 0)) + int(usage.get("completion", 0))
