"""A server that speaks HTTP by hand, byte for byte as a test says, and a certificate to serve it under."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

Script = Callable[[bytes], Sequence[bytes | None]]
"""Gets a whole request, and returns what is sent piece by piece; None closes the connection."""


class RawServer:
    """Answers requests as a script says; keeps what it got."""

    def __init__(self, script: Script) -> None:
        self.requests: list[bytes] = []
        self.asked = asyncio.Event()
        self.connections = 0
        self.port = 0
        self._script = script
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.writers: list[asyncio.StreamWriter] = []

    async def start(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> RawServer:
        self._server = await asyncio.start_server(self._accept, host, 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def aclose(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for writer in self.writers:
            writer.transport.abort()
        for _ in range(5):  # so that the transports can end
            await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                for line in request.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:"):
                        request += await reader.readexactly(int(line.split(b":")[1]))
                self.requests.append(request)
                self.asked.set()
                for piece in self._script(request):
                    if piece is None:
                        writer.close()
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., object]]:
    """Start servers with `await serve(script, tls=None, host="127.0.0.1")`; they end with the test."""
    running: list[RawServer] = []

    async def start(script: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> RawServer:
        server = await RawServer(script).start(tls, host)
        running.append(server)
        return server

    yield start
    for server in running:
        await server.aclose()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and far.example that nobody trusts, and its key."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    others = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("far.example")]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(others), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    return paths
