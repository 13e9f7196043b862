"""Which results were being bought when a process died: a small file of keys, written before each purchase.

A key that was begun, did not fail, and has no stored result was lost in flight or in the last commit window; when it is
bought again, it is counted. Records have 17 bytes: `+` (begun) or `-` (failed), and the key.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path

from combee.errors import StorageError

__all__ = ["PURCHASES_NAME", "Purchases"]

PURCHASES_NAME = "journal.open"
_RECORD = 17
_COMPACT = 65_536  # records after which the file is written anew with only what is open


class Purchases:
    """The open purchases of a run; `lost` are those that an earlier process left open."""

    def __init__(self, run_dir: Path, stored: Callable[[bytes], bool]) -> None:
        self._path = run_dir / PURCHASES_NAME
        self._lock = threading.Lock()
        self._lost = frozenset(key for key in _left_open(self._path) if not stored(key))
        self._open: set[Hashable] = set(self._lost)
        self._records = 0
        self._descriptor = -1
        self._rewrite()

    @property
    def lost(self) -> int:
        """How many results an earlier process had begun to buy and could not store."""
        return len(self._lost)

    def was_lost(self, key: bytes) -> bool:
        """Return whether an earlier process had begun to buy this result and could not store it."""
        return key in self._lost

    def begin(self, key: bytes) -> None:
        """Note that a purchase begins."""
        with self._lock:
            self._open.add(key)
            self._append(b"+" + key)
            if self._records >= max(_COMPACT, 2 * len(self._open)):
                self._rewrite()

    def fail(self, key: bytes) -> None:
        """Note that a purchase gave nothing to store."""
        with self._lock:
            self._open.discard(key)
            # Who calls has a failure of its own to report; one key too many in the list is a smaller matter.
            with suppress(StorageError):
                self._append(b"-" + key)

    def stored(self, keys: list[Hashable]) -> None:
        """Note that results are on disk. Costs no write: a key with a stored result is never counted as lost."""
        with self._lock:
            self._open.difference_update(keys)

    def close(self) -> None:
        """Leave only what is still open in the file. May be called again."""
        with self._lock:
            if self._descriptor < 0:
                return
            try:
                self._rewrite()
            finally:
                os.close(self._descriptor)
                self._descriptor = -1

    def _append(self, record: bytes) -> None:
        self._records += 1
        try:
            os.write(self._descriptor, record)
        except OSError as error:
            raise _failed(self._path, error) from error

    def _rewrite(self) -> None:
        data = b"".join(b"+" + key for key in self._open if isinstance(key, bytes))
        fresh = self._path.with_name(self._path.name + ".new")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
            try:
                os.write(descriptor, data)
                fresh.replace(self._path)
            except OSError:
                os.close(descriptor)
                raise
        except OSError as error:
            raise _failed(self._path, error) from error
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor
        self._records = len(self._open)


def _failed(path: Path, error: OSError) -> StorageError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        hint = "Free some space and run the same command again; what was stored before is kept."
        return StorageError(f"the disk is full: {path} could not be written", hint=hint)
    hint = "Check space and permissions of the run folder and run the same command again; what was stored is kept."
    return StorageError(f"{path} could not be written: {error.strerror}", hint=hint)


def _left_open(path: Path) -> set[bytes]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise _failed(path, error) from error
    left: set[bytes] = set()
    for start in range(0, len(data) - _RECORD + 1, _RECORD):
        key = data[start + 1 : start + _RECORD]
        if data[start] == ord("+"):
            left.add(key)
        else:
            left.discard(key)
    return left
