"""A running service: its parts are started and stopped together; its log."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import TextIO

from combee.kernel.journal.lock import RunLock
from combee.serve.alerts import Alerts
from combee.serve.generations import Generations
from combee.serve.service import Service, forever
from combee.serve.settings import ServeSettings
from combee.serve.trials import Trials

__all__ = ["Running", "log_to"]


class Running:
    """One service with its background work. Raises `LockedError` where another one runs in the folder."""

    def __init__(self, folder: Path, settings: ServeSettings) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = RunLock(folder)  # two services on one folder would learn everything twice
        self.service = Service(folder, settings)
        self._generations = Generations(self.service)
        self._trials = Trials(self.service)
        self._alerts = Alerts(self.service)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start everything, in the loop that serves."""
        await self.service.start()
        await self._trials.step()  # before anybody is served: the arms of a trial stay as they were
        steps = ((0.5, self._generations.step), (1.0, self._trials.step), (2.0, self._alerts.step))
        self._tasks = [asyncio.create_task(forever(every, step)) for every, step in steps]

    async def stop(self) -> None:
        """Stop everything; a generation that was being learned goes on at the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.service.aclose()
        self._lock.release()


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to(stream: TextIO, *, as_json: bool) -> None:
    """Log to a stream: lines, or JSON lines. Bodies, tokens and addresses with a query are logged nowhere."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in ("combee.serve", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO)
