"""Numbers in sentences, and the name under which a command can be typed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

_NAMED = re.compile(r"`combee(?= [a-z])")


def counted(number: int, noun: str) -> str:
    """Return `1 run`, `2 runs`, `1,000 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def program() -> str:
    """Return how this process was started, as text for a shell: `combee` where the shell finds it, else by its path."""
    started = Path(sys.argv[0])
    if started.parts[-2:] == ("combee", "__main__.py"):
        found = shutil.which("python")  # a link of a virtual environment: its target is another Python
        return f"{'python' if found == sys.executable else _shown(sys.executable)} -m combee"
    if started.name != "combee" or not started.is_file():  # a program that imports us
        return "combee"
    found = shutil.which("combee")
    return "combee" if found is not None and Path(found).resolve() == started.resolve() else _shown(started)


def _shown(path: str | Path) -> str:
    """Return the shorter of the path from here and the whole one, quoted."""
    short = os.path.relpath(path)
    return shlex.quote(os.path.abspath(path) if short.startswith("..") else short)  # noqa: PTH100 - no link is followed


def typed(*words: object) -> str:
    """Return a command that can be pasted: `typed("show", folder)` names the program as the user's shell finds it."""
    return f"{program()} {shlex.join(map(str, words))}"


def with_program(message: str) -> str:
    """Return a message in which every `combee ...` in backticks can be pasted: the library knows only its own name."""
    name = program()
    return _NAMED.sub(lambda _: f"`{name}", message)
