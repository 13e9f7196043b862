"""Runs that are damaged, foreign, or made without the command line: named errors, never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from combee.cli import run
from combee.kernel.journal import Journal
from combee.run.folders import all_runs

Told = Callable[[Sequence[str]], tuple[int, dict[str, object]]]

COMMANDS = [
    ["show", "it"],
    ["versions", "it"],
    ["eval", "it"],
    ["report", "it"],
    ["why", "it", "ctx-00001"],
    ["diff", "it", "one"],
    ["gate", "it", "--baseline", "last"],
    ["forget", "it", "--trace", "train-00001"],
    ["promote", "it", "last"],
    ["rollback", "it"],
    ["refine", "it"],
    ["resume", "it"],
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run, `one`."""
    where = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        sizes = ["--train", "30", "--val", "10", "--test", "10", "--batch", "15"]
        assert run(["learn", "tags", *sizes, "--name", "one", "--quiet"]) == 0
    return where


@pytest.fixture
def it(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a copy of the run, to be damaged."""
    monkeypatch.chdir(project)
    folder = project / "runs" / "it"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(project / "runs" / "one", folder)
    return folder


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Run a command with `--json`; return its exit code and the error that it gave as JSON."""

    def tell(arguments: Sequence[str]) -> tuple[int, dict[str, object]]:
        capsys.readouterr()
        code = run([*arguments, "--json"])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        value = json.loads(out)
        return code, value.get("error", {}) if isinstance(value, dict) else {}

    return tell


def sql(folder: Path, *statements: str, values: tuple[str, ...] = ()) -> None:
    with closing(sqlite3.connect(folder / "journal.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement, values)
        connection.commit()


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize(
    ("content", "code"), [(b"no SQLite at all" * 90, 1), (b"SQLite format 3\0" + b"\xff" * 5000, 1), (None, 2)]
)
def test_a_journal_that_is_none(it: Path, told: Told, arguments: list[str], content: bytes | None, code: int) -> None:
    for path in it.iterdir():
        path.unlink()
    if content is None:
        sql(it, "CREATE TABLE theirs (a)")  # the file of another program
    else:
        (it / "journal.sqlite").write_bytes(content)
    found, error = told(arguments)
    assert (found, str(error["kind"]) in {"StorageError", "UsageError"}) == (code, True)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_journal_of_a_newer_combee(it: Path, told: Told, arguments: list[str]) -> None:
    sql(it, "PRAGMA user_version=99")
    code, error = told(arguments)
    assert code == 2
    assert "newer Combee" in str(error["message"])


@pytest.mark.parametrize("kept", [None, "5", '{"zz": 1}', '{"tasks": 5}', '{"learn": [1]}'])
@pytest.mark.parametrize("arguments", [["eval", "it"], ["gate", "it", "--baseline", "last"], ["resume", "it"]])
def test_settings_that_are_not_there_or_not_settings(
    it: Path, told: Told, arguments: list[str], kept: str | None
) -> None:
    if kept is None:
        sql(it, "DELETE FROM meta WHERE key='spec'")
    else:
        sql(it, "UPDATE meta SET value=? WHERE key='spec'", values=(kept,))
    code, error = told(arguments)
    assert code == (2 if kept is None else 1)
    assert error["kind"] == ("UsageError" if kept is None else "StorageError")


def test_one_damaged_run_does_not_hide_the_others(it: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql(it, "UPDATE events SET data='{}'")
    assert run(["runs", "--json"]) == 0
    rows = {row["run"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["one"]["reason"] == "completed"
    assert "damaged" in rows["it"]["reason"]


@pytest.mark.parametrize("root", ["nowhere", "runs/one/playbook.json"])
def test_the_folder_of_runs_must_be_one(it: Path, told: Told, root: str) -> None:
    assert told(["runs", root])[0] == 2


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_value_of_another_shape_is_no_traceback(it: Path, told: Told, arguments: list[str]) -> None:
    sql(it, "UPDATE events SET data='5'", "UPDATE decisions SET value='{}'")
    assert told(arguments)[0] in {0, 1, 2}


def test_whoever_looks_for_a_fault_gets_the_traceback(it: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql(it, "UPDATE events SET data='5'")
    assert run(["versions", "it"]) == 1
    monkeypatch.setenv("COMBEE_TRACEBACK", "1")
    with pytest.raises(TypeError):
        run(["versions", "it"])


def test_report_says_where_it_lies_as_json(it: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "it", "--out", "page.html", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"written": "page.html"}


def test_a_run_that_was_killed_before_it_began_does_not_block_its_name(project: Path, told: Told) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        Journal.open(project / "runs" / "early").close()
        assert told(["resume", "early"])[0] == 2
        sizes = ["--train", "10", "--val", "0", "--test", "5"]
        assert told(["learn", "tags", *sizes, "--name", "early"]) == (0, {})
        assert told(["learn", "tags", *sizes, "--name", "early"])[0] == 2


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_run_that_is_closed_to_us_is_named_not_hidden(it: Path, told: Told) -> None:
    it.chmod(0)
    try:
        code, error = told(["show", "it"])
        assert (code, error["kind"]) == (1, "StorageError")
        assert "it" in [folder.name for folder in all_runs()]
    finally:
        it.chmod(0o755)
