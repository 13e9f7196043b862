"""One writer a run folder: a lock that the operating system drops when its process dies, and that names who holds it.

The file `journal.lock` stays where it is; only the lock on it counts, so what a killed process leaves blocks nobody.
Where the system can, the folder itself is locked too: a user who deletes the file must not let a second writer in.
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

LOCK_NAME = "journal.lock"
_BUSY = {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK}

if sys.platform == "win32":
    import msvcrt

    def _take_folder(run_dir: Path) -> int | None:
        return None  # there a file that is open cannot be deleted

    def _take(descriptor: int) -> None:
        # A byte far behind the content, because Windows forbids reading a locked one.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _take_folder(run_dir: Path) -> int | None:
        """Lock the folder; None where its file system locks files only. Raises `OSError` when another has it."""
        descriptor = None
        try:
            descriptor = os.open(run_dir, os.O_RDONLY)
            _take(descriptor)
        except OSError as error:
            if descriptor is not None:
                os.close(descriptor)
            if error.errno in _BUSY and descriptor is not None:
                raise
            return None
        return descriptor


class RunLock:
    """The lock on one run folder, held from construction to `release`.

    Raises:
        LockedError: Another process, or another journal in this one, holds it.
        StorageError: The file system refuses (no permission, disk full, no locks).
    """

    def __init__(self, run_dir: Path) -> None:
        path = run_dir / LOCK_NAME
        self._folder: int | None = None
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            hint = "Give a run folder that you may write to."
            raise StorageError(f"{path} cannot be opened: {error.strerror}", hint=hint) from error
        try:
            self._hold(path)
        except BaseException:
            self._close()
            raise

    def _hold(self, path: Path) -> None:
        try:
            _take(self._descriptor)
            self._folder = _take_folder(path.parent)
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
            self._close()

    def _close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None


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
