"""The model of a role: what is behind it, and how it stops when a budget is used up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from combee.ace.clients import Client
from combee.errors import BudgetError
from combee.model import Request, Response

__all__ = ["Busy", "RoleModel"]


class Busy:
    """How many calls are under way."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: list[asyncio.Future[None]] = []

    def enter(self) -> None:
        """Count a call that begins."""
        self._count += 1

    def leave(self) -> None:
        """Count a call that has ended."""
        self._count -= 1
        if self._count == 0:
            for future in self._waiting:
                if not future.done():
                    future.set_result(None)
            self._waiting.clear()

    async def idle(self) -> None:
        """Wait until no call is under way."""
        if self._count:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future


class RoleModel:
    """The model of a role. When the budget is used up it lets the calls in flight come home before it says so.

    Those are paid for already; a run that stopped at once would throw them away.
    """

    def __init__(self, inner: Client, busy: Busy) -> None:
        self.inner = inner
        self._busy = busy

    @property
    def name(self) -> str:
        """The model's name at its place."""
        return self.inner.name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What besides the request makes a reply what it is."""
        return self.inner.parameters

    async def complete(self, request: Request) -> Response:
        """Return a usable reply; see `Engine.complete` for what it raises."""
        self._busy.enter()
        try:
            return await self.inner.complete(request)
        except BudgetError as error:
            used_up = error
        finally:
            self._busy.leave()
        await self._busy.idle()
        raise used_up
