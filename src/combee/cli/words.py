"""Numbers in sentences, and the name under which a command can be typed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

__all__ = ["counted", "program", "typed", "with_program"]

_NAMED = re.compile(r"`combee(?= [a-z])")


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


def typed(*words: object) -> str:
    """Return a command that can be pasted: `typed("show", folder)` names the program as the user's shell finds it."""
    return shlex.join([program(), *map(str, words)])


def with_program(message: str) -> str:
    """Return a message in which every `combee ...` in backticks can be pasted: the library knows only its own name."""
    name = shlex.quote(program())
    return _NAMED.sub(lambda _: f"`{name}", message)
