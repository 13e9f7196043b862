"""Each file has a world of its own; what older versions made is gone on with; who can be asked is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from combee.cli.main import run
from combee.swarm import World
from combee.swarm.config import read_swarm_file
from combee.swarm.files import run_by, worlds_in

from .test_swarm_cli import FILE

ASK = "What is the retry limit?"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, with something to read in it."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "http.md").write_text("The retry limit of the HTTP client is 7 tries.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, top: str = "", *, ann: str = "ann") -> Path:
    text = FILE.replace('"ann"', f'"{ann}"')
    path.write_text(f"{top}\n{text}", encoding="utf-8")
    return path


def made_by_an_older_version(folder: Path, name: str) -> Path:
    """The world that a file without `world` had once: swarm.sqlite, whatever the file is called."""
    file = write(folder / name)
    assert run(["swarm", "run", name]) == 0
    read_swarm_file(file).world.rename(folder / "swarm.sqlite")
    return file


def agents(world: str) -> list[str]:
    with World.open(world, read_only=True) as opened:
        return [agent.name for agent in opened.agents() if agent.mode != "outside"]


def test_two_files_of_one_folder_have_two_worlds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "day.toml", ann="dora")
    write(here / "night.toml", ann="nick")
    write(here / "swarm.toml", ann="sam")
    for name in ("day", "night", "swarm"):
        assert run(["swarm", "run", f"{name}.toml"]) == 0
    assert [path.name for path in worlds_in(here)] == ["day.sqlite", "night.sqlite", "swarm.sqlite"]
    assert [agents(f"{name}.sqlite")[0] for name in ("day", "night", "swarm")] == ["dora", "nick", "sam"]
    capsys.readouterr()
    assert run(["swarm", "status"]) == 2
    assert "several worlds here: day.sqlite, night.sqlite, swarm.sqlite" in capsys.readouterr().err


def test_the_only_world_of_a_folder_need_not_be_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "notes.sqlite").write_text("not a world", encoding="utf-8")
    write(here / "office.toml")
    assert run(["swarm", "run", "office.toml"]) == 0
    for command in (["status"], ["log"], ["ask", "ann", ASK], ["traces"], ["graph"]):
        assert run(["swarm", *command]) == 0
    assert "retry limit" in capsys.readouterr().out


def test_a_world_of_an_older_version_is_gone_on_with_by_its_file_alone(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_by_an_older_version(here, "office.toml")
    capsys.readouterr()
    assert run(["swarm", "run", "office.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["handled"] == 0
    assert run(["swarm", "ask", "ann", ASK]) == 0
    write(here / "night.toml", ann="nick")
    assert run(["swarm", "run", "night.toml"]) == 0
    assert agents("night.sqlite") == ["nick", "wes"]
    assert agents("swarm.sqlite") == ["ann", "wes"]
    assert run_by(here / "swarm.sqlite") == "office.toml"


def test_a_world_that_another_file_runs_is_joined_only_when_that_is_written(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_by_an_older_version(here, "office.toml")
    write(here / "swarm.toml", ann="sam")
    before = agents("swarm.sqlite")
    assert run(["swarm", "run", "swarm.toml"]) == 2
    said = capsys.readouterr().err
    assert "is the world of office.toml" in said
    assert 'world = "NAME.sqlite" into swarm.toml' in said
    assert agents("swarm.sqlite") == before
    write(here / "swarm.toml", 'world = "swarm.sqlite"', ann="sam")
    assert run(["swarm", "run", "swarm.toml"]) == 0
    assert "swarm.sqlite was run by office.toml before" in capsys.readouterr().err
    assert agents("swarm.sqlite") == [*before, "sam"]


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_a_folder_can_be_moved_and_copied_with_its_world(
    here: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    home, other = here / "home", here / "other"
    home.mkdir()
    (here / "docs").rename(home / "docs")
    write(home / "office.toml")
    assert run(["swarm", "run", "home/office.toml"]) == 0
    if how == "moved":
        home.rename(other)
    else:
        shutil.copytree(home, other)
    capsys.readouterr()
    assert run(["swarm", "ask", "ann", ASK, "--world", "other/office.sqlite"]) == 0
    assert "7 tries" in capsys.readouterr().out
    assert run(["swarm", "run", "other/office.toml"]) == 0


def test_what_other_swarms_keep_in_the_folder_is_no_document(here: Path) -> None:
    text = FILE.replace('folder = "docs"', 'folder = "."').replace('reads = ["http.md"]', 'reads = ["docs/http.md"]')
    (here / "tasks.jsonl").write_text('{"question": "@ann limit?", "answer": "7"}\n' * 5, encoding="utf-8")
    for name in ("a.toml", "b.toml"):
        (here / name).write_text(f"{text}[learn]\ntasks = 'tasks.jsonl'\nrounds = 1\n", encoding="utf-8")
        assert run(["swarm", "learn", name, "--quiet"]) == 0
    with World.open("b.sqlite", read_only=True) as world:
        found = [path for (path,) in world.rows("SELECT DISTINCT path FROM artefacts ORDER BY path")]
    assert found == ["a.toml", "b.toml", "docs/http.md", "tasks.jsonl"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["any", ASK], ["no subject is named", "--subject http.md"]),
        (["any", ASK, "--subject", "htp.md"], ["nobody has read 'htp.md'", "Did you mean 'http.md'"]),
        (["", ASK], ["there is no agent ''"]),
        (["an", ASK], ["there is no agent 'an'", "Did you mean 'ann'"]),
        (["an", ASK, "--subject", "http.md"], ["there is no agent 'an'"]),  # a slip is not answered by somebody else
        (["user", ASK], ["there is no agent 'user'"]),
        (["ann", " "], ["the question says nothing"]),
        (["wes", ASK], ["wes is dead", "Live: ann"]),
    ],
)
def test_who_cannot_be_asked_is_said_and_nothing_is_sent(
    here: Path, capsys: pytest.CaptureFixture[str], asked: list[str], says: list[str]
) -> None:
    write(here / "office.toml")
    assert run(["swarm", "run", "office.toml"]) == 0
    with World.open("office.sqlite") as world:
        world.set_state("wes", "dead", "stopped")
        before = world.rows("SELECT count(*) FROM mail")
    assert run(["swarm", "ask", *asked]) == 2
    err = capsys.readouterr().err
    assert [one for one in says if one not in err] == []
    with World.open("office.sqlite", read_only=True) as world:
        assert world.rows("SELECT count(*) FROM mail") == before


def test_any_asks_who_knows_best_unless_somebody_is_called_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "office.toml")
    assert run(["swarm", "run", "office.toml"]) == 0
    assert run(["swarm", "ask", "any", ASK, "--subject", "http.md", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["answer"]["from"].startswith("ann~")
    write(here / "named.toml", ann="any")
    assert run(["swarm", "run", "named.toml"]) == 0
    capsys.readouterr()
    assert run(["swarm", "ask", "any", ASK, "--world", "named.sqlite"]) == 0
    assert "7 tries" in capsys.readouterr().out


def test_any_is_not_asked_where_nobody_has_read_anything(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "quiet.toml").write_text('[[agents]]\nname = "ann"\n', encoding="utf-8")
    assert run(["swarm", "run", "quiet.toml"]) == 0
    assert run(["swarm", "ask", "any", ASK]) == 2
    assert "Ask one by name: ann" in capsys.readouterr().err
