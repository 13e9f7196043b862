"""The head of a request, prepared once: all but the length of the body is the same for each call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from combee.errors import UsageError

__all__ = ["authority_of", "connect_request", "get_request", "host_name", "post_head", "target_of"]

_HOST = re.compile(r"[0-9a-z._-]+")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = {"host", "content-length", "transfer-encoding", "connection"}


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


def post_head(target: str, host: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of a POST up to the length, which the sender adds with two line ends."""
    return _head("POST", target, host, headers) + b"Content-Length: "


def get_request(target: str, host: str, headers: Mapping[str, str]) -> bytes:
    """Return a whole GET request."""
    return _head("GET", target, host, headers) + b"\r\n"


def connect_request(authority: str, headers: Mapping[str, str]) -> bytes:
    """Return a whole request for a tunnel to `authority` (with its port)."""
    return _head("CONNECT", authority, authority, headers) + b"\r\n"


def _head(method: str, target: str, host: str, headers: Mapping[str, str]) -> bytes:
    lines: dict[str, str] = {"": f"{method} {target} HTTP/1.1", "host": f"Host: {host}"}
    for name, value in headers.items():  # a later one takes the place of an earlier one, however it is written
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            raise UsageError(f"the header {name!r} cannot be given", hint="Take it out of `headers`.")
        if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in value):
            raise UsageError(f"the value of the header {name} holds a line break", hint="Check what was copied along.")
        lines[name.lower()] = f"{name}: {value.strip()}"
    return ("\r\n".join(lines.values()) + "\r\n").encode("utf-8", "replace")
