"""The tests of the scripted teams: plain functions without fixtures, in milliseconds."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.team_lab import plain_tests
from combee.run.git import git
from combee.team.testing import check_by

__all__ = ["JUNIT", "TESTS", "check_plain_commit"]

JUNIT = "outcomes.xml"
# -S: the plain tests need nothing but the standard library, and the start takes a third of the time.
TESTS = shlex.join([sys.executable, "-I", "-S", "-B", str(Path(plain_tests.__file__)), ".", JUNIT])


def check_plain_commit(repository: Path, commit: str, *, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Run the tests of a commit, with the files of `extra` laid over it; returns errors by test, "" where passed."""
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), extra or {})
        return check_by(repository, commit, TESTS, JUNIT, beside=Path(name))


def check_plain_tree(repository: Path) -> dict[str, str]:
    """Run the tests of a work tree, with what is not committed."""
    with tempfile.TemporaryDirectory() as name:
        index = {"GIT_INDEX_FILE": str(Path(name) / "index")}
        git(repository, "add", "-A", environment=index)
        return check_plain_commit(repository, git(repository, "write-tree", environment=index).strip())


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their paths below a folder."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
