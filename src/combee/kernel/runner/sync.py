"""The sync front of async code: from a script, a notebook, or a thread.

Cycles of garbage are looked for less often while it runs: with a thousand calls in flight that is costly.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

__all__ = ["run_sync"]

T = TypeVar("T")

# New objects between two looks for cycles (Python's own: 700). What calls in flight hold is alive, so looking at it
# again and again finds nothing.
_GARBAGE = 50_000


class _Collections:
    """Makes collections rare while any loop of ours runs; what was set before is set again after the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._before = (0, 0, 0)

    @contextmanager
    def rare(self) -> Iterator[None]:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._before = gc.get_threshold()
                first, *others = self._before
                gc.set_threshold(max(first, _GARBAGE) if first else 0, *others)  # 0: the caller wants none at all
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if self._running == 0:
                    gc.set_threshold(*self._before)


_COLLECTIONS = _Collections()


@contextmanager
def _runner() -> Iterator[asyncio.Runner]:
    with _COLLECTIONS.rare(), asyncio.Runner() as runner:
        yield runner


def run_sync(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its value; also where an event loop is running already (notebooks).

    Ctrl-C cancels the coroutine, waits until it has cleaned up, and then raises KeyboardInterrupt.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with _runner() as runner:
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
            with _runner() as runner:
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
