"""The HTTP side of one OpenAI-compatible endpoint: address, key, proxy, certificates, and what its failures are called.

What goes wrong on the wire comes back as a `Fault`. Proxy and certificates come from the environment, read once.
"""

from __future__ import annotations

import asyncio
import copy
import os
import re
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from combee import __version__
from combee.errors import CallErrorKind, UsageError
from combee.model.environment import (
    ProxySetting,
    Scrubber,
    Secret,
    authority_of,
    basic_login,
    host_name,
    key_from,
    proxy_for,
    target_of,
    tls_context,
)
from combee.model.http import HttpError, HttpReply, Pool, Timeouts
from combee.model.outcome import Fault

if TYPE_CHECKING:
    from yarl import URL

_LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 - a name to recognise, nothing is bound

_PUBLIC = re.compile(r"(?i)accept.*|user-agent|x-title|(http-)?referer|.*version|.*organization|.*project|.*-beta")
_SETTING = "the base URL (--base-url, or base_url in combee.toml)"
_LOGIN = "Put it into the proxy's address: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT (special characters as %XX)."
_PROXY = "Check HTTPS_PROXY, HTTP_PROXY, NO_PROXY."
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = {"host", "content-length", "transfer-encoding", "connection"}
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
        ca_file: Certificates to trust in place of the system's: a file, or a folder of files.
        client_cert: A PEM file with a certificate and its key, for endpoints that ask who connects.

    Raises:
        UsageError: No base URL, a URL that is none, a missing key, a file that cannot be read, or a header that
            cannot be sent.
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
        client_cert: Path | None = None,
    ) -> None:
        url = (base_url or os.environ.get(base_url_env, "")).strip()
        parts = _split(url, base_url_env)
        self.host = host_name(parts.hostname or "")
        self.is_local = self.host in _LOCAL
        self.timeouts = timeouts or Timeouts()
        self._key_variable = api_key_env
        self._key = key_from(api_key, api_key_env, needed=not self.is_local and api_key_env is not None)
        login = basic_login(unquote(parts.username or ""), unquote(parts.password or ""))
        self._path = parts.path.rstrip("/").removesuffix("/chat/completions")
        self._query = parts.query
        self.base_url = urlunsplit((parts.scheme, authority_of(self.host, parts.port), self._path, "", ""))
        asked = {"User-Agent": f"combee/{__version__}", "Accept": "application/json", **(headers or {})}
        self.key_header = key_header
        if self._key is not None:
            asked[key_header] = _in_header(self._key, key_header)
        elif login is not None:
            asked["Authorization"] = login.reveal()
        self._headers = _checked(asked) | {"Host": authority_of(self.host, parts.port)}
        proxy = proxy_for(parts.scheme, self.host, parts.port or (443 if parts.scheme == "https" else 80))
        self._tls = None
        if parts.scheme == "https":
            self._tls = tls_context(ca_file, client_cert)
        elif proxy is not None and not proxy.is_socks and proxy.login is not None:
            self._headers["Proxy-Authorization"] = proxy.login.reveal()  # it reads the requests
        self._proxy = proxy
        self.scrub = Scrubber(_secrets(self._key, login, parts, headers or {}, proxy))
        self._urls: dict[str, URL] = {}
        self._answered = False
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r})"

    @property
    def has_key(self) -> bool:
        """Whether a key is sent."""
        return self._key is not None

    def with_key_header(self, name: str) -> Endpoint:
        """Return the same endpoint with the key in another header, on connections of its own."""
        other = copy.copy(self)
        other.key_header, other._pools = name, {}
        other._headers = {key: value for key, value in self._headers.items() if key != self.key_header}
        if self._key is not None:
            other._headers[name] = _in_header(self._key, name)
        return other

    def without_key(self, status: int) -> Fault:
        """Return the refusal of a call that carried no key: nobody is to look for a mistake in a key."""
        variable = self._key_variable
        said = f"HTTP {status}: no key was sent" + (f" ({variable} is not set)" if variable else "")
        hint = "the variable that holds the key with --api-key-env, or api_key_env in combee.toml."
        return Fault(CallErrorKind.AUTH, said, f"{'Set it, or name' if variable else 'Name'} {hint}", status=status)

    def what_to_check(self) -> str:
        """Return the hint where nothing answers at the path: most base URLs end with /v1, and some end otherwise."""
        if not self._path:
            return f"Most base URLs end with a path: try {self.base_url}/v1."
        usual = "" if "/v1" in self._path else " Most end with /v1."
        return f"Check the base URL: {self.base_url}/chat/completions was called.{usual}"

    async def aclose(self) -> None:
        """Close the connections that this event loop opened."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.aclose()

    async def post(self, body: bytes, path: str = "/chat/completions") -> HttpReply | Fault:
        """Send one prepared JSON body; it is sent once, whatever happens."""
        return await self._exchange(path, body)

    async def get(self, path: str) -> HttpReply | Fault:
        """Fetch one JSON document, like `/models`."""
        return await self._exchange(path, None)

    def _url(self, path: str) -> URL:
        """Return the address of `path`; it is made once."""
        from yarl import URL

        found = self._urls.get(path)
        if found is None:
            base = urlsplit(self.base_url)
            text = f"{base.scheme}://{base.netloc}{target_of(self._path + path, self._query)}"
            found = self._urls[path] = URL(text, encoded=True)
        return found

    async def _exchange(self, path: str, body: bytes | None) -> HttpReply | Fault:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for other in [one for one in self._pools.copy() if one.is_closed()]:
                self._pools.pop(other).forget()
            pool = self._pools[loop] = Pool(self._headers, self._tls, self._proxy, self.timeouts)
        try:
            reply = await pool.exchange(self._url(path), body)
        except HttpError as error:
            return self._fault(error)
        self._answered = True
        if 300 <= reply.status < 400:
            return self._redirected(reply)
        return HttpReply(reply.status, reply.headers, self.scrub.body(reply.body))

    def _redirected(self, reply: HttpReply) -> Fault:
        """Return the fault of a redirect. It is not followed: the request holds a key, and paths are set on purpose."""
        target = urllib.parse.urljoin(self.base_url + "/chat/completions", reply.headers.get("Location", ""))
        shown = self.scrub(target.partition("?")[0])[:300]
        return Fault(
            CallErrorKind.BAD_REQUEST,
            f"HTTP {reply.status}: the endpoint sends calls on to {shown}",
            f"If that is where your endpoint is, set the base URL to {shown.removesuffix('/chat/completions')}.",
            status=reply.status,
            fatal=True,
        )

    def _fault(self, error: HttpError) -> Fault:
        """Return what a broken call is to the engine, and to people."""
        self._answered |= error.stage in {"cut", "alien"}
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
                return Fault(broken, said, "Lower the setting concurrency, or raise the limit (ulimit -n).", paid="no")
            case "tls":
                said = f"TLS to {host} failed: {said}"
                return Fault(broken, said, _CERTIFICATES, fatal=True, paid="no")
            case "proxy":
                return Fault(broken, f"no connection through the proxy: {said}", _PROXY, unreached=new, paid="no")
            case "login":
                said = f"the proxy asks for a login: {said}"
                return Fault(CallErrorKind.AUTH, said, _LOGIN, status=407, paid="no")
            case "silent":
                limits = self.timeouts
                said = f"no answer from {host} within {min(limits.total, limits.read or limits.total):g} s"
                return Fault(CallErrorKind.TIMEOUT, said, "Raise the timeout, or lower the concurrency.")
            case "cut":
                return Fault(CallErrorKind.TRUNCATED_BODY, said)
            case "alien":
                return Fault(CallErrorKind.NOT_JSON, f"{host} does not speak HTTP as expected: {said}")
            case "broken":
                return Fault(broken, f"the connection to {host} broke: {said}")


def _in_header(key: Secret, name: str) -> str:
    return f"Bearer {key.reveal()}" if name.lower() == "authorization" else key.reveal()


def _split(url: str, variable: str) -> SplitResult:
    if not url:
        raise UsageError("no base URL is given", hint=f"Give base_url (--base-url URL), or set {variable}.")
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


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return header fields that can be sent; a later one takes the place of an earlier one, however it is written."""
    fields: dict[str, tuple[str, str]] = {}
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            raise UsageError(f"the header {name!r} cannot be given", hint="Take it out of `headers`.")
        if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in value):
            raise UsageError(f"the value of the header {name} holds a line break", hint="Check what was copied along.")
        fields[name.lower()] = (name, value.strip())
    return dict(fields.values())


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
