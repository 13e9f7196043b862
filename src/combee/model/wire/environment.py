"""What the environment says about the way to a host: the proxy with its login, and the certificates to trust."""

from __future__ import annotations

import base64
import ipaddress
import os
import ssl
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from combee.errors import UsageError
from combee.model.secret import Secret
from combee.model.wire.head import host_name

__all__ = ["ProxySetting", "basic_login", "proxy_for", "tls_context"]


@dataclass(frozen=True, slots=True)
class ProxySetting:
    """A proxy of the environment. `login` is the value of its authorization header."""

    host: str
    port: int
    is_https: bool
    login: Secret | None
    password: Secret | None


def basic_login(user: str | None, password: str | None) -> Secret | None:
    """Return the value of a basic authorization header."""
    if not user and not password:
        return None
    pair = f"{unquote(user or '')}:{unquote(password or '')}"
    return Secret("Basic " + base64.b64encode(pair.encode()).decode())


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
    if parts.scheme not in {"http", "https"}:
        raise UsageError(
            f"a {parts.scheme} proxy is set in the environment", hint="Use an http:// proxy, or NO_PROXY for this host."
        )
    secure = parts.scheme == "https"
    login = basic_login(parts.username, parts.password)
    password = Secret(unquote(parts.password)) if parts.password else None
    return ProxySetting(name, number or (443 if secure else 80), secure, login, password)


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


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Return the context for https: `ca_file`, else what the environment names, else the system's certificates.

    Raises:
        UsageError: The certificates cannot be read.
    """
    named = ca_file or next(
        (os.environ[name] for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if os.environ.get(name)), None
    )
    try:
        return ssl.create_default_context(cafile=str(named) if named else None)
    except OSError as error:
        raise UsageError(f"the certificates in {named or 'SSL_CERT_FILE'} cannot be read: {error.strerror}") from None
