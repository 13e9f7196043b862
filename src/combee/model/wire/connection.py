"""One HTTP/1.1 connection: a prepared request goes out, the whole reply comes back.

It keeps what it is sent, and nothing of what it sends: no error of it can hold a key.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass
from typing import Literal, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

__all__ = ["Connection", "HttpReply", "Stage", "WireError"]

LARGEST = 1 << 28  # bytes of a reply; an endless one is not to fill the memory
LARGEST_HEAD = 1 << 18  # bytes before its body

Stage = Literal["name", "connect", "slow connect", "files", "tls", "proxy", "silent", "broken", "cut", "not http"]


class WireError(Exception):
    """A call broke.

    `stage` says where: no such host; no connection; none in time; no file for it; TLS; the proxy; no reply in time; it
    broke before a reply; it broke within the reply; the reply is not HTTP. `reason` is for people.
    """

    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back: status, header fields as they were sent, and the whole body."""

    status: int
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        """The header fields by their names in lower case."""
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self.fields}


class Connection(asyncio.Protocol):
    """One connection; it makes one exchange at a time, and none after one that failed."""

    def __init__(self) -> None:
        self.idle_since = 0.0  # seconds on the loop's clock; the pool's
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(  # as other clients do: some servers write heads of their own
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._reply: asyncio.Future[HttpReply] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._size = 0  # bytes of this reply so far, framing and all
        self._in_body = False
        self._head_only = False
        self._reusable = True
        self._deadline = self._heard = 0.0
        self._quiet: float | None = None

    @property
    def is_reusable(self) -> bool:
        """Whether another exchange may be made on it."""
        return self._reusable and self._transport is not None and not self._transport.is_closing()

    @property
    def transport(self) -> asyncio.Transport | None:
        """What it writes to, while it is open."""
        return self._transport

    async def exchange(
        self, request: bytes, deadline: float, quiet: float | None = None, *, head_only: bool = False
    ) -> HttpReply:
        """Send a whole request and return the whole reply; whoever asked closes what is not reusable after it.

        Args:
            request: Head and body.
            deadline: Time on the loop's clock at which the reply must be there.
            quiet: Seconds without a byte after which it is given up.
            head_only: The reply has no body to wait for, whatever its head says: a tunnel begins there.

        Raises:
            WireError: It broke ("silent", "broken", "cut", "not http"), or was closed before ("connect").
        """
        transport = self._transport
        if transport is None:
            raise WireError("connect", "it was closed at once")
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[HttpReply] = loop.create_future()
        self._reply, self._head_only = reply, head_only
        self._deadline, self._heard, self._quiet = deadline, loop.time(), quiet
        self._reusable = False  # until its reply is there as a whole
        self._watch()
        transport.write(request)
        try:
            return await reply
        finally:
            self._reply = None
            if self._timer is not None:
                self._timer.cancel()

    def abort(self) -> None:
        """Close it now; an exchange under way fails."""
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    def _watch(self) -> None:
        """Set the timer, or give up where one has run out."""
        loop = asyncio.get_running_loop()
        ends = self._deadline if self._quiet is None else min(self._deadline, self._heard + self._quiet)
        if ends > loop.time():
            self._timer = loop.call_at(ends, self._watch)
        else:
            self._fail(WireError("silent", "no reply in time"))

    def _fail(self, error: WireError) -> None:
        reply = self._reply
        if reply is not None and not reply.done():
            reply.set_exception(error)
        self.abort()

    def _break(self, reason: str) -> None:
        """End the exchange as the connection ends; where a reply tells of an error, its status says enough."""
        if not self._in_body:
            self._fail(WireError("broken", reason))
        elif self._parser.get_status_code() == 200:
            self._fail(WireError("cut", "the reply broke off before its end"))
        else:
            self._finish(reusable=False)

    def _finish(self, *, reusable: bool) -> None:
        """Hand the reply over. One that came before its request was written leaves the connection in between."""
        reply, transport = self._reply, self._transport
        if reply is None or reply.done():
            self.abort()
            return
        fields, self._fields = tuple(self._fields), []
        body, self._body = bytes(self._body), bytearray()
        self._size, self._in_body = 0, False
        self._reusable = reusable and transport is not None and not transport.get_write_buffer_size()
        status = self._parser.get_status_code()
        try:
            body = _decoded(body, fields)
        except (zlib.error, ValueError) as error:
            if status == 200:
                self._fail(WireError("not http", str(error)))
                return
            body = b""  # the status says enough
        reply.set_result(HttpReply(status, fields, body))

    # --- what the transport calls -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read a piece of the reply."""
        if self._is_done():
            return
        if self._quiet is not None:
            self._heard = asyncio.get_running_loop().time()
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail(WireError("not http", "it changed the protocol"))
        except HttpParserError as error:
            self._fail(WireError("not http", str(error)))
        if self._size > (LARGEST if self._in_body else LARGEST_HEAD):
            most = f"{LARGEST >> 20} MB, or its head than {LARGEST_HEAD >> 10} kB"
            self._fail(WireError("cut", f"the reply is larger than {most}"))

    def eof_received(self) -> None:
        """End the exchange under way now: the transport would write the rest of the request first."""
        if self._in_body and not any(_frames(name, value) for name, value in self._fields):
            self._finish(reusable=False)  # such a reply ends where the connection ends
        else:
            self._break("it was closed without a reply")

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange under way."""
        self._break(getattr(exc, "strerror", None) or str(exc or "") or "it was closed without a reply")
        self._transport = None

    def _is_done(self) -> bool:
        """Close where nobody waits: what comes now would be taken for the reply to what is sent next."""
        done = self._reply is None or self._reply.done()
        if done:
            self.abort()
        return done

    # --- what the parser calls --------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """See that the reply is one that is waited for."""
        self._is_done()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header field; those behind the body (trailers) say nothing that is asked for."""
        if not self._in_body:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Begin the body, unless there is none to wait for."""
        if self._parser.get_status_code() // 100 == 1:
            return
        self._in_body = True
        if self._head_only:
            self._finish(reusable=False)

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Hand the reply over; an interim one (status 1xx) is passed over."""
        if not self._in_body:
            self._fields.clear()
        elif not self._head_only:
            self._finish(reusable=self._parser.should_keep_alive())


def _frames(name: bytes, value: bytes) -> bool:
    """Return whether a field says where the body ends."""
    name = name.lower()
    return name == b"content-length" or (name == b"transfer-encoding" and b"chunked" in value.lower())


def _decoded(body: bytes, fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Return the body without its encoding: none is asked for, but some proxies compress all the same."""
    for name, value in fields if body else ():
        if len(name) == len(b"content-encoding") and name.lower() == b"content-encoding":
            coding = value.strip().lower()
            if coding in {b"gzip", b"x-gzip", b"deflate"}:
                inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
                body = inflate.decompress(body, LARGEST)
                if not inflate.eof or inflate.unused_data:
                    raise ValueError("the compressed body does not end as it should")
            elif coding not in {b"", b"identity"}:
                raise ValueError(f"the body has an encoding nobody asked for ({value.decode('latin-1')[:40]!r})")
    return body
