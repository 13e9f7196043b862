"""The head of a request, prepared once: all but the length of the body is the same for each call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from combee.errors import UsageError

__all__ = ["connect_request", "get_request", "post_head", "target_of"]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = {"host", "content-length", "transfer-encoding", "connection"}


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


def connect_request(host: str, headers: Mapping[str, str]) -> bytes:
    """Return a whole request for a tunnel to `host` (with its port)."""
    return _head("CONNECT", host, host, headers) + b"\r\n"


def _head(method: str, target: str, host: str, headers: Mapping[str, str]) -> bytes:
    lines: dict[str, str] = {"": f"{method} {target} HTTP/1.1", "host": f"Host: {host}"}
    for name, value in headers.items():  # a later one takes the place of an earlier one, however it is written
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            raise UsageError(f"the header {name!r} cannot be given", hint="Take it out of `headers`.")
        if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in value):
            raise UsageError(f"the value of the header {name} holds a line break", hint="Check what was copied along.")
        lines[name.lower()] = f"{name}: {value.strip()}"
    return ("\r\n".join(lines.values()) + "\r\n").encode("utf-8", "replace")
