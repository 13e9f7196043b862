"""The service's SQLite file: what waits, receipts, spans, outcomes, generations, trials, tokens, alerts.

One thread writes. What waits when a commit begins goes into it together (group commit, one fsync), and who asked is
told when it is on the disk. Reading has a connection and a thread of its own.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from combee.errors import StorageError

__all__ = ["DATABASE", "Change", "ServiceStore"]

DATABASE = "serve.sqlite"
_MOST = 1000  # changes of one commit
_FORMAT = 1

T = TypeVar("T")
Change = Callable[[sqlite3.Connection], T]

_SCHEMA = """
CREATE TABLE traces (
  seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, received REAL NOT NULL, body TEXT,
  generation INTEGER, state TEXT NOT NULL, receipt TEXT, UNIQUE (tenant, id));
CREATE INDEX traces_waiting ON traces (tenant, seq) WHERE generation IS NULL AND state = 'queued';
CREATE INDEX traces_generation ON traces (generation);
CREATE TABLE aliases (tenant TEXT NOT NULL, alias TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (tenant, alias, id))
  WITHOUT ROWID;
CREATE TABLE spans (
  tenant TEXT NOT NULL, trace TEXT NOT NULL, span TEXT NOT NULL, root INTEGER NOT NULL, received REAL NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (tenant, trace, span)) WITHOUT ROWID;
CREATE TABLE outcomes (
  seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, unit TEXT NOT NULL, version TEXT NOT NULL,
  failed INTEGER NOT NULL, score REAL, label TEXT, received REAL NOT NULL, UNIQUE (tenant, id));
CREATE TABLE generations (
  id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL, traces INTEGER NOT NULL, started REAL NOT NULL,
  ended REAL, start TEXT, version TEXT, attempts INTEGER NOT NULL DEFAULT 0, kept_at INTEGER, result TEXT, error TEXT);
CREATE TABLE trials (
  tenant TEXT NOT NULL, version TEXT NOT NULL, baseline TEXT NOT NULL, share REAL NOT NULL, started REAL NOT NULL,
  ended REAL, state TEXT NOT NULL, evidence TEXT, PRIMARY KEY (tenant, version, started)) WITHOUT ROWID;
CREATE TABLE served (
  tenant TEXT NOT NULL, version TEXT NOT NULL, unit TEXT NOT NULL, at REAL NOT NULL, on_trial INTEGER NOT NULL,
  PRIMARY KEY (tenant, version, unit)) WITHOUT ROWID;
CREATE TABLE tokens (
  hash TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, scopes TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE alerts (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, tenant TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL,
  told INTEGER NOT NULL DEFAULT 0);
"""


class ServiceStore:
    """The file of one service; close it when done.

    Raises:
        StorageError: The file cannot be used, or was written by a newer version.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / DATABASE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
            self._writing = _connect(self.path)
            _migrate(self._writing, self.path)
            self._reading = _connect(self.path)
            self._reading.execute("PRAGMA query_only = 1")
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"{self.path} cannot be used: {error}") from error
        self._changes: queue.SimpleQueue[tuple[Change[Any], Future[Any]] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="combee-serve-writer", daemon=True)
        self._writer.start()
        self._readers = ThreadPoolExecutor(1, "combee-serve-reader")

    def close(self) -> None:
        """Commit what waits and let the file go."""
        self._changes.put(None)
        self._writer.join()
        self._readers.shutdown()
        self._reading.close()
        self._writing.close()

    def submit(self, change: Change[T]) -> Future[T]:
        """Queue a change; the future has its result when it is on the disk. A change that raises changes nothing."""
        future: Future[T] = Future()
        self._changes.put((change, future))
        return future

    async def write(self, change: Change[T]) -> T:
        """Make a change; it is on the disk on return."""
        return await asyncio.wrap_future(self.submit(change))

    async def read(self, look: Change[T]) -> T:
        """Return what a function finds; it must not write."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, look, self._reading)

    async def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return await self.read(lambda connection: connection.execute(sql, values).fetchall())

    async def one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """Return the first row of a query, or None."""
        return await self.read(lambda connection: connection.execute(sql, values).fetchone())

    def _write(self) -> None:
        ended = False
        while not ended:
            taken = [self._changes.get()]
            while len(taken) < _MOST and not self._changes.empty():
                taken.append(self._changes.get())
            ended = None in taken
            # Whoever gave up before its turn is passed over; from here on nobody can.
            self._commit([each for each in taken if each is not None and each[1].set_running_or_notify_cancel()])

    def _commit(self, taken: list[tuple[Change[Any], Future[Any]]]) -> None:
        done: list[tuple[Future[Any], Any]] = []
        failed: list[tuple[Future[Any], Exception]] = []
        connection = self._writing
        try:
            connection.execute("BEGIN IMMEDIATE")
            for change, future in taken:
                connection.execute("SAVEPOINT one")
                try:
                    done.append((future, change(connection)))
                except Exception as error:  # noqa: BLE001 - handed to whoever asked
                    connection.execute("ROLLBACK TO one")
                    failed.append((future, error))
                connection.execute("RELEASE one")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            # The disk may be full: nothing of this commit is kept, so every change of it has failed.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            failure = StorageError(f"{self.path} cannot be written: {error}")
            failed, done = [(future, failure) for _, future in taken], []
        for future, result in done:
            future.set_result(result)
        for future, reason in failed:
            future.set_exception(reason)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    path.chmod(0o600)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = 1")  # what was learned and forgotten is not left in free pages
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > _FORMAT:
        raise StorageError(f"{path} was written by a newer version of Combee.", hint="Update Combee.")
    if version == 0:
        connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_FORMAT}; COMMIT;")
