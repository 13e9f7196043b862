"""Time that passes at once, for tests of what waits; and what two tests of connections share."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

from combee.model.http import HttpReply
from combee.model.outcome import Fault


class _Skip(selectors.SelectSelector):
    """A selector that lets time pass at once instead of waiting."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.passed += max(0.0, timeout or 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer."""

    def __init__(self) -> None:
        self._skip = _Skip()
        super().__init__(self._skip)

    def time(self) -> float:
        return self._skip.passed


async def all_gone(server: Any) -> None:
    """Wait until the server has seen the end of each of its connections."""
    for _ in range(1000):
        if all(writer.transport.is_closing() for writer in server.writers):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("a connection is still open")


def body_of(reply: HttpReply | Fault) -> bytes:
    assert isinstance(reply, HttpReply), reply
    return reply.body
