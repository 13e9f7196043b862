"""Every command that a swarm command prints can be pasted where it was printed, and works there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from combee.cli.main import run
from combee.swarm import World
from combee.swarm.config import read_swarm_file
from combee.swarm.example import DESKS, write_rehearsal
from combee.swarm.opening import running

from .test_swarm_cli import FILE

PRINTED = re.compile(r"`combee ([^`]+)`|^next:? +combee (.+)$", re.MULTILINE)
ASK = "What is the retry limit?"


@pytest.fixture(params=["plain", "a b's"])
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The present folder, with something to read in it; its name may have to be quoted, and so may the file's."""
    folder = tmp_path / str(request.param)
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "http.md").write_text("The retry limit of the HTTP client is 7 tries.\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


def printed(capsys: pytest.CaptureFixture[str], *command: str) -> list[str]:
    """Run a command and return the commands that it prints."""
    capsys.readouterr()
    run(command)
    said = "".join(capsys.readouterr())
    return [pasted or after for pasted, after in PRINTED.findall(said)]


def nothing(folder: Path) -> None:
    """An empty folder."""


def a_file(folder: Path) -> None:
    (folder / "my office.toml").write_text(FILE, encoding="utf-8")


def a_world(folder: Path) -> None:
    a_file(folder)
    assert run(["swarm", "run", "my office.toml"]) == 0


def two_worlds(folder: Path) -> None:
    a_world(folder)
    (folder / "b.toml").write_text(FILE, encoding="utf-8")
    assert run(["swarm", "run", "b.toml"]) == 0


def a_world_below(folder: Path) -> None:
    (folder / "sub dir").mkdir()
    (folder / "docs").rename(folder / "sub dir" / "docs")
    (folder / "sub dir" / "a.toml").write_text(FILE, encoding="utf-8")
    assert run(["swarm", "run", "sub dir/a.toml"]) == 0


def a_task_that_waits(folder: Path) -> None:
    a_world(folder)
    with World.open("my office.sqlite") as world, world.step():
        world.run("UPDATE mail SET answered = NULL WHERE kind = 'ask' AND sender = 'user'")


def a_silent_world(folder: Path) -> None:
    (folder / "quiet.toml").write_text('[[agents]]\nname = "ann bee"\n', encoding="utf-8")
    assert run(["swarm", "run", "quiet.toml"]) == 0


def a_copied_world(folder: Path) -> None:
    a_world(folder)
    (folder / "copy.sqlite").write_bytes((folder / "my office.sqlite").read_bytes())


def a_file_that_went_elsewhere(folder: Path) -> None:
    a_world(folder)
    (folder / "my office.toml").write_text(f'world = "new.sqlite"\n{FILE}', encoding="utf-8")


def an_empty_world(folder: Path) -> None:
    a_file(folder)
    (folder / "e.sqlite").touch()


@pytest.mark.parametrize(
    ("before", "command"),
    [
        *(
            (before, command)
            for before in (nothing, a_file, two_worlds)
            for command in ("status", "log", "traces", f"ask ann '{ASK}'")
        ),
        (two_worlds, f"ask any '{ASK}' --subject http.md --json"),
        (two_worlds, "log --last 3"),
        (nothing, "graph"),
        (a_file, f"ask any '{ASK}'"),
        (two_worlds, "graph --out 'a b.svg'"),
        (a_silent_world, "graph"),
        (a_world, f"ask any '{ASK}'"),
        (a_world_below, f"ask any '{ASK}' --world 'sub dir/a.sqlite'"),
        (an_empty_world, "status --world e.sqlite"),
        (a_file, "status --world none.sqlite"),
        (a_copied_world, f"ask ann '{ASK}' --world copy.sqlite"),
        (a_file_that_went_elsewhere, f"ask ann '{ASK}'"),
        (a_task_that_waits, "run 'my office.toml'"),
    ],
)
def test_a_printed_command_runs(
    here: Path, capsys: pytest.CaptureFixture[str], before: Callable[[Path], None], command: str
) -> None:
    before(here)
    found = printed(capsys, "swarm", *shlex.split(command))
    assert found
    assert [run(shlex.split(one)) for one in found] == [0] * len(found)


def test_a_running_world_says_what_works_meanwhile(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_world(here)
    with running(read_swarm_file(here / "my office.toml")) as swarm:
        swarm.world.flush()  # as it does whenever it waits
        busy = printed(capsys, "swarm", "run", "my office.toml")
        assert [run(shlex.split(one)) for one in busy] == [0]
        queued = printed(capsys, "swarm", "ask", "ann", ASK)
    assert len(queued) == 2
    assert [run(shlex.split(one)) for one in queued] == [0, 0]


def test_what_was_learned_is_shown_by_the_command_that_is_printed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rehearsal(here / "r s", desks=DESKS[:1])
    found = printed(capsys, "swarm", "learn", "r s/swarm.toml", "--rounds", "1", "--quiet")
    assert [run(shlex.split(one)) for one in found] == [0]
