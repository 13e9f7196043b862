"""HTTP over aiohttp for calls that cost money, thousands at once: what it adds is what a run needs and aiohttp lacks.

A reply has a largest size, also unpacked; a connection that closed while it was idle, or said something unasked, is not
used again; no request is sent twice; open files are counted; and each failure says how far the call got.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import select
import socket
import ssl
import sys
import weakref
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from combee.model.environment import ProxySetting

if sys.platform != "win32":
    import resource  # now: when there is no file left, it could not be read any more

LARGEST = 1 << 26  # bytes of a reply, as sent and unpacked; an endless one is not to fill the memory
_LONGEST_FIELD = 1 << 16  # bytes of one header field: gateways send long ones
_MOST_FIELDS = 1_000
_KEPT = 30.0  # seconds that an unused connection stays open
_NAME_KEPT = 300  # seconds that the addresses of a name are believed: hundreds open at once, and a look-up is a thread
_AT_ONCE = 1 << 20  # bytes of a request that aiohttp writes in one piece without a warning
_SPARE_FILES = 16  # left to the rest of the program
_MOST = 8192  # calls in flight: what the limiter allows at most
_NO_FILES = {errno.EMFILE, errno.ENFILE}

Stage = Literal["name", "connect", "slow connect", "files", "tls", "proxy", "login", "silent", "broken", "cut", "alien"]


class HttpError(Exception):
    """A call broke.

    `stage` says where: no such host; no connection; none in time; no file for it; TLS; the proxy; the proxy wants a
    login; no reply in time; it broke before a reply; it broke within the reply; the reply is not HTTP that can be read.
    `reason` is for people.
    """

    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(reason)
        self.stage: Stage = stage
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to get a connection, between two pieces of a reply (so also until its first byte), and in all.

    Replies come in one piece at the end, so `read` is rarely of use beside `total`.
    """

    connect: float = 15.0
    read: float | None = None
    total: float = 600.0


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back: status, header fields (their names in any case), and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Pool:
    """Connections of one event loop to one host, by one way."""

    def __init__(
        self, headers: Mapping[str, str], tls: ssl.SSLContext | None, proxy: ProxySetting | None, timeouts: Timeouts
    ) -> None:
        import aiohttp
        from multidict import CIMultiDict

        # Given to each request, for what a session adds by itself goes to the proxy, too.
        self._headers = CIMultiDict(headers)
        self._with_body = CIMultiDict(headers, **{"Content-Type": "application/json"})
        self._is_proxied = proxy is not None
        self._by_proxy: dict[str, Any] = {}
        if proxy is not None and not proxy.is_socks:
            login = {"Proxy-Authorization": proxy.login.reveal()} if proxy.login is not None else {}
            self._by_proxy = {"proxy": proxy.url, "proxy_headers": login}
        self._connector = _connector(proxy, tls)
        connect = min(timeouts.connect, timeouts.total)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=["Accept-Encoding"],  # replies are short; what is packed all the same is unpacked here
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=timeouts.total, connect=connect, sock_read=timeouts.read),
            max_line_size=_LONGEST_FIELD,
            max_field_size=_LONGEST_FIELD,
            max_headers=_MOST_FIELDS,
        )
        self._room = asyncio.Semaphore(_files_left())

    async def exchange(self, url: URL, body: bytes | None) -> HttpReply:
        """Send one request, a POST where there is a body, and return the whole reply.

        Raises:
            HttpError: There is no connection, or it broke.
        """
        data = io.BytesIO(body) if body is not None and len(body) > _AT_ONCE else body
        once = () if body is not None else (_once,)
        try:
            async with (
                self._room,
                self._session.request(
                    "GET" if body is None else "POST",
                    url,
                    data=data,
                    headers=self._headers if body is None else self._with_body,
                    allow_redirects=False,
                    middlewares=once,
                    **self._by_proxy,
                ) as reply,
            ):
                return await _read(reply)
        except HttpError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the libraries raise, this call failed and no other
            named = _named(error, is_proxied=self._is_proxied)
            if named.stage in {"connect", "slow connect"}:
                self._connector.clear_dns_cache()  # it may have moved
            raise named from None

    async def aclose(self) -> None:
        """Close all connections, also those in use and those that are just made."""
        await self._session.close()

    def forget(self) -> None:
        """Leave connections whose event loop has ended: nobody can close them any more."""
        self._session.detach()


async def _once(
    request: aiohttp.ClientRequest, send: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    """Hide a broken connection from aiohttp, which would send a GET again."""
    import aiohttp

    try:
        return await send(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _named(error) from None


async def _read(reply: aiohttp.ClientResponse) -> HttpReply:
    """Return the reply; where it tells of an error, its status says enough though its body is of no use."""
    import aiohttp

    if reply.status == 101:
        raise HttpError("alien", "it changed the protocol")
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := await reply.content.readany():
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST:
                raise HttpError("cut", f"the reply is larger than {LARGEST >> 20} MB")
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        coding = reply.headers.get("Content-Encoding", "").strip().lower()
        if body and coding and coding != "identity":
            body = _unpacked(body, coding)
    except (zlib.error, ValueError) as error:
        if reply.status < 300:
            raise HttpError("alien", str(error)) from None
        body = b""
    except aiohttp.ClientPayloadError:
        if reply.status < 300:
            raise
        body = b"".join(pieces)
    return HttpReply(reply.status, reply.headers, body)


def _unpacked(body: bytes, coding: str) -> bytes:
    """Return the body without its codings: none is asked for, but some gateways compress all the same.

    What is named a coding and is plain JSON stays as it is: a proxy unpacked it and left the name.
    """
    for one in reversed([part.strip() for part in coding.split(",")]):
        if one in {"", "identity", "none", "utf-8"}:
            continue
        if one not in {"gzip", "x-gzip", "deflate"}:
            raise ValueError(f"the body has an encoding nobody asked for ({one[:40]!r})")
        try:
            body = _inflated(body, zlib.MAX_WBITS | 32)
        except (zlib.error, ValueError):
            if body.lstrip()[:1] in {b"{", b"["}:
                continue
            if one != "deflate":
                raise
            body = _inflated(body, -zlib.MAX_WBITS)  # without its frame, as some servers send it
    return body


def _inflated(body: bytes, bits: int) -> bytes:
    plain = b""
    while body:  # gzip may come in several members
        inflate = zlib.decompressobj(bits)
        plain += inflate.decompress(body, LARGEST - len(plain) + 1)
        if inflate.unconsumed_tail or len(plain) > LARGEST:
            raise HttpError("cut", f"the reply is larger than {LARGEST >> 20} MB when unpacked")
        if not inflate.eof:
            raise ValueError("the compressed body does not end as it should")
        body = inflate.unused_data
    return plain


def _named(error: BaseException, *, is_proxied: bool = False) -> HttpError:
    """Return what an error of the libraries is to a call. Their texts are not passed on where they may quote a key."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError | ssl.SSLError):
        return _unconnected(error, is_proxied=is_proxied)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return HttpError("slow connect", "none in time")
        case TimeoutError():
            return HttpError("silent", "no reply in time")
        case aiohttp.ClientResponseError():
            return HttpError("alien", " ".join(error.message.split())[:300])
        case aiohttp.ClientPayloadError():
            return HttpError("cut", "the reply broke off before its end")
        case aiohttp.ServerDisconnectedError():
            return HttpError("broken", "it was closed without a reply")
        case OSError():
            return HttpError("files" if error.errno in _NO_FILES else "broken", _reason(error))
        case _ if type(error).__module__.startswith("aiohttp_socks"):
            return HttpError("proxy", str(error)[:300])
    return HttpError("broken", "it was closed" if isinstance(error, RuntimeError) else type(error).__name__)


def _unconnected(error: Exception, *, is_proxied: bool) -> HttpError:
    """Return why there is no connection."""
    import aiohttp

    if isinstance(error, aiohttp.ClientHttpProxyError):
        return HttpError("login" if error.status == 407 else "proxy", f"HTTP {error.status}")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return HttpError("proxy" if is_proxied else "name", "there is no such host")
    inner = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error
    inner = inner.os_error if isinstance(inner, aiohttp.ClientConnectorError) else inner
    if isinstance(inner, ssl.SSLCertVerificationError):
        return HttpError("tls", f"certificate not trusted: {inner.verify_message}")
    if isinstance(inner, ssl.SSLError):
        return HttpError("tls", str(inner.reason or inner))
    if not isinstance(inner, OSError):
        return HttpError("tls", f"certificate not trusted: {inner}")
    if inner.errno in _NO_FILES:
        return HttpError("files", _reason(inner))
    return HttpError("proxy" if is_proxied else "connect", _reason(inner))


def _reason(error: OSError) -> str:
    """Return why there is no connection, like `Connection refused`; asyncio's own text is of sockets."""
    number = error.errno
    return os.strerror(number) if number and number > 0 else str(error)[:300] or "it was closed"


# --- connections ------------------------------------------------------------------------------------------------------


@cache
def _looking(base: type[aiohttp.TCPConnector]) -> Callable[..., aiohttp.TCPConnector]:
    """Return the connector class that looks at an idle connection before it hands it out."""

    class Looking(base):  # type: ignore[misc, valid-type]
        """Drops connections that the other side closed, or where it said something that nobody asked for.

        aiohttp knows what its event loop has seen; a loop that was busy has not seen all.
        """

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._used: weakref.WeakSet[object] = weakref.WeakSet()

        async def connect(self, *request: Any, **options: Any) -> Any:
            """Return a connection that can be written to."""
            while True:
                connection = await super().connect(*request, **options)
                protocol = connection.protocol
                if protocol not in self._used:
                    self._used.add(protocol)
                    return connection
                if not protocol.should_close and not _has_input(connection.transport):
                    return connection
                connection.close()

    return Looking


def _has_input(transport: asyncio.Transport | None) -> bool:
    """Return whether there is something to read on an idle connection: its end, or what belongs to no request."""
    if transport is None or transport.is_closing():
        return True
    number = transport.get_extra_info("socket").fileno()
    if sys.platform == "win32":
        return bool(select.select([number], [], [], 0)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


def _connector(proxy: ProxySetting | None, tls: ssl.SSLContext | None) -> aiohttp.TCPConnector:
    import aiohttp

    options: dict[str, Any] = {"limit": 0, "keepalive_timeout": _KEPT, "ssl": tls or True}
    if proxy is None or not proxy.is_socks:
        return _looking(aiohttp.TCPConnector)(ttl_dns_cache=_NAME_KEPT, socket_factory=_socket, **options)
    options |= {"host": proxy.host, "port": proxy.port, "rdns": True}  # names are looked up behind it
    from aiohttp_socks import ProxyConnector, ProxyType

    kind = ProxyType.SOCKS4 if proxy.scheme.startswith("socks4") else ProxyType.SOCKS5
    user, password = proxy.pair
    return _looking(ProxyConnector)(proxy_type=kind, username=user, password=password, **options)


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket that keeps routers from forgetting it: a reply may take minutes without a byte."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
    return made


# --- open files: each connection is one, and many systems start programs with 256 or 1,024 ----------------------------


def raise_file_limit() -> bool:
    """Raise this process's limit of open files as far as it may itself; returns whether it rose."""
    if sys.platform == "win32":
        return False
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in (1 << 20, 1 << 16, 10_240):  # some systems allow less than their hard limit says
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if soft != resource.RLIM_INFINITY and wanted > soft:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return True
    return False


def _files_left() -> int:
    """Return how many connections there may be."""
    raise_file_limit()
    if sys.platform == "win32":
        return _MOST
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY or soft > 2 * _MOST:
        return _MOST
    return max(1, min(_MOST, soft - len(list(Path("/dev/fd").iterdir())) - _SPARE_FILES))
