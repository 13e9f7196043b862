"""Files that stand in their place whole or not at all: written beside it first, then renamed over it.

So no reader sees half a file, and what was there before is unharmed until the new one is on the disk.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from combee.errors import StorageError, UsageError

__all__ = ["whole_file", "write_whole"]


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears at `path` when the block ends without an error, with the rights of the one before.

    A link stays: the file that it leads to is replaced.

    Raises:
        UsageError: The place is a folder, a device or a pipe, or in a folder that does not exist.
        StorageError: The disk is full, or access is denied.
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
