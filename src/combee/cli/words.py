"""Numbers in sentences, and the name under which a command can be typed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

__all__ = ["counted", "program"]


def counted(number: int, noun: str) -> str:
    """Return `1 run`, `2 runs`, `1,000 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def program() -> str:
    """Return `combee` where the shell finds it, else the path by which this process was started."""
    started = Path(sys.argv[0])
    if started.name != "combee" or not started.is_file():  # `python -m combee`, or a program that imports us
        return "combee"
    found = shutil.which("combee")
    if found is not None and Path(found).resolve() == started.resolve():
        return "combee"
    shown = os.path.relpath(started)
    return str(started) if shown.startswith("..") else shown
