"""One writer a run folder: a lock that the operating system drops when its process dies, and that names who holds it.

The file `journal.lock` stays where it is; only the lock on it counts, so what a killed process leaves blocks nobody.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from combee.errors import LockedError, StorageError

__all__ = ["LOCK_NAME", "RunLock"]

LOCK_NAME = "journal.lock"
_BUSY = {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK}

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        # A byte far behind the content, because Windows forbids reading a locked one.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class RunLock:
    """The lock on one run folder, held from construction to `release`.

    Raises:
        LockedError: Another process, or another journal in this one, holds it.
        StorageError: The file system refuses (no permission, disk full, no locks).
    """

    def __init__(self, run_dir: Path) -> None:
        path = run_dir / LOCK_NAME
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            hint = "Give a run folder that you may write to."
            raise StorageError(f"{path} cannot be opened: {error.strerror}", hint=hint) from error
        try:
            self._hold(path)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _hold(self, path: Path) -> None:
        try:
            _take(self._descriptor)
        except OSError as error:
            if error.errno in _BUSY:
                raise _locked(path) from error
            hint = "Put the run folder on a local disk; some network file systems have no locks."
            raise StorageError(f"{path} cannot be locked: {error.strerror}", hint=hint) from error
        since = datetime.now(UTC).isoformat(timespec="seconds")
        note = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}) + "\n"
        # Who holds it is a courtesy: on a full disk the lock still counts without the note.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, note.encode("utf-8"))

    def release(self) -> None:
        """Let the next process in. May be called again."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def _locked(path: Path) -> LockedError:
    hint = (
        "Wait until it ends, or stop it; then run the same command again. Reading (show, runs, diff) works meanwhile."
    )
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        pid, host, since = int(note["pid"]), str(note["host"]), str(note["since"])
    except (OSError, ValueError, KeyError, TypeError):
        return LockedError(f"{path.parent} is in use by another process", hint=hint)
    who = f"process {pid} on {host} since {since}"
    if host == socket.gethostname():
        if pid == os.getpid():
            who, hint = f"this same process ({pid}) since {since}", "Close the first journal before you open another."
        elif not _alive(pid):
            hint = f"Process {pid} has ended, but a process that it started still holds the lock: stop that one."
    return LockedError(f"{path.parent} is in use by {who}", hint=hint)


def _alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # os.kill would end the process there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
