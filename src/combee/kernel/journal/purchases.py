"""What is being bought just now: a small table in a file, so that a killed process leaves behind what it may have paid.

A row is a key in memory that the system writes out whatever becomes of the process: it is marked before a request goes
out and cleared when what it came to is on disk. What a killed process left was in flight or inside the last commit
window, and may have been paid for. When its result is bought again, whoever keeps the books asks `current_purchase` and
books it at what the second purchase takes. Marking costs no system call, so nothing waits for it.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from io import FileIO
from pathlib import Path

from combee.errors import StorageError, UsageError

PURCHASES_NAME = "journal.open"
_ROW = 17  # bytes: `+` and a key; cleared rows are zeros. Earlier versions wrote a log with `-` for a begin undone.
_FIRST = 1024  # rows of a new table; it doubles when it is full


class Purchase:
    """One result that is being bought.

    The work begins marked: it may cost something at any time. A model's engine takes over with `wait` and marks each
    attempt with `send`, so that a call that only waits for its turn is not taken for a paid one.
    """

    __slots__ = ("_begun", "_rows", "_table", "key", "lost")

    def __init__(self, key: bytes, table: Purchases, rows: list[int]) -> None:
        self.key = key
        self.lost = len(rows)
        """How often killed processes may have paid for this result; 0 once somebody booked it."""
        self._table = table
        self._rows = rows
        self._begun = True
        rows.append(table.mark(key))

    def wait(self) -> None:
        """Say that nothing is paid until the next `send`."""
        if self._begun:
            self._begun = False
            self._table.clear((self._rows.pop(),))

    def send(self) -> None:
        """Mark an attempt whose request goes out now."""
        self._rows.append(self._table.mark(self.key))

    def booked(self) -> tuple[int, ...]:
        """Return the row to be cleared when one entry in the books about this purchase is on disk."""
        self._begun = False
        return (self._rows.pop(),) if self._rows else ()

    def stored(self) -> tuple[int, ...]:
        """Return the rows to be cleared when the result is on disk."""
        rows, self._rows = tuple(self._rows), []
        return rows

    def failed(self) -> None:
        """Note that nothing came of it; what was lost before stays until somebody books it."""
        self._table.fail(self.key, self._rows, self.lost)


PURCHASE: ContextVar[Purchase | None] = ContextVar("purchase", default=None)
"""The purchase that is under way in this context; `BoundScope.once` sets it."""


def current_purchase() -> Purchase | None:
    """Return the purchase that is under way here, or None where nothing keeps the result."""
    return PURCHASE.get()


class Purchases:
    """The open purchases of a run; `lost` are the results that earlier processes began to buy and could not store."""

    def __init__(self, run_dir: Path, stored: Callable[[bytes], bool]) -> None:
        self._path = run_dir / PURCHASES_NAME
        self._lock = threading.Lock()
        left = {key: times for key, times in left_open(self._path).items() if not stored(key)}
        self.lost = frozenset(left)
        keys = [key for key, times in left.items() for _ in range(times)]
        self._left: dict[bytes, list[int]] = defaultdict(list)
        for row, key in enumerate(keys):
            self._left[key].append(row)
        size = max(_FIRST, 2 * len(keys))
        self._file = self._write(keys, size)
        self._table = mmap.mmap(self._file.fileno(), size * _ROW)
        self._free = list(range(size - 1, len(keys) - 1, -1))

    def begin(self, key: bytes) -> Purchase:
        """Note that a purchase begins."""
        return Purchase(key, self, self._left.pop(key, []))

    def mark(self, key: bytes) -> int:
        """Mark a row with this key. Raises `StorageError` when there is no space for another one."""
        with self._lock:
            if self._table.closed:
                raise UsageError("the journal is closed", hint="Use it inside its `with` block.")
            if not self._free:
                self._grow()
            row = self._free.pop()
            self._table[row * _ROW : (row + 1) * _ROW] = b"+" + key
            return row

    def clear(self, rows: Iterable[int]) -> None:
        """Clear rows: what they stand for is on disk, or was never paid."""
        with self._lock:
            if self._table.closed:
                return
            for row in rows:
                self._table[row * _ROW] = 0
                self._free.append(row)

    def fail(self, key: bytes, rows: list[int], lost: int) -> None:
        """Clear all rows of a purchase but the lost ones."""
        self.clear(rows[lost:])
        if lost:
            self._left[key] = rows[:lost]

    def close(self) -> None:
        """Leave only what is still open in the file. May be called again."""
        with self._lock:
            if self._table.closed:
                return
            left = _marked(self._table[:])
            self._table.close()
            self._file.close()
        self._write(list(left.elements()), 0).close()

    def _grow(self) -> None:
        size = len(self._table) // _ROW
        try:
            self._file.seek(0, os.SEEK_END)
            self._file.write(bytes(size * _ROW))  # not a hole: on a full disk this fails, and no mark later on
        except OSError as error:
            raise _failed(self._path, error) from error
        self._table.close()
        self._table = mmap.mmap(self._file.fileno(), 2 * size * _ROW)
        self._free = list(range(2 * size - 1, size - 1, -1))

    def _write(self, keys: Sequence[bytes], size: int) -> FileIO:
        """Put a file with these keys and room for `size` rows in place of the old one; return it, open."""
        fresh = self._path.with_name(self._path.name + ".new")
        data = b"".join(b"+" + key for key in keys)
        try:
            fresh.write_bytes(data.ljust(size * _ROW, b"\0"))
            fresh.replace(self._path)
            return self._path.open("r+b", buffering=0)
        except OSError as error:
            raise _failed(self._path, error) from error


def _failed(path: Path, error: OSError) -> StorageError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        hint = "Free some space and run the same command again; what was stored before is kept."
        return StorageError(f"the disk is full: {path} could not be written", hint=hint)
    hint = "Check space and permissions of the run folder and run the same command again; what was stored is kept."
    return StorageError(f"{path} could not be written: {error.strerror}", hint=hint)


def left_open(path: Path) -> dict[bytes, int]:
    """Return how often each result was begun and not stored, by the table at `path`; stored ones may be among them."""
    try:
        return dict(_marked(path.read_bytes()))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _failed(path, error) from error


def _marked(table: bytes) -> Counter[bytes]:
    left: Counter[bytes] = Counter()
    for start in range(0, len(table) - _ROW + 1, _ROW):
        if table[start]:
            left[table[start + 1 : start + _ROW]] += 1 if table[start] == ord("+") else -1
    return +left
