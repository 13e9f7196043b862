"""The HTTP side of one OpenAI-compatible endpoint: address, key, proxy, certificates, and what its failures are called.

What goes wrong on the wire comes back as a `Fault`. Proxy and certificates come from the environment, read once.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from combee import __version__
from combee.errors import CallErrorKind, UsageError
from combee.model.outcome import Fault
from combee.model.secret import Scrubber, Secret, key_from
from combee.model.wire import HttpReply, Pool, Proxy, Route, Timeouts, WireError
from combee.model.wire.environment import ProxySetting, basic_login, proxy_for, tls_context
from combee.model.wire.head import authority_of, connect_request, get_request, host_name, post_head, target_of

__all__ = ["Endpoint", "HttpReply", "Timeouts"]

_LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 - a name to recognise, nothing is bound

_PUBLIC = re.compile(r"(?i)accept.*|user-agent|x-title|(http-)?referer|.*version|.*organization|.*project|.*-beta")
_SETTING = "the base URL (--base-url, or base_url in combee.toml)"
_PROXY = "Check HTTPS_PROXY, HTTP_PROXY, NO_PROXY."
_CERTIFICATES = "Point SSL_CERT_FILE at the certificates to trust; check http against https in the base URL."


class Endpoint:
    """One base URL with its key.

    Args:
        base_url: Like `https://api.deepseek.com/v1`; `chat/completions` is added. None: from `base_url_env`.
        base_url_env: Environment variable that holds the base URL.
        api_key_env: Environment variable that holds the key. A local endpoint needs none.
        api_key: The key itself, where it is not in the environment.
        key_header: Header for the key; `Authorization` gets "Bearer " before it (Azure: `api-key`).
        headers: Further headers; their values are treated as secrets, but for what names the caller or a version.
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
        self.host = host_name(parts.hostname or "")
        self.is_local = self.host in _LOCAL
        self.timeouts = timeouts or Timeouts()
        self._key_variable = api_key_env
        self._key = key_from(api_key, api_key_env, needed=not self.is_local and api_key_env is not None)
        login = basic_login(parts.username, parts.password)
        self._authority = authority_of(self.host, parts.port)
        self._path = parts.path.rstrip("/").removesuffix("/chat/completions")
        self._query = parts.query
        self.base_url = urlunsplit((parts.scheme, self._authority, self._path, "", ""))
        self._headers = {"User-Agent": f"combee/{__version__}", "Accept": "application/json", **(headers or {})}
        if self._key is not None:
            bearer = "Bearer " if key_header.lower() == "authorization" else ""
            self._headers[key_header] = bearer + self._key.reveal()
        elif login is not None:
            self._headers["Authorization"] = login.reveal()
        port = parts.port or (443 if parts.scheme == "https" else 80)
        proxy = proxy_for(parts.scheme, self.host, port)
        self._route = self._way(port, tls_context(ca_file) if parts.scheme == "https" else None, proxy)
        self.scrub = Scrubber(_secrets(self._key, login, parts, headers or {}, proxy))
        self._heads: dict[str, bytes] = {}
        self._head("/chat/completions")  # what cannot be sent is said now
        self._answered = False
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}

    def _way(self, port: int, tls: ssl.SSLContext | None, proxy: ProxySetting | None) -> Route:
        """Return where connections go; a proxy that reads the requests gets its login with each of them."""
        way = None
        self._origin = ""
        if proxy is not None:
            login = {"Proxy-Authorization": proxy.login.reveal()} if proxy.login is not None else {}
            tunnel = None
            if tls is not None:
                tunnel = connect_request(authority_of(self.host, port), login)
            else:
                self._headers.update(login)
                self._origin = f"http://{self._authority}"
            way = Proxy(proxy.host, proxy.port, tls_context(None) if proxy.is_https else None, tunnel)
        return Route(self.host, port, tls, way)

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

    def _head(self, path: str) -> bytes:
        """Return the prepared head of a POST to `path`."""
        head = self._heads.get(path)
        if head is None:
            headers = {**self._headers, "Content-Type": "application/json"}
            head = self._heads[path] = post_head(self._target(path), self._authority, headers)
        return head

    def _target(self, path: str) -> str:
        return self._origin + target_of(self._path + path, self._query)

    async def aclose(self) -> None:
        """Close the connections that this event loop opened."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            pool.close()
            await asyncio.sleep(0)  # so that the transports can end

    async def post(self, body: bytes, path: str = "/chat/completions") -> HttpReply | Fault:
        """Send one prepared JSON body."""
        request = b"%s%d\r\n\r\n%s" % (self._head(path), len(body), body)
        del body  # one copy of a long prompt is enough while its call lasts
        return await self._exchange(request)

    async def get(self, path: str) -> HttpReply | Fault:
        """Fetch one JSON document, like `/models`."""
        return await self._exchange(get_request(self._target(path), self._authority, self._headers))

    async def _exchange(self, request: bytes) -> HttpReply | Fault:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for other in [one for one in self._pools.copy() if one.is_closed()]:
                self._pools.pop(other, None)
            pool = self._pools[loop] = Pool(self._route, self.timeouts)
        try:
            reply = await pool.exchange(request)
        except WireError as error:
            return self._fault(error)
        self._answered = True
        return HttpReply(reply.status, reply.fields, self.scrub.body(reply.body))

    def _fault(self, error: WireError) -> Fault:
        """Return what a broken call is to the engine, and to people."""
        self._answered |= error.stage in {"cut", "not http"}
        new = not self._answered
        said, host = self.scrub(error.reason)[:300], self.host
        broken = CallErrorKind.CONNECTION
        match error.stage:
            case "name":
                said = f"there is no host {host!r}"
                return Fault(broken, said, f"Check the network and {_SETTING}.", unreached=new, paid="no")
            case "connect":
                said = f"no connection to {self.base_url}: {said}"
                return Fault(broken, said, f"Is the server running there? Check {_SETTING}.", unreached=new, paid="no")
            case "slow connect":
                said = f"no connection to {host} within {self.timeouts.connect:g} s"
                return Fault(broken, said, "Check the base URL and the network (proxy, firewall).", paid="no")
            case "files":
                said = f"no connection to {host}: {said}"
                return Fault(broken, said, "Lower --concurrency, or raise the limit (ulimit -n).", paid="no")
            case "tls":
                said = f"TLS to {host} failed: {said}"
                return Fault(broken, said, _CERTIFICATES, fatal=True, paid="no")
            case "proxy":
                return Fault(broken, f"no connection through the proxy: {said}", _PROXY, unreached=new, paid="no")
            case "silent":
                limits = self.timeouts
                said = f"no answer from {host} within {min(limits.total, limits.read or limits.total):g} s"
                return Fault(CallErrorKind.TIMEOUT, said, "Raise the timeout, or lower the concurrency.")
            case "cut":
                return Fault(CallErrorKind.TRUNCATED_BODY, said)
            case "not http":
                return Fault(CallErrorKind.NOT_JSON, f"{host} does not speak HTTP as expected: {said}")
            case "broken":
                return Fault(broken, f"the connection to {host} broke: {said}")


def _split(url: str, variable: str) -> SplitResult:
    if not url:
        raise UsageError("no base URL is given", hint=f"Give base_url, or set {variable}.")
    try:
        parts = urlsplit(url)
        is_place = bool(host_name(parts.hostname or "")) and parts.port != 0
    except ValueError:
        is_place = False
    if not is_place or parts.scheme not in {"http", "https"}:
        shown = url.rpartition("@")[2].partition("?")[0]
        raise UsageError(
            f"{shown!r} is not a base URL", hint="It looks like https://host/v1 or http://127.0.0.1:8000/v1."
        )
    return parts


def _secrets(
    key: Secret | None, login: Secret | None, parts: SplitResult, headers: Mapping[str, str], proxy: ProxySetting | None
) -> list[Secret | None]:
    """Return all that a reply or an error is not to quote.

    What says who asks or which version is meant is no secret, and may be a word that stands in many replies.
    """
    logins = [login, proxy.login if proxy is not None else None]
    pairs = [pair.partition("=") for pair in parts.query.split("&")]
    return [
        key,
        proxy.password if proxy is not None else None,
        *(Secret(one.reveal().removeprefix("Basic ")) for one in logins if one is not None),
        Secret(unquote(parts.password or "")),
        *(Secret(value) for name, value in headers.items() if not _PUBLIC.fullmatch(name)),
        *(Secret(value) for name, _, value in pairs if "version" not in name.lower()),
    ]
