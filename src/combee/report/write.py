"""Put a file in place whole: beside its place first, then renamed over it, so that a reader never sees half a page."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from combee.errors import StorageError, UsageError

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> Path:
    """Write a text as UTF-8 in one step or not at all; return the path.

    Raises:
        UsageError: The place is a folder, or in a folder that does not exist.
        StorageError: The disk is full, or access is denied.
    """
    target = path.resolve()  # of a link the file is replaced, not the link
    if target.is_dir():
        raise UsageError(f"{path} is a folder.", hint="Give the name of a file.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent}.", hint="Make it first, or choose another place.")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            with temporary.open("xb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        hint = "What was there before is unchanged. Free some space or choose another place."
        raise StorageError(f"{path} cannot be written: {error.strerror or error}", hint=hint) from error
    return path
