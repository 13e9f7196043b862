"""The HTTP side of one OpenAI-compatible endpoint: one session, reused connections, timeouts, TLS, proxy, key.

What goes wrong on the wire comes back as a `Fault`: never as a foreign exception, because those carry request headers.
Proxy and certificates come from the environment, read once (aiohttp's own `trust_env` starts two threads a request).
"""

from __future__ import annotations

import asyncio
import base64
import io
import os
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import aiohttp

from combee import __version__
from combee.errors import CallErrorKind, UsageError
from combee.model.outcome import Fault
from combee.model.secret import Scrubber, Secret, key_from

__all__ = ["Endpoint", "HttpReply", "Timeouts"]

_LARGE = 1 << 19  # bytes from which a body is sent in pieces, so that writing it does not hold up the loop
_LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 - a name to recognise, nothing is bound

_SETTING = "the base URL (--base-url, or base_url in combee.toml)"
_PROXY = "Check HTTPS_PROXY, HTTP_PROXY, NO_PROXY."


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to get a connection, between two pieces of a reply (so also until its first byte), and in all.

    Replies come in one piece at the end, so `read` is rarely of use beside `total`; it costs a timer a call.
    """

    connect: float = 15.0
    read: float | None = None
    total: float = 600.0


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back: status, headers, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Endpoint:
    """One base URL with its key.

    Args:
        base_url: Like `https://api.deepseek.com/v1`; `chat/completions` is added. None: from `base_url_env`.
        base_url_env: Environment variable that holds the base URL.
        api_key_env: Environment variable that holds the key. A local endpoint needs none.
        api_key: The key itself, where it is not in the environment.
        key_header: Header for the key; `Authorization` gets "Bearer " before it (Azure: `api-key`).
        headers: Further headers; their values are treated as secrets.
        timeouts: See `Timeouts`.
        ca_file: Certificates to trust in place of the system's.

    Raises:
        UsageError: No base URL, a URL that is none, or a missing key.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        base_url_env: str = "OPENAI_BASE_URL",
        api_key_env: str | None = "OPENAI_API_KEY",
        api_key: str | None = None,
        key_header: str = "Authorization",
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        ca_file: Path | None = None,
    ) -> None:
        url = (base_url or os.environ.get(base_url_env, "")).strip()
        parts = _split(url, base_url_env)
        self.host = parts.hostname or ""
        self.is_local = self.host in _LOCAL
        self._key_variable = api_key_env
        self._key = key_from(api_key, api_key_env, needed=not self.is_local and api_key_env is not None)
        login = _login(parts.username, parts.password)
        netloc = parts.netloc.rpartition("@")[2]
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        self.base_url = urlunsplit((parts.scheme, netloc, path, "", ""))
        self._query = f"?{parts.query}" if parts.query else ""
        # Sent with each request and never as defaults of the session: aiohttp gives those to the proxy as well.
        self._headers = {"Accept": "application/json", **(headers or {})}
        if self._key is not None:
            bearer = "Bearer " if key_header.lower() == "authorization" else ""
            self._headers[key_header] = bearer + self._key.reveal()
        elif login is not None:
            self._headers["Authorization"] = login.reveal()
        self._proxy, proxy_login, proxy_password = _proxy_for(parts.scheme, self.host)
        self._proxy_headers: dict[str, str] | None = None
        if proxy_login is not None:
            login_header = {"Proxy-Authorization": proxy_login.reveal()}
            if parts.scheme == "https":  # the tunnel is asked for with it
                self._proxy_headers = login_header
            else:
                self._headers.update(login_header)
        self._post_headers = {**self._headers, "Content-Type": "application/json"}
        secrets = [
            self._key,
            login,
            proxy_login,
            Secret(parts.password or ""),
            Secret(proxy_password or ""),
            *(Secret(value) for value in (headers or {}).values()),
        ]
        self.scrub = Scrubber([*secrets, *(Secret(pair.partition("=")[2]) for pair in parts.query.split("&"))])
        self.timeouts = timeouts or Timeouts()
        self._tls = _tls_context(ca_file) if parts.scheme == "https" else True
        self._answered = False
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r})"

    @property
    def has_key(self) -> bool:
        """Whether a key is sent."""
        return self._key is not None

    def without_key(self, status: int) -> Fault:
        """Return the refusal of a call that carried no key: nobody is to look for a mistake in a key."""
        variable = self._key_variable
        said = f"HTTP {status}: no key was sent" + (f" ({variable} is not set)" if variable else "")
        hint = "the variable that holds the key with --api-key-env, or api_key_env in combee.toml."
        return Fault(CallErrorKind.AUTH, said, f"{'Set it, or name' if variable else 'Name'} {hint}", status=status)

    def _open(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is not None and not self._session.closed and self._loop is loop:
            return self._session
        limits = self.timeouts
        self._loop = loop
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=30, ssl=self._tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"combee/{__version__}"},
            timeout=aiohttp.ClientTimeout(
                total=limits.total, sock_connect=limits.connect, sock_read=limits.read, connect=None
            ),
        )
        return self._session

    async def aclose(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None and not session.closed:
            await session.close()

    async def post(self, body: bytes, path: str = "/chat/completions") -> HttpReply | Fault:
        """Send one prepared JSON body."""
        data: bytes | io.BytesIO = body if len(body) < _LARGE else io.BytesIO(body)
        return await self._request("POST", path, data)

    async def get(self, path: str) -> HttpReply | Fault:
        """Fetch one JSON document, like `/models`."""
        return await self._request("GET", path, None)

    async def _request(self, method: str, path: str, data: bytes | io.BytesIO | None) -> HttpReply | Fault:
        session = self._open()
        headers = self._headers if data is None else self._post_headers
        fault: Fault
        try:
            async with session.request(
                method,
                self.base_url + path + self._query,
                data=data,
                headers=headers,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                allow_redirects=False,
            ) as reply:
                self._answered = True
                body = await reply.read()
                return HttpReply(reply.status, reply.headers, self.scrub.body(body))
        except TimeoutError as error:
            fault = self._timed_out(error)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            fault = self._broken(error)
        return fault

    def _timed_out(self, error: BaseException) -> Fault:
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return Fault(
                CallErrorKind.CONNECTION,
                f"no connection to {self.host} within {self.timeouts.connect:g} s",
                hint="Check the base URL and the network (proxy, firewall).",
                paid="no",
            )
        read = isinstance(error, aiohttp.SocketTimeoutError)
        seconds = self.timeouts.read if read and self.timeouts.read else self.timeouts.total
        return Fault(
            CallErrorKind.TIMEOUT,
            f"no answer from {self.host} within {seconds:g} s",
            "Raise the timeout, or lower the concurrency.",
        )

    def _broken(self, error: BaseException) -> Fault:
        kind = CallErrorKind.CONNECTION
        said = self.scrub(str(error) or type(error).__name__)[:300]
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
            return Fault(
                kind,
                f"TLS to {self.host} failed: {said}",
                hint="Point SSL_CERT_FILE at the certificates to trust; check http against https in the base URL.",
                fatal=True,
                paid="no",
            )
        new = not self._answered
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            said = f"there is no host {self.host!r}"
            return Fault(kind, said, f"Check the network and {_SETTING}.", unreached=new, paid="no")
        if isinstance(error, aiohttp.ClientProxyConnectionError):
            said = f"no connection to the proxy: {self.scrub(_reason(error))}"
            return Fault(kind, said, _PROXY, unreached=new, paid="no")
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return Fault(kind, f"the proxy failed: {said}", _PROXY, paid="no")
        if isinstance(error, aiohttp.ClientConnectorError):
            said = f"no connection to {self.base_url}: {self.scrub(_reason(error))}"
            return Fault(kind, said, f"Is the server running there? Check {_SETTING}.", unreached=new, paid="no")
        if isinstance(error, aiohttp.ClientPayloadError):
            return Fault(CallErrorKind.TRUNCATED_BODY, "the reply broke off before its end")
        if isinstance(error, aiohttp.ClientResponseError):
            return Fault(CallErrorKind.NOT_JSON, f"{self.host} does not speak HTTP as expected: {said}")
        return Fault(kind, f"the connection to {self.host} broke: {said}")


def _reason(error: aiohttp.ClientConnectorError) -> str:
    """Return why there is no connection, like `Connection refused`; aiohttp's own text is of sockets."""
    number = error.os_error.errno
    return os.strerror(number) if number and number > 0 else str(error).replace(" ssl:default", "")[:300]


def _split(url: str, variable: str) -> Any:
    if not url:
        raise UsageError("no base URL is given", hint=f"Give base_url, or set {variable}.")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        shown = url.rpartition("@")[2].partition("?")[0]
        raise UsageError(
            f"{shown!r} is not a base URL", hint="It looks like https://host/v1 or http://127.0.0.1:8000/v1."
        )
    return parts


def _login(user: str | None, password: str | None) -> Secret | None:
    """Return the value of a basic authorization header."""
    if not user:
        return None
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return Secret("Basic " + base64.b64encode(pair.encode()).decode())


def _proxy_for(scheme: str, host: str) -> tuple[str | None, Secret | None, str | None]:
    """Return the proxy of the environment without its login, the login, and its password."""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(host):
        return None, None, None
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme not in {"http", "https"}:
        raise UsageError(
            f"a {parts.scheme} proxy is set in the environment", hint="Use an http:// proxy, or NO_PROXY for this host."
        )
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return bare, _login(parts.username, parts.password), parts.password


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Return the context for https: `ca_file`, else what the environment names, else the system's certificates."""
    named = ca_file or next(
        (os.environ[name] for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if os.environ.get(name)), None
    )
    try:
        return ssl.create_default_context(cafile=str(named) if named else None)
    except OSError as error:
        raise UsageError(f"the certificates in {named or 'SSL_CERT_FILE'} cannot be read: {error.strerror}") from None
