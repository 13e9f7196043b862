"""What lies where a world should be, and values in it that no run has written: said by every command, and ended."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from combee.cli.main import run
from combee.run.git import git
from combee.swarm import PolicyModel, Repository, Swarm, World

from .test_abuse import answer, once, results

LOOKING = (["status"], ["log", "o.toml"], ["graph"], ["traces"])
WORKING = (["ask", "ann", "And?"], ["run", "o.toml"], ["revive", "ann"], ["retry"])


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a described swarm, which is the present one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("The limit is 5 tries.\n", encoding="utf-8")
    (tmp_path / "o.toml").write_text(
        '[documents]\nfolder = "docs"\n[[agents]]\nname = "ann"\nreads = ["a.md"]\n'
        '[task]\nto = "ann"\nquestion = "What is the limit of tries?"\n',
        encoding="utf-8",
    )
    return tmp_path


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "no file"),
        (lambda world: world.mkdir(), "cannot be a world"),
        (lambda world: world.symlink_to(world.name), "o.sqlite"),
        (lambda world: world.symlink_to("/dev/zero"), "no file"),
        (lambda world: world.symlink_to("/dev/full"), "no file"),
    ],
)
@pytest.mark.timeout(20)
def test_what_is_no_file_is_no_world_and_nothing_waits_for_it(
    office: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None], said: str
) -> None:
    make(office / "o.sqlite")
    for command in (["run", "o.toml"], ["status", "o.toml"], ["log", "o.sqlite"], ["ask", "ann", "?"], ["retry"]):
        assert run(["swarm", *command]) in {1, 2}, command
        told = capsys.readouterr().err
        assert "unexpected" not in told
        assert said in told or command[0] != "run"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE mail SET body = x'ff00'",
        "UPDATE mail SET tried = 'nonsense'",
        "UPDATE mail SET tokens = 'many'",
        "UPDATE context SET calls = '{'",
        "UPDATE agents SET window = 'wide'",
        "INSERT INTO events (kind, agent, data, at) VALUES ('spawned', 'ann', '[]', 1)",
        "UPDATE artefacts SET version = 'new'",
        """INSERT INTO structures (data, author, why, state, at) VALUES ('{"edgds": []}', 'a', 'b', 'kept', 1)""",
        "INSERT INTO lessons VALUES ('x', '{\"book\": 5}')",
    ],
)
def test_a_value_that_cannot_stand_in_its_column_is_damage(
    office: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    assert run(["swarm", "run", "o.toml"]) == 0
    assert run(["swarm", "status"]) == 0
    with closing(sqlite3.connect(office / "o.sqlite")) as database, database:
        database.execute(change)
    table = change.split()[change.split(maxsplit=1)[0] == "UPDATE" or 2]
    for command in (*LOOKING, *WORKING):
        capsys.readouterr()
        assert run(["swarm", *command]) == 1, command
        assert f"is damaged: a row of the table {table}" in capsys.readouterr().err


def test_a_link_that_leads_to_itself_is_said_to_the_agent_and_ends_no_run(tmp_path: Path, world: World) -> None:
    place = tmp_path / "repo"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    (place / "l.md").symlink_to("l.md")
    git(place, "add", "-A")
    git(place, "-c", "user.name=u", "-c", "user.email=u@x.invalid", "commit", "-q", "-m", "start")
    tries = once(("read", {"path": "l.md"}), ("write", {"path": "l.md", "text": "x"}))
    swarm = Swarm(world, {"": PolicyModel(tries)}, repository=Repository.at(place))
    world.spawn("ann", mode="serial")
    assert answer(swarm, "try", "ann") == "answer: done"
    assert all("error" in text and "l.md" in text for text in results(world, "ann"))
