"""`combee eval RUN held.csv` scores every row of a file, with the agent of the run, and needs no training rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import combee as combee_package
from combee.cli import run
from combee.mock import MockServer
from tests.cli.gauges import combee, gauges_here, learn, student


def rows(name: str, count: int, first: int = 0) -> None:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        pairs = [(f"Which desk takes case {n} of {name}?", f"D{n % 3}") for n in range(first, first + count)]
        csv.writer(file).writerows([("question", "answer"), *pairs])


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, Any]]:
    monkeypatch.chdir(tmp_path)
    rows("train.csv", 30)
    assert run(["learn", "train.csv", "--train", "20", "--val", "4", "--test", "6", "--name", "one", "--quiet"]) == 0

    def made(*arguments: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert run(["eval", *arguments, "--json"]) == code
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return made


@pytest.mark.parametrize("count", [1, 2, 131])
def test_every_row_of_a_file_is_scored_whatever_the_sizes_of_the_run(
    call: Callable[..., dict[str, Any]], count: int
) -> None:
    rows("held.csv", count)
    found = call("one", "held.csv")
    assert (found["total"], found["split"]) == (count, "all")
    assert call("runs/one/playbook.json", "held.csv")["total"] == count
    assert not call("one", "held.csv", "--dry-run").get("error")


def test_rows_that_were_learned_are_counted_and_a_file_that_changed_is_said(
    call: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", "one"]) == 0
    assert "learned from" not in capsys.readouterr().err
    Path("copy.csv").write_bytes(Path("train.csv").read_bytes())
    with Path("copy.csv").open("a", encoding="utf-8") as file:
        file.write("Another case?,D1\n")
    assert run(["eval", "one", "copy.csv"]) == 0
    assert "note: 20 of these 31 tasks were learned from" in capsys.readouterr().err
    Path("copy.csv").replace("train.csv")
    assert run(["eval", "one"]) == 0
    assert "train.csv has changed since it was learned from" in capsys.readouterr().err


def test_a_split_or_a_size_that_is_asked_for_is_cut_as_before(call: Callable[..., dict[str, Any]]) -> None:
    rows("held.csv", 100)
    assert call("one", "held.csv", "--split", "test")["total"] == 20
    assert (found := call("one", "held.csv", "--test", "7"))["total"] == 7
    assert found["split"] == "test"


def test_of_the_file_that_was_learned_from_only_the_test_rows_are_scored(
    call: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("one", "train.csv")["total"] == 6
    assert run(["eval", "one", "./train.csv"]) == 0
    assert "note: ./train.csv is what was learned from: only its test tasks are scored" in capsys.readouterr().err


def test_what_was_learned_from_is_known_by_its_content(
    call: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("copy.csv").write_bytes(b"\xef\xbb\xbf" + Path("train.csv").read_bytes().replace(b"\r\n", b"\n"))
    assert (copied := call("one", "copy.csv"))["total"] == 6
    assert copied["split"] == "test"
    assert combee_package.evaluate("one", "copy.csv").total == 6
    held = Path("train.csv").read_text(encoding="utf-8").splitlines()
    Path("train.csv").write_text("\n".join([held[0], *(f"New {row}" for row in held[1:10])]), encoding="utf-8")
    assert (changed := call("one", "train.csv"))["total"] == 9
    assert changed["split"] == "all"
    assert run(["eval", "one", "train.csv"]) == 0
    assert "note: train.csv has changed since it was learned from" in capsys.readouterr().err


def test_rows_that_a_program_learned_from_are_known_too(call: Callable[..., dict[str, Any]]) -> None:
    pairs = [(f"Is {n} odd?", "odd" if n % 2 else "even") for n in range(40)]
    result = combee_package.learn(pairs)
    assert (combee_package.evaluate(result, pairs).split, combee_package.evaluate(result, pairs[:9]).split) == (
        "test",
        "all",
    )


def test_a_folder_without_a_training_file_is_scored(call: Callable[..., dict[str, Any]]) -> None:
    Path("folder").mkdir()
    rows("folder/test.csv", 9)
    assert call("one", "folder")["total"] == 9


async def test_the_file_is_answered_by_the_model_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gauges_here(tmp_path, monkeypatch)
    held = [{"question": f"What is the reading of gauge G-{n:03d}?", "answer": str(100 + n)} for n in range(4)]
    await_write = "\n".join(map(json.dumps, held))
    (tmp_path / "held.jsonl").write_text(await_write, encoding="utf-8")
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--name", "a")) == 0
        before = server.stats.requests
        capsys.readouterr()
        assert await combee("eval", "a", "held.jsonl", "--json") == 0
        assert server.stats.requests == before + 8
    assert json.loads(capsys.readouterr().out)["total"] == 4
