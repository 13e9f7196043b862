"""Run the tests of a commit in a process of its own: this executes the code that agents wrote.

Files that were never committed are not in a commit, so work left uncommitted earns nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from combee.errors import RunError
from combee.run.git import git

__all__ = ["check_by", "check_commit", "check_folder"]

_LONGEST = 600.0  # seconds that tests may take
_NOT_STARTED = (126, 127)  # what a shell says of a program that is not there


def check_by(
    repository: Path, commit: str, command: str, junit: str | None = None, *, beside: Path | None = None
) -> dict[str, str]:
    """Run a project's own test command on the files of a commit, with what the project has installed beside them.

    Folders that git ignores (`node_modules`, `.venv`, `target`) are linked in from the repository, so the command finds
    its packages there.

    Args:
        repository: The work tree.
        commit: What is tested.
        command: The command, for the shell; its exit code says whether the tests pass. One that takes too long fails.
        junit: A JUnit file that it writes, for the outcome of each test; else the command is one test.
        beside: A folder of files that are laid over those of the commit, such as tests that nobody was shown.

    Raises:
        RunError: No such commit, the command cannot be started, or it succeeded and wrote no such file.
    """
    with _laid_out(repository, commit, beside) as folder:
        _link_installed(repository, folder)
        code, said = _ended(command, folder)
        if code in _NOT_STARTED:
            raise RunError(f"The tests cannot be started: {said}", hint=f"Is {command!r} right?")
        if junit is not None and (folder / junit).is_file():
            return _junit(folder / junit)
        if junit is not None and code == 0:
            hint = "Look whether the command writes it there, from the folder of the repository."
            raise RunError(f"The tests wrote no {junit}: {said}", hint=hint)
        return {command: "" if code == 0 else said or f"exit code {code}"}


def _link_installed(repository: Path, folder: Path) -> None:
    listed = git(repository, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    for name in filter(None, listed.split("\0")):
        target = folder / name.rstrip("/")
        if not target.exists() and target.parent.is_dir():
            target.symlink_to((repository / name).resolve())


def check_commit(repository: Path, commit: str, *, beside: Path | None = None) -> dict[str, str]:
    """Run pytest on the files of a commit.

    Args:
        repository: The work tree.
        commit: What is tested.
        beside: As of `check_by`.

    Returns:
        Test name ("tests/test_a.py::test_f") to its error, empty where it passed.

    Raises:
        RunError: No such commit, or pytest could not run.
    """
    with _laid_out(repository, commit, beside) as folder:
        return check_folder(folder)


def check_folder(folder: Path) -> dict[str, str]:
    """Run pytest in a folder; as `check_commit`."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "outcomes"
        options = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", f"--junitxml={out}")
        code, said = _ended([sys.executable, "-m", "pytest", *options], folder)
        if code is None:
            return {"pytest": said}
        if not out.exists():
            raise RunError(f"pytest did not run: {said}", hint=f"Install pytest for {sys.executable}.")
        return _junit(out, by_pytest=True)


@contextmanager
def _laid_out(repository: Path, commit: str, beside: Path | None) -> Iterator[Path]:
    """Yield a folder with all files of a commit, those of `beside` over them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "files"
        # Through an index of its own, as `git archive` leaves out what is marked so.
        index = {"GIT_INDEX_FILE": str(Path(name) / "index")}
        git(repository, "read-tree", commit, environment=index)
        git(repository, "checkout-index", "--all", "--force", f"--prefix={folder}/", environment=index)
        folder.mkdir(exist_ok=True)  # of a commit without files
        for path in [] if beside is None else sorted(beside.rglob("*")):
            if path.is_file():
                _put(path, folder / path.relative_to(beside or folder), folder)
        yield folder


def _put(path: Path, target: Path, folder: Path) -> None:
    """Copy a file to its place below a folder, whatever agents have put there: a link leads nowhere else."""
    for place in (*reversed(target.relative_to(folder).parents[:-1]), target.relative_to(folder)):
        found = folder / place
        if found.is_symlink() or (found.is_file() and found != target):
            found.unlink()
    if target.is_dir():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def _ended(command: str | list[str], folder: Path) -> tuple[int | None, str]:
    """Run a command and return its exit code, None where it took too long, and the end of what it said.

    It has a group of processes of its own, so that what tests leave at work ends with them.
    """
    with (
        tempfile.TemporaryFile() as out,
        subprocess.Popen(  # noqa: S603 - the user's own command line
            command,
            shell=isinstance(command, str),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        ) as process,
    ):
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(_LONGEST)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        out.seek(0)
        said = out.read().decode("utf-8", "replace").strip()[-500:]
    return code, said if code is not None else f"took more than {_LONGEST / 60:.0f} minutes: {said}"


def _junit(path: Path, *, by_pytest: bool = False) -> dict[str, str]:
    found: dict[str, str] = {}
    for case in ET.parse(path).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it a moment ago
        place, name = case.get("classname", ""), case.get("name", "")
        if by_pytest:  # a file that cannot be imported has no class name, and its own name as that of the test
            name = f"{place.replace('.', '/')}.py::{name}" if place else f"{name.replace('.', '/')}.py"
        else:
            name = f"{place}::{name}" if place else name
        bad = case.find("failure")
        bad = bad if bad is not None else case.find("error")
        found[name] = "" if bad is None else bad.get("message", "failed")
    return found
