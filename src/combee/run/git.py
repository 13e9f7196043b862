"""Git as Combee calls it: the program itself, no configuration of the user, errors with what git said."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from combee.errors import RunError

_PLAIN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_TIMEOUT = 60.0  # seconds
_GRACE = 5.0  # seconds that a git that took too long has to end


def git(repository: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run one git command and return what it wrote.

    Raises:
        RunError: git is missing, failed, or took more than a minute.
    """
    done = run_git(repository, *arguments, environment=environment)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise RunError(f"git {arguments[0]} failed in {repository}: {said}", hint="Is this a git repository?")
    return done.stdout.decode("utf-8", "replace")


def git_or_none(repository: Path, *arguments: str) -> str | None:
    """Run one git command; None where it failed."""
    done = run_git(repository, *arguments)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def inherited() -> dict[str, str]:
    """Return the environment without what would lead git elsewhere, as it does where a hook starts us."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def run_git(
    repository: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run one git command and return its exit code and what it wrote.

    Raises:
        RunError: git is missing, or took more than a minute.
    """
    # Paths are meant as they are written: an agent's `*` is a name, no pattern.
    command = ["git", "-C", str(repository), "--literal-pathspecs", "-c", "core.quotePath=false", *arguments]
    try:
        with subprocess.Popen(  # noqa: S603 - a fixed program, arguments as a list
            command,
            env={**inherited(), **_PLAIN, **(environment or {})},
            stdin=subprocess.DEVNULL,  # ours may be a pipe that others speak over
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a terminal that is closed tears no checkout in two
        ) as process:
            try:
                out, said = process.communicate(timeout=_TIMEOUT)
            except BaseException:
                process.terminate()  # told to end, git takes its locks away; killed, it would leave them
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE)
                process.kill()
                raise
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:  # ValueError: a zero byte
        raise RunError(f"git {arguments[0]} could not run: {error}", hint="Install git 2.38 or later.") from error
    return subprocess.CompletedProcess(command, process.returncode, out, said)
