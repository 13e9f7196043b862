"""The Model Context Protocol over HTTP: the tools of `combee mcp` on a tenant's stable book."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from combee.mcp import LessonStore
from combee.mcp.server import make_server
from combee.redaction import Trace, to_jsonl
from combee.serve.access import Grant
from combee.serve.books import STABLE
from combee.serve.service import Service

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import Receive, Scope, Send

__all__ = ["McpRoute"]


@dataclass
class _ServedLessons(LessonStore):
    """A tenant's book; what is reported waits to be learned as any other run."""

    service: Service | None = None
    loop: asyncio.AbstractEventLoop | None = None

    def _append(self, trace: Trace) -> None:
        if self.service is None or self.loop is None:
            raise AssertionError("both are given")
        line = "".join(to_jsonl([trace])).encode("utf-8", "replace")
        taking = self.service.take_runs(self.labels["tenant"], line, packed=False)
        asyncio.run_coroutine_threadsafe(taking, self.loop).result(60)  # tools run in threads


class McpRoute:
    """The route `/mcp`: a server for each token, made when it is first used."""

    def __init__(self, service: Service, authorize: Any) -> None:
        self.service = service
        self._authorize = authorize
        self._managers: dict[Grant, StreamableHTTPSessionManager] = {}
        self._beginning = asyncio.Lock()
        self._running: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        grant = await self._authorize(Request(scope, receive), "read")
        async with self._beginning:
            if grant not in self._managers:
                await self._begin(grant)
        await self._managers[grant].asgi_app(scope, receive, send)

    async def stop(self) -> None:
        """End all sessions."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _begin(self, grant: Grant) -> None:
        book = await self.service.book(grant.tenant)
        store = _ServedLessons(
            source=Path(book.folder),
            version=STABLE,
            labels={"tenant": grant.tenant},
            service=self.service,
            loop=asyncio.get_running_loop(),
        )
        server = make_server(store, reports="ingest" in grant.scopes)
        server.streamable_http_app(stateless_http=True, json_response=True)
        manager, ready = server.session_manager, asyncio.Event()

        async def hold() -> None:
            async with manager.run():  # entered and left in one task
                ready.set()
                await asyncio.Event().wait()

        self._running.append(asyncio.create_task(hold()))
        await ready.wait()
        self._managers[grant] = manager
