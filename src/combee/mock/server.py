"""The mock's HTTP side: a small asyncio protocol, since it must answer faster than the clients that it measures.

It knows `POST /v1/chat/completions`, `GET /v1/models`, `GET /stats` and `POST /control` (a JSON of `MockConfig` fields
to change while it runs); any other path is a 404, so that a wrong URL can be rehearsed. Bodies need a Content-Length.
Faults that break a connection really break it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Self, cast

from combee.errors import UsageError
from combee.mock.answer import Answer, Answerer, MockStats
from combee.mock.config import MockConfig
from combee.mock.providers import Rejection
from combee.mock.script import Scripted
from combee.model.http import raise_file_limit

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 411: "Length Required"}
_LARGEST = 64 * 1024 * 1024
_VERSION = "api-version=2024-10-21"
_TLS = b"\x16"  # how a TLS handshake begins


def _head(status: int, length: int, content_type: str, extra: Mapping[str, str]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}",
        f"Content-Type: {content_type}",
        f"Content-Length: {length}",
    ]
    lines += [f"{name}: {value}" for name, value in extra.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class _Connection(asyncio.Protocol):
    """One client connection; requests on it are answered one after another, as HTTP/1.1 has it."""

    def __init__(self, server: MockServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # other loops have classes of their own
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._server.connections.discard(self)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def close(self) -> None:
        """Break the connection now."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        """Take the next whole request from the buffer, if nothing is being answered."""
        if self._busy or self._transport is None:
            return
        end = self._buffer.find(b"\r\n\r\n")
        if self._buffer.startswith(_TLS):  # as a real server would: else the client waits for its handshake
            self._buffer.clear()
            self._reply(Answer.error(Rejection(400, "this is http, not https")))
            return
        if end < 0:
            return
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdigit() or int(length) > _LARGEST:
            self._reply(Answer.error(Rejection(411, "send a Content-Length")))
            return
        total = end + 4 + int(length)
        if len(self._buffer) < total:
            return
        body = bytes(self._buffer[end + 4 : total])
        del self._buffer[:total]
        self._busy = True
        method, _, target = first.partition(" ")
        self._server.handle(method, target.partition(" ")[0], headers, body, self._later)

    def _later(self, answer: Answer) -> None:
        if answer.delay > 0:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(answer.delay, self._reply, answer)
        else:
            self._reply(answer)

    def _reply(self, answer: Answer) -> None:
        answer.done()
        transport = self._transport
        if transport is None:
            return
        if answer.breaks:
            transport.abort()
            return
        head = _head(answer.status, len(answer.body), answer.content_type, answer.headers)
        if answer.cut is None:
            transport.write(head + answer.body)
            self._busy = False
            self._next()
        else:
            transport.write(head + answer.body[: answer.cut])
            transport.close()


class MockServer:
    """A mock endpoint in this process.

    Args:
        config: How it behaves.
        reply: What it says (None: "ok"; to a schema, an object that fits it and has "ok" for every text).
        port: Port on 127.0.0.1; 0 takes a free one.
    """

    def __init__(self, config: MockConfig | None = None, reply: Scripted | None = None, *, port: int = 0) -> None:
        self.stats = MockStats()
        self.connections: set[_Connection] = set()
        self._answerer = Answerer(config or MockConfig(), reply, self.stats)
        self._port = port
        self._server: asyncio.Server | None = None

    @property
    def config(self) -> MockConfig:
        """How it behaves now; assign to change it."""
        return self._answerer.config

    @config.setter
    def config(self, value: MockConfig) -> None:
        self._answerer.change(value)

    @property
    def url(self) -> str:
        """The base URL for clients."""
        path = self.config.provider.path.format(name="mock")
        return f"http://127.0.0.1:{self._port}{path}" + (
            f"?{_VERSION}" if "{name}" in self.config.provider.path else ""
        )

    async def start(self) -> None:
        """Listen on loopback.

        Raises:
            UsageError: The port is taken.
        """
        loop = asyncio.get_running_loop()
        raise_file_limit()  # each client's connection is a file
        try:
            self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self._port, backlog=4096)
        except OSError as error:
            raise UsageError(
                f"port {self._port} cannot be used: {error.strerror}", hint="Give --port N, or --port 0 for a free one."
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop, and break what is open."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close()
        await asyncio.sleep(0)
        if self._server is not None:
            await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, send: Callable[[Answer], None]
    ) -> None:
        """Answer one request through `send`."""
        path, _, query = path.partition("?")
        provider = self.config.provider
        base, _, last = path.partition("/chat/completions") if "/chat/" in path else path.partition("/models")
        named = "{name}" in provider.path
        known = base == provider.path or (named and re.fullmatch(r"/openai/deployments/[^/]+", base) is not None)
        if method == "GET" and path == "/stats":
            send(Answer.json(self.stats.to_json()))
        elif method == "POST" and path == "/control":
            send(self._control(body))
        elif last or not known or (named and "api-version=" not in query):
            said = "Resource not found" if named else f"there is no {path} here"
            send(Answer.error(Rejection(404, said), provider))
        elif method == "POST" and path.endswith("/chat/completions"):
            send(self._answerer.chat(headers, body))
        elif method == "GET" and path.endswith("/models") and not named:
            send(self._answerer.models(headers))
        else:
            send(Answer.error(Rejection(404, f"there is no {path} here"), provider))

    def _control(self, body: bytes) -> Answer:
        try:
            changes = json.loads(body)
            fresh = MockConfig.from_json(changes)
            names = {entry.name for entry in fields(MockConfig)} & set(changes)
            self.config = replace(self.config, **{name: getattr(fresh, name) for name in names})
        except (ValueError, TypeError, UsageError) as error:
            return Answer.error(Rejection(400, str(error)))
        return Answer.json({"changed": sorted(names)})


async def serve(
    config: MockConfig, reply: Scripted | None = None, *, port: int = 8080, ready: Callable[[str], Any] | None = None
) -> None:
    """Run until cancelled; `ready` gets the base URL."""
    async with MockServer(config, reply, port=port) as server:
        if ready is not None:
            ready(server.url)
        await asyncio.Event().wait()
