"""A run goes on from the book it began with, whatever became of the file; options that would do nothing are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from combee.cli import run
from combee.errors import UsageError
from combee.kernel.learn import LearnConfig
from combee.kernel.playbook import Bullet, Playbook, load, save


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("then", ["edited", "deleted"])
def test_a_resumed_run_keeps_the_book_it_began_with(then: str) -> None:
    start = Path("start.md")
    save(Playbook((Bullet("misc-00001", "OTHERS", "Read the unit first."),), 1), start)
    few = ["learn", "tags", "--train", "20", "--val", "2", "--test", "2", "--batch", "10", "--out", "r", "--quiet"]
    assert run([*few, "--start", "start.md"]) == 0
    before = Path("r/playbook.json").read_bytes()
    if then == "edited":
        save(Playbook((Bullet("misc-00009", "OTHERS", "Something else."),), 9), start)
    else:
        start.unlink()
    assert run(["resume", "r", "--quiet"]) == 0
    assert Path("r/playbook.json").read_bytes() == before
    assert "misc-00001" in load("r/playbook.json")


@pytest.mark.parametrize(
    "idle", [["--metric-calls", "5"], ["--max-cost", "1"], ["--prompts", "nowhere"], ["--reflection-rounds", "2"]]
)
def test_an_option_that_would_do_nothing_is_refused(idle: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "tags", *idle]) == 2
    assert "does nothing with" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_seed_that_does_not_fit_is_refused_before_anything_is_written() -> None:
    assert run(["learn", "tags", "--seed", "9" * 20]) == 2
    assert not Path("runs").exists()


FEW = ["learn", "tags", "--train", "20", "--val", "2", "--test", "2", "--batch", "10", "--quiet"]


@pytest.mark.parametrize(
    ("more", "differ"),
    [
        ([], True),  # other rows
        (["--set", "tasks.seed=0"], False),  # other groups of the same lessons: nothing is forgotten, so one book
        (["--set", "tasks.seed=0", "--forget", "5"], True),
        (["--set", "tasks.seed=0", "--set", "learn.shuffle=true"], True),
    ],
)
def test_the_seed_decides_what_its_help_says(more: list[str], differ: bool) -> None:
    books = []
    for number, seed in enumerate(("0", "1", "1")):
        assert run([*FEW, *more, "--seed", seed, "--out", f"run{number}"]) == 0
        books.append(Path(f"run{number}/playbook.json").read_bytes())
    assert books[1] == books[2]
    assert (books[0] != books[1]) is differ


def test_the_seed_of_the_settings_file_stands_where_none_is_given() -> None:
    Path("combee.toml").write_text("[tasks]\nseed = 1\n[learn]\nseed = 1\n", encoding="utf-8")
    assert run([*FEW, "--out", "by file"]) == 0
    Path("combee.toml").unlink()
    assert run([*FEW, "--seed", "1", "--out", "by option"]) == 0
    assert Path("by file/playbook.json").read_bytes() == Path("by option/playbook.json").read_bytes()


@pytest.mark.parametrize("wrong", [{"guard": "false"}, {"candidates": 5}, {"aggregate": 5}, {"seed": True}])
def test_settings_of_the_wrong_type_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        LearnConfig(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_an_export_to_the_screen_is_json_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    save(Playbook((Bullet("misc-00001", "OTHERS", "Read the unit first."),), 1), Path("b.json"))
    assert run(["export", "b.json", "--to", "prompt", "--json"]) == 0
    assert "Read the unit first." in json.loads(capsys.readouterr().out)["text"]
