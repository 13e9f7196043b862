"""AppWorld over HTTP, against a server with the same interface; its data cannot be had, so no score was obtained."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.environments.acting import Verdicts
from combee.environments.appworld import AppWorld
from combee.kernel.learn import Evaluation, Rollout, Task
from combee.kernel.playbook import Bullet, Playbook, load, save
from combee.traces.readers import read
from tests.environments.fake_appworld import LESSON, Model, World, served

SECTION = "USEFUL CODE"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """A folder with four tasks of two scenarios, a world and a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AKEY", "x")
    ids = Path("datasets")
    ids.mkdir()
    (ids / "test_normal.txt").write_text("82e2fac_1\n82e2fac_2\n37a8675_1\n37a8675_2\n")
    with (
        served(World, asked=[], ran=[]) as (url, world),
        served(Model, told=[], again=threading.Event()) as (endpoint, model),
    ):
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


def test_completion_counts_tasks_and_whole_scenarios_also_by_difficulty() -> None:
    said = {
        "82e2fac_1": "1 (3 of 3 tests, difficulty 1)",
        "82e2fac_2": "1 (3 of 3 tests, difficulty 1)",
        "37a8675_1": "1 (2 of 2 tests, difficulty 2)",
        "37a8675_2": "0 (1 of 2 tests, difficulty 2)",
    }
    tasks = [Task(name, "", "1") for name in said]
    scores = {name: Verdicts()(Task(name, "", "1"), answer) for name, answer in said.items()}
    found = Evaluation(scores, {}, {name: Rollout(name, answer) for name, answer in said.items()})
    assert AppWorld().summary(tasks, found) == [
        "all tasks (4 in 2 scenarios): TGC 75.0, SGC 50.0, mean 62.5",
        "difficulty 1 (2 in 1 scenarios): TGC 100.0, SGC 100.0, mean 100.0",
        "difficulty 2 (2 in 1 scenarios): TGC 50.0, SGC 0.0, mean 25.0",
    ]


@pytest.mark.parametrize(("method", "scores"), [("ace", [False, False]), ("gepa", [False, False, True, True])])
def test_what_a_model_did_there_becomes_a_lesson_that_the_next_tasks_get(
    place: tuple[Any, Any], capsys: pytest.CaptureFixture[str], method: str, scores: list[bool]
) -> None:
    Path("datasets/train.txt").write_text("5238296_1\n5238296_2\n")
    words = ["learn", "--method", method, "--batch", "2", "--name", "one", "--quiet", "--price", "1/1"]
    assert run(words) == 0, capsys.readouterr().err
    assert [bullet.text for bullet in load(Path("runs/one/playbook.json"))] == [LESSON]
    records = list(read(Path("runs/one/trials")))
    assert sorted(bool(record.outcome.success) for record in records if record.outcome) == scores
    (asked,) = [said for said in place[1].told if '\\"operations\\"' in said]
    assert "trials/" not in asked  # what is reflected on is the record, not its place
    capsys.readouterr()
    assert run(["eval", "one", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["accuracy"], found["without_playbook"]) == (1.0, 0.0)
    assert found["summary"][0] == "all tasks (4 in 2 scenarios): TGC 100.0, SGC 100.0, mean 100.0"


def test_after_a_kill_no_reply_is_bought_again_and_its_code_is_run_again(
    place: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    world, model = place
    Path("datasets/train.txt").write_text("5238296_1\n")
    model.most = 1  # the second reply of the only task is on its way when the process is killed
    process = subprocess.Popen([sys.executable, "-m", "combee", "learn", "--name", "one", "--quiet"])
    for _ in range(600):
        if len(model.told) == 2:
            break
        time.sleep(0.05)
    time.sleep(0.1)  # the journal's window of 20 ms
    process.kill()
    process.wait()
    assert [route for route, _ in world.asked].count("execute") == 1
    model.most, before = 10**9, len(model.told)
    model.again.set()
    assert run(["resume", "runs/one", "--quiet"]) == 0, capsys.readouterr().err
    assert [route for route, _ in world.asked].count("execute") == 1 + 2  # both blocks, in a fresh world
    turns = [told for told in model.told[before:] if "You do a task for a person" in told]
    assert len(turns) == 1  # the first block came from the journal


def test_a_world_that_fails_is_asked_again_and_scores_nothing(
    place: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    world, _ = place
    world.failing = 1
    assert [row["hits"] for row in score(capsys, "Run zebra() before you complete a task.")["rows"]] == [1, 1, 1, 1]
    world.failing = 10**9
    save(Playbook(), Path("book.json"))
    assert run(["eval", "book.json", "--json"]) == 1
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert len(errors) == 4
    assert all("/evaluate" in said for said in errors.values())
