"""The HTTP client under the models: every form of a reply, connections that are reused or not, proxies, TLS, faults."""

from __future__ import annotations

import asyncio
import base64
import gzip
import itertools
import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import CallErrorKind, UsageError
from combee.model import Endpoint, Timeouts
from combee.model.outcome import Fault
from combee.model.wire import HttpReply, connection, pool
from combee.model.wire.environment import proxy_for
from combee.model.wire.head import authority_of, host_name, target_of

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
KEY = "sk-wire-test-key-0001"


def endpoint(server: Any, **options: Any) -> Endpoint:
    return Endpoint(f"http://127.0.0.1:{server.port}/v1", api_key=KEY, **options)


async def post(server: Any, body: bytes = b"{}", **options: Any) -> HttpReply | Fault:
    client = endpoint(server, **options)
    try:
        return await client.post(body)
    finally:
        await client.aclose()


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


async def test_a_request_is_written_as_it_should_be(serve: Any) -> None:
    server = await serve(lambda _: [OK])
    reply = await post(server, b'{"a": 1}', headers={"X-Team": "bees", "user-agent": "mine"})
    assert body_of(reply) == b"hello"
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == "POST /v1/chat/completions HTTP/1.1"
    assert body == b'{"a": 1}'
    assert sorted(lines) == sorted(
        [
            f"Host: 127.0.0.1:{server.port}",
            f"Authorization: Bearer {KEY}",
            "Accept: application/json",
            "Content-Type: application/json",
            "X-Team: bees",
            "user-agent: mine",
            "Content-Length: 8",
        ]
    )


REPLIES = {
    "length": OK,
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: t\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s"
    % (len(gzip.compress(b"hello")), gzip.compress(b"hello")),
    "folded": b"HTTP/1.1 200\r\nX-A: one\r\n two\r\nContent-Length: 5\r\n\r\nhello",
    "line feeds": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n0\r\nContent-Encoding: gzip\r\n\r\n",
    "upgrade offered": OK.replace(b"OK\r\n", b"OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n"),
    "until the end": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello",
    "old": b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("form", sorted(REPLIES))
@pytest.mark.parametrize("piece", [1, 7, 10_000])
async def test_every_form_of_a_reply_is_read_in_pieces_of_any_size(serve: Any, form: str, piece: int) -> None:
    data = REPLIES[form]
    pieces: list[bytes | None] = [data[at : at + piece] for at in range(0, len(data), piece)]
    server = await serve(lambda _: [*pieces, None] if form == "until the end" else pieces)
    assert body_of(await post(server)) == b"hello"


@given(st.lists(st.binary(max_size=20), max_size=5), st.lists(st.integers(1, 200), max_size=8))
def test_where_a_reply_is_cut_into_pieces_makes_no_difference(chunks: list[bytes], cuts: list[int]) -> None:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n" + body + b"0\r\n\r\n"

    class Transport(asyncio.Transport):
        def write(self, data: Any) -> None:
            assert data

        def is_closing(self) -> bool:
            return False

        def get_write_buffer_size(self) -> int:
            return 0

        def abort(self) -> None:
            raise AssertionError

    async def read() -> HttpReply:
        one = connection.Connection()
        one.connection_made(Transport())
        asking = asyncio.ensure_future(one.exchange(b"GET", asyncio.get_running_loop().time() + 60))
        await asyncio.sleep(0)
        places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
        for start, end in itertools.pairwise(places):
            one.data_received(data[start:end])
        reply = await asking
        assert one.is_reusable
        return reply

    reply = asyncio.run(read())
    assert reply.body == b"".join(chunks)
    assert reply.headers["x-a"] == "b"


async def test_a_connection_is_used_again_until_the_server_says_otherwise(serve: Any) -> None:
    def answer(request: bytes) -> list[bytes | None]:
        return [OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), None] if b"last" in request else [OK]

    server = await serve(answer)
    client = endpoint(server)
    for body in (b"1", b"2", b"last", b"4"):
        assert body_of(await client.post(body)) == b"hello"
    await client.aclose()
    assert server.connections == 2


async def test_a_connection_that_the_server_closed_while_it_was_idle_is_not_used_again(serve: Any) -> None:
    server = await serve(lambda _: [OK, None])
    client = endpoint(server)
    for _ in range(3):
        assert body_of(await client.post(b"{}")) == b"hello"
        await asyncio.sleep(0.05)
    await client.aclose()
    assert server.connections == 3


async def test_what_was_closed_while_the_loop_was_busy_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_RESTED", 0.0)
    listening = socket.create_server(("127.0.0.1", 0))
    closed = threading.Event()

    def serve_one_call_a_connection() -> None:
        for _ in range(2):
            one, _ = listening.accept()
            with one:
                while b"{}" not in one.recv(65_536):
                    pass
                one.sendall(OK)
            closed.set()

    serving = threading.Thread(target=serve_one_call_a_connection, daemon=True)
    serving.start()
    client = Endpoint(f"http://127.0.0.1:{listening.getsockname()[1]}", api_key=KEY)
    assert body_of(await client.post(b"{}")) == b"hello"
    closed.wait()  # the loop stands still
    assert body_of(await client.post(b"{}")) == b"hello"
    await client.aclose()
    serving.join()
    listening.close()


@pytest.mark.parametrize("extra", [OK.replace(b"hello", b"WRONG"), b"HTTP/1.1 200 OK\r\nContent-Le", b"garbage"])
async def test_what_comes_unasked_is_never_taken_for_the_next_reply(serve: Any, extra: bytes) -> None:
    server = await serve(lambda _: [OK + extra])
    later = await serve(lambda _: [OK, extra])
    for one in (server, later):
        client = endpoint(one)
        for _ in range(3):
            reply = await client.post(b"{}")
            assert isinstance(reply, Fault) or reply.body == b"hello"
            await asyncio.sleep(0.02)
        await client.aclose()
        assert one.connections == 3


@pytest.mark.parametrize(
    ("pieces", "kind", "said"),
    [
        ([OK[:-2], None], CallErrorKind.TRUNCATED_BODY, "before its end"),
        ([REPLIES["chunked"][:60], None], CallErrorKind.TRUNCATED_BODY, "before its end"),
        ([OK[:20], None], CallErrorKind.CONNECTION, "broke"),
        ([None], CallErrorKind.CONNECTION, "without a reply"),
        ([b"SSH-2.0-OpenSSH\r\n"], CallErrorKind.NOT_JSON, "does not speak HTTP"),
        ([b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"], CallErrorKind.NOT_JSON, "protocol"),
        ([b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx"], CallErrorKind.NOT_JSON, "br"),
        ([b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"], CallErrorKind.NOT_JSON, ""),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy"], CallErrorKind.NOT_JSON, "HTTP"),
    ],
)
async def test_a_broken_reply_is_a_typed_fault(serve: Any, pieces: Any, kind: CallErrorKind, said: str) -> None:
    fault = await post(await serve(lambda _: pieces))
    assert isinstance(fault, Fault)
    assert fault.kind is kind
    assert said in fault.message


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 65_536),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ", b"x" * 65_536),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65_536),
        (b"HTTP/1.1 200 OK\r\n", b"a:b\r\n" * 10_000),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 2_000),
    ],
    ids=["body", "chunk", "trailer", "value", "fields", "interim"],
)
async def test_an_endless_reply_does_not_fill_the_memory(
    serve: Any, monkeypatch: pytest.MonkeyPatch, start: bytes, piece: bytes
) -> None:
    monkeypatch.setattr(connection, "LARGEST", 1 << 20)
    server = await serve(lambda _: [start, *([piece] * 64)])
    fault = await post(server)
    assert isinstance(fault, Fault)
    assert "larger than" in fault.message


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 429 Slow\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nxyz",
        b"HTTP/1.1 429 Slow\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 429 Slow\r\nContent-Length: 30\r\n\r\nbroken off",
    ],
)
async def test_the_status_of_an_error_is_told_though_its_body_is_of_no_use(serve: Any, reply: bytes) -> None:
    answer = await post(await serve(lambda _: [reply, None]))
    assert isinstance(answer, HttpReply)
    assert answer.status == 429


@pytest.mark.parametrize("end", [b"", b"Content-Length: 3\r\n", b"Content-Length: 3\r\nConnection: close\r\n"])
async def test_a_reply_before_the_request_is_written_is_the_reply_and_the_connection_is_not_used_again(
    end: bytes,
) -> None:
    open_ones: list[asyncio.StreamWriter] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too much\r\n" + end + b"\r\nbig")
        writer.write_eof()  # and the rest of the request is never read

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    client = Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", api_key=KEY)
    for _ in range(2):
        reply = await client.post(b"x" * 20_000_000)
        assert isinstance(reply, HttpReply), reply
        assert (reply.status, reply.body) == (413, b"big")
    await client.aclose()
    assert len(open_ones) == 2
    for writer in open_ones:
        writer.transport.abort()
    server.close()


@pytest.mark.parametrize("limits", [Timeouts(total=0.05), Timeouts(read=0.05)])
async def test_a_server_that_says_nothing_is_given_up_in_time(serve: Any, limits: Timeouts) -> None:
    fault = await post(await serve(lambda _: []), timeouts=limits)
    assert isinstance(fault, Fault)
    assert fault.kind is CallErrorKind.TIMEOUT
    assert "0.05 s" in fault.message


async def test_a_cancelled_call_closes_its_connection_and_no_other(serve: Any) -> None:
    server = await serve(lambda request: [] if b"wait" in request else [OK])
    client = endpoint(server)
    waiting = asyncio.ensure_future(client.post(b"wait"))
    await server.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for _ in range(2):
        assert body_of(await client.post(b"{}")) == b"hello"
    await client.aclose()
    assert server.connections == 2


async def test_a_call_cancelled_as_its_reply_comes_leaves_no_connection(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(lambda _: [OK])
    client = endpoint(server)
    tasks: list[asyncio.Task[HttpReply | Fault]] = []
    finish = connection.Connection._finish

    def cancel_too(self: Any, **options: Any) -> None:
        finish(self, **options)
        tasks[-1].cancel()

    monkeypatch.setattr(connection.Connection, "_finish", cancel_too)
    for _ in range(3):
        tasks.append(asyncio.ensure_future(client.post(b"{}")))
        with pytest.raises(asyncio.CancelledError):
            await tasks[-1]
    await all_gone(server)
    assert server.connections == 3
    await client.aclose()


@pytest.mark.parametrize("rounds", range(0, 12, 2))
async def test_no_connection_outlives_closing_however_far_its_call_got(serve: Any, rounds: int) -> None:
    server = await serve(lambda _: [OK])
    client = endpoint(server)
    calls = [asyncio.ensure_future(client.post(b"{}")) for _ in range(3)]
    for _ in range(rounds):
        await asyncio.sleep(0)
    await client.aclose()
    for outcome in await asyncio.gather(*calls):
        assert isinstance(outcome, HttpReply) or outcome.kind is CallErrorKind.CONNECTION
    await client.aclose()  # of calls that began after the first one
    await all_gone(server)


async def test_one_endpoint_serves_event_loops_side_by_side_and_one_after_another(serve: Any) -> None:
    server = await serve(lambda _: [OK])
    client = endpoint(server)
    together = threading.Barrier(3)

    async def calls() -> None:
        for _ in range(3):
            together.wait()  # each loop has its turn between two calls of another
            assert body_of(await client.post(b"{}")) == b"hello"
        await client.aclose()

    def run() -> None:
        asyncio.run(calls())

    await asyncio.gather(*(asyncio.to_thread(run) for _ in range(3)))
    assert server.connections == 3
    assert body_of(await client.post(b"{}")) == b"hello"
    await client.aclose()
    assert server.connections == 4


async def test_closing_ends_calls_that_are_under_way(serve: Any) -> None:
    server = await serve(lambda _: [])
    client = endpoint(server)
    waiting = asyncio.ensure_future(client.post(b"{}"))
    await server.asked.wait()
    await client.aclose()
    fault = await waiting
    assert isinstance(fault, Fault)
    assert fault.kind is CallErrorKind.CONNECTION


async def test_a_server_on_ipv6_is_reached(serve: Any) -> None:
    try:
        server = await serve(lambda _: [OK], None, "::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    client = Endpoint(f"http://[::1]:{server.port}/v1", api_key_env=None)
    assert body_of(await client.post(b"{}")) == b"hello"
    await client.aclose()
    assert f"Host: [::1]:{server.port}".encode() in server.requests[0]


async def test_too_few_open_files_are_called_by_their_name(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await serve(lambda _: [OK])

    def none_left(*_: Any, **__: Any) -> socket.socket:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("aiohappyeyeballs.impl.socket.socket", none_left)
    fault = await post(server)
    assert isinstance(fault, Fault)
    assert "Too many open files" in fault.message
    assert "ulimit" in str(fault.hint)


# --- TLS and proxies --------------------------------------------------------------------------------------------------


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def test_calls_over_tls_reuse_their_connection(serve: Any, tls: Any, certificate: tuple[Path, Path]) -> None:
    server = await serve(lambda _: [OK], tls)
    url = f"https://127.0.0.1:{server.port}/v1"
    client = Endpoint(url, api_key=KEY, ca_file=certificate[0])
    for _ in range(3):
        assert body_of(await client.post(b"x" * 300_000)) == b"hello"
    await client.aclose()
    assert server.connections == 1
    plain = await Endpoint(url.replace("https", "http"), api_key=KEY).post(b"{}")
    assert isinstance(plain, Fault)


async def test_https_to_a_plain_server_names_tls() -> None:
    async def complain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(complain, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    fault = await Endpoint(url, api_key=KEY).post(b"{}")
    server.close()
    assert isinstance(fault, Fault)
    assert fault.fatal
    assert fault.paid == "no"
    assert "TLS to 127.0.0.1" in fault.message


class Tunnel:
    """A proxy that connects whoever asks with the right login to one port."""

    def __init__(self, port: int, status: bytes = b"200 Go") -> None:
        self.asked: list[bytes] = []
        self._port = port
        self._status = status
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Tunnel:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 %s\r\n\r\n" % self._status)
        if self._status.startswith(b"200"):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        else:
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(proxy: Tunnel) -> None:
        for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("https_proxy", f"http://me:proxy-pass-1@127.0.0.1:{proxy.port}")

    return use


async def test_https_goes_through_a_tunnel_and_the_proxy_never_sees_the_key(
    serve: Any, tls: Any, certificate: tuple[Path, Path], behind: Any
) -> None:
    server = await serve(lambda _: [OK], tls)
    async with Tunnel(server.port) as proxy:
        behind(proxy)
        client = Endpoint("https://far.example/v1", api_key=KEY, ca_file=certificate[0])
        for _ in range(2):
            assert body_of(await client.post(b"{}")) == b"hello"
        await client.aclose()
    assert len(proxy.asked) == 1
    assert proxy.asked[0].startswith(b"CONNECT far.example:443 HTTP/1.1\r\nHost: far.example:443\r\n")
    assert b"Proxy-Authorization: Basic " in proxy.asked[0]
    assert KEY.encode() not in proxy.asked[0]
    assert b"Proxy-Authorization" not in server.requests[0]
    assert KEY.encode() in server.requests[0]


async def test_a_proxy_that_refuses_or_is_not_there_is_named(serve: Any, behind: Any) -> None:
    server = await serve(lambda _: [OK])
    async with Tunnel(server.port, b"403 Forbidden") as proxy:
        behind(proxy)
        refused = await Endpoint("https://far.example/v1", api_key=KEY).post(b"{}")
    gone = await Endpoint("https://far.example/v1", api_key=KEY).post(b"{}")
    for fault, said in ((refused, "403"), (gone, "refused")):
        assert isinstance(fault, Fault)
        assert "proxy" in fault.message
        assert said in fault.message
        assert "HTTPS_PROXY" in str(fault.hint)
        assert fault.paid == "no"
        assert "proxy-pass-1" not in repr(fault)


@pytest.mark.parametrize(
    ("excepted", "host", "is_used"),
    [
        ("10.0.0.0/8", "10.1.2.3", False),
        ("10.0.0.0/8", "11.1.2.3", True),
        ("fd00::/8,x", "fd00::1", False),
        ("[::1]", "::1", False),
        ("near.example:8000", "near.example", False),
        ("near.example:8001", "near.example", True),
        (" near.example ", "api.near.example", False),
        ("near.example", "notnear.example", True),
        ("", "near.example", True),
    ],
)
def test_hosts_and_networks_in_no_proxy_are_reached_without_it(
    monkeypatch: pytest.MonkeyPatch, excepted: str, host: str, is_used: bool
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("no_proxy", excepted)
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert (proxy_for("http", host, 8000) is not None) is is_used


@pytest.mark.parametrize("proxy", ["http://[bad:1", "http://a b:1", "http://x:99999", "http://:pass-word-1@"])
def test_a_proxy_that_is_no_url_is_said_without_its_password(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(UsageError) as caught:
        proxy_for("http", "far.example", 80)
    assert "HTTPS_PROXY" in str(caught.value.hint)
    assert "pass-word-1" not in str(caught.value)


async def test_no_password_is_shown_in_any_of_its_forms(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def echo(request: bytes) -> list[bytes | None]:
        said = b"p@ss:w0rd p%40ss%3Aw0rd preview " + request.partition(b"Proxy-Authorization: ")[2].split(b"\r\n")[0]
        return [b"HTTP/1.1 407 No\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said)]

    proxy = await serve(echo)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", f"http://:p%40ss%3Aw0rd@127.0.0.1:{proxy.port}")
    client = Endpoint("http://far.example/v1?api-version=preview", api_key=KEY)
    assert body_of(await client.post(b"{}")) == b"*** *** preview Basic ***"
    assert "Basic" not in repr(client._route)
    await client.aclose()
    assert base64.b64encode(b":p@ss:w0rd") in proxy.requests[0]


@pytest.mark.parametrize("ends", ["cancelled", "in time"])
async def test_a_proxy_that_never_answers_leaves_no_connection(
    serve: Any, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    proxy = await serve(lambda _: [])
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
    limits = Timeouts(connect=0.05 if ends == "in time" else 60)
    client = Endpoint("https://far.example/v1", api_key=KEY, timeouts=limits)
    call = asyncio.ensure_future(client.post(b"{}"))
    if ends == "cancelled":
        await proxy.asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    else:
        fault = await call
        assert isinstance(fault, Fault)
        assert fault.paid == "no"
    await all_gone(proxy)


# --- what cannot be sent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers", [{"X-A": "b\r\nEvil: yes"}, {"X A": "b"}, {"X:A": "b"}, {"Content-Length": "3"}, {"": "b"}, {"é": "b"}]
)
def test_a_header_that_would_change_the_request_is_refused_and_not_shown(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        Endpoint("http://127.0.0.1:1/v1", headers=headers)
    assert "Evil" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://exa mple/v1",
        "http://a..b/v1",
        "http://a\x00b/v1",
        "http://.example/v1",
        "https://" + "a" * 64 + ".example",
        "http://x:0/v1",
        "http://x:99999/v1",
        "http://127.0.0.1%2f.example/",
        "http://me:pass-word-1@/v1",
    ],
)
def test_what_is_no_host_is_said_before_a_call(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Endpoint(url, api_key_env=None)
    assert "pass-word-1" not in str(caught.value)


def test_a_host_goes_over_the_wire_in_ascii() -> None:
    client = Endpoint("http://Bücher.example:81/v1", api_key_env=None)
    assert client.base_url == "http://xn--bcher-kva.example:81/v1"
    assert host_name("fe80::1%25eth0") == "fe80::1%eth0"
    assert authority_of("fe80::1%eth0", 80) == "[fe80::1]:80"


def test_a_path_is_quoted_once() -> None:
    assert target_of("/a b/ü/%20", "k=v w&x=%2F") == "/a%20b/%C3%BC/%20?k=v%20w&x=%2F"
    assert target_of("") == "/"


FEW_FILES = """
import asyncio, sys
from combee.model import Endpoint
from combee.model.wire import HttpReply

async def main(url):
    endpoint = Endpoint(url, api_key_env=None)
    replies = await asyncio.gather(*(endpoint.post(b"{}") for _ in range(300)))
    print(sum(isinstance(reply, HttpReply) for reply in replies))
    await endpoint.aclose()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("most", [64, 2000])
@pytest.mark.skipif(sys.platform == "win32", reason="it has no such limit")
async def test_more_calls_than_the_system_has_files_for_all_get_their_reply(serve: Any, most: int) -> None:
    server = await serve(lambda _: [OK])
    url = f"http://127.0.0.1:{server.port}/v1"
    limited = f'ulimit -Sn 64; ulimit -Hn {most}; exec "$0" -X dev -c "$1" "$2"'
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", limited, sys.executable, FEW_FILES, url, stdout=-1, stderr=-1
    )
    out, said = await child.communicate()
    assert out.split() == [b"300"], said.decode()
    assert (server.connections < 64) is (most == 64)
