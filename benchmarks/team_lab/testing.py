"""The tests of the scripted teams: plain functions without fixtures, in milliseconds."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.team_lab import plain_tests
from combee.team.testing import lay_out, run_in

__all__ = ["check_plain_commit", "check_plain_folder"]


def check_plain_commit(repository: Path, commit: str, *, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Run the tests of a commit, with the files of `extra` laid over it; returns errors by test, "" where passed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(repository, commit, folder)
        for path, text in (extra or {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        return check_plain_folder(folder)


def check_plain_folder(folder: Path) -> dict[str, str]:
    """Run the plain tests of a folder; as `check_plain_commit`."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "outcomes"
        # -S: the plain tests need nothing but the standard library, and the start takes a third of the time.
        run_in(folder, [sys.executable, "-I", "-S", "-B", plain_tests.__file__, str(folder), str(out)], (0,))
        found: dict[str, str] = json.loads(out.read_text(encoding="utf-8"))
        return found
