"""How a connection is opened: name, TCP, proxy, TLS.

Names are looked up once and not at each connection: hundreds open at once, and the system takes a thread a look-up.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohappyeyeballs import start_connection

from combee.model.wire.connection import Connection, WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohappyeyeballs import AddrInfoType

__all__ = ["Connector", "Proxy", "Route"]

_NAME_KEPT = 300.0  # seconds that the addresses of a name are believed
_NEXT_ADDRESS = 0.25  # seconds after which the next address of a name is tried beside the first
_NO_FILES = {errno.EMFILE, errno.ENFILE}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy on the way. `tunnel`: the prepared CONNECT request, where TLS goes through it to the host."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    tunnel: bytes | None = field(default=None, repr=False)  # it holds the proxy's password


@dataclass(frozen=True, slots=True)
class Route:
    """Where connections go. `tls` is None for plain HTTP."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    proxy: Proxy | None = None


class Connector:
    """Opens connections along one route, in the event loop that it is made in."""

    def __init__(self, route: Route, seconds: float) -> None:
        self._route = route
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._addresses: asyncio.Task[Sequence[AddrInfoType]] | None = None
        self._looked_up = 0.0

    async def open(self) -> Connection:
        """Return a new connection.

        Raises:
            WireError: There is none ("name", "connect", "slow connect", "files", "tls", "proxy").
        """
        try:
            async with asyncio.timeout(self._seconds):
                return await self._connected()
        except TimeoutError as error:
            self._forget()
            if error.errno:  # the system's own limit was the shorter one
                raise self._unreached(error) from None
            raise WireError("slow connect", f"none within {self._seconds:g} s") from None

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
        server = name.rstrip(".") if tls is not None else None
        _, connection = await self._loop.create_connection(Connection, sock=sock, ssl=tls, server_hostname=server)
        return connection

    async def _tunnel(self, first: Connection, request: bytes) -> Connection:
        """Return a connection through a proxy that was asked to connect to the host."""
        try:
            reply = await first.exchange(request, self._loop.time() + self._seconds, head_only=True)
            if reply.status != 200:
                raise WireError("proxy", f"HTTP {reply.status}")
            return await self._inside(first)
        except BaseException as error:
            first.abort()
            if isinstance(error, WireError) and error.stage != "tls":
                raise WireError("proxy", error.reason) from None
            raise

    async def _inside(self, first: Connection) -> Connection:
        """Return a connection with TLS to the host over one through the proxy."""
        outer, tls, host = first.transport, self._route.tls, self._route.host.rstrip(".")
        if outer is None or tls is None:
            raise WireError("proxy", "it closed the connection")
        inner = Connection()
        try:
            transport = await self._loop.start_tls(outer, inner, tls, server_hostname=host)
        except ssl.SSLError as error:
            raise WireError("tls", _tls_reason(error)) from None
        except OSError as error:
            raise WireError("proxy", _reason(error)) from None
        if transport is None:
            raise WireError("proxy", "it closed the connection")
        inner.connection_made(transport)
        return inner

    async def _tcp(self) -> socket.socket:
        """Return a connected socket to the host, or to the proxy."""
        try:
            addresses = await self._look_up()
        except (OSError, ValueError):
            raise WireError("name" if self._route.proxy is None else "proxy", "there is no such host") from None
        try:
            sock = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS, interleave=1, loop=self._loop)
        except OSError as error:
            if error.errno not in _NO_FILES:
                self._forget()
            raise self._unreached(error) from None
        with suppress(OSError):  # where it is broken already, the first write says so
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):  # a reply may take minutes without a byte, and routers forget
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        return sock

    async def _look_up(self) -> Sequence[AddrInfoType]:
        """Return the addresses: one look-up for all who wait, also where it fails or one of them gives up."""
        found = self._addresses
        if found is None or (found.done() and self._loop.time() - self._looked_up > _NAME_KEPT):
            way = self._route.proxy or self._route
            asked = self._loop.getaddrinfo(way.host, way.port, type=socket.SOCK_STREAM)
            found = self._addresses = self._loop.create_task(asked)
            found.add_done_callback(self._found)
        return await asyncio.shield(found)

    def _found(self, found: asyncio.Task[Sequence[AddrInfoType]]) -> None:
        self._looked_up = self._loop.time()
        if found.cancelled() or found.exception() is not None:
            self._forget()

    def _forget(self) -> None:
        """Ask for the addresses again: it may have moved."""
        if self._addresses is not None and self._addresses.done():
            self._addresses = None

    def _unreached(self, error: OSError) -> WireError:
        if error.errno in _NO_FILES:
            return WireError("files", _reason(error))
        return WireError("connect" if self._route.proxy is None else "proxy", _reason(error))


def _reason(error: OSError) -> str:
    """Return why there is no connection, like `Connection refused`; asyncio's own text is of sockets."""
    number = error.errno
    return os.strerror(number) if number and number > 0 else str(error)[:300] or "it was closed"


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not trusted: {error.verify_message}"
    return str(error.reason or error)
