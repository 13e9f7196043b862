"""Standard streams that may be closed or full: what is said on the way may get lost, the work and its result may not.

A closed stream is opened on the null device, so that no file of ours takes its number; what is then written to standard
output fails, as it does on a full disk (exit code 1). Standard error takes everything, and loses what it cannot write.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["settle", "steady"]


class _Lossy(io.FileIO):
    """A file that never fails to be written: the words are lost where it is full, closed, or a pipe without reader."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write what can be written."""
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


def steady() -> None:
    """Mend this process's own streams, before anything is opened. A terminal stays as it is: it cannot be full."""
    # Standard output the wrong way round, so that writing to what was closed is an error and not silence.
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest number that is free
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    if sys.stderr is None or not sys.stderr.isatty():
        how = ("utf-8", "backslashreplace") if sys.stderr is None else (sys.stderr.encoding, sys.stderr.errors)
        lossy = io.BufferedWriter(_Lossy(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(lossy, *how, line_buffering=True)


def settle() -> None:
    """Let go of what standard output did not take: the interpreter would try again at its end, and fail with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
