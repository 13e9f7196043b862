"""The Model Context Protocol of a world: a guest's tools, over stdio, or over HTTP for each that has a token.

It needs the extra `mcp`; nothing else of the swarm imports that package.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from combee import __version__
from combee.errors import CombeeError, StorageError, UsageError
from combee.kernel.journal.lock import RunLock
from combee.kernel.runner import run_sync
from combee.swarm.agents import ToolSpec
from combee.swarm.guests import Guest
from combee.terminal.options import listening

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

__all__ = ["listening_at", "make_server", "serve_http", "serve_stdio"]

_WAIT = 60.0
_LONGEST_WAIT = 600.0
_LOOK = 0.2  # seconds between two looks for an answer
_LONGEST_TEXT = 1 << 20
_RUN = ("report", "messages")  # has a limit of its own


def make_server(guest: Guest) -> Server[Any]:
    """Return the server of a guest, ready to run."""

    async def on_list_tools(context: Any, given: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(spec) for spec in guest.tools()])

    async def on_call_tool(context: Any, given: types.CallToolRequestParams) -> types.CallToolResult:
        said = await _use(guest, given.name, given.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=said)], is_error=said.startswith("error: ")
        )

    return Server(
        "combee-swarm", version=__version__, instructions=guest.briefing(), on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )  # fmt: skip


def _described(spec: ToolSpec) -> types.Tool:
    schema = spec.schema()
    if spec.name == "report":  # the one argument that is no text
        schema["properties"]["messages"] |= {"type": "array", "items": {"type": "object"}}
    return types.Tool(name=spec.name, description=spec.about, input_schema=schema)


async def _use(guest: Guest, name: str, arguments: dict[str, Any]) -> str:
    """Use a tool; what is wrong with the use, or with the world, is said to the agent."""
    try:
        if any(len(str(value)) > _LONGEST_TEXT for key, value in arguments.items() if (name, key) != _RUN):
            return f"error: a text has at most {_LONGEST_TEXT >> 20} MiB"
        return await _asked(guest, arguments) if name == "ask" else guest.call(name, arguments)
    except CombeeError as error:
        return f"error: {error.message}"


async def _asked(guest: Guest, arguments: dict[str, Any]) -> str:
    """Ask, and wait for the answer; one that comes later is found in the inbox."""
    if not str(arguments.get("question", "")).strip() or not set(arguments) <= {"question", "to", "subject", "wait"}:
        return "error: say what you ask as `question`; `to`, `subject` and `wait` may be given"
    wait = str(arguments.get("wait", _WAIT))
    try:
        seconds = min(max(float(wait), 0.0), _LONGEST_WAIT)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        return "error: wait is a number of seconds"
    number = guest.question(arguments)
    until = time.monotonic() + seconds
    async with _alive(guest):  # over HTTP nothing else says that it still is there
        while (answer := guest.answer_to(number)) is None:
            if time.monotonic() >= until:
                return f"No answer yet to question {number}; it will come into your inbox."
            await asyncio.sleep(_LOOK)
    return answer


@asynccontextmanager
async def _alive(guest: Guest) -> AsyncIterator[None]:
    """Give signs of life for a guest as long as its program is connected."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(guest.hold / 3)
            with suppress(StorageError, UsageError):  # the next call of a tool says what is wrong
                guest.beat()

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def serve_stdio(guest: Guest) -> None:
    """Serve one guest until its program closes the pipe."""

    async def serve() -> None:
        server = make_server(guest)
        async with _alive(guest), stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    run_sync(serve())


class _Guests:
    """The route `/mcp`: a server for each name that has a token, made when it is first used."""

    def __init__(
        self, join: Callable[[str], Guest], name_of: Callable[[str], str | None], lock: Callable[[str], RunLock]
    ) -> None:
        self._join, self._name_of, self._lock = join, name_of, lock
        self._managers: dict[str, StreamableHTTPSessionManager] = {}
        self._open = AsyncExitStack()
        self._beginning = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, in the name that its token stands for."""
        from starlette.requests import Request
        from starlette.responses import JSONResponse

        try:
            name = self._named(Request(scope, receive))
            if name is None:
                head = {"www-authenticate": "Bearer"}
                await JSONResponse({"error": "a token of this world is needed"}, 401, head)(scope, receive, send)
                return
            async with self._beginning:
                if name not in self._managers:
                    self._managers[name] = await self._begin(name)
        except CombeeError as error:  # another process is this guest, or the world is gone
            await JSONResponse({"error": error.message}, 409)(scope, receive, send)
            return
        await self._managers[name].asgi_app(scope, receive, send)

    def _named(self, request: Request) -> str | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return self._name_of(token) if kind.lower() == "bearer" and token else None

    async def _begin(self, name: str) -> StreamableHTTPSessionManager:
        self._open.callback(self._lock(name).release)
        manager = StreamableHTTPSessionManager(make_server(self._join(name)), json_response=True, stateless=True)
        ready = asyncio.Event()

        async def hold() -> None:
            async with manager.run():  # entered and left in one task
                ready.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        self._open.callback(task.cancel)
        await ready.wait()
        return manager

    async def stop(self) -> None:
        """End all sessions."""
        await self._open.aclose()


def listening_at(text: str) -> socket.socket:
    """Return a socket that listens at HOST:PORT.

    Raises:
        UsageError: It is no address, or cannot be used.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{text!r} is no HOST:PORT", hint="Like 127.0.0.1:8765.")
    return listening(host.strip("[]"), int(port), "Choose another port; 0 takes a free one.")


def serve_http(
    at: socket.socket,
    join: Callable[[str], Guest],
    name_of: Callable[[str], str | None],
    lock: Callable[[str], RunLock],
) -> None:
    """Serve every guest that has a token, until it is stopped."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Route

    guests = _Guests(join, name_of, lock)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await guests.stop()

    app = Starlette(routes=[Route("/mcp", guests)], lifespan=lifespan)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[at])
