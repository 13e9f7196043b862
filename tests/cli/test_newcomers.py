"""What somebody meets in the first hour: a model that is named is used, and each refusal says what to do there."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import combee
from combee.cli import run
from combee.cli.doctor import EXTRAS
from combee.kernel.journal import Journal
from combee.mock import MockConfig, MockServer
from combee.run.functions import AgentFunction
from combee.run.settings import Settings
from combee.run.spec import SPEC_KEY
from tests.cli.gauges import FILE, gauges_here, student
from tests.cli.gauges import combee as typed


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gauges_here(tmp_path, monkeypatch)


def write_settings(url: str, more: str = "") -> None:
    text = (
        f'{more}\n[tasks]\nsource = "{FILE}"\ntrain = 6\nval = 2\ntest = 2\n[model]\nname = "m"\nbase_url = "{url}"\n'
    )
    Path("combee.toml").write_text(text, encoding="utf-8")


async def test_a_model_that_the_file_names_is_called_without_a_word_on_the_kind_of_agent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with MockServer(reply=student()) as server:
        write_settings(server.url)
        assert await typed("learn", "--name", "one", "--json") == 0
        assert json.loads(capsys.readouterr().out)["model"]["calls"] > 6
        asked = server.stats.to_json()["requests"]
        write_settings(server.url, '[agent]\nkind = "lexical"')
        assert await typed("learn", "tags", "--set", "train=9", "--set", "val=2", "--set", "test=2", "--quiet") == 0
        assert server.stats.to_json()["requests"] == asked
        assert await typed("learn", "--max-cost", "1") == 2
    assert '--max-cost does nothing with kind = "lexical" in [agent].' in capsys.readouterr().err


def test_a_model_table_without_a_name_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("combee.toml").write_text('[model]\nbase_url = "http://127.0.0.1:9/v1"\n', encoding="utf-8")
    assert run(["learn", "tags", "--set", "train=9", "--set", "val=2", "--set", "test=2", "--name", "one"]) == 0
    assert "note: model.base_url (combee.toml:2) does nothing without a model" in capsys.readouterr().err


def test_a_run_that_an_older_version_began_without_its_model_goes_on_without_it() -> None:
    write_settings("http://127.0.0.1:9/v1", '[agent]\nkind = "lexical"')
    sizes = ("--set", "train=9", "--set", "val=2", "--set", "test=2")
    assert run(["learn", "tags", *sizes, "--name", "old", "--quiet"]) == 0
    with Journal.open(Path("runs/old")) as journal:
        kept = Settings.from_json(journal.meta(SPEC_KEY)).to_json()
        journal.set_meta(SPEC_KEY, {**kept, "agent": {}})
    assert run(["resume", "old", "--quiet"]) == 0


def test_doctor_says_what_an_endpoint_without_a_model_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert run(["doctor"]) == 1
    assert "OPENAI_BASE_URL is set, but no model is named\n    Give --model NAME" in capsys.readouterr().out
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert run(["doctor"]) == 0


@pytest.mark.parametrize("options", [("--answer", "question"), ("--question", "answer"), ("--set", "tasks.id=answer")])
def test_a_column_is_not_both_what_is_asked_and_its_answer(
    options: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["learn", FILE, *options]) == 2
    said = capsys.readouterr().err
    assert ("as both" in said) or ("no column is called" in said), said


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1", "/v1/chat/completions was called."),
        ("", "try http://127.0.0.1:{port}/v1."),
        ("/v1/beta", "/v1/beta/chat"),
    ],
)
async def test_where_no_chat_endpoint_is_the_address_that_was_called_is_named(
    path: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with MockServer(MockConfig(like="azure")) as server:
        host = server.url.split("/")[2]
        options = ("--model", "m", "--base-url", f"http://{host}{path}", "--quiet")
        assert await typed("learn", FILE, *options) == 1
    said = capsys.readouterr().err
    assert hint.format(port=host.partition(":")[2]) in said
    assert "usually ends" not in said


def test_a_run_with_a_function_of_a_program_says_how_the_program_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    def agent(question: str, playbook: combee.Playbook) -> str:
        return "x"

    rows = [(f"Is {n} odd?", str(n % 2)) for n in range(20)]
    result = combee.learn(rows, agent=agent, folder="runs/own")
    for command in ("resume", "eval"):
        assert run([command, "own"]) == 2
        assert "combee.resume(FOLDER, agent=...)" in capsys.readouterr().err
    assert combee.resume("runs/own", agent=agent).playbook == result.playbook


def test_a_program_is_told_of_calls_and_not_of_options() -> None:
    def agent(question: str, playbook: combee.Playbook) -> str:
        raise OSError("the tool is down")

    rows = [(f"Is {n} odd?", str(n % 2)) for n in range(20)]
    with pytest.raises(combee.RunError) as caught:
        combee.learn(rows, agent=agent, folder="runs/down", settings={"learn": {"attempts": 1}})
    assert "combee.resume('runs/down', agent=...)" in str(caught.value)
    assert "combee resume" not in str(caught.value)
    with pytest.raises(combee.UsageError) as refused:
        combee.learn(rows, max_cost=2)
    assert "budget.max_cost (combee) does nothing without a model." in str(refused.value)


def test_a_result_shows_itself_in_a_line() -> None:
    result = combee.learn([(f"Is {n} odd?", "odd" if n % 2 else "even") for n in range(40)])
    assert repr(result).startswith("Result(completed, score=")
    assert len(repr(result)) < 200


@pytest.mark.parametrize("agent", [lambda question: "a", lambda question, playbook, tools: "a"])
def test_a_function_that_cannot_be_called_is_refused_before_anything_is_written(agent: AgentFunction) -> None:
    rows = [(f"Is {n} odd?", str(n % 2)) for n in range(20)]
    with pytest.raises(combee.UsageError, match="cannot be called with a question and a playbook"):
        combee.learn(rows, agent=agent, folder="runs/none")
    assert not Path("runs/none").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["learn", "."], "Recorded runs of agents are read with `combee learn --from FOLDER`"),
        (["learn", FILE, "--model", "m"], "--base-url URL"),
        (["export", "--to"], "requires an argument"),
        (["export"], "Choose from: skill, agents, cursor, prompt, json, ace"),
    ],
)
def test_a_refusal_says_what_to_do(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert says in capsys.readouterr().err


def test_a_bullet_that_is_not_there_leads_to_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "tags", "--train", "10", "--val", "0", "--test", "2", "--name", "few", "--quiet"]) == 0
    assert run(["why", "few", "nothing-like-it"]) == 2
    assert "`combee show` prints them all" in capsys.readouterr().err


def test_eval_says_what_is_scored_before_the_score(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", FILE, "--name", "own", "--quiet"]) == 0
    capfd.readouterr()
    done = subprocess.run(
        [sys.executable, "-m", "combee", "eval", "own"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        timeout=100,
    )
    assert done.stdout.startswith("note: ")


def test_doctor_looks_for_every_extra() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(EXTRAS) == set(project["project"]["optional-dependencies"])
