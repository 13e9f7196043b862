"""Who may do what: tokens with scopes and a tenant, stored as hashes; a rate for each.

A token is 256 random bits, so its hash needs no salt and no slow function. A service for which no token was ever made
answers on the loopback address only, and anybody there acts for the tenant `default` in all scopes. Once there was one,
nobody gets in without: that the last one is revoked opens nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import sqlite3
import time
from dataclasses import dataclass, field

from combee.errors import UsageError
from combee.serve.books import valid_tenant
from combee.serve.store import ServiceStore

__all__ = ["SCOPES", "Access", "Grant", "create_token", "is_loopback", "list_tokens", "revoke_token"]

SCOPES = ("ingest", "read", "admin")
DEFAULT_TENANT = "default"
_PREFIX = "cmb_"
_NONE_LEFT = "none left"
"""Stands among the hashes when the last token was revoked; it is the hash of nothing."""
_FRESH = 2.0  # seconds that the list of tokens is cached: a revoked one works no longer than that


@dataclass(frozen=True, slots=True)
class Grant:
    """What a request may do: for one tenant, in these scopes. `name` is that of its token."""

    name: str
    tenant: str
    scopes: frozenset[str]


_OPEN = Grant("", DEFAULT_TENANT, frozenset(SCOPES))


def is_loopback(host: str) -> bool:
    """Return whether an address to bind to is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def create_token(store: ServiceStore, name: str, tenant: str, scopes: tuple[str, ...]) -> str:
    """Make a token and return it; it is shown this once.

    Raises:
        UsageError: The name is taken, or the tenant or a scope cannot be used.
    """
    valid_tenant(tenant)
    if unknown := set(scopes) - set(SCOPES):
        raise UsageError(f"There is no scope {min(unknown)!r}.", hint=f"Scopes are {', '.join(SCOPES)}.")
    if not 0 < len(name) <= 100 or not name.isprintable():
        raise UsageError("A token needs a name of 1 to 100 characters.", hint="Say who uses it.")
    token = _PREFIX + secrets.token_urlsafe(32)
    values = (_hash(token), name, tenant, " ".join(sorted(set(scopes))), time.time())

    def insert(db: sqlite3.Connection) -> bool:
        db.execute("DELETE FROM tokens WHERE hash = ?", (_NONE_LEFT,))
        return db.execute("INSERT OR IGNORE INTO tokens VALUES (?, ?, ?, ?, ?)", values).rowcount > 0

    if not store.submit(insert).result():
        raise UsageError(f"There is a token {name!r} already.", hint="Revoke it first, or choose another name.")
    return token


def list_tokens(db: sqlite3.Connection) -> list[dict[str, object]]:
    """Return name, tenant, scopes and creation time of each token; the tokens themselves are not stored."""
    sql = "SELECT name, tenant, scopes, created FROM tokens WHERE hash != ? ORDER BY created"
    rows = db.execute(sql, (_NONE_LEFT,)).fetchall()
    return [
        {"name": name, "tenant": tenant, "scopes": scopes.split(), "created": created}
        for name, tenant, scopes, created in rows
    ]


def revoke_token(store: ServiceStore, name: str) -> None:
    """Take a token away. Raises `UsageError` where there is none of this name."""

    def delete(db: sqlite3.Connection) -> int:
        gone = db.execute("DELETE FROM tokens WHERE name = ? AND hash != ?", (name, _NONE_LEFT)).rowcount
        if gone and not db.execute("SELECT 1 FROM tokens").fetchone():
            db.execute("INSERT INTO tokens VALUES (?, '', '', '', ?)", (_NONE_LEFT, time.time()))
        return gone

    if not store.submit(delete).result():
        raise UsageError(f"There is no token {name!r}.", hint="`combee token list FOLDER` names them.")


@dataclass(slots=True)
class _Bucket:
    filled: float
    at: float


@dataclass
class Access:
    """Decides by its token what a request may do. `max_rate`: writing requests a second of one token; 0: no limit."""

    store: ServiceStore
    max_rate: float = 0.0
    _known: dict[str, Grant] = field(default_factory=dict)
    _read_at: float = -_FRESH
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    async def grant(self, token: str | None) -> Grant | None:
        """Return what a token allows, None for an unknown one; while there was never a token, everything is allowed."""
        if time.monotonic() - self._read_at >= _FRESH:
            rows = await self.store.rows("SELECT hash, name, tenant, scopes FROM tokens")
            self._known = {row[0]: Grant(row[1], row[2], frozenset(row[3].split())) for row in rows}
            self._read_at = time.monotonic()
        if not self._known:
            return _OPEN
        wanted = _hash(token or "")
        return next((grant for known, grant in self._known.items() if hmac.compare_digest(known, wanted)), None)

    @property
    def is_open(self) -> bool:
        """Whether there is no token."""
        return not self._known

    def wait(self, grant: Grant) -> float:
        """Take one request from a token's bucket (ten seconds deep); return the seconds to wait if it is empty."""
        if not self.max_rate:
            return 0.0
        now, deep = time.monotonic(), self.max_rate * 10
        bucket = self._buckets.setdefault(grant.name, _Bucket(deep, now))
        bucket.filled = min(deep, bucket.filled + (now - bucket.at) * self.max_rate)
        bucket.at = now
        if bucket.filled < 1:
            return (1 - bucket.filled) / self.max_rate
        bucket.filled -= 1
        return 0.0
