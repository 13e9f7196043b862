"""Git as Combee calls it: the program itself, no configuration of the user, errors with what git said."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from combee.errors import RunError

_PLAIN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_TIMEOUT = 60.0  # seconds


def git(repository: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run one git command and return what it wrote.

    Raises:
        RunError: git is missing, failed, or took more than a minute.
    """
    done = _run(repository, arguments, environment)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise RunError(f"git {arguments[0]} failed in {repository}: {said}", hint="Is this a git repository?")
    return done.stdout.decode("utf-8", "replace")


def git_or_none(repository: Path, *arguments: str) -> str | None:
    """Run one git command; None where it failed."""
    done = _run(repository, arguments, None)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _inherited() -> dict[str, str]:
    """Return the environment without what would lead git elsewhere, as it does where a hook starts us."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def _run(
    repository: Path, arguments: tuple[str, ...], environment: Mapping[str, str] | None
) -> subprocess.CompletedProcess[bytes]:
    # Paths are meant as they are written: an agent's `*` is a name, no pattern.
    command = ["git", "-C", str(repository), "--literal-pathspecs", "-c", "core.quotePath=false", *arguments]
    try:
        return subprocess.run(  # noqa: S603 - a fixed program, arguments as a list
            command,
            env={**_inherited(), **_PLAIN, **(environment or {})},
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"git {arguments[0]} could not run: {error}", hint="Install git 2.38 or later.") from error
