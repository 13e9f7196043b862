"""The one writer of a journal: a thread that commits what was queued in groups, in the order it was queued.

So a kill loses at most the last window, never something from the middle. The first error stays: nothing more is taken.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from combee.errors import CombeeError, UsageError
from combee.kernel.journal.storage import boundary

WINDOW = 0.01
"""Seconds that a row waits for company before its group is committed; with the commit itself it stays under 20 ms."""

_GROUP = 2_000  # rows that need no further waiting
_MOST = 20_000  # rows that may wait; then who queues waits too, so that memory stays bounded
# Rows a statement: SQLite gives the interpreter up and takes it back once a statement, slow beside busy threads.
_ROWS = 64


@dataclass(frozen=True, slots=True)
class Insert:
    """What kind of row is inserted; `conflict` says what happens when it is there already."""

    table: str
    columns: tuple[str, ...]
    conflict: str = "ABORT"


# Insert, values, key, marks: a tuple, since one is made for each row.
_Row = tuple[Insert, tuple[object, ...], Hashable, tuple[int, ...]]


class Writer:
    """Owns the writing connection. `committed` is called, on the writer's thread, with the marks of what is on disk."""

    def __init__(self, connection: sqlite3.Connection, path: Path, committed: Callable[[list[int]], None]) -> None:
        self._connection = connection
        self._path = path
        self._committed = committed
        self._process = os.getpid()
        self._rows: list[_Row] = []
        self._queued = self._done = 0
        self._urgent = self._closing = False
        self._error: CombeeError | None = None
        self._changed = threading.Condition()
        self._waiting: dict[Hashable, str] = {}
        self._thread = threading.Thread(target=self._loop, name="combee-journal", daemon=True)
        self._thread.start()

    def put(
        self,
        insert: Insert,
        values: tuple[object, ...],
        *,
        key: Hashable = None,
        text: str | None = None,
        marks: tuple[int, ...] = (),
    ) -> None:
        """Queue a row. With `key` and `text`, `waiting(key)` gives the text until the row is committed.

        `marks` (see `purchases`) are handed to `committed` when the row is on disk.

        Raises:
            StorageError: An earlier group could not be written.
            UsageError: The journal is closed.
        """
        with self._changed:
            self.check()
            if text is not None:
                self._waiting[key] = text
            self._rows.append((insert, values, key, marks))
            self._queued += 1
            if len(self._rows) == 1 or len(self._rows) == _GROUP:
                self._changed.notify_all()
            while len(self._rows) >= _MOST and self._error is None:
                self._changed.wait()

    def waiting(self, key: Hashable) -> str | None:
        """Return the text of a row that is queued and not yet committed. Takes no lock: one look into a dict."""
        return self._waiting.get(key)

    def check(self) -> None:
        """Raise when nothing more can be written."""
        if self._error is not None:
            raise self._error
        if self._closing:
            raise UsageError("the journal is closed", hint="Use it inside its `with` block.")
        if self._process != os.getpid():
            raise UsageError("a journal cannot be used in a forked process", hint="Open it in the process that writes.")

    def flush(self) -> None:
        """Return when everything queued so far is on disk.

        Raises:
            StorageError: It could not be written.
        """
        with self._changed:
            self.check()
            target = self._queued
            self._urgent = True
            self._changed.notify_all()
            while self._done < target and self._error is None:
                self._changed.wait()
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        """Write what is queued, fold the log into the file, and close. Raises as `flush`. May be called again."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        with suppress(sqlite3.Error):  # on a full disk everything is safe in the log all the same
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        with suppress(sqlite3.Error):
            self._connection.close()
        if self._error is not None:
            raise self._error

    def _loop(self) -> None:
        while True:
            batch = self._next_batch()
            if not batch:
                return
            try:
                with boundary(self._path):
                    self._commit(batch)
                self._committed([mark for *_, marks in batch for mark in marks])
            except Exception as error:  # noqa: BLE001 - handed to whoever writes or flushes next
                self._fail(error)
                return
            with self._changed:
                for _, _, key, _ in batch:
                    if key is not None:
                        self._waiting.pop(key, None)
                self._done += len(batch)
                self._changed.notify_all()

    def _next_batch(self) -> list[_Row]:
        with self._changed:
            while not self._rows and not self._closing:
                self._urgent = False
                self._changed.wait()
            self._changed.wait_for(
                lambda: self._urgent or self._closing or len(self._rows) >= _GROUP, timeout=WINDOW if self._rows else 0
            )
            batch, self._rows = self._rows, []
            self._urgent = False
            self._changed.notify_all()
            return batch

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, CombeeError):
            wrapped = UsageError(
                f"the journal's writer failed: {error!r}", hint="This is a fault in Combee: report it."
            )
            wrapped.__cause__ = error
            error = wrapped
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _commit(self, batch: list[_Row]) -> None:
        groups: dict[Insert, list[tuple[object, ...]]] = {}
        for insert, values, _, _ in batch:
            groups.setdefault(insert, []).append(values)
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            for insert, rows in groups.items():
                for start in range(0, len(rows), _ROWS):
                    chunk = rows[start : start + _ROWS]
                    connection.execute(_sql(insert, len(chunk)), [value for row in chunk for value in row])
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            raise


@lru_cache(maxsize=1024)
def _sql(insert: Insert, count: int) -> str:
    places = ",".join(f"({','.join('?' * len(insert.columns))})" for _ in range(count))
    return f"INSERT OR {insert.conflict} INTO {insert.table} ({','.join(insert.columns)}) VALUES {places}"  # noqa: S608 - constants
