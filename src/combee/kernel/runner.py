"""Run an async function over many items, a bounded number at once; and async code from sync code.

Workers pull items one by one, so a million items never become a million tasks. A `CallError` belongs to its item; any
other exception ends the whole run, after every worker has stopped. The sync front works from a script, a notebook, or a
thread; cycles of garbage are looked for less often while it runs: with a thousand calls in flight that is costly.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sized
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from combee.errors import CallError, UsageError

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Done(Generic[R_co]):
    """What came of item number `index` (from 0): a value, or the `CallError` of that item alone."""

    index: int
    value: R_co | None = None
    error: CallError | None = None

    def get(self) -> R_co:
        """Return the value; raise the item's `CallError` if it failed."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # without an error the value is there, None included


@runtime_checkable
class Runner(Protocol):
    """Runs a function over items, here or on other machines."""

    async def run(
        self, fn: Callable[[T], Awaitable[R]], items: Iterable[T], *, limit: int | None = None
    ) -> list[Done[R]]:
        """Return one `Done` an item, in item order, with at most `limit` items under way at once.

        A `CallError` is kept with its item. Any other exception is raised when the rest has been stopped.

        Raises:
            UsageError: `limit` is below 1.
        """
        ...

    def stream(
        self, fn: Callable[[T], Awaitable[R]], items: Iterable[T], *, limit: int | None = None
    ) -> AsyncGenerator[Done[R], None]:
        """Yield the same in completion order; at most twice `limit` finished items wait for a slow consumer.

        Close it (`contextlib.aclosing`) when you stop before the end, so that the rest is cancelled at once.
        """
        ...


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


# New objects between two looks for cycles (Python's own: 700). What calls in flight hold is alive, so looking at it
# again and again finds nothing.
_GARBAGE = 50_000


_lock = threading.Lock()
_thresholds: list[tuple[int, int, int]] = []  # what was set when each loop of ours began


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Make collections rare while any loop of ours runs; what was set before is set again after the last one."""
    with _lock:
        _thresholds.append(gc.get_threshold())
        first, *others = _thresholds[0]
        gc.set_threshold(max(first, _GARBAGE) if first else 0, *others)  # 0: the caller wants none at all
    try:
        yield
    finally:
        with _lock:
            before = _thresholds[0]
            _thresholds.pop()
            if not _thresholds:
                gc.set_threshold(*before)


@contextmanager
def _sync_runner() -> Iterator[asyncio.Runner]:
    with _rare_collections(), asyncio.Runner() as runner:
        yield runner


def run_sync(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its value; also where an event loop is running already (notebooks).

    Ctrl-C cancels the coroutine, waits until it has cleaned up, and then raises KeyboardInterrupt.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with _sync_runner() as runner:
            return runner.run(coro)
    return _in_thread(coro)


def _in_thread(coro: Coroutine[Any, Any, T]) -> T:
    """Run on a loop of its own in another thread, since a running loop cannot be entered again."""
    result: Future[T] = Future()
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = Future()

    async def main() -> T:
        task = asyncio.ensure_future(coro)
        started.set_result((asyncio.get_running_loop(), task))
        return await task

    def target() -> None:
        try:
            with _sync_runner() as runner:
                result.set_result(runner.run(main()))
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            result.set_exception(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(target,), name="combee-run-sync", daemon=True)
    thread.start()
    try:
        return result.result()
    except KeyboardInterrupt:
        if not result.done():
            loop, task = started.result()
            with suppress(RuntimeError):  # it has ended meanwhile, and its loop is closed
                loop.call_soon_threadsafe(task.cancel)
            thread.join()
        raise
