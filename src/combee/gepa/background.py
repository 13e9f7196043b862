"""One event loop in a thread of its own, for objects whose callers are synchronous (gepa is).

It works whether or not the caller's thread runs a loop itself, starts at the first use and ends with its owner.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from combee.errors import UsageError

__all__ = ["Background", "Closing"]

T = TypeVar("T")

_PATIENCE = 10.0  # seconds that cancelled work gets to clean up


class _Thread:
    """A running loop and its thread."""

    def __init__(self) -> None:
        started = threading.Event()
        self._stopped = asyncio.Event()

        async def wait() -> None:
            self.loop = asyncio.get_running_loop()
            started.set()
            await self._stopped.wait()

        self.thread = threading.Thread(target=lambda: asyncio.run(wait()), name="combee-gepa", daemon=True)
        self.thread.start()
        started.wait()

    def stop(self) -> None:
        """End the loop; what still runs on it is cancelled."""
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self._stopped.set)
            if threading.current_thread() is not self.thread:
                self.thread.join(_PATIENCE)


class Closing(Protocol):
    """A context manager that closes at the end."""

    def close(self) -> None:
        """Let go of what is held. May be called again."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Background(Closing):
    """Runs coroutines for synchronous callers. Share one where objects share a model: its connections are the loop's.

    A context manager; also closed when it is forgotten, and at the end of the interpreter. Used again, it starts again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: _Thread | None = None
        self._end: weakref.finalize[Any, Any] | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its value. Ctrl-C cancels it and waits until it has cleaned up.

        Raises:
            UsageError: It was called from a coroutine that runs here, which would wait for itself.
        """
        with self._lock:
            if self._running is None:
                self._running = _Thread()
                self._end = weakref.finalize(self, self._running.stop)
            running = self._running
        if threading.current_thread() is running.thread:
            work.close()
            raise UsageError("a coroutine waits for its own loop", hint="Await it instead of calling the sync front.")
        ended = threading.Event()

        async def whole() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(whole(), running.loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            if future.cancel():
                ended.wait(_PATIENCE)
            raise

    def close(self) -> None:
        """End the thread. May be called again."""
        with self._lock:
            end, self._end, self._running = self._end, None, None
        if end is not None:
            end()
