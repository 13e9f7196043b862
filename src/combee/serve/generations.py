"""Generations: what waits is sealed into one, learned by a child process, folded into the book, and served or tried.

Each move is one change on the disk, so that a kill at any moment leaves a generation where it can go on:
`sealed` (its traces are chosen) → `folded` (its versions are in the book) → `done` (its version is served or on trial).
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sqlite3
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from combee.errors import CombeeError
from combee.files import whole_file
from combee.kernel.journal import JOURNAL_NAME
from combee.serve.books import CANARY, STABLE, Book
from combee.serve.learner import LOCKED
from combee.serve.retention import drop_old
from combee.serve.service import Service, add_alert
from combee.serve.settings import LEARNING
from combee.traces.method import EARLIER, KEPT

__all__ = ["Generations"]

_log = logging.getLogger("combee.serve")
_AT_ONCE = 500  # rows of one change, so that other writers need not wait long
_SMALL, _LARGE = 40, 400  # samples of a step: few where little waits, more as the backlog grows


@dataclass(frozen=True, slots=True)
class _Generation:
    id: int
    tenant: str
    state: str
    start: str
    version: str | None
    attempts: int
    kept_at: int | None

    def folder(self, book: Book) -> Path:
        return book.generation(self.id)


_COLUMNS = "id, tenant, state, start, version, attempts, kept_at"


class Generations:
    """The learning half of a service: one generation at a time, tenants in turn."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._later: dict[int, float] = {}
        self._drop_at = 0.0

    async def step(self) -> bool:
        """Bring every tenant that has something to learn one generation on; return whether one was."""
        learned = False
        for tenant in self.service.tenants():
            generation = await self._next(tenant)
            if generation is not None and time.monotonic() >= self._later.get(generation.id, 0.0):
                try:
                    await self._go_on(generation)
                    learned = True
                except Exception as error:  # noqa: BLE001 - one generation must not hold up the others for ever
                    if not isinstance(error, CombeeError):
                        _log.exception("generation %d of %s", generation.id, generation.tenant)
                    await self._failed(generation, str(error) or type(error).__name__)
        await self._drop_old()
        return learned

    async def _drop_old(self) -> None:
        """Now and then drop what is too old: here, so that no generation begins meanwhile."""
        days, store = self.service.settings.keep_days, self.service.store
        if not days or time.monotonic() < self._drop_at:
            return
        self._drop_at = time.monotonic() + min(3600.0, 86_400 * days / 10)
        for tenant in self.service.tenants():
            sql = "SELECT 1 FROM generations WHERE tenant = ? AND state IN ('sealed', 'folded')"
            if await store.one(sql, tenant) is None:
                await drop_old(store, await self.service.book(tenant), time.time() - 86_400 * days)

    async def _next(self, tenant: str) -> _Generation | None:
        """Return the generation that is not done, or a new one where enough waits and no version is on trial."""
        store, settings = self.service.store, self.service.settings
        sql = f"SELECT {_COLUMNS} FROM generations WHERE tenant = ? AND state IN ('sealed', 'folded') ORDER BY id"  # noqa: S608  # constants
        row = await store.one(sql, tenant)
        if row is not None:
            return _Generation(*row)
        waits = await store.one(
            "SELECT count(*), min(received) FROM (SELECT received FROM traces WHERE tenant = ? AND state = 'queued'"
            " AND generation IS NULL ORDER BY seq LIMIT ?)",
            tenant,
            settings.generation,
        )
        waiting, oldest = waits or (0, None)
        if not waiting or (waiting < settings.generation and time.time() - oldest < settings.wait):
            return None
        labels = await asyncio.to_thread((await self.service.book(tenant)).labels)
        if labels[CANARY] != labels[STABLE]:
            return None
        return _Generation(*await store.write(lambda db: _seal(db, tenant, settings.generation, labels[STABLE])))

    async def _go_on(self, generation: _Generation) -> None:
        book = await self.service.book(generation.tenant)
        labels = await asyncio.to_thread(book.labels)
        version = generation.version
        if labels[STABLE] in {generation.start, version} and generation.state == "sealed":
            learned = await self._learn(generation, book)
            if learned is None:
                return
            version = str(learned["version"])
            await self._note_learned(generation, learned)
            labels = await asyncio.to_thread(book.labels)
        if labels[STABLE] not in {
            generation.start,
            version,
        }:  # it was moved, or a trace was forgotten: this started elsewhere
            await self._restart(generation, book, labels[STABLE])
            return
        await self.service.offer(generation.tenant, str(version), f"generation {generation.id}")
        traces = 0  # in small changes: whoever sends runs must not wait for a large one
        while done := await self.service.store.write(lambda db: _settle_some(db, generation.id)):
            traces += done
        await self.service.store.write(lambda db: _note_done(db, generation.id))
        self.service.learned(generation.tenant, traces)
        _log.info("generation %d of %s: %d traces", generation.id, generation.tenant, traces)
        folder = generation.folder(book)
        for path in (folder / "run" / KEPT, folder / "run" / EARLIER, folder / "traces.jsonl"):
            path.unlink(missing_ok=True)

    async def _restart(self, generation: _Generation, book: Book, start: str) -> None:
        await asyncio.to_thread(shutil.rmtree, generation.folder(book), ignore_errors=True)
        sql = "UPDATE generations SET start = ?, state = 'sealed', version = NULL WHERE id = ?"
        await self.service.store.write(lambda db: db.execute(sql, (start, generation.id)).rowcount)

    async def _learn(self, generation: _Generation, book: Book) -> dict[str, Any] | None:
        """Let a child process learn; None where it failed, and is tried again later."""
        folder = generation.folder(book)
        folder.mkdir(parents=True, exist_ok=True)
        start = folder / "start.json"
        if not start.exists():
            await asyncio.to_thread(book.playbook(generation.start).save, start)
        (folder / "run").mkdir(exist_ok=True)
        kept_at = await self._kept_at(generation, book)
        if not (folder / "run" / EARLIER).exists():
            await asyncio.to_thread(book.write_earlier, folder / "run" / EARLIER, kept_at)
        traces = folder / "traces.jsonl"
        if not traces.exists():
            await self._write_traces(generation.id, traces)
        own = self.service.folder / LEARNING
        backlog = await self.service.backlog(generation.tenant)
        job = {
            "root": str(self.service.folder),
            "tenant": generation.tenant,
            "generation": generation.id,
            "kept_at": kept_at,
            "traces": str(traces),
            "start": str(start),
            "folder": str(folder / "run"),
            "settings": str(own) if own.exists() else None,
            "batch": max(_SMALL, min(_LARGE, (backlog.waiting + backlog.learning) // 10)),
        }
        kept = folder / "job.json"  # a run that was begun goes on with the settings it began with
        if (folder / "run" / JOURNAL_NAME).exists() and kept.exists():
            job = json.loads(kept.read_text(encoding="utf-8"))
        else:
            kept.write_text(json.dumps(job), encoding="utf-8")
        code, out, errors = await _run_child(job)
        if code == 0:
            return dict(json.loads(out))
        if code == LOCKED:
            self._later[generation.id] = time.monotonic() + 1
        else:
            await self._failed(generation, errors.strip()[-2000:] or f"the learner ended with code {code}")
        return None

    async def _write_traces(self, number: int, path: Path) -> None:
        """Write the traces of a generation, a thousand at a time."""
        with whole_file(path) as file:
            after = 0
            sql = "SELECT seq, body FROM traces WHERE generation = ? AND seq > ? ORDER BY seq LIMIT 1000"
            while rows := await self.service.store.rows(sql, number, after):
                file.writelines(str(body).encode() for _, body in rows if body)
                after = rows[-1][0]

    async def _kept_at(self, generation: _Generation, book: Book) -> int:
        """Return how long the kept traces were before this generation: what a killed attempt added is cut off."""
        if generation.kept_at is not None:
            return generation.kept_at
        kept_at = await asyncio.to_thread(book.kept)
        sql = "UPDATE generations SET kept_at = ? WHERE id = ?"
        await self.service.store.write(lambda db: db.execute(sql, (kept_at, generation.id)).rowcount)
        return kept_at

    async def _note_learned(self, generation: _Generation, learned: dict[str, Any]) -> None:
        """Write down the results of a generation: receipts, which count when its version is served, and alerts."""
        store, known = self.service.store, learned.pop("receipts")
        other = {"state": "not learned", "why": f"the run ended before it ({learned['reason']}): {learned['detail']}"}
        rows = await store.rows("SELECT seq, id FROM traces WHERE generation = ? AND state = 'queued'", generation.id)
        receipts = [(json.dumps(known.get(name, other)), seq) for seq, name in rows]
        for at in range(0, len(receipts), _AT_ONCE):
            await store.write(partial(_write_receipts, receipts=receipts[at : at + _AT_ONCE]))
        await store.write(lambda db: _note_folded(db, generation.id, learned))
        for alert in learned["alerts"]:
            await self.service.alert(generation.tenant, "guard", alert)
        if learned["reason"] != "completed":
            await self.service.alert(generation.tenant, str(learned["reason"]), learned["detail"])

    async def _failed(self, generation: _Generation, why: str) -> None:
        """Try again later, waiting longer each time; after the last attempt give up, and keep the traces."""
        attempts = generation.attempts + 1
        given_up = attempts >= self.service.settings.attempts
        self._later[generation.id] = 0.0 if given_up else time.monotonic() + 5 * 2**attempts

        def note(db: sqlite3.Connection) -> int:
            sql = "UPDATE generations SET attempts = ?, error = ?, state = CASE WHEN ? THEN 'failed' ELSE state END"
            db.execute(f"{sql} WHERE id = ?", (attempts, why, given_up, generation.id))
            if not given_up:
                return 0
            receipt = json.dumps({"state": "failed", "why": why[:500]})
            sql = "UPDATE traces SET state = 'failed', receipt = ? WHERE generation = ? AND state = 'queued'"
            add_alert(db, generation.tenant, "failed", f"generation {generation.id} is given up: {why[:500]}")
            return db.execute(sql, (receipt, generation.id)).rowcount

        _log.warning("generation %d of %s failed (%d): %s", generation.id, generation.tenant, attempts, why)
        self.service.learned(generation.tenant, await self.service.store.write(note))


def _seal(db: sqlite3.Connection, tenant: str, most: int, start: str) -> tuple[Any, ...]:
    """Make a generation of the traces that waited longest."""
    now = time.time()
    number = db.execute(
        "INSERT INTO generations (tenant, state, traces, started, start) VALUES (?, 'sealed', 0, ?, ?)",
        (tenant, now, start),
    ).lastrowid
    count = db.execute(
        "UPDATE traces SET generation = ? WHERE seq IN (SELECT seq FROM traces WHERE tenant = ? AND state = 'queued'"
        " AND generation IS NULL ORDER BY seq LIMIT ?)",
        (number, tenant, most),
    ).rowcount
    db.execute("UPDATE generations SET traces = ? WHERE id = ?", (count, number))
    return tuple(db.execute(f"SELECT {_COLUMNS} FROM generations WHERE id = ?", (number,)).fetchone())  # noqa: S608


def _write_receipts(db: sqlite3.Connection, receipts: list[tuple[str, int]]) -> None:
    """Write receipts; they count when the version is served."""
    db.executemany("UPDATE traces SET receipt = ? WHERE seq = ?", receipts)


def _note_folded(db: sqlite3.Connection, number: int, result: dict[str, Any]) -> None:
    db.execute(
        "UPDATE generations SET state = 'folded', version = ?, result = ?, error = NULL WHERE id = ?",
        (result["version"], json.dumps(result), number),
    )


def _settle_some(db: sqlite3.Connection, number: int) -> int:
    """Make some of a generation's receipts count; what those traces held is in the book's folder now."""
    return db.execute(
        "UPDATE traces SET body = NULL, state = json_extract(receipt, '$.state') WHERE seq IN"
        " (SELECT seq FROM traces WHERE generation = ? AND state = 'queued' LIMIT ?)",
        (number, _AT_ONCE),
    ).rowcount


def _note_done(db: sqlite3.Connection, number: int) -> None:
    db.execute("UPDATE generations SET state = 'done', ended = ? WHERE id = ?", (time.time(), number))


async def _run_child(job: dict[str, Any]) -> tuple[int, str, str]:
    """Run a learner to its end; it is killed where this is cancelled, and ends where the service is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "combee.serve.learner",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise AssertionError("three pipes were asked for")
        process.stdin.write(json.dumps(job).encode() + b"\n")
        await process.stdin.drain()
        out, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
        return await process.wait(), out.decode("utf-8", "replace"), errors.decode("utf-8", "replace")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
