"""Sends alerts: to webhooks, signed as standardwebhooks.com says, and to a command of the user's.

The secret is in the environment variable `COMBEE_WEBHOOK_SECRET` (`whsec_` and base64). An alert that could not be
sent is tried again for some minutes; it stays in the service's file in any case.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import sqlite3
import time
from functools import partial
from typing import Any

import aiohttp

from combee.errors import UsageError
from combee.run.notify import notify
from combee.serve.service import Service

__all__ = ["Alerts", "signature"]

SECRET = "COMBEE_WEBHOOK_SECRET"  # noqa: S105  # the name of a variable
_TRIES = 6
_FULL = 0.8  # share of `max_backlog` from which there is an alert

_log = logging.getLogger("combee.serve")


def signature(secret: str, identity: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature` of a message. Raises `UsageError` where the secret is not valid."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError as error:
        hint = "Set it to whsec_ followed by base64, of 24 bytes or more."
        raise UsageError(f"{SECRET} is not the secret of a webhook.", hint=hint) from error
    signed = hmac.new(key, f"{identity}.{timestamp}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(signed.digest()).decode()


class Alerts:
    """Watches a service, raises alerts on its backlog, and sends all alerts."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._standing: set[tuple[str, str]] = set()
        self._tries: dict[int, tuple[int, float]] = {}
        secret = os.environ.get(SECRET, "")
        if service.settings.webhooks:
            signature(secret, "", 0, b"")  # a bad secret is reported at the start, not at the first alert
        self._secret = secret

    async def step(self) -> None:
        """Raise alerts on the backlog where they are due, then send what was not sent yet."""
        settings = self.service.settings
        for tenant in self.service.tenants():
            backlog = await self.service.backlog(tenant)
            waiting = backlog.waiting + backlog.learning
            full = waiting >= _FULL * settings.max_backlog
            await self._stand(tenant, "backlog", f"{waiting} traces wait", on=full)
            text = f"the oldest trace has waited for {backlog.oldest / 3600:.1f} hours"
            await self._stand(tenant, "staleness", text, on=backlog.oldest > settings.max_age)
        if settings.webhooks or settings.alert_command:
            await self._tell_all()

    async def _stand(self, tenant: str, kind: str, text: str, *, on: bool) -> None:
        """Alert once when a condition begins to hold."""
        if on and (tenant, kind) not in self._standing:
            self._standing.add((tenant, kind))
            await self.service.alert(tenant, kind, text)
        elif not on:
            self._standing.discard((tenant, kind))

    async def _tell_all(self) -> None:
        rows = await self.service.store.rows("SELECT id, at, tenant, kind, text FROM alerts WHERE told = 0 ORDER BY id")
        for number, at, tenant, kind, text in rows:
            tries, due = self._tries.get(number, (0, 0.0))
            if time.monotonic() < due:
                continue
            data = {"type": f"combee.{kind}", "timestamp": at, "data": {"tenant": tenant, "kind": kind, "text": text}}
            told = await self._tell(f"alert_{number}_{int(at)}", data)
            if not told and tries + 1 < _TRIES:
                self._tries[number] = (tries + 1, time.monotonic() + 5 * 2.0**tries)
                continue
            self._tries.pop(number, None)
            await self.service.store.write(partial(_note_told, number=number, told=1 if told else 2))

    async def _tell(self, identity: str, data: dict[str, Any]) -> bool:
        settings, told = self.service.settings, True
        body = json.dumps(data).encode()
        now = int(time.time())
        headers = {
            "content-type": "application/json",
            "webhook-id": identity,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(self._secret, identity, now, body),
        }
        timeout = aiohttp.ClientTimeout(total=10)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for number, url in enumerate(settings.webhooks, 1):
                try:
                    async with session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                        fine, why = answer.status < 300, f"status {answer.status}"
                except (aiohttp.ClientError, TimeoutError) as error:
                    fine, why = False, type(error).__name__
                if not fine:
                    _log.warning("webhook %d did not take an alert: %s", number, why)  # its address may hold a secret
                told = told and fine
        if settings.alert_command:
            done = await asyncio.to_thread(notify, settings.alert_command, data)
            if not done.ok:
                _log.warning("the alert command: %s", done.detail)
            told = told and done.ok
        return told


def _note_told(db: sqlite3.Connection, number: int, told: int) -> None:
    db.execute("UPDATE alerts SET told = ? WHERE id = ?", (told, number))
