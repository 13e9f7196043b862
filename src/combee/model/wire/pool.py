"""Open connections to one place, reused; how one is opened: name, TCP, proxy, TLS.

A pool belongs to the event loop that it is first used in. Names are looked up once and not at each connection: hundreds
of connections open at once, and the system's look-up takes a thread each.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohappyeyeballs import start_connection

from combee.model.wire.connection import Connection, HttpReply, WireError

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

__all__ = ["Pool", "Proxy", "Route", "Timeouts"]

_KEPT = 30.0  # seconds that an unused connection stays open: servers close theirs after 60 or more
_NAME_KEPT = 300.0  # seconds that the addresses of a name are believed
_NEXT_ADDRESS = 0.25  # seconds after which the next address of a name is tried beside the first


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to get a connection, between two pieces of a reply (so also until its first byte), and in all.

    Replies come in one piece at the end, so `read` is rarely of use beside `total`.
    """

    connect: float = 15.0
    read: float | None = None
    total: float = 600.0


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy on the way. `tunnel`: the prepared CONNECT request, where TLS goes through it to the host."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    tunnel: bytes | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """Where connections go. `tls` is None for plain HTTP."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    proxy: Proxy | None = None


class Pool:
    """Connections along one route; as many as there are calls in flight."""

    def __init__(self, route: Route, timeouts: Timeouts) -> None:
        self._route = route
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._idle: deque[Connection] = deque()
        self._all: set[Connection] = set()
        self._looking_up = asyncio.Lock()
        self._addresses: list[AddrInfoType] = []
        self._looked_up = 0.0

    @property
    def is_here(self) -> bool:
        """Whether it belongs to the running event loop."""
        return self._loop is asyncio.get_running_loop()

    async def exchange(self, request: bytes) -> HttpReply:
        """Send a whole request and return the whole reply.

        Raises:
            WireError: There is no connection, or it broke.
        """
        deadline = self._loop.time() + self._timeouts.total
        connection = self._take() or await self._open()
        try:
            reply = await connection.exchange(request, deadline, self._timeouts.read)
        except BaseException:
            self._all.discard(connection)
            raise
        self._give_back(connection)
        return reply

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        for connection in self._all:
            connection.abort()
        self._all.clear()
        self._idle.clear()
        await asyncio.sleep(0)  # so that the transports can end

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
        oldest = self._idle[0]
        if connection.idle_since - oldest.idle_since > _KEPT:  # one a call: they go as they came
            self._drop(self._idle.popleft())

    def _drop(self, connection: Connection) -> None:
        self._all.discard(connection)
        connection.abort()

    async def _open(self) -> Connection:
        seconds = min(self._timeouts.connect, self._timeouts.total)
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connected()
        except TimeoutError as error:
            self._addresses = []
            if error.errno:  # the system's own limit was the shorter one
                raise self._unreached(error) from None
            raise WireError("slow connect", f"none within {seconds:g} s") from None
        self._all.add(connection)
        return connection

    async def _connected(self) -> Connection:
        proxy = self._route.proxy
        sock = await self._tcp()
        try:
            if proxy is None:
                return await self._over(sock, self._route.tls, self._route.host)
            first = await self._over(sock, proxy.tls, proxy.host)
        except ssl.SSLError as error:
            raise WireError("tls" if proxy is None else "proxy", _tls_reason(error)) from None
        except OSError as error:
            raise self._unreached(error) from None
        return first if proxy.tunnel is None else await self._tunnel(first, proxy.tunnel)

    async def _over(self, sock: socket.socket, tls: ssl.SSLContext | None, name: str) -> Connection:
        """Return a connection on a connected socket."""
        server = name if tls is not None else None
        _, connection = await self._loop.create_connection(Connection, sock=sock, ssl=tls, server_hostname=server)
        return connection

    async def _tunnel(self, first: Connection, request: bytes) -> Connection:
        """Return a connection through a proxy that was asked to connect to the host."""
        deadline = self._loop.time() + self._timeouts.connect
        try:
            reply = await first.exchange(request, deadline, head_only=True)
        except WireError as error:
            raise WireError("proxy", error.reason) from None
        try:
            if reply.status != 200:
                raise WireError("proxy", f"HTTP {reply.status}")
            if first.transport is None or self._route.tls is None:
                raise WireError("proxy", "it closed the connection")
            inner = Connection()
            try:
                transport = await self._loop.start_tls(
                    first.transport, inner, self._route.tls, server_hostname=self._route.host
                )
            except ssl.SSLError as error:
                raise WireError("tls", _tls_reason(error)) from None
            except OSError as error:
                raise WireError("proxy", _reason(error)) from None
            if transport is None:
                raise WireError("proxy", "it closed the connection")
        except BaseException:
            first.abort()
            raise
        inner.connection_made(transport)
        return inner

    async def _tcp(self) -> socket.socket:
        """Return a connected socket to the host, or to the proxy."""
        try:
            addresses = await self._look_up()
        except (socket.gaierror, UnicodeError):
            raise WireError("name" if self._route.proxy is None else "proxy", "there is no such host") from None
        try:
            sock = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS, interleave=1, loop=self._loop)
        except OSError as error:
            self._addresses = []  # it may have moved
            raise self._unreached(error) from None
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):  # a reply may take minutes without a byte, and routers forget
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        return sock

    async def _look_up(self) -> list[AddrInfoType]:
        proxy = self._route.proxy
        host, port = (proxy.host, proxy.port) if proxy is not None else (self._route.host, self._route.port)
        async with self._looking_up:
            if not self._addresses or self._loop.time() - self._looked_up > _NAME_KEPT:
                self._addresses = list(await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
                self._looked_up = self._loop.time()
            return list(self._addresses)

    def _unreached(self, error: OSError) -> WireError:
        if error.errno in {errno.EMFILE, errno.ENFILE}:
            return WireError("files", _reason(error))
        return WireError("connect" if self._route.proxy is None else "proxy", _reason(error))


def _reason(error: OSError) -> str:
    """Return why there is no connection, like `Connection refused`; asyncio's own text is of sockets."""
    number = error.errno
    return os.strerror(number) if number and number > 0 else str(error)[:300] or type(error).__name__


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not trusted: {error.verify_message}"
    return str(error.reason or error)
