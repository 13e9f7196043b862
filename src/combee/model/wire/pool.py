"""Open connections to one place, reused; as many as there are calls in flight, or as the system has files for.

A pool belongs to the event loop that it is made in.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from dataclasses import dataclass

from combee.model.wire.connection import Connection, HttpReply, WireError
from combee.model.wire.connector import Connector, Route
from combee.model.wire.files import raise_file_limit

__all__ = ["Pool", "Timeouts"]

_KEPT = 30.0  # seconds that an unused connection stays open: servers close theirs after 60 or more
_RESTED = 1.0  # seconds without a call after which servers may have closed what the loop did not look at
_SPARE_FILES = 16  # left to the rest of the program once the limit was met


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to get a connection, between two pieces of a reply (so also until its first byte), and in all.

    Replies come in one piece at the end, so `read` is rarely of use beside `total`.
    """

    connect: float = 15.0
    read: float | None = None
    total: float = 600.0


class Pool:
    """Connections along one route; as many as there are calls in flight."""

    def __init__(self, route: Route, timeouts: Timeouts) -> None:
        self._connector = Connector(route, min(timeouts.connect, timeouts.total))
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._idle: deque[Connection] = deque()
        self._all: set[Connection] = set()
        self._opening = 0
        self._limits_raised = 0
        self._most = sys.maxsize  # connections; found where the system's open files run out
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closed = False

    async def exchange(self, request: bytes) -> HttpReply:
        """Send a whole request and return the whole reply.

        Raises:
            WireError: There is no connection, or it broke.
        """
        now = self._loop.time()
        deadline = now + self._timeouts.total
        if self._idle and now - self._idle[-1].idle_since > _RESTED:
            for _ in range(2):  # the loop may have been busy since: let it see first which ones were closed
                await asyncio.sleep(0)
        connection = self._take() or await self._opened(deadline)
        try:
            reply = await connection.exchange(request, deadline, self._timeouts.read)
        except BaseException:
            self._drop(connection)
            raise
        self._give_back(connection)
        return reply

    def close(self) -> None:
        """Close all connections, also those in use and those that are just made."""
        self._is_closed = True
        for connection in self._all:
            connection.abort()
        self._all.clear()
        self._idle.clear()
        while self._waiting:
            self._call_next()

    def _take(self) -> Connection | None:
        """Return the connection that was used last, so that those too many grow old."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and self._loop.time() - connection.idle_since < _KEPT:
                return connection
            self._drop(connection)
        return None

    def _give_back(self, connection: Connection) -> None:
        if not connection.is_reusable:
            self._drop(connection)
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        self._call_next()
        oldest = self._idle[0]
        if connection.idle_since - oldest.idle_since > _KEPT:  # one a call: they go as they came
            self._drop(self._idle.popleft())

    def _drop(self, connection: Connection) -> None:
        self._all.discard(connection)
        connection.abort()
        self._call_next()

    async def _opened(self, deadline: float) -> Connection:
        """Return a new connection; where the system has no file left for it, one that comes free."""
        while not self._is_closed:
            if len(self._all) + self._opening < self._most:
                limits = self._limits_raised
                try:
                    return await self._open()
                except WireError as error:
                    if error.stage != "files":
                        raise
                    if limits != self._limits_raised:
                        continue
                    if raise_file_limit():
                        self._limits_raised += 1
                        continue
                    held = len(self._all) + self._opening
                    if not held:
                        raise
                    self._most = max(1, held - _SPARE_FILES)
            await self._one_free(deadline)
            connection = self._take()
            if connection is not None:
                return connection
        raise WireError("broken", "it was closed")

    async def _one_free(self, deadline: float) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout_at(deadline):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                self._call_next()  # it was told in vain
            if isinstance(error, TimeoutError):
                raise WireError("files", "no connection came free in time") from None
            raise

    def _call_next(self) -> None:
        """Tell the one who waits longest that a connection came free, or room for another one."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _open(self) -> Connection:
        connection = None
        self._opening += 1
        try:
            connection = await self._connector.open()
            self._all.add(connection)
        finally:
            self._opening -= 1
            if connection is None:
                self._call_next()
        if self._is_closed or not connection.is_reusable:
            self._drop(connection)
            raise WireError("connect", "it was closed at once")
        return connection
