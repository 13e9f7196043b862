"""The journal of a run: one SQLite file in its folder, written by one process, readable by any number at the same time.

A run is replayed, not restored: started again, it finds its results and decisions here and pays for nothing twice,
except calls that were in flight or inside the last commit window (20 ms) when it was killed; those are counted.
"""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from combee.errors import CombeeError, StorageError, UsageError
from combee.kernel.journal.lock import RunLock
from combee.kernel.journal.purchases import Purchases, current_purchase
from combee.kernel.journal.scope import Address, BoundScope, FileStore, Scope, ScopePlace, Stats
from combee.kernel.journal.storage import (
    Reader,
    Schema,
    boundary,
    connect,
    connect_read_only,
    damaged,
    is_current,
    migrate,
)
from combee.kernel.journal.values import JSON, JSONLike, canonical_json, clean_text, parse_json
from combee.kernel.journal.versions import Versions
from combee.kernel.journal.writer import Insert, Writer

_EVENT = Insert("events", ("key", "kind", "data", "at"), "IGNORE")
_CALL = Insert("calls", ("row", "at"))
_META = Insert("meta", ("key", "value"), "REPLACE")


JOURNAL_NAME = "journal.sqlite"

# Files up to this size (bytes) are checked whole when opened for writing: about 0.1 s, before anything is paid for.
_CHECKED = 64 << 20

_PLACE = "run TEXT NOT NULL, seed INTEGER NOT NULL, epoch INTEGER NOT NULL, step INTEGER NOT NULL, path TEXT NOT NULL"

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # `key` stands for address and input hash: the same address with other inputs is another row.
        (
            f"CREATE TABLE results (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, {_PLACE},"
            " role TEXT NOT NULL, item TEXT NOT NULL, attempt INTEGER NOT NULL, inputs TEXT NOT NULL,"
            " value TEXT NOT NULL, at REAL NOT NULL)"
        ),
        (
            f"CREATE TABLE decisions (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, {_PLACE}, name TEXT NOT NULL,"
            " value TEXT NOT NULL, at REAL NOT NULL)"
        ),
        (
            "CREATE TABLE events (id INTEGER PRIMARY KEY, key TEXT UNIQUE, kind TEXT NOT NULL, data TEXT NOT NULL,"
            " at REAL NOT NULL)"
        ),
        "CREATE TABLE calls (id INTEGER PRIMARY KEY, row TEXT NOT NULL, at REAL NOT NULL)",
        # A book is the text of one playbook: whole, or as a patch on the text of `base`; zlib either way.
        (
            "CREATE TABLE books (digest TEXT PRIMARY KEY, base TEXT, depth INTEGER NOT NULL, body BLOB NOT NULL,"
            " sha256 TEXT NOT NULL) WITHOUT ROWID"
        ),
        # A version is one step of the history that led to a book; one book may be reached again (rollback).
        (
            "CREATE TABLE versions (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, digest TEXT NOT NULL,"
            " parent TEXT, epoch INTEGER NOT NULL, step INTEGER NOT NULL, delta TEXT NOT NULL,"
            " data TEXT NOT NULL, at REAL NOT NULL)"
        ),
        "CREATE INDEX versions_digest ON versions (digest)",
        (
            "CREATE TABLE moves (id INTEGER PRIMARY KEY, key TEXT UNIQUE, label TEXT NOT NULL, digest TEXT NOT NULL,"
            " rollback INTEGER NOT NULL, note TEXT NOT NULL, at REAL NOT NULL)"
        ),
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    ),
    (
        (
            "UPDATE OR IGNORE events SET key = 'GuardJudged' || substr(key, length('GuardSpoke') + 1)"
            " WHERE kind = 'GuardSpoke' AND key LIKE 'GuardSpoke/%'"
        ),
        "UPDATE events SET kind = 'GuardJudged' WHERE kind = 'GuardSpoke'",
    ),
)

SCHEMA = Schema(0x436F6D62, _MIGRATIONS, "Give the folder of a Combee run, or a new one.")  # "Comb"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `number` counts up within the file, `time` is in Unix seconds."""

    number: int
    kind: str
    data: JSON
    time: float


class Journal(Versions):
    """Made by `Journal.open`; a context manager. What is recorded is on disk within 20 ms, or after `flush`."""

    def __init__(self, parts: _Parts) -> None:
        super().__init__(parts.path, parts.reader, parts.writer)
        self._store = FileStore(parts.reader, parts.writer, parts.purchases)
        # Also runs when the journal is forgotten or the interpreter ends, so that nothing queued is lost.
        self._end = weakref.finalize(self, parts.close)

    @classmethod
    def open(cls, run_dir: Path, *, create: bool = True, read_only: bool = False) -> Self:
        """Open the journal in a run folder.

        Args:
            run_dir: The folder; made when it is missing and `create` is true.
            create: Whether a missing journal is begun, or an error.
            read_only: Read beside a process that writes; nothing is created, locked or changed.

        Raises:
            UsageError: There is no journal, or it is another program's or a newer Combee's.
            LockedError: Another process writes to it.
            StorageError: The file is damaged, the disk is full, or access is denied.
        """
        return cls(_open_parts(Path(run_dir), create=create, read_only=read_only))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except CombeeError as failure:
            if error is None:
                raise
            if failure is not error:
                error.add_note(f"While the journal was closed: {failure}")

    def close(self) -> None:
        """Write what is queued, close the file and let the lock go. May be called again.

        Raises:
            StorageError: Something queued could not be written.
        """
        self._end()

    def flush(self) -> None:
        """Return when everything recorded so far is on disk. Raises `StorageError` when it cannot be."""
        if self._writer is not None:
            self._writer.flush()

    def scope(self, *, seed: int, epoch: int, step: int, run: str = "") -> Scope:
        """Return where one step of one run keeps its results and decisions."""
        if not all(type(number) is int for number in (seed, epoch, step)):
            # 1, 1.0 and True are equal and would be three addresses.
            raise UsageError(f"seed, epoch and step are {seed!r}, {epoch!r}, {step!r}", hint="Use whole numbers.")
        if not all(-(2**63) <= number < 2**63 for number in (seed, epoch, step)):
            raise UsageError(f"a seed, epoch or step is too large: {seed}, {epoch}, {step}", hint="Use 64-bit numbers.")
        return BoundScope(self._store, ScopePlace(clean_text(run), seed, epoch, step))

    def stats(self) -> Stats:
        """Return what this opening reused, bought, bought again after a kill, and replayed."""
        return self._store.stats()

    def count_reused(self, *, results: int, decisions: int) -> None:
        """Count results and decisions as reused that need not be read, since what follows from them is kept."""
        self._store.count_reused(results, decisions)

    def count_results(self) -> int:
        """Return how many results are stored."""
        self.flush()
        return int((self._reader.one("SELECT count(*) FROM results") or (0,))[0])

    def results(self, role: str | None = None) -> Iterator[tuple[Address, JSON]]:
        """Yield the stored results of one role, or of all, in the order they were bought."""
        self.flush()
        sql = (
            "SELECT id, run, seed, epoch, step, path, role, item, attempt, inputs, value FROM results"
            " WHERE (?1 IS NULL OR role = ?1) AND id > ?2 ORDER BY id LIMIT ?3"
        )
        for row in self._reader.pages(sql, role):
            yield Address(ScopePlace(*row[1:6]), *row[6:10]), parse_json(row[10])

    def decisions(self) -> Iterator[tuple[ScopePlace, str, JSON]]:
        """Yield place, name and value of every decision, in the order they were made."""
        self.flush()
        sql = "SELECT id, run, seed, epoch, step, path, name, value FROM decisions WHERE id > ? ORDER BY id LIMIT ?"
        for row in self._reader.pages(sql):
            yield ScopePlace(*row[1:6]), row[6], parse_json(row[7])

    def record_event(self, kind: str, data: JSONLike, *, key: str | None = None) -> None:
        """Record that something happened. A second event with the same `key` is ignored, so that a replay adds none."""
        self._writing().put(_EVENT, (key and clean_text(key), clean_text(kind), canonical_json(data), time.time()))

    def events(self, kind: str | None = None, *, after: int = 0) -> Iterator[Event]:
        """Yield events of one kind, or all, with a number greater than `after`, in order."""
        self.flush()
        sql = "SELECT id, kind, data, at FROM events WHERE (?1 IS NULL OR kind = ?1) AND id > ?2 ORDER BY id LIMIT ?3"
        for number, what, data, at in self._reader.pages(sql, kind, after=after):
            yield Event(number, what, parse_json(data), at)

    def record_call(self, row: JSONLike) -> None:
        """Add a row to the ledger of calls; it answers for one attempt of the purchase that is under way here."""
        purchase = current_purchase()
        marks = purchase.booked() if purchase is not None else ()
        self._writing().put(_CALL, (canonical_json(row), time.time()), marks=marks)

    def calls(self) -> Iterator[JSON]:
        """Yield the rows of the ledger, in order."""
        self.flush()
        for row in self._reader.pages("SELECT id, row FROM calls WHERE id > ? ORDER BY id LIMIT ?"):
            yield parse_json(row[1])

    def meta(self, key: str) -> JSON:
        """Return what was set under this key, or None."""
        row = self._reader.one("SELECT value FROM meta WHERE key = ?", key)
        return None if row is None else parse_json(row[0])

    def set_meta(self, key: str, value: JSONLike) -> None:
        """Set a fact about the run (its configuration, say), in place of an earlier one; on disk on return."""
        writer = self._writing()
        writer.put(_META, (clean_text(key), canonical_json(value)))
        writer.flush()

    def problems(self) -> list[str]:
        """Return what is wrong with the file; nothing when all is well. Reads all of it, about 1 second a gigabyte."""
        return self._reader.problems()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a journal is made of; when it is open for reading only, there is no writer, no list and no lock."""

    path: Path
    reader: Reader
    writer: Writer | None = None
    purchases: Purchases | None = None
    lock: RunLock | None = None
    process: int = field(default_factory=os.getpid)

    def close(self) -> None:
        """Write what is queued and let everything go. Raises `StorageError` when it could not be written."""
        if os.getpid() != self.process:
            return  # a forked child ends: all of this belongs to its parent
        try:
            self.reader.close()
            if self.writer is not None:
                self.writer.close()
        finally:
            if self.purchases is not None:
                with suppress(StorageError):  # an old list of open purchases is right too, only longer
                    self.purchases.close()
            if self.lock is not None:
                self.lock.release()


def _open_parts(run_dir: Path, *, create: bool, read_only: bool) -> _Parts:
    """Open the parts in the right order: lock, format, check."""
    path = run_dir / JOURNAL_NAME
    try:
        if run_dir.exists() and not run_dir.is_dir():
            raise UsageError(f"{run_dir} is a file, not a run folder", hint="Give the folder of a run, or a new one.")
        if not path.exists() and (read_only or not create):
            raise UsageError(f"there is no run in {run_dir}", hint="`combee runs` lists the runs there are.")
        if read_only:
            return _open_to_read(path)
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "Give a folder that you may read and write."
        raise StorageError(f"{run_dir} cannot be used: {error.strerror}", hint=hint) from error
    with ExitStack() as undo:
        lock = RunLock(run_dir)
        undo.callback(lock.release)
        with boundary(path):
            connection = connect(path)
            undo.callback(connection.close)
            migrate(connection, path, SCHEMA)
            reader = Reader(connect_read_only(path), path)
            undo.callback(reader.close)
        if path.stat().st_size <= _CHECKED and (wrong := reader.problems()):
            raise damaged(path, wrong[0])
        purchases = Purchases(run_dir, lambda key: bool(reader.rows("SELECT 1 FROM results WHERE key = ?", key)))
        undo.pop_all()
    return _Parts(path, reader, Writer(connection, path, purchases.clear), purchases, lock)


def _open_to_read(path: Path) -> _Parts:
    with boundary(path):
        connection = connect_read_only(path)
        try:
            if not is_current(connection, path, SCHEMA):
                # An older file is not ours to change here: a copy in memory is brought up to date instead.
                with closing(connection) as old:
                    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                    old.backup(connection)
                migrate(connection, path, SCHEMA)
        except BaseException:
            connection.close()
            raise
    return _Parts(path, Reader(connection, path))
