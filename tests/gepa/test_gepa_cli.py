"""`combee learn --method gepa`: the commands of any run, and a kill costs no more than what was in flight."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.kernel.journal import Journal
from combee.kernel.playbook import load
from combee.mock import MockConfig, MockServer, parse_latency
from tests.gepa import scripts
from tests.gepa.scripts import Both, rows

ROWS = 24
AT_ONCE = 4


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return rows(tmp_path / "gauges.jsonl", ROWS)


def learning(url: str, name: str, *more: str) -> list[str]:
    return scripts.learning(url, name, "--max-in-flight", str(AT_ONCE), *more)


async def combee(*arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "combee", *arguments, stdout=pipe, stderr=pipe)


async def finished(process: asyncio.subprocess.Process) -> dict[str, Any]:
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    return found


async def test_a_run_has_a_book_events_and_a_report_like_any_other(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with MockServer(reply=Both(source)) as server:
        assert await asyncio.to_thread(run, learning(server.url, "a")) == 0
        told = json.loads(capsys.readouterr().out)
        paid = server.stats.paid
        assert await asyncio.to_thread(run, ["eval", "runs/a", "--split", "train", "--json"]) == 0
        accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    assert (told["reason"], told["calls"]["bought_again"]) == ("completed", 0)
    assert accuracy == told["validation"]["hits"] / told["validation"]["total"] > 0.3
    assert len(load(Path("runs/a/playbook.json"))) == told["bullets"] > 0
    page = (source.parent / "runs/a/report.html").read_text(encoding="utf-8")
    assert all(said in page for said in ("Search (gepa)", "Lineage", "Pareto front", "accepted, now #1"))
    with Journal.open(Path("runs/a"), create=False, read_only=True) as journal:
        kinds = Counter(event.kind for event in journal.events())
        assert len(list(journal.calls())) == paid
        assert journal.labels().keys() == {"best", "last", "stable"}
        ends = [event.data for event in journal.events() if event.kind == "GepaFinished"]
    assert kinds["GepaCandidate"] == kinds["Validated"] >= 2
    assert kinds["GepaProposal"] == kinds["StepFinished"] == 4
    assert kinds["RunFinished"] == 1
    assert [end["iterations"] for end in ends if isinstance(end, dict)] == [kinds["GepaIteration"]]


async def test_a_killed_run_takes_the_same_path_and_buys_only_what_was_in_flight(source: Path) -> None:
    both = Both(source)
    async with MockServer(MockConfig(latency=parse_latency("0.03")), both) as server:
        await finished(await combee(*learning(server.url, "whole")))
        paid = server.stats.paid
        both.asked.clear()
        process = await combee(*learning(server.url, "cut"))
        await both.reached(paid // 2)
        process.kill()
        await process.communicate()
        await asyncio.sleep(0.1)
        await finished(await combee("resume", "runs/cut", "--json"))
    assert load(source.parent / "runs/cut/playbook.json") == load(source.parent / "runs/whole/playbook.json")
    assert len(both.asked) == paid  # the same questions as without a kill
    assert sum(both.asked.values()) - paid <= 2 * AT_ONCE  # in flight, or paid in the last 20 ms
    stories = []
    for name in ("whole", "cut"):
        with Journal.open(Path("runs") / name, create=False, read_only=True) as journal:
            told = [event for event in journal.events() if event.kind in {"GepaCandidate", "GepaProposal", "GepaFront"}]
        stories.append([(event.kind, _without_seconds(event.data)) for event in told])
    assert stories[0] == stories[1]


def _without_seconds(data: object) -> object:
    if isinstance(data, dict):
        return {name: _without_seconds(part) for name, part in data.items() if name != "seconds"}
    return data


async def test_a_budget_ends_the_run_with_its_best_book_and_more_goes_on(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with MockServer(reply=Both(source)) as server:
        assert await asyncio.to_thread(run, learning(server.url, "a", "--max-calls", "60")) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["reason"] == "budget"
        assert server.stats.paid <= 60
        assert await asyncio.to_thread(run, ["resume", "runs/a", "--max-calls", "500", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["reason"] == "completed"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "gepa"], "needs a model"),
        (["--method", "gepa", "--aggregate", "top_k", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"], "top_k"),
        (["--method", "gepper"], "gepper"),
    ],
)
def test_what_has_no_meaning_is_refused(
    source: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["learn", "gauges.jsonl", *options]) == 2
    assert said in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_scorer_is_called_with_answers_that_were_given_and_no_others(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be a judge that costs money, or take the last word of an answer without looking whether there is one."""
    code = "def last_word(task, answer):\n    return answer.split()[-1] == task.target\n"
    (source.parent / "gepa_last_word.py").write_text(code, encoding="utf-8")

    async def whole() -> int:
        async with MockServer(reply=Both(source)) as server:
            return await asyncio.to_thread(run, learning(server.url, "a", "--scorer", "gepa_last_word:last_word"))

    assert asyncio.run(whole()) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "completed"


def test_a_dry_run_says_what_the_run_takes_at_most(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*learning("http://127.0.0.1:9/v1", "a"), "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out) == {"iterations": 4, "rollouts": 180, "reflection_calls": 8}
