"""Run the tests of a commit or a folder in a process of its own: this executes the code that agents wrote.

Files that were never committed are not in a commit, so work left uncommitted earns nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

from combee.errors import RunError
from combee.swarm.git import git
from combee.swarm.team import plain_tests

__all__ = ["check_commit", "check_folder"]


def check_commit(
    repository: Path, commit: str, *, extra: Mapping[str, str] | None = None, pytest: bool = False
) -> dict[str, str]:
    """Run the tests of a commit, with the files of `extra` laid over it.

    Returns:
        Test name ("tests/test_a.py::test_f") to its error, empty where it passed.

    Raises:
        RunError: No such commit, the tests took more than a minute, or pytest could not run them.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _lay_out(repository, commit, folder)
        for path, text in (extra or {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        return check_folder(folder, pytest=pytest)


def _lay_out(repository: Path, commit: str, folder: Path) -> None:
    """Write all files of a commit; through an index of its own, as `git archive` leaves out what is marked so."""
    with tempfile.TemporaryDirectory() as name:
        index = {"GIT_INDEX_FILE": str(Path(name) / "index")}
        git(repository, "read-tree", commit, environment=index)
        git(repository, "checkout-index", "--all", "--force", f"--prefix={folder}/", environment=index)


def check_folder(folder: Path, *, pytest: bool = False) -> dict[str, str]:
    """Run the tests of a folder; as `check_commit`."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "outcomes"
        if pytest:
            options = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", f"--junitxml={out}")
            said = _run([sys.executable, "-m", "pytest", *options], folder, (0, 1, 5))  # 5: there are no tests
            if not out.exists():
                hint = f"Install pytest for {sys.executable}."
                raise RunError(f"pytest did not run: {said[-500:]}", hint=hint)
            return _junit(out)
        # -S: the plain tests need nothing but the standard library, and the start takes a third of the time.
        _run([sys.executable, "-I", "-S", "-B", plain_tests.__file__, str(folder), str(out)], folder, (0,))
        found: dict[str, str] = json.loads(out.read_text(encoding="utf-8"))
        return found


def _run(command: list[str], folder: Path, good: tuple[int, ...]) -> str:
    """Run a program in a folder and return what it said."""
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


def _junit(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for case in ET.parse(path).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it a moment ago
        place, name = case.get("classname", ""), case.get("name", "")
        # A file that cannot be imported has no class name, and its own name as that of the test.
        name = f"{place.replace('.', '/')}.py::{name}" if place else f"{name.replace('.', '/')}.py"
        bad = case.find("failure")
        bad = bad if bad is not None else case.find("error")
        found[name] = "" if bad is None else bad.get("message", "failed")
    return found
