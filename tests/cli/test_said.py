"""What commands say to somebody new: names that can be typed, dates, one figure an epoch, the right order of words."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from combee.cli import run
from combee.cli.words import program


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


FEW = ("learn", "tags", "--train", "20", "--val", "0", "--test", "2", "--batch", "10")


def test_training_has_one_figure_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*FEW, "--epochs", "2", "--name", "two"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("training"))
    first, second = map(float, re.findall(r"\d\.\d{3}", line))
    assert first < second
    assert run([*FEW, "--name", "one"]) == 0
    assert f"training   {first:.3f} before learning from each sample\n" in capsys.readouterr().out


def test_runs_stand_in_the_order_of_their_last_change_and_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("z", "a"):
        assert run([*FEW, "--name", name, "--quiet"]) == 0
    capsys.readouterr()
    assert run(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines] == ["z", "a"]
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d  ", line) for line in lines)


def test_the_built_in_tasks_are_not_learned_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == 0
    assert run(["learn", *FEW[2:], "--name", "unasked"]) == 0
    assert "note: nothing was named to learn from" in capsys.readouterr().err
    assert run([*FEW, "--name", "asked"]) == 0
    assert "nothing was named" not in capsys.readouterr().err


def test_eval_of_a_file_of_tasks_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my.jsonl").write_text(json.dumps({"question": "q", "answer": "a"}), encoding="utf-8")
    assert run(["eval", "my.jsonl"]) == 2
    assert "eval takes RUN [TASKS]" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="makes a command by a link")
def test_a_command_that_the_shell_does_not_find_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Path("bin/combee")
    started.parent.mkdir()
    started.write_text("#!/bin/sh\n", encoding="utf-8")
    started.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(started), "demo"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == "bin/combee"
    monkeypatch.setenv("PATH", str(started.parent.resolve()))
    assert program() == "combee"


def test_a_benchmark_is_found_under_both_of_its_names() -> None:
    root = Path(__file__).parents[2]
    for name in ("bench_nothing", "nothing"):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", name], cwd=root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "There is no benchmark nothing." in done.stderr
