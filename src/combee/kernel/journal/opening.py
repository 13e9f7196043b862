"""Open the parts of a journal in the right order (lock, format, check), and close them in the opposite one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from combee.errors import StorageError, UsageError
from combee.kernel.journal.lock import RunLock
from combee.kernel.journal.migrations import is_current, migrate
from combee.kernel.journal.purchases import Purchases
from combee.kernel.journal.schema import JOURNAL
from combee.kernel.journal.storage import Reader, boundary, connect, connect_read_only, damaged, problems
from combee.kernel.journal.writer import Writer

__all__ = ["JOURNAL_NAME", "Parts", "open_parts"]

JOURNAL_NAME = "journal.sqlite"

# Files up to this size (bytes) are checked whole when opened for writing: about 0.1 s, before anything is paid for.
_CHECKED = 64 << 20


@dataclass(frozen=True, slots=True)
class Parts:
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


def open_parts(run_dir: Path, *, create: bool, read_only: bool) -> Parts:
    """See `Journal.open`."""
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
    lock = RunLock(run_dir)
    try:
        return _open_to_write(path, lock)
    except BaseException:
        lock.release()
        raise


def _open_to_read(path: Path) -> Parts:
    with boundary(path):
        connection = connect_read_only(path)
        try:
            if not is_current(connection, path, JOURNAL):
                # An older file is not ours to change here: a copy in memory is brought up to date instead.
                with closing(connection) as old:
                    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                    old.backup(connection)
                migrate(connection, path, JOURNAL)
        except BaseException:
            connection.close()
            raise
    return Parts(path, Reader(connection, path))


def _open_to_write(path: Path, lock: RunLock) -> Parts:
    with boundary(path):
        connection = connect(path)
        try:
            migrate(connection, path, JOURNAL)
            if path.stat().st_size <= _CHECKED and (found := problems(connection)):
                raise damaged(path, found[0])
            reader = Reader(connect_read_only(path), path)
        except BaseException:
            connection.close()
            raise
    try:
        purchases = Purchases(path.parent, lambda key: bool(reader.rows("SELECT 1 FROM results WHERE key = ?", key)))
    except BaseException:
        reader.close()
        connection.close()
        raise
    return Parts(path, reader, Writer(connection, path, purchases.stored), purchases, lock)
