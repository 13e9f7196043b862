"""What a service does with a request, apart from HTTP: take runs and spans, keep outcomes, say what became of a trace.

Nothing is acknowledged before it is on the disk, and nothing is put there before it is redacted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import sqlite3
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from combee.errors import RunError, UsageError
from combee.serve.backlog import LAST, Arrivals, Backlog, catch_up
from combee.serve.books import CANARY, STABLE, Book
from combee.serve.canary import is_on_trial
from combee.serve.intake import Body, Intake, Limits, RefusedError, end_with_service, joined_spans, take_all
from combee.serve.settings import ServeSettings
from combee.serve.store import ServiceStore

__all__ = ["BusyError", "ServedOutcome", "Service", "add_alert", "forever"]

_log = logging.getLogger("combee.serve")

_TOGETHER = 32  # bodies that go to a worker at a time
_ROOTLESS = 900.0  # seconds after which a trace without its root counts as ended
_HARMLESS = frozenset({"email", "home_path"})  # redacted without an alert


class BusyError(RunError):
    """The backlog is full; try again after `after` seconds."""

    def __init__(self, message: str, after: int) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, slots=True)
class ServedOutcome:
    """How a unit fared with a version. One `id` counts once, and in a trial the first of a unit."""

    id: str
    unit: str
    version: str
    failed: bool
    score: float | None = None
    label: str = ""


async def forever(every: float, work: Callable[[], Awaitable[object]]) -> None:
    """Do some work again and again, with a pause unless it returns True; what fails is logged and tried again."""
    while True:
        more: object = None
        try:
            more = await work()
        except Exception:  # noqa: BLE001 - a service goes on
            _log.exception("%s failed; it is tried again", work.__qualname__)
        if more is not True:
            await asyncio.sleep(every)


class Service:
    """One service: its settings, its file, its workers and its tenants' books."""

    def __init__(self, folder: Path, settings: ServeSettings) -> None:
        self.folder = folder
        self.settings = settings
        self.store = ServiceStore(folder)
        self.started = time.time()
        self.late_spans = 0
        self._books: dict[str, Book] = {}
        self._making = asyncio.Lock()
        self._bodies: asyncio.Queue[tuple[Body, asyncio.Future[Intake | RefusedError]]] = asyncio.Queue()
        self._pool = self._workers()
        self._tasks: list[asyncio.Task[None]] = []
        self.shares: dict[str, float] = {}
        self._labels: dict[str, tuple[float, dict[str, str]]] = {}
        self._served: set[tuple[str, str, str]] = set()
        self._secrets_alerted: dict[str, set[str]] = {}
        self._waiting: dict[str, int] = {}
        self._arrived: defaultdict[str, Arrivals] = defaultdict(Arrivals)

    async def start(self) -> None:
        """Start the workers; call it in the event loop that serves."""
        counts = await self.store.rows("SELECT tenant, count(*) FROM traces WHERE state = 'queued' GROUP BY tenant")
        self._waiting = dict(counts)
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self.settings.workers)]
        self._tasks.append(asyncio.create_task(forever(1.0, self.settle)))

    async def aclose(self) -> None:
        """End; what was acknowledged is on the disk."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.shutdown(cancel_futures=True)
        await asyncio.to_thread(self.store.close)

    async def book(self, tenant: str) -> Book:
        """Return a tenant's book, made where it is new."""
        if tenant not in self._books:
            async with self._making:  # many requests may be a tenant's first
                if tenant not in self._books:
                    made = Book(self.folder, tenant)
                    await asyncio.to_thread(made.make)
                    self._books[tenant] = made
        return self._books[tenant]

    async def take_runs(self, tenant: str, data: bytes, *, packed: bool, alias: str = "") -> dict[str, Any]:
        """Keep the runs in a body; the answer has their ids. Raises `RefusedError`, `BusyError`, `StorageError`."""
        await self._make_room(tenant)
        taken = await self._taken(Body("runs", data, tenant, packed=packed))
        if not taken.traces and taken.skipped:
            raise RefusedError("; ".join(taken.skipped[:3]))
        now = time.time()
        new = await self.store.write(lambda db: _insert(db, tenant, taken.traces, now, alias))
        self._arrive(tenant, new)
        return {"accepted": [name for name, _ in taken.traces], "new": new, "skipped": taken.skipped}

    async def take_spans(self, tenant: str, data: bytes, *, as_json: bool, packed: bool) -> Intake:
        """Keep the spans in a request of OpenTelemetry. Raises as `take_runs`."""
        await self._make_room(tenant)
        taken = await self._taken(Body("otlp_json" if as_json else "otlp", data, tenant, packed=packed))
        now = time.time()

        def keep(db: sqlite3.Connection) -> int:
            late = 0
            for trace, span, root, record in taken.spans:
                if db.execute("SELECT 1 FROM aliases WHERE tenant = ? AND alias = ?", (tenant, trace)).fetchone():
                    late += 1
                    continue
                db.execute(
                    "INSERT OR IGNORE INTO spans VALUES (?, ?, ?, ?, ?, ?)", (tenant, trace, span, root, now, record)
                )
            return late

        if taken.spans:
            self.late_spans += await self.store.write(keep)
        return taken

    async def settle(self) -> None:
        """Make runs of the traces of OpenTelemetry that have ended."""
        now = time.time()
        ended = await self.store.rows(
            "SELECT tenant, trace FROM spans GROUP BY tenant, trace"
            " HAVING max(received) < CASE WHEN max(root) THEN ? ELSE ? END LIMIT 500",
            now - self.settings.settle,
            now - _ROOTLESS,
        )
        for tenant, trace in ended:
            rows = await self.store.rows("SELECT body FROM spans WHERE tenant = ? AND trace = ?", tenant, trace)
            try:
                taken = await self._taken(joined_spans(tenant, [row[0] for row in rows]))
            except RefusedError as error:
                taken = Intake(skipped=[str(error)])
            why = "; ".join(taken.skipped[:3]) or "there is no run in it"
            new = await self.store.write(partial(_close_trace, tenant=tenant, trace=trace, taken=taken, why=why))
            self._arrive(tenant, new)

    async def take_outcomes(self, tenant: str, outcomes: Sequence[ServedOutcome]) -> int:
        """Keep outcomes; return how many are new. Raises `UsageError` where a version is not one of the tenant's."""
        book = await self.book(tenant)
        for version in {each.version for each in outcomes}:
            await asyncio.to_thread(book.playbook, version)
        now = time.time()

        def keep(db: sqlite3.Connection) -> int:
            sql = "INSERT OR IGNORE INTO outcomes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)"
            values = [
                (tenant, one.id, one.unit, one.version, one.failed, one.score, one.label, now) for one in outcomes
            ]
            return sum(db.execute(sql, row).rowcount for row in values)

        return await self.store.write(keep)

    async def labels(self, tenant: str) -> dict[str, str]:
        """Return the version of each label, at most a second old: another command may move them, too."""
        known = self._labels.get(tenant)
        if known is None or time.monotonic() - known[0] > 1.0:
            book = await self.book(tenant)
            known = self._labels[tenant] = (time.monotonic(), await asyncio.to_thread(book.labels))
        return known[1]

    async def route(self, tenant: str, unit: str) -> tuple[str, str]:
        """Return the arm and the version that a unit is served; without a unit the stable one."""
        labels = await self.labels(tenant)
        stable, canary = labels[STABLE], labels[CANARY]
        if canary == stable or not unit:
            return STABLE, stable
        on_trial = is_on_trial(unit, canary, self.shares.get(tenant, self.settings.share))
        self._note_served(tenant, canary, unit, on_trial=on_trial)
        return (CANARY, canary) if on_trial else (STABLE, stable)

    def _note_served(self, tenant: str, version: str, unit: str, *, on_trial: bool) -> None:
        """Note the first time that a unit was served during a trial; nobody waits for it."""
        if (tenant, version, unit) in self._served:
            return
        if len(self._served) > 1_000_000:
            self._served.clear()
        self._served.add((tenant, version, unit))
        values = (tenant, version, unit, time.time(), on_trial)
        self.store.submit(lambda db: db.execute("INSERT OR IGNORE INTO served VALUES (?, ?, ?, ?, ?)", values).rowcount)

    async def lessons(self, tenant: str, version: str, task: str, max_tokens: int) -> str:
        """Return the lessons of a version that fit a task best."""
        return await asyncio.to_thread((await self.book(tenant)).view, version, task, max_tokens)

    async def bullets(self, tenant: str, version: str) -> list[dict[str, Any]]:
        """Return the lessons of a version, named by a label or its digest, with the runs that each is from."""
        version = (await self.labels(tenant)).get(version, version)
        playbook = await asyncio.to_thread((await self.book(tenant)).playbook, version)
        names = ("id", "section", "text", "helpful", "harmful", "sources")
        return [{name: getattr(bullet, name) for name in names} for bullet in playbook]

    async def history(self, tenant: str) -> dict[str, Any]:
        """Return the versions and the trials of a tenant, oldest first."""
        book = await self.book(tenant)
        rows = await self.store.rows(
            "SELECT version, baseline, share, started, ended, state, evidence FROM trials WHERE tenant = ?"
            " ORDER BY started",
            tenant,
        )
        names = ("version", "baseline", "share", "started", "ended", "state")
        trials = [
            {**dict(zip(names, row, strict=False)), "evidence": json.loads(row[6]) if row[6] else None} for row in rows
        ]
        return {
            "labels": await self.labels(tenant),
            "versions": await asyncio.to_thread(book.versions),
            "trials": trials,
        }

    async def promote(self, tenant: str, version: str, note: str) -> str:
        """Make a version stable, which ends a trial. Raises `UsageError` where there is none."""
        return await self._moved(tenant, (await self.book(tenant)).serve, version, note)

    async def rollback(self, tenant: str, note: str) -> str:
        """End a trial; without one, put stable back to where it was before. Raises `UsageError` at the first one."""
        return await self._moved(tenant, (await self.book(tenant)).back, note)

    async def forget(self, tenant: str, traces: list[str]) -> str:
        """Make the stable version as if these traces had never been; those that wait are dropped.

        Raises:
            UsageError: None of them is known.
        """
        names = json.dumps(traces)
        sql = (
            "UPDATE traces SET body = NULL, state = 'forgotten' WHERE tenant = ? AND generation IS NULL"
            " AND state = 'queued' AND id IN (SELECT value FROM json_each(?))"
        )
        dropped = await self.store.write(lambda db: db.execute(sql, (tenant, names)).rowcount)
        self.learned(tenant, dropped)
        try:
            made = await self._moved(tenant, (await self.book(tenant)).forget, traces)
        except UsageError:
            if not dropped:
                raise
            return (await self.labels(tenant))[STABLE]
        sql = (
            "UPDATE traces SET state = 'forgotten', receipt = NULL WHERE tenant = ?"
            " AND id IN (SELECT value FROM json_each(?))"
        )
        await self.store.write(lambda db: db.execute(sql, (tenant, names)).rowcount)
        return made

    async def retry(self, tenant: str) -> int:
        """Queue again what was given up, in the same generations; return how many traces that is."""

        def change(db: sqlite3.Connection) -> int:
            sql = "UPDATE generations SET state = 'sealed', attempts = 0 WHERE tenant = ? AND state = 'failed'"
            db.execute(sql, (tenant,))
            sql = "UPDATE traces SET state = 'queued', receipt = NULL WHERE tenant = ? AND state = 'failed'"
            return db.execute(sql, (tenant,)).rowcount

        traces = await self.store.write(change)
        self._waiting[tenant] = self._waiting.get(tenant, 0) + traces
        return traces

    async def _moved(self, tenant: str, move: Callable[..., str], *arguments: object) -> str:
        version = await asyncio.to_thread(move, *arguments)
        self._labels.pop(tenant, None)
        return version

    async def receipt(self, tenant: str, name: str) -> list[dict[str, Any]]:
        """Return what became of the traces of this id: ours, the client's own, or that of OpenTelemetry."""
        rows = await self.store.rows(
            "SELECT id, state, generation, receipt, received FROM traces WHERE tenant = ?1 AND (id = ?2 OR id IN"
            " (SELECT id FROM aliases WHERE tenant = ?1 AND alias = ?2)) ORDER BY seq LIMIT 100",
            tenant,
            name,
        )
        if not rows and await self.store.one("SELECT 1 FROM spans WHERE tenant = ? AND trace = ?", tenant, name):
            return [{"id": name, "state": "open", "why": "more of its spans may come"}]
        return [_receipt(*row) for row in rows]

    async def offer(self, tenant: str, version: str, note: str) -> None:
        """Serve a new version: to some units first where outcomes tell how it does, else to all.

        The label `canary` alone says that a trial is on: what is kept of it follows the label.
        """
        book = await self.book(tenant)
        if version == (await asyncio.to_thread(book.labels))[STABLE]:
            return
        judged = await self.store.one("SELECT 1 FROM outcomes WHERE tenant = ? LIMIT 1", tenant)
        if self.settings.share and judged:
            await self._moved(tenant, book.move, CANARY, version, note)
        else:
            await self._moved(tenant, book.serve, version, note)

    async def status(self, tenant: str) -> dict[str, Any]:
        """Return how a tenant's learning stands, as the page and programs show it."""
        backlog = await self.backlog(tenant)
        names = ("id", "state", "traces", "started", "ended", "version", "attempts", "error", "result")
        sql = f"SELECT {', '.join(names)} FROM generations WHERE tenant = ? ORDER BY id DESC LIMIT 20"  # noqa: S608
        generations = [dict(zip(names, row, strict=True)) for row in await self.store.rows(sql, tenant)]
        for each in generations:
            each["result"] = json.loads(each["result"]) if each["result"] else None
        alerts = await self.store.rows(
            "SELECT at, kind, text FROM alerts WHERE tenant = ? ORDER BY id DESC LIMIT 20", tenant
        )
        states = await self.store.rows("SELECT state, count(*) FROM traces WHERE tenant = ? GROUP BY state", tenant)
        return {
            "tenant": tenant,
            "backlog": asdict(backlog),
            "traces": dict(states),
            "labels": await self.labels(tenant),
            "generations": generations,
            "alerts": [dict(zip(("at", "kind", "text"), row, strict=True)) for row in alerts],
        }

    async def alert(self, tenant: str, kind: str, text: str) -> None:
        """Store an alert; `Alerts` sends it from there."""
        await self.store.write(lambda db: add_alert(db, tenant, kind, text))

    def learned(self, tenant: str, traces: int) -> None:
        """Say that so many traces of a tenant wait no longer."""
        self._waiting[tenant] = max(0, self._waiting.get(tenant, 0) - traces)

    def tenants(self) -> list[str]:
        """Return the tenants that have a book."""
        return sorted(path.name for path in (self.folder / "tenants").glob("*") if path.is_dir())

    async def backlog(self, tenant: str) -> Backlog:
        """Return what waits of a tenant, and how long it will take."""
        found = await self.store.one(
            "SELECT count(*) FILTER (WHERE generation IS NULL), count(*) FILTER (WHERE generation IS NOT NULL),"
            " min(received) FROM traces WHERE tenant = ? AND state = 'queued'",
            tenant,
        )
        waiting, learning, oldest = found or (0, 0, None)
        rows = await self.store.rows(
            "SELECT traces, started, ended FROM generations WHERE tenant = ? AND state IN ('done', 'folded', 'sealed')"
            " ORDER BY id DESC LIMIT ?",
            tenant,
            LAST + 1,
        )
        now = time.time()
        ended = [(traces, end - start) for traces, start, end in rows if end][:LAST]
        running = (learning, now - rows[0][1]) if learning and rows and rows[0][2] is None else None
        consumption = sum(traces for traces, _ in ended) / max(1e-3, sum(took for _, took in ended)) if ended else 0.0
        arrival = self.arrival(tenant)
        left = catch_up(waiting, running, ended, self.settings.generation, arrival)
        return Backlog(waiting, learning, now - oldest if oldest else 0.0, arrival, consumption, left)

    def arrival(self, tenant: str) -> float:
        """Return the traces a second that come."""
        return self._arrived[tenant].rate()

    def _arrive(self, tenant: str, count: int) -> None:
        self._waiting[tenant] = self._waiting.get(tenant, 0) + count
        self._arrived[tenant].add(count)

    async def _make_room(self, tenant: str) -> None:
        await self.book(tenant)
        if self._waiting.get(tenant, 0) >= self.settings.max_backlog:
            catch_up = (await self.backlog(tenant)).catch_up
            raise BusyError(
                f"the backlog is full: {self.settings.max_backlog} traces wait", min(300, max(5, int(catch_up or 60)))
            )

    async def _taken(self, body: Body) -> Intake:
        future: asyncio.Future[Intake | RefusedError] = asyncio.get_running_loop().create_future()
        self._bodies.put_nowait((body, future))
        taken = await future
        if isinstance(taken, RefusedError):
            raise taken
        if new := taken.redacted.keys() - _HARMLESS - self._secrets_alerted.setdefault(body.tenant, set()):
            self._secrets_alerted[body.tenant] |= new
            text = f"secrets come in ({', '.join(sorted(new))}); they are taken out before anything is stored"
            await self.alert(body.tenant, "secret", text)
        return taken

    async def _work(self) -> None:
        """Hand bodies to the workers, as many at a time as wait: one hop between processes costs more than a body."""
        loop = asyncio.get_running_loop()
        patterns = tuple(self.settings.patterns.items())
        limits = Limits(self.settings.max_body, self.settings.max_depth)
        while True:
            waiting = [await self._bodies.get()]
            while len(waiting) < _TOGETHER and not self._bodies.empty():
                waiting.append(self._bodies.get_nowait())
            bodies = [body for body, _ in waiting]
            pool = self._pool
            try:
                async with asyncio.timeout(self.settings.max_seconds):
                    results = await loop.run_in_executor(pool, take_all, bodies, patterns, limits)
            except (BrokenProcessPool, TimeoutError):  # a worker was killed, for its memory say, or hangs
                if self._pool is pool:
                    for child in multiprocessing.active_children():  # all of them are workers
                        child.kill()
                    self._pool = self._workers()
                results = [RefusedError("reading it took too long or too much memory", 503)] * len(bodies)
            for (_, future), result in zip(waiting, results, strict=True):
                if not future.done():
                    future.set_result(result)

    def _workers(self) -> ProcessPoolExecutor:
        # Spawned: a fork of a process with threads may hang.
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.settings.workers, mp_context=spawn, initializer=end_with_service)


def add_alert(db: sqlite3.Connection, tenant: str, kind: str, text: str) -> None:
    """Store an alert with the change that it speaks of: a kill keeps both or none."""
    _log.warning("alert: %s: %s: %s", tenant, kind, text)
    sql = "INSERT INTO alerts (at, tenant, kind, text) VALUES (?, ?, ?, ?)"
    db.execute(sql, (time.time(), tenant, kind, text[:2000]))


def _insert(db: sqlite3.Connection, tenant: str, traces: Sequence[tuple[str, str]], now: float, alias: str) -> int:
    new = 0
    for name, line in traces:
        found = db.execute(
            "INSERT OR IGNORE INTO traces (tenant, id, received, body, state) VALUES (?, ?, ?, ?, 'queued')",
            (tenant, name, now, line),
        )
        new += found.rowcount
        if alias:
            db.execute("INSERT OR IGNORE INTO aliases VALUES (?, ?, ?)", (tenant, alias, name))
    return new


def _close_trace(db: sqlite3.Connection, tenant: str, trace: str, taken: Intake, why: str) -> int:
    """Put a run in the place of its spans."""
    now = time.time()
    new = _insert(db, tenant, taken.traces, now, trace)
    if not taken.traces:  # it keeps its receipt, under its own id
        receipt = json.dumps({"state": "not read", "why": why})
        db.execute(
            "INSERT OR IGNORE INTO traces (tenant, id, received, state, receipt) VALUES (?, ?, ?, 'not read', ?)",
            (tenant, trace, now, receipt),
        )
        db.execute("INSERT OR IGNORE INTO aliases VALUES (?, ?, ?)", (tenant, trace, trace))
    db.execute("DELETE FROM spans WHERE tenant = ? AND trace = ?", (tenant, trace))
    return new


def _receipt(name: str, state: str, generation: int | None, receipt: str | None, received: float) -> dict[str, Any]:
    if state == "queued":
        about = {"state": "queued" if generation is None else "learning"}
    else:
        about = json.loads(receipt) if receipt else {"state": state}
    return {"id": name, "received": received, "generation": generation, **about}
