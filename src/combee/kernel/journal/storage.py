"""The edge to SQLite: connections as we want them, its errors turned into ours with what to do, numbered migrations.

Migration number n makes format n out of n-1, all in one transaction. A file says in its header whose it is and which
format it has, so that neither another program's file nor one of a newer Combee is ever written to.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from combee.errors import StorageError, UsageError
from combee.kernel.journal.values import clean_text

_BUSY_SECONDS = 10.0


@contextmanager
def boundary(path: Path) -> Iterator[None]:
    """Turn every error of SQLite inside into a `StorageError` (closed: `UsageError`) that says what to do."""
    try:
        yield
    except sqlite3.ProgrammingError as error:
        if "closed" in str(error):
            raise UsageError("the journal is closed", hint="Use it inside its `with` block.") from error
        raise _storage_error(error, path) from error
    except sqlite3.Error as error:
        raise _storage_error(error, path) from error


def _storage_error(error: sqlite3.Error, path: Path) -> StorageError:
    code = getattr(error, "sqlite_errorname", None) or ""
    if code in {"SQLITE_CORRUPT", "SQLITE_NOTADB"} or code.startswith(("SQLITE_CORRUPT", "SQLITE_IOERR_SHORT_READ")):
        return damaged(path, str(error))
    if code == "SQLITE_FULL":
        hint = "Free some space and run the same command again; what was stored before is kept."
        return StorageError(f"the disk is full: {path} could not be written", hint=hint)
    if code.startswith("SQLITE_IOERR"):
        hint = "Check the disk (space, quota, file size limit) and run the same command again; what was stored is kept."
        return StorageError(f"the disk failed while {path} was in use ({code})", hint=hint)
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StorageError(
            f"{path} cannot be opened or written: {error}", hint="Check the permissions of the run folder."
        )
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        hint = "Another program (a SQLite browser?) keeps the file locked: close it and run the same command again."
        return StorageError(f"{path} is locked", hint=hint)
    return StorageError(f"{path}: {error}", hint="Run `combee doctor` for more.")


def damaged(path: Path, what: str) -> StorageError:
    """Return the error for a file whose content cannot be trusted."""
    hint = (
        f"Keep a copy of it. `sqlite3 {path.name} .recover | sqlite3 repaired.sqlite` in its folder saves what can "
        "still be read; or put a backup in its place, or start a new run in another folder."
    )
    return StorageError(f"{path} is damaged ({what})", hint=hint)


def _check_kind(path: Path) -> None:
    """Refuse a folder, a device or a pipe: SQLite would say little of the one, and wait for the other for ever."""
    if path.exists() and not path.is_file():
        raise StorageError(f"{path} is no file", hint="Take it away, or name another place.")


def connect(path: Path) -> sqlite3.Connection:
    """Open for reading and writing; transactions are ours to begin and end."""
    _check_kind(path)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        # One fsync a group commit costs nothing that matters, and what flush() acknowledges outlives a power cut too.
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open for reading, also while another process writes, and also on a medium that cannot be written."""
    _check_kind(path)
    uri = path.absolute().as_uri()
    connection = _try_read_only(f"{uri}?mode=ro")
    if connection is None:
        # Without a write-ahead log beside it the file alone is everything, so it may be read as it stands.
        wal = path.with_name(path.name + "-wal")
        frozen = not wal.exists() or wal.stat().st_size == 0
        connection = _try_read_only(f"{uri}?immutable=1") if frozen else None
    if connection is None:
        hint = "Copy the run folder to a place that you may write to, and read it there."
        raise StorageError(f"{path} cannot be read where it lies", hint=hint)
    return connection


def _try_read_only(uri: str) -> sqlite3.Connection | None:
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA query_only=1")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except sqlite3.OperationalError as error:
        connection.close()
        if (getattr(error, "sqlite_errorname", None) or "").startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
            return None
        raise
    except BaseException:
        connection.close()
        raise
    return connection


@dataclass(frozen=True, slots=True)
class Schema:
    """The formats of one kind of file. Old migrations are never edited: files out there have them behind them."""

    application_id: int
    """Written into the header; tells our file from another program's."""
    migrations: tuple[tuple[str, ...], ...]
    """The statements of each migration, in order."""
    instead: str
    """What a user should give in place of a foreign file."""


def is_current(connection: sqlite3.Connection, path: Path, schema: Schema) -> bool:
    """Return whether an open file has the present format.

    Raises:
        UsageError: A newer Combee wrote the file, or another program did.
    """
    return _format(connection, path, schema) == len(schema.migrations)


def migrate(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Bring an open file to the present format: done or untouched. Raises as `is_current`."""
    if is_current(connection, path, schema):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have migrated the file while this one waited for it.
        for statements in schema.migrations[_format(connection, path, schema) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={schema.application_id}")
        connection.execute(f"PRAGMA user_version={len(schema.migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _format(connection: sqlite3.Connection, path: Path, schema: Schema) -> int:
    number = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    foreign = owner or number or connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    if owner != schema.application_id and foreign:
        raise UsageError(f"{path} is a SQLite file of another program", hint=schema.instead)
    known = len(schema.migrations)
    if number > known:
        hint = "Open it with that version: `pip install -U combee-learn`."
        raise UsageError(f"{path} was written by a newer Combee (format {number}, known up to {known})", hint=hint)
    return number


class Reader:
    """One connection for reading, shared by threads. No statement stays open, so none holds up the log."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._lock = threading.Lock()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        cleaned = [clean_text(value) if isinstance(value, str) else value for value in values]
        with boundary(self._path), self._lock:
            return self._connection.execute(sql, cleaned).fetchall()

    def one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """Return the only row of a query, or None."""
        rows = self.rows(sql, *values)
        return rows[0] if rows else None

    def pages(self, sql: str, *values: object, after: int = 0, size: int = 1000) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query that ends in `id > ? ORDER BY id LIMIT ?` and whose first column is `id`."""
        while rows := self.rows(sql, *values, after, size):
            yield from rows
            after = rows[-1][0]

    def problems(self) -> list[str]:
        """Return what SQLite's quick check finds wrong; nothing when all is well. About 1 second a gigabyte."""
        lines = [str(row[0]) for row in self.rows("PRAGMA quick_check(5)")]
        return [] if lines == ["ok"] else lines

    def close(self) -> None:
        """Close the connection. May be called again."""
        with self._lock:
            self._connection.close()
