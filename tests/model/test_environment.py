"""The way to an endpoint: TLS, proxies, what the environment says of both, and addresses that cannot be called."""

from __future__ import annotations

import asyncio
import base64
import shutil
import ssl
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from combee.errors import CallErrorKind, UsageError
from combee.model import Endpoint, Timeouts
from combee.model.environment import authority_of, host_name, proxy_for, target_of
from combee.model.http import HttpReply
from combee.model.outcome import Fault
from tests.model.shared import all_gone, body_of

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
KEY = "sk-wire-test-key-0001"
BUNDLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


async def call(client: Endpoint, body: bytes = b"{}") -> HttpReply | Fault:
    try:
        return await client.post(body)
    finally:
        await client.aclose()


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of this machine says nothing."""
    for name in ("no_proxy", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in BUNDLES:
        monkeypatch.delenv(name, raising=False)


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
    assert isinstance(await call(Endpoint(url.replace("https", "http"), api_key=KEY)), Fault)


async def test_https_to_a_plain_server_names_tls() -> None:
    async def complain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(complain, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    fault = await call(Endpoint(url, api_key=KEY))
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
    assert proxy.asked[0].startswith(b"CONNECT far.example:443 HTTP/1.1\r\nHost: far.example\r\n")
    assert b"Proxy-Authorization: Basic " in proxy.asked[0]
    assert KEY.encode() not in proxy.asked[0]
    assert b"Proxy-Authorization" not in server.requests[0]
    assert KEY.encode() in server.requests[0]


async def test_a_proxy_that_refuses_or_is_not_there_is_named(serve: Any, behind: Any) -> None:
    server = await serve(lambda _: [OK])
    async with Tunnel(server.port, b"403 Forbidden") as proxy:
        behind(proxy)
        refused = await call(Endpoint("https://far.example/v1", api_key=KEY))
    gone = await call(Endpoint("https://far.example/v1", api_key=KEY))
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
    monkeypatch.setenv("http_proxy", f"http://:p%40ss%3Aw0rd@127.0.0.1:{proxy.port}")
    client = Endpoint("http://far.example/v1?api-version=preview", api_key=KEY)
    assert body_of(await client.post(b"{}")) == b"*** *** preview Basic ***"
    assert "w0rd" not in repr(proxy_for("http", "far.example", 80))
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
    await client.aclose()


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


# --- certificates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_DIR", "folder"])
@pytest.mark.parametrize("others", ["alone", "beside others"])
async def test_certificates_that_the_environment_names_are_trusted_whatever_else_it_names(
    *,
    serve: Any,
    tls: Any,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    named: str,
    others: str,
) -> None:
    if others == "beside others":
        unrelated = ssl.get_default_verify_paths().cafile
        if unrelated is None:
            pytest.skip("this machine has no bundle of its own")
        for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            monkeypatch.setenv(name, unrelated)
    shutil.copy(certificate[0], tmp_path / "own.pem")
    (tmp_path / "notes.crt").write_text("no certificate")
    if named == "SSL_CERT_DIR":
        monkeypatch.setenv(named, f"/not/there:{tmp_path}")
    else:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE" if named == "folder" else named, str(tmp_path / "own.pem"))
        if named == "folder":
            monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path))
    server = await serve(lambda _: [OK], tls)
    client = Endpoint(f"https://127.0.0.1:{server.port}/v1", api_key=KEY)
    assert body_of(await call(client)) == b"hello"


async def test_a_certificate_that_nobody_trusts_stops_the_run_with_what_to_do(serve: Any, tls: Any) -> None:
    server = await serve(lambda _: [OK], tls)
    fault = await call(Endpoint(f"https://127.0.0.1:{server.port}/v1", api_key=KEY))
    assert isinstance(fault, Fault)
    assert fault.fatal
    assert "not trusted" in fault.message
    assert "SSL_CERT_FILE" in str(fault.hint)
    assert server.requests == []


async def test_a_folder_of_certificates_may_be_given(
    serve: Any, tls: Any, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copy(certificate[0], tmp_path / "own.pem")
    server = await serve(lambda _: [OK], tls)
    client = Endpoint(f"https://127.0.0.1:{server.port}/v1", api_key=KEY, ca_file=tmp_path)
    assert body_of(await call(client)) == b"hello"


async def test_an_endpoint_that_asks_who_connects_gets_the_client_certificate(
    serve: Any, tls: ssl.SSLContext, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(certificate[0])
    server = await serve(lambda _: [OK], tls)
    both = tmp_path / "client.pem"
    both.write_bytes(certificate[0].read_bytes() + certificate[1].read_bytes())
    url = f"https://127.0.0.1:{server.port}/v1"
    known = Endpoint(url, api_key=KEY, ca_file=certificate[0], client_cert=both)
    assert body_of(await call(known)) == b"hello"
    assert isinstance(await call(Endpoint(url, api_key=KEY, ca_file=certificate[0])), Fault)


@pytest.mark.parametrize("what", ["ca_file", "client_cert", "SSL_CERT_FILE"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, content: str | None
) -> None:
    file = tmp_path / "mine.pem"
    if content is not None:
        file.write_text(content)
    if what == "SSL_CERT_FILE":
        monkeypatch.setenv(what, str(file))
    options: dict[str, Any] = {} if what == "SSL_CERT_FILE" else {what: file}
    with pytest.raises(UsageError, match=r"mine\.pem cannot be read"):
        Endpoint("https://far.example/v1", api_key=KEY, **options)


# --- what proxies say, and SOCKS --------------------------------------------------------------------------------------


async def test_a_proxy_that_asks_for_a_login_says_where_to_put_it(serve: Any, behind: Any) -> None:
    server = await serve(lambda _: [OK])
    async with Tunnel(server.port, b"407 Login") as proxy:
        behind(proxy)
        fault = await call(Endpoint("https://far.example/v1", api_key=KEY))
    assert isinstance(fault, Fault)
    assert fault.kind is CallErrorKind.AUTH
    assert "login" in fault.message
    assert "HTTPS_PROXY=http://USER:PASSWORD@" in str(fault.hint)


async def test_the_environment_is_read_once_and_not_for_each_call(
    serve: Any, tls: Any, certificate: tuple[Path, Path], behind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(lambda _: [OK], tls)
    async with Tunnel(server.port) as proxy:
        behind(proxy)
        client = Endpoint("https://far.example/v1", api_key=KEY, ca_file=certificate[0])
        monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
        assert body_of(await call(client)) == b"hello"
    assert len(proxy.asked) == 1


class Socks:
    """A SOCKS5 proxy that takes one login and connects everybody to one port."""

    def __init__(self, port: int, login: bytes) -> None:
        self.asked: list[bytes] = []
        self._port = port
        self._login = login

    async def __aenter__(self) -> Socks:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        await reader.readexactly(count)
        writer.write(b"\x05\x02")
        _, length = await reader.readexactly(2)
        user = await reader.readexactly(length)
        password = await reader.readexactly((await reader.readexactly(1))[0])
        if user + b":" + password != self._login:
            writer.write(b"\x01\x01")
            writer.close()
            return
        writer.write(b"\x01\x00")
        _, _, _, kind = await reader.readexactly(4)
        assert kind == 3, "the proxy looks names up"
        host = await reader.readexactly((await reader.readexactly(1))[0])
        (port,) = struct.unpack(">H", await reader.readexactly(2))
        self.asked.append(b"%s:%d" % (host, port))
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("login", ["me:right", "me:wrong"])
async def test_calls_go_through_a_socks_proxy(
    *, serve: Any, tls: Any, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, scheme: str, login: str
) -> None:
    pytest.importorskip("aiohttp_socks", reason="the extra `socks` is not installed")
    server = await serve(lambda _: [OK], tls if scheme == "https" else None)
    async with Socks(server.port, b"me:right") as proxy:
        monkeypatch.setenv("ALL_PROXY", f"socks5h://{login}@127.0.0.1:{proxy.port}")
        client = Endpoint(f"{scheme}://far.example:8123/v1", api_key=KEY, ca_file=certificate[0])
        replies = [await client.post(b"{}") for _ in range(2)]
        await client.aclose()
    for reply in replies:
        if login == "me:right":
            assert body_of(reply) == b"hello"
            assert proxy.asked == [b"far.example:8123"]
        else:
            assert isinstance(reply, Fault)
            assert "proxy" in reply.message
            assert "wrong" not in repr(reply)


def test_a_socks_proxy_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    monkeypatch.setitem(sys.modules, "aiohttp_socks", None)
    with pytest.raises(UsageError, match="socks5") as caught:
        Endpoint("http://far.example/v1", api_key=KEY)
    assert "combee[socks]" in str(caught.value.hint)


# --- redirects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("https://api.far.example/v2/chat/completions", "base URL to https://api.far.example/v2."),
        ("/openai/v1/chat/completions", "/openai/v1."),
        ("https://login.example/sso?token=abcdefgh1234", "https://login.example/sso."),
    ],
)
async def test_a_redirect_is_not_followed_and_its_target_is_shown(serve: Any, location: str, said: str) -> None:
    head = f"HTTP/1.1 308 Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
    server = await serve(lambda _: [head])
    fault = await call(Endpoint(f"http://127.0.0.1:{server.port}/v1", api_key=KEY))
    assert isinstance(fault, Fault)
    assert fault.fatal
    assert said in str(fault.hint)
    assert "token" not in repr(fault)
    assert len(server.requests) == 1
