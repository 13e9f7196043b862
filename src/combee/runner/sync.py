"""The sync front of async code: from a script, a notebook, or a thread."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["run_sync"]

T = TypeVar("T")


def run_sync(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its value; also where an event loop is running already (notebooks).

    Ctrl-C cancels the coroutine, waits until it has cleaned up, and then raises KeyboardInterrupt.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner() as runner:
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
            with asyncio.Runner() as runner:
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
