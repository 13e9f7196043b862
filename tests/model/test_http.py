"""The HTTP client under the models: every form of a reply, connections that are reused or not, proxies, TLS, faults."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import socket
import struct
import sys
import threading
import zlib
from functools import partial
from typing import Any

import pytest

from combee.errors import CallErrorKind
from combee.model import Endpoint, Timeouts, http
from combee.model.http import HttpReply
from combee.model.outcome import Fault
from tests.model.shared import all_gone, body_of

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
KEY = "sk-wire-test-key-0001"


def endpoint(server: Any, **options: Any) -> Endpoint:
    return Endpoint(f"http://127.0.0.1:{server.port}/v1", api_key=KEY, **options)


async def call(client: Endpoint, body: bytes = b"{}") -> HttpReply | Fault:
    try:
        return await client.post(body)
    finally:
        await client.aclose()


async def post(server: Any, body: bytes = b"{}", **options: Any) -> HttpReply | Fault:
    return await call(endpoint(server, **options), body)


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


def packed(coding: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s" % (coding, len(body), body)


REPLIES = {
    "length": OK,
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: t\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
    "gzip": packed(b"gzip", gzip.compress(b"hello")),
    "gzip in members": packed(b"gzip", gzip.compress(b"he") + gzip.compress(b"llo")),
    "gzip in a list": packed(b"gzip, identity", gzip.compress(b"hello")),
    "twice": packed(b"deflate, gzip", gzip.compress(zlib.compress(b"hello"))),
    "deflate": packed(b"deflate", zlib.compress(b"hello")),
    "deflate without its frame": packed(b"deflate", zlib.compress(b"hello")[2:-4]),
    "a charset": packed(b"UTF-8", b"hello"),
    "none": packed(b"none", b"hello"),
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


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
async def test_json_that_is_called_packed_and_is_not_is_read(serve: Any, coding: bytes) -> None:
    server = await serve(lambda _: [packed(coding, b' {"a": 1}')])
    assert body_of(await post(server)) == b' {"a": 1}'


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


@pytest.mark.parametrize("is_reset", [False, True])
async def test_what_was_closed_while_the_loop_was_busy_is_not_used_again(is_reset: bool) -> None:
    rounds, closed = 40, threading.Semaphore(0)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve_one_call_a_connection() -> None:
        for _ in range(rounds):
            one, _ = listening.accept()
            with one:
                while b"{}" not in one.recv(65_536):
                    pass
                one.sendall(OK)
                if is_reset:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            closed.release()

    serving = threading.Thread(target=serve_one_call_a_connection, daemon=True)
    serving.start()
    client = Endpoint(f"http://127.0.0.1:{listening.getsockname()[1]}", api_key=KEY)
    for _ in range(rounds):
        assert body_of(await client.post(b"{}")) == b"hello"
        closed.acquire()  # the loop stands still
    await client.aclose()
    serving.join()
    listening.close()


async def test_a_request_whose_connection_breaks_is_not_sent_again(serve: Any) -> None:
    turns = itertools.cycle([[OK], [None]])
    server = await serve(lambda _: next(turns))
    client = endpoint(server)
    for ask in (partial(client.post, b"{}"), partial(client.get, "/models")):
        assert body_of(await ask()) == b"hello"
        before = len(server.requests)
        fault = await ask()
        assert isinstance(fault, Fault)
        assert fault.kind is CallErrorKind.CONNECTION
        assert len(server.requests) == before + 1
    await client.aclose()


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
        assert one.connections == 3 or extra.endswith(b"-Le")  # the half of a head is no reply, and is passed over


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
    ("start", "piece", "said"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536, "larger than 1 MB"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 65_536, "no answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ", b"x" * 65_536, "more than 65536"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65_536, "more than 65536"),
        (b"HTTP/1.1 200 OK\r\n", b"a:b\r\n" * 10_000, "Too many headers"),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 2_000, "no answer"),
    ],
    ids=["body", "chunk", "trailer", "value", "fields", "interim"],
)
async def test_an_endless_reply_is_given_up(
    serve: Any, monkeypatch: pytest.MonkeyPatch, start: bytes, piece: bytes, said: str
) -> None:
    monkeypatch.setattr(http, "LARGEST", 1 << 20)
    server = await serve(lambda _: [start, *([piece] * 64)])
    fault = await post(server, timeouts=Timeouts(total=2))
    assert isinstance(fault, Fault)
    assert said in fault.message


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_compressed_bomb_is_given_up_before_it_fills_the_memory(serve: Any, coding: str) -> None:
    pack = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | (16 if coding == "gzip" else 0))
    bomb = b"".join(pack.compress(b"0" * (1 << 24)) for _ in range(64)) + pack.flush()  # 1 GB in 1 MB
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (coding.encode(), len(bomb))
    server = await serve(lambda _: [head, bomb])
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BOMBED, f"http://127.0.0.1:{server.port}/v1", stdout=-1, stderr=-1
    )
    out, err = await child.communicate()
    said, _, grown = out.decode().strip().rpartition(" ")
    assert "larger than 64 MB when unpacked" in said, err.decode()
    assert float(grown) < 200  # MB: the largest reply, and what the allocator takes to build it


BOMBED = """
import asyncio, resource, sys
from combee.model import Endpoint

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)

async def main(url):
    endpoint = Endpoint(url, api_key_env=None)
    import aiohttp
    before = peak()
    fault = await endpoint.post(b"{}")
    print(fault.message, peak() - before)
    await endpoint.aclose()

asyncio.run(main(sys.argv[1]))
"""


async def test_long_and_many_header_fields_are_read(serve: Any) -> None:
    many = b"".join(b"X-Field-%d: value\r\n" % number for number in range(500))
    long = b"Content-Security-Policy: " + b"x" * 40_000 + b"\r\n"
    reply = await post(await serve(lambda _: [OK.replace(b"OK\r\n", b"OK\r\n" + many + long)]))
    assert body_of(reply) == b"hello"


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


async def test_a_call_cancelled_at_any_moment_leaves_no_reply_for_the_next_one(serve: Any) -> None:
    def echo(request: bytes) -> list[bytes | None]:
        body = request.partition(b"\r\n\r\n")[2]
        return [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body]

    server = await serve(echo)
    client = endpoint(server)
    for rounds in range(60):
        call = asyncio.ensure_future(client.post(b"cancelled"))
        for _ in range(rounds):
            await asyncio.sleep(0)
        call.cancel()
        assert body_of(await client.post(b"%d" % rounds)) == b"%d" % rounds
        with contextlib.suppress(asyncio.CancelledError):
            assert body_of(await call) == b"cancelled"
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


FEW_FILES = """
import asyncio, sys
from combee.model import Endpoint
from combee.model.http import HttpReply

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
