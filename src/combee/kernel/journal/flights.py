"""Computations under way: whoever asks for one that is running waits for it instead of starting it again.

The first asker computes in its own task. When it is cancelled, a waiter takes over; when it fails, all who wait see the
failure. Works across threads that have event loops of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable

__all__ = ["Flights"]

# What a waiter is told: the text, the exception, or None for "the one who computed is gone, try yourself".
_News = str | Exception | None


class Flights:
    """Shared computations by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[bytes, list[asyncio.Future[_News]]] = {}

    async def share(self, key: bytes, find: Callable[[], str | None], buy: Callable[[], Awaitable[str]]) -> str:
        """Return what `find` knows, what a running computation at `key` gives, or else what `buy` gives."""
        while True:
            with self._lock:
                found = find()
                if found is not None:
                    return found
                waiting = self._waiting.get(key)
                if waiting is None:
                    self._waiting[key] = []
                    break
                news: asyncio.Future[_News] = asyncio.get_running_loop().create_future()
                waiting.append(news)
            told = await news
            if isinstance(told, Exception):
                raise told
            if told is not None:
                return told
        return await self._lead(key, buy)

    async def _lead(self, key: bytes, buy: Callable[[], Awaitable[str]]) -> str:
        outcome: _News = None
        try:
            text = await buy()
            outcome = text
        except Exception as error:
            outcome = error
            raise
        finally:
            with self._lock:
                waiting = self._waiting.pop(key)
            for news in waiting:
                _tell(news, outcome)
        return text


def _tell(news: asyncio.Future[_News], outcome: _News) -> None:
    def deliver() -> None:
        if not news.done():
            news.set_result(outcome)

    # Also right when the waiter's loop runs in another thread; a closed loop has no one left to tell.
    with contextlib.suppress(RuntimeError):
        news.get_loop().call_soon_threadsafe(deliver)
