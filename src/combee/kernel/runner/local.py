"""Run an async function over many items in this process, a bounded number at once.

Workers pull items one by one, so a million items never become a million tasks. A `CallError` belongs to its item; any
other exception ends the whole run, after every worker has stopped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Generic, TypeVar

from combee.errors import CallError, UsageError
from combee.kernel.runner.base import Done

__all__ = ["LocalRunner"]

T = TypeVar("T")
R = TypeVar("R")

# Functions that never wait would keep the event loop (timers, progress, Ctrl-C) from its turn; seconds between turns.
_TURN = 0.01


@dataclass(slots=True)
class _Pull(Generic[T, R]):
    """One pass over the items, shared by its workers; `emit` may return something to wait for before the next item."""

    fn: Callable[[T], Awaitable[R]]
    items: Iterator[T]
    emit: Callable[[Done[R]], Awaitable[object] | None]
    pulled: int = 0
    turn: float = 0.0

    async def work(self) -> None:
        clock = asyncio.get_running_loop().time
        for item in self.items:
            index = self.pulled
            self.pulled += 1
            try:
                done = Done(index, await self.fn(item))
            except CallError as error:
                done = Done(index, None, error)
            wait = self.emit(done)
            if wait is not None:
                await wait
            if (now := clock()) > self.turn:
                self.turn = now + _TURN
                await asyncio.sleep(0)


class LocalRunner:
    """Runs on the event loop of the caller, `limit` items at once unless a call says otherwise."""

    def __init__(self, limit: int = 64) -> None:
        self._limit = _checked(limit)

    @property
    def limit(self) -> int:
        """How many items are worked on at once by default."""
        return self._limit

    async def run(
        self, fn: Callable[[T], Awaitable[R]], items: Iterable[T], *, limit: int | None = None
    ) -> list[Done[R]]:
        """Return what `fn` gave for every item, in item order. See `Runner.run`."""
        results: dict[int, Done[R]] = {}

        def emit(done: Done[R]) -> None:
            results[done.index] = done

        pull = _Pull(fn, iter(items), emit)
        workers = _start(pull, self._limit if limit is None else _checked(limit), items)
        try:
            await _first_failure(workers)
        finally:
            await _stop(workers)
        return [results[index] for index in range(pull.pulled)]

    async def stream(
        self, fn: Callable[[T], Awaitable[R]], items: Iterable[T], *, limit: int | None = None
    ) -> AsyncGenerator[Done[R], None]:
        """Yield what `fn` gave for every item, in completion order. See `Runner.stream`."""
        most = self._limit if limit is None else _checked(limit)
        ready: deque[Done[R]] = deque()
        news, room = asyncio.Event(), asyncio.Event()

        def emit(done: Done[R]) -> Awaitable[object] | None:
            ready.append(done)
            news.set()
            if len(ready) < most:
                return None
            room.clear()
            return room.wait()

        workers = _start(_Pull(fn, iter(items), emit), most, items)
        end = asyncio.ensure_future(_first_failure(workers))
        end.add_done_callback(lambda _: news.set())
        try:
            while True:
                while ready:
                    done = ready.popleft()
                    # Half empty, not one free: else every item taken would wake every worker that waits.
                    if len(ready) <= most // 2:
                        room.set()
                    yield done
                if end.done():
                    end.result()
                    return
                news.clear()
                await news.wait()
        finally:
            await _stop([end, *workers])


def _checked(limit: int) -> int:
    if type(limit) is not int or limit < 1:
        raise UsageError(
            f"the limit of a runner is {limit!r}", hint="Give the number of items to work on at once, 1 or more."
        )
    return limit


def _start(pull: _Pull[T, R], limit: int, items: Iterable[T]) -> list[asyncio.Task[None]]:
    count = min(limit, len(items)) if isinstance(items, Sized) else limit
    return [asyncio.create_task(pull.work()) for _ in range(count)]


async def _first_failure(workers: list[asyncio.Task[None]]) -> None:
    """Return when all are through; raise the first exception as soon as it is there."""
    if not workers:
        return
    for next_done in asyncio.as_completed(workers):
        await next_done


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
