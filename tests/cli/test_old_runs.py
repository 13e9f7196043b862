"""A run folder of an earlier version opens, and a run it left in the middle ends as that version would have ended it.

`interrupted_run.sql` is the journal of such a run: format 1, names of that time, killed in the second of two steps.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from combee.cli import run
from combee.kernel.journal import JOURNAL_NAME, Journal

STORED = 17  # results of the first step
ALL = 34
LAST = "b950826f7adb63cce63bd1638a863a8dd878668a07bef344a3fdf90dd2ea6f6a"
"""The last playbook as the earlier version made it when nothing stopped it."""


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "old"
    folder.mkdir()
    with closing(sqlite3.connect(folder / JOURNAL_NAME)) as connection:
        connection.executescript((Path(__file__).parent / "interrupted_run.sql").read_text(encoding="utf-8"))
    return folder


@pytest.mark.parametrize("command", ["show old", "versions old", "why old ctx-00001", "report old"])
def test_an_old_run_is_read(old: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command.split()) == 0, capsys.readouterr().err


def test_an_old_run_that_was_killed_ends_as_it_would_have(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resume", "old", "--quiet"]) == 0, capsys.readouterr().err
    with Journal.open(old, create=False, read_only=True) as journal:
        assert journal.labels()["last"] == LAST
        assert sum(1 for _ in journal.results()) == ALL, "what was stored is found under the addresses of today"
        assert [event.data["verdict"] for event in journal.events("GuardJudged") if isinstance(event.data, dict)] == [
            "accept",
            "accept",
        ]


def test_the_old_file_is_brought_up_to_date_once(old: Path) -> None:
    with Journal.open(old, create=False) as journal:
        assert sum(1 for _ in journal.results()) == STORED
    with closing(sqlite3.connect(old / JOURNAL_NAME)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] > 1
