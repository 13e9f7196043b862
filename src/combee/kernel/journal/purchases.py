"""Which results were being bought when a process died: a small file of keys, written before each purchase.

A key that was begun, did not fail, and has no stored result was lost in flight or in the last commit window, and may
have been paid for. When it is bought again, whoever keeps the books asks `lost_before` and books it at what the second
purchase takes: that costs nothing before. Records have 17 bytes: `+` (begun) or `-` (one begin undone), and the key.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from combee.errors import StorageError

__all__ = ["LOSS", "PURCHASES_NAME", "Loss", "Purchases", "left_open", "lost_before"]

PURCHASES_NAME = "journal.open"
_RECORD = 17
_COMPACT = 65_536  # records after which the file is written anew with only what is open; or twice as many as those


@dataclass(slots=True)
class Loss:
    """A purchase that earlier processes began `times` times and could not store; `booked` once somebody counted it."""

    times: int
    booked: bool = False


LOSS: ContextVar[Loss | None] = ContextVar("loss", default=None)
"""The loss behind the purchase that is under way in this context; `BoundScope.once` sets it."""


def lost_before() -> Loss | None:
    """Return the loss behind the purchase that is under way here, where earlier processes may have paid for it too.

    None once it is booked: another try, or another call of the same purchase, is none of theirs.
    """
    loss = LOSS.get()
    return None if loss is None or loss.booked else loss


class Purchases:
    """The open purchases of a run; `lost` are those that earlier processes left open."""

    def __init__(self, run_dir: Path, stored: Callable[[bytes], bool]) -> None:
        self._path = run_dir / PURCHASES_NAME
        self._lock = threading.Lock()
        self._lost = {key: Loss(times) for key, times in left_open(self._path).items() if not stored(key)}
        # How often each is begun and not stored; a purchase killed twice may have been paid for twice.
        self._open: dict[Hashable, int] = {key: loss.times for key, loss in self._lost.items()}
        self._records = self._compact_at = 0
        self._descriptor = -1
        self._rewrite()

    @property
    def lost(self) -> int:
        """How many results earlier processes had begun to buy and could not store."""
        return len(self._lost)

    def loss(self, key: bytes) -> Loss | None:
        """Return what earlier processes lost of this result, or None."""
        return self._lost.get(key)

    def begin(self, key: bytes) -> Loss | None:
        """Note that a purchase begins; return what earlier processes lost of it."""
        with self._lock:
            self._open[key] = self._open.get(key, 0) + 1
            self._append(b"+" + key)
            if self._records >= self._compact_at:
                self._rewrite()
        loss = self._lost.get(key) if self._lost else None
        return None if loss is None or loss.booked else loss

    def fail(self, key: bytes) -> None:
        """Note that a purchase gave nothing to store. What was lost before stays open until somebody booked it."""
        with self._lock:
            loss = self._lost.get(key)
            undone = self._open.get(key, 0) if loss is None or loss.booked else 1
            self._open[key] = self._open.get(key, 0) - undone
            if self._open[key] <= 0:
                del self._open[key]
            # Who calls has a failure of its own to report; one key too many in the list is a smaller matter.
            with suppress(StorageError):
                self._append((b"-" + key) * undone)

    def stored(self, keys: list[Hashable]) -> None:
        """Note that results are on disk. Costs no write: a key with a stored result is never counted as lost."""
        with self._lock:
            for key in keys:
                self._open.pop(key, None)

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
        data = b"".join((b"+" + key) * times for key, times in self._open.items() if isinstance(key, bytes))
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
        self._records = len(data) // _RECORD
        self._compact_at = max(_COMPACT, 2 * self._records)


def _failed(path: Path, error: OSError) -> StorageError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        hint = "Free some space and run the same command again; what was stored before is kept."
        return StorageError(f"the disk is full: {path} could not be written", hint=hint)
    hint = "Check space and permissions of the run folder and run the same command again; what was stored is kept."
    return StorageError(f"{path} could not be written: {error.strerror}", hint=hint)


def left_open(path: Path) -> dict[bytes, int]:
    """Return how often each result was begun and not undone, by the list at `path`; stored ones may be among them."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _failed(path, error) from error
    left: Counter[bytes] = Counter()
    for start in range(0, len(data) - _RECORD + 1, _RECORD):
        left[data[start + 1 : start + _RECORD]] += 1 if data[start] == ord("+") else -1
    return {key: times for key, times in left.items() if times > 0}
