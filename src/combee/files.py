"""Files that stand in their place whole or not at all: written beside it first, then renamed over it.

So no reader sees half a file, and what was there before is unharmed until the new one is on the disk. And files that
are read: only regular ones, since opening a pipe waits for its writer and a device may never end.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from combee.errors import DataError, StorageError, UsageError

__all__ = ["place_for", "read_regular", "real_path", "whole_file", "write_whole"]


def real_path(path: Path) -> Path:
    """Return the absolute path without links; it need not exist.

    Raises:
        DataError: A link leads in a circle, or no file can have this name.
    """
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"cannot be reached: {error}", path=path) from error


def read_regular(path: Path) -> bytes:
    """Return what is in a regular file, or in the one that a link leads to.

    Raises:
        DataError: There is none, or it is a folder, a device, a pipe or a link in a circle.
        StorageError: It is there and cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise DataError("is a folder", path=path, hint="Name a file.")
        if not stat.S_ISREG(mode):
            raise DataError("is a device or a pipe, not a file", path=path, hint="Name a file.")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DataError("there is no such file", path=path) from error
    except ValueError as error:  # a NUL in the name
        raise DataError(f"{str(path)!r} cannot be the name of a file") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise DataError("there is no such file: the name is too long", path=path) from error
        if error.errno == errno.ELOOP:
            raise DataError("is a link that leads in a circle", path=path, hint="Remove it.") from error
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error


def place_for(path: Path) -> Path:
    """Return where a file written to `path` comes to lie: to be asked before anything is paid for what goes there.

    Raises:
        UsageError: The place is a folder, a device or a pipe, or in a folder that does not exist.
        StorageError: It cannot be looked at.
    """
    try:
        target = path.resolve()
        folder_there, is_folder = target.parent.is_dir(), target.is_dir()
        is_device = target.exists() and not is_folder and not target.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # a folder not to be entered; links in a circle; a NUL
        raise StorageError(f"{path} cannot be reached: {error}") from error
    if is_folder:
        raise UsageError(f"{path} is a folder.", hint="Name a file.")
    if is_device:  # renamed over, /dev/null would be gone, for everybody
        raise UsageError(f"{path} is a device or a pipe, not a file.", hint="Name a file.")
    if not folder_there:
        raise UsageError(f"There is no folder {target.parent}.", hint="Make it first, or choose another place.")
    return target


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears at `path` when the block ends without an error, with the rights of the one before.

    A link stays: the file that it leads to is replaced. Raises as `place_for`, and:

    Raises:
        StorageError: The disk is full, or access is denied.
    """
    target = place_for(path)
    temporary = target.with_name(f".combee-{secrets.token_hex(8)}.tmp")  # short: the name itself may be at the limit
    try:
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o777)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        hint = "What was there before is unchanged. Free some space or choose another place."
        raise StorageError(f"{path} cannot be written: {error.strerror or error}", hint=hint) from error


def write_whole(path: Path, text: str) -> Path:
    """Write a text as UTF-8 in one step or not at all; return the path. Raises as `whole_file`."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))
    return path


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last through a power cut, where the system has folders that can be synced."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
