"""The way to a host: its name on the wire, the proxy and certificates of the environment, and keys nobody can print."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import re
import ssl
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from combee.errors import UsageError, how_to_install

_HOST = re.compile(r"[0-9a-z._-]+")
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks4a": 1080, "socks5": 1080, "socks5h": 1080, "socks": 1080}


def host_name(host: str) -> str:
    """Return a host in the form that goes over the wire, which is ASCII.

    Raises:
        ValueError: It is none.
    """
    if ":" in host:
        return host.replace("%25", "%")  # the zone of an IPv6 address
    name = host.encode("idna").decode("ascii")
    if not _HOST.fullmatch(name):
        raise ValueError("not a host")
    return name


def authority_of(host: str, port: int | None) -> str:
    """Return host and port as one text; the zone of an address is of this machine only."""
    name = f"[{host.partition('%')[0]}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"


def target_of(path: str, query: str = "") -> str:
    """Return path and query with everything quoted that a request line cannot hold; what is quoted already stays."""
    safe = "/%:@!$&'()*+,;=~-._"
    return quote(path or "/", safe=safe) + ("?" + quote(query, safe=safe + "?") if query else "")


@dataclass(frozen=True, slots=True)
class ProxySetting:
    """A proxy of the environment; `user` and `password` are its login, each a secret or None."""

    scheme: str
    host: str
    port: int
    user: Secret | None = None
    password: Secret | None = None

    @property
    def url(self) -> str:
        """Where it is, without its login."""
        return f"{self.scheme}://{authority_of(self.host, self.port)}"

    @property
    def is_socks(self) -> bool:
        """Whether it speaks SOCKS; else it speaks HTTP."""
        return self.scheme.startswith("socks")

    @property
    def pair(self) -> tuple[str, str]:
        """User and password as they are; empty where there is none."""
        user, password = self.user, self.password
        return user.reveal() if user is not None else "", password.reveal() if password is not None else ""

    @property
    def login(self) -> Secret | None:
        """The value of its authorization header."""
        return basic_login(*self.pair)


def basic_login(user: str, password: str) -> Secret | None:
    """Return the value of a basic authorization header, or None without a login."""
    if not user and not password:
        return None
    return Secret("Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


def proxy_for(scheme: str, host: str, port: int) -> ProxySetting | None:
    """Return the proxy that the environment names for a host.

    Raises:
        UsageError: It is of a kind that cannot be used, or not a URL.
    """
    proxies = urllib.request.getproxies()
    proxy = (proxies.get(scheme) or proxies.get("all") or "").strip()
    if not proxy or _goes_around(host, port, proxies.get("no", "")):
        return None
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        name, number = host_name(parts.hostname or ""), parts.port
    except ValueError:
        raise UsageError(
            "the proxy in the environment is not a URL", hint="It looks like http://proxy.example:3128 (HTTPS_PROXY)."
        ) from None
    if parts.scheme not in _PORTS:
        raise UsageError(
            f"a {parts.scheme} proxy is set in the environment",
            hint="Use an http://, https:// or socks5:// proxy, or NO_PROXY for this host.",
        )
    if parts.scheme.startswith("socks") and find_spec("aiohttp_socks") is None:
        raise UsageError(
            f"a {parts.scheme} proxy is set in the environment",
            hint=f"{how_to_install('socks')} Or name this host in NO_PROXY.",
        )
    user, password = (Secret(unquote(one)) if one else None for one in (parts.username, parts.password))
    return ProxySetting(parts.scheme, name, number or _PORTS[parts.scheme], user, password)


def _goes_around(host: str, port: int, excepted: str) -> bool:
    """Return whether NO_PROXY names the host: by its name, a domain, with its port, as an address or a network."""
    if urllib.request.proxy_bypass(host) or urllib.request.proxy_bypass(f"{host}:{port}"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for entry in excepted.split(","):
        with suppress(ValueError):
            if address in ipaddress.ip_network(entry.strip(" []"), strict=False):
                return True
    return False


def tls_context(ca_file: Path | None, client_cert: Path | None = None) -> ssl.SSLContext:
    """Return the context for https.

    Args:
        ca_file: Certificates to trust, a file or a folder of files. None: all that the environment names (who sets two
            variables for two programs trusts both), else the system's.
        client_cert: A PEM file with the certificate that shows who asks, and its key.

    Raises:
        UsageError: A file cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    named = [ca_file] if ca_file else [Path(os.environ[name]) for name in _BUNDLES if os.environ.get(name)]
    if not named:
        context.load_default_certs()
    if not ca_file:  # a list, of which openssl, too, passes over what is not there
        folders = map(Path, filter(None, os.environ.get("SSL_CERT_DIR", "").split(os.pathsep)))
        named += [folder for folder in folders if folder.is_dir()]
    for path in named:
        _trust(context, path)
    if client_cert is not None:
        try:
            context.load_cert_chain(client_cert, password="")
        except OSError as error:
            raise UsageError(
                f"the client certificate {client_cert} cannot be read: {error.strerror or error}",
                hint="It is a PEM file with the certificate and its key, without a password.",
            ) from None
    return context


def _trust(context: ssl.SSLContext, path: Path) -> None:
    """Trust the certificates of a file, or of a folder: those named by their hashes, and any .pem, .crt or .cer."""
    try:
        if not path.is_dir():
            context.load_verify_locations(path)
            return
        context.load_verify_locations(capath=path)
        for one in sorted(path.iterdir()):
            if one.suffix in {".pem", ".crt", ".cer"} and one.is_file():
                with suppress(ssl.SSLError):  # a key, or a file that is none
                    context.load_verify_locations(one)
    except OSError as error:
        raise UsageError(f"the certificates in {path} cannot be read: {error.strerror or error}") from None


# Keys of other shapes that a proxy may quote: what follows "Bearer", and the usual prefixes.
_KEY_LIKE = re.compile(r"(?i)\bbearer\s+[^\s\"',;]+|\b(?:sk|pk|gsk|xai|key)-[A-Za-z0-9_\-]{12,}")
_MASK = "***"


class Secret:
    """Holds one value; `reveal` is the only way to it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({_MASK})"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a key is not to be stored; name the environment variable instead")


def key_from(value: str | None, variable: str | None, *, needed: bool) -> Secret | None:
    """Return the key given as a value or by the name of an environment variable.

    Raises:
        UsageError: The key is needed and not there, or cannot be sent as a header.
    """
    found = value if value is not None else os.environ.get(variable, "") if variable else ""
    found = found.strip()
    if not found:
        if not needed:
            return None
        raise UsageError(
            f"no key: the environment variable {variable} is not set" if variable else "no key is given",
            hint=f"Set it (export {variable or 'NAME'}=...), or name another variable with api_key_env.",
        )
    if not found.isascii() or not found.isprintable():
        raise UsageError(
            f"the key in {variable or 'api_key'} holds characters that a header cannot carry",
            hint="Check for line breaks or quotes that were copied along.",
        )
    return Secret(found)


class Scrubber:
    """Removes secrets, in the forms in which a server may quote them, from any text."""

    def __init__(self, secrets: Iterable[Secret | None]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            value = secret.reveal() if secret is not None else ""
            if len(value) >= 4:
                forms |= {value, quote(value, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1]}
                forms.add(base64.b64encode(value.encode()).decode())
        self._forms = [form.encode() for form in sorted(forms, key=len, reverse=True)]

    def __call__(self, text: str) -> str:
        """Return `text` without any secret, and without what looks like another key."""
        return _KEY_LIKE.sub(_MASK, self.body(text.encode(errors="replace")).decode(errors="replace"))

    def body(self, body: bytes) -> bytes:
        """Return a body without our own secrets; done before anything is cut, so that no half of a key is left."""
        for form in self._forms:
            if form in body:
                body = body.replace(form, _MASK.encode())
        return body

    def __repr__(self) -> str:
        return "Scrubber()"
