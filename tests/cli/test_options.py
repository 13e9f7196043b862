"""Options of `combee learn`: few in the help, every setting by --set, and none that is taken and does nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from combee.cli import run
from combee.cli.learn import learn_command
from combee.run.methods import LearningMethod
from combee.run.settings import Settings

MODEL = "--model m --base-url http://127.0.0.1:9/v1"
FEW = ("learn", "tags", "--train", "12", "--val", "4", "--test", "2", "--batch", "6")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_help_shows_at_most_22_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "--help"]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  -")]
    assert 10 < len(shown) <= 22


def test_a_short_form_that_the_help_does_not_show_works_and_names_its_setting(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*FEW, "--no-pipeline", "--max-items", "8", "--name", "a"]) == 0
    err = capsys.readouterr().err
    assert "note: --max-items is short for --set learn.max_items=" in err
    assert "note: --pipeline is short for --set learn.pipeline=" in err
    assert run([*FEW, "--set", "learn.pipeline=false", "--set", "max_items=8", "--name", "b", "--json"]) == 0
    assert "short for" not in capsys.readouterr().err
    assert Path("runs/a/playbook.md").read_bytes() == Path("runs/b/playbook.md").read_bytes()


def test_every_option_over_a_setting_is_over_one_that_there_is() -> None:
    tables = Settings.model_fields
    for option in learn_command.params:
        table, double, key = str(option.name).partition("__")
        if double:
            assert key in tables[table].default.__class__.model_fields, option.name
            assert isinstance(option, click.Option)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--aggregate naive --max-items 16", "--max-items does nothing with aggregate naive."),
        ("--aggregate top_k --set second_chances=2", "--set second_chances=2 does nothing with aggregate top_k."),
        ("--aggregate paper --no-pipeline", "--pipeline does nothing with aggregate paper."),
        ("--aggregate summarize --set copies=3", "does nothing with aggregate summarize."),
        ("--set max_batch=9", "does nothing without batch auto."),
        ("--no-guard --guard-validate", "--guard-validate does nothing without the guard."),
        ("--format codex", "--format does nothing without traces (--from)."),
        ("--max-minutes 3", "--max-minutes does nothing without a model (--model NAME)."),
        ("--base-url http://127.0.0.1:9/v1", "--base-url does nothing without a model"),
        ("--set model.timeout=9", "--set model.timeout=9 does nothing without a model"),
        (f"{MODEL} --forget 40", "--forget does nothing with a model."),
        (
            f"{MODEL} --metric-calls 5",
            "--metric-calls does nothing with the method ace.",
        ),
        (
            f"{MODEL} --method gepa --eval-every 9",
            "--eval-every does nothing with the method gepa.",
        ),
    ],
)
def test_an_option_that_would_do_nothing_is_refused_by_name_in_a_run_and_in_a_dry_run(
    options: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ((), ("--dry-run",)):
        assert run([*FEW, *options.split(), *more]) == 2
        assert said in capsys.readouterr().err
    assert not Path("runs").exists()


@pytest.mark.parametrize("option", ["--question q", "--val 3", "--eval-every 9", "--forget 40", "--guard-validate"])
def test_options_of_tasks_are_refused_beside_traces(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]
    Path("chat.jsonl").write_text(json.dumps({"messages": lines}), encoding="utf-8")
    assert run(["learn", "--from", "chat.jsonl", *option.split()]) == 2
    assert f"{option.split(maxsplit=1)[0]} does nothing with recorded traces" in capsys.readouterr().err


def test_a_setting_of_the_file_that_does_nothing_is_said_and_the_run_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("combee.toml").write_text("[learn]\nmax_items = 8\n", encoding="utf-8")
    assert run([*FEW, "--aggregate", "naive"]) == 0
    assert "note: learn.max_items (combee.toml:2) does nothing with aggregate naive" in capsys.readouterr().err
    Path("combee.toml").write_text('[learn]\nmax_items = 8\naggregate = "naive"\n', encoding="utf-8")
    assert run([*FEW]) == 2
    assert "learn.max_items (combee.toml:2) does nothing with aggregate naive" in capsys.readouterr().err


def test_what_is_said_to_do_nothing_is_a_setting() -> None:
    naive = Settings().over({"learn": {"aggregate": "naive", "guard": False}})
    for key in LearningMethod().unused(naive):
        table, _, name = key.partition(".")
        assert name in Settings.model_fields[table].default.__class__.model_fields, key


@pytest.mark.parametrize(
    ("words", "number", "found"),
    [("combee learn --me", 2, "--method"), ("combee learn --method g", 3, "gepa"), ("combee ro", 1, "rollback")],
)
def test_a_shell_completes_options_values_and_commands(words: str, number: int, found: str) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(number), "_COMBEE_COMPLETE": "bash_complete"}
    command = [str(Path(sys.executable).with_name("combee"))]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert f"plain,{found}" in done.stdout.splitlines()
