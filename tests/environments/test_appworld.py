"""AppWorld over HTTP, against a server with the same interface; its data cannot be had, so no score was obtained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.kernel.playbook import Bullet, Playbook, save
from combee.traces.readers import read
from tests.environments.fake_appworld import Model, World, served

SECTION = "USEFUL CODE"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """A folder with four tasks of two scenarios, a world and a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AKEY", "x")
    ids = Path("datasets")
    ids.mkdir()
    (ids / "test_normal.txt").write_text("82e2fac_1\n82e2fac_2\n37a8675_1\n37a8675_2\n")
    with served(World, asked=[], ran=[]) as (url, world), served(Model, told=[]) as (endpoint, model):
        Path("combee.toml").write_text(
            f'[tasks]\nsource = "datasets"\n[environment]\nkind = "appworld"\nurl = ["{url}"]\nturns = 4\n'
            f'[model]\nname = "m"\nbase_url = "{endpoint}/v1"\napi_key_env = "AKEY"\n'
        )
        yield world, model


def score(capsys: pytest.CaptureFixture[str], *lessons: str) -> dict[str, Any]:
    bullets = tuple(Bullet(f"use-{number:05}", SECTION, text) for number, text in enumerate(lessons, 1))
    save(Playbook(bullets=bullets, high_water=len(bullets)), Path("book.json"))
    capsys.readouterr()
    assert run(["eval", "book.json", "--json"]) == 0, capsys.readouterr().err
    return dict(json.loads(capsys.readouterr().out))


def test_the_world_s_tests_give_the_verdict_and_lessons_reach_the_agent(
    place: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    world, model = place
    assert [row["hits"] for row in score(capsys, "Greet the person.")["rows"]] == [0, 0, 0, 0]
    assert {route for route, _ in world.asked} == {"initialize", "execute", "task_completed", "evaluate", "close"}
    assert "Greet the person." in model.told[0]
    found = score(capsys, "Run zebra() before you complete a task.")
    assert [row["hits"] for row in found["rows"]] == [1, 1, 1, 1]


def test_doctor_names_what_a_server_lacks(place: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    world, _ = place
    url = Path("combee.toml").read_text().split('url = ["')[1].split('"')[0]
    run(["doctor", "--appworld", url])
    assert "2 apps" in capsys.readouterr().out
    world.data = False
    run(["doctor", "--appworld", url])
    assert "the server cannot read its data" in capsys.readouterr().out
    run(["doctor", "--appworld", "http://127.0.0.1:9"])
    assert "no server answers at http://127.0.0.1:9" in capsys.readouterr().out


def test_a_server_without_data_is_said_before_anything_is_asked(
    place: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    world, model = place
    world.data = False
    save(Playbook(), Path("book.json"))
    assert run(["eval", "book.json"]) == 2
    said = capsys.readouterr().err
    assert "it has no data, or not this task" in said
    assert "appworld download data" in said
    assert model.told == []
    assert list(read(Path())) == []
