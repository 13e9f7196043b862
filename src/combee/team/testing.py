"""Run the tests of a commit in a process of its own: this executes the code that agents wrote.

Files that were never committed are not in a commit, so work left uncommitted earns nothing.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

from combee.errors import RunError
from combee.run.git import git

__all__ = ["check_by", "check_commit", "check_folder", "lay_out", "run_in"]


_LONGEST = 600.0  # seconds that tests may take


def check_by(repository: Path, commit: str, command: str, junit: str | None = None) -> dict[str, str]:
    """Run a project's own test command on the files of a commit, with what the project has installed beside them.

    Folders that git ignores (`node_modules`, `.venv`, `target`) are linked in from the repository, so the command finds
    its packages there.

    Args:
        repository: The work tree.
        commit: What is tested.
        command: The command, for the shell; its exit code says whether the tests pass.
        junit: A JUnit file that it writes, for the outcome of each test; else the command is one test.

    Raises:
        RunError: No such commit, it took too long, or wrote no such file.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(repository, commit, folder)
        _link_installed(repository, folder)
        try:
            done = subprocess.run(  # noqa: S602 - the user's own command line
                command, shell=True, cwd=folder, capture_output=True, text=True, errors="replace", timeout=_LONGEST,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise RunError(f"The tests took more than {_LONGEST / 60:.0f} minutes.", hint="Look for a loop.") from error
        said = (done.stdout + done.stderr).strip()[-500:]
        if junit is None:
            return {command: "" if done.returncode == 0 else said or f"exit code {done.returncode}"}
        if not (folder / junit).is_file():
            hint = "Look whether the command writes it there, from the folder of the repository."
            raise RunError(f"The tests wrote no {junit}: {said}", hint=hint)
        return _junit(folder / junit)


def _link_installed(repository: Path, folder: Path) -> None:
    listed = git(repository, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    for name in filter(None, listed.split("\0")):
        target = folder / name.rstrip("/")
        if not target.exists() and target.parent.is_dir():
            target.symlink_to((repository / name).resolve())


def check_commit(repository: Path, commit: str) -> dict[str, str]:
    """Run pytest on the files of a commit.

    Returns:
        Test name ("tests/test_a.py::test_f") to its error, empty where it passed.

    Raises:
        RunError: No such commit, the tests took more than a minute, or pytest could not run them.
    """
    with tempfile.TemporaryDirectory() as name:
        lay_out(repository, commit, Path(name))
        return check_folder(Path(name))


def check_folder(folder: Path) -> dict[str, str]:
    """Run pytest in a folder; as `check_commit`."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "outcomes"
        options = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", f"--junitxml={out}")
        said = run_in(folder, [sys.executable, "-m", "pytest", *options], (0, 1, 5))  # 5: there are no tests
        if not out.exists():
            raise RunError(f"pytest did not run: {said[-500:]}", hint=f"Install pytest for {sys.executable}.")
        return _junit(out, by_pytest=True)


def lay_out(repository: Path, commit: str, folder: Path) -> None:
    """Write all files of a commit; through an index of its own, as `git archive` leaves out what is marked so."""
    with tempfile.TemporaryDirectory() as name:
        index = {"GIT_INDEX_FILE": str(Path(name) / "index")}
        git(repository, "read-tree", commit, environment=index)
        git(repository, "checkout-index", "--all", "--force", f"--prefix={folder}/", environment=index)


def run_in(folder: Path, command: list[str], good: tuple[int, ...]) -> str:
    """Run a program in a folder and return what it said.

    Raises:
        RunError: It took more than a minute, or ended with another code than the good ones.
    """
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter, arguments as a list
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RunError("The tests took more than a minute.", hint="Look for a loop that does not end.") from error
    said = (done.stderr or done.stdout).strip()
    if done.returncode not in good:
        raise RunError(f"The tests could not be run: {said[-500:]}")
    return said


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
