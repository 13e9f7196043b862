"""A run whose samples are worked on elsewhere is a local run: same bytes, same limits, after any kill."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import combee as door
from combee.cli import run
from combee.errors import UsageError
from combee.kernel.journal import Journal
from combee.kernel.playbook import Playbook
from combee.mock import MockServer
from tests.cli.gauges import combee, gauges_here, learn, student
from tests.workers.agents import HERE

KINDS = ["processes", pytest.param("ray", marks=pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="ray"))]
WORKERS = ("--set", "workers.count=2", "--set", "workers.in_flight=4")
PROCESSES = ("--workers", "processes", *WORKERS)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gauges_here(tmp_path, monkeypatch)
    monkeypatch.setenv(HERE, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    rows = [
        {"question": f"{word} {n}", "answer": word[::-1]}
        for n, word in enumerate(["blue", "green", "grey", "pink"] * 6)
    ]
    Path("words.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def words(agent: str, out: str, *more: str) -> tuple[str, ...]:
    named = ("--answer", "answer", "--set", f"agent.function=tests.workers.agents:{agent}", "--batch", "6")
    return ("learn", "words.jsonl", *named, "--out", out, "--quiet", *more)


def is_alive(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # of a dead one nobody waited for it is empty
    except OSError:
        return False


def book(folder: str) -> str:
    return Path(folder, "playbook.json").read_text(encoding="utf-8")


def rows(folder: str) -> list[tuple[object, ...]]:
    """All results and decisions of a run but what time decides: the delays of steps."""
    with Journal.open(Path(folder), create=False, read_only=True) as journal:
        results = [(str(address), value) for address, value in journal.results()]
        decisions = [(str(place), name) for place, name, _ in journal.decisions()]
    run = Path(folder).name
    return sorted((json.dumps(row).replace(run, "RUN"),) for row in (*results, *decisions))


@pytest.mark.parametrize("kind", KINDS)
def test_books_and_journals_are_those_of_a_local_run(kind: str) -> None:
    assert run([*words("answer", "here")]) == 0
    Path("calls").unlink()
    assert run([*words("answer", "there", "--set", f"workers.kind={kind}", *WORKERS)]) == 0
    assert book("here") == book("there")
    assert rows("here") == rows("there")
    calls = Path("calls").read_text(encoding="utf-8").split("\n")
    assert str(os.getpid()) not in {call.partition(" ")[0] for call in calls}


def test_eval_answers_on_workers_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words("answer", "a", *PROCESSES)]) == 0
    capsys.readouterr()
    Path("calls").unlink()
    assert run(["eval", "a", "--json"]) == 0
    there = json.loads(capsys.readouterr().out)["accuracy"]
    assert str(os.getpid()) not in Path("calls").read_text(encoding="utf-8")
    assert run(["resume", "a", "--workers", "local", "--quiet"]) == 0
    capsys.readouterr()
    assert run(["eval", "a", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == there


async def test_a_model_is_asked_by_workers_and_booked_here(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--out", "here", "--json")) == 0
        here = json.loads(capsys.readouterr().out)
        assert await combee(*learn(server.url, "--out", "there", "--json", *PROCESSES)) == 0
        there = json.loads(capsys.readouterr().out)
        assert server.stats.requests == 2 * here["model"]["calls"]
    assert book("here") == book("there")
    assert {key: there["model"][key] for key in ("calls", "tokens")} == {
        key: here["model"][key] for key in ("calls", "tokens")
    }


@pytest.mark.parametrize("most", [8, 11, 13])
async def test_workers_never_exceed_the_budget_of_the_run_together(
    most: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async with MockServer(reply=student()) as server:
        arguments = learn(server.url, "--out", "a", "--json", "--batch", "2", "--max-calls", str(most), *PROCESSES)
        assert await combee(*arguments) == 0
        assert json.loads(capsys.readouterr().out)["reason"] == "budget"
        assert server.stats.requests <= most
        assert server.stats.requests >= most - 2  # what is left is used, not stuck in shares
        assert await combee(*learn(server.url, "--out", "b", "--json", "--batch", "2")) == 0
        capsys.readouterr()
        before = server.stats.requests
        assert await combee("resume", "a", "--json", "--max-calls", "1000") == 0
        assert json.loads(capsys.readouterr().out)["reason"] == "completed"
    assert book("a") == book("b")
    assert server.stats.requests - before < 40


def test_a_killed_worker_is_replaced_and_the_book_is_the_same() -> None:
    assert run([*words("answer", "here")]) == 0
    assert run([*words("end_once", "there", *PROCESSES)]) == 0
    assert Path("killed").exists()
    assert [line.replace("end_once", "answer") for line in book("there").split("\n")] == book("here").split("\n")


def test_a_sample_that_ends_every_worker_ends_the_run_with_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words("end_always", "a", *PROCESSES)]) == 1
    said = capsys.readouterr().err
    assert "3 workers were lost with sample" in said
    assert "SIGKILL" in said


def test_a_killed_run_goes_on_with_other_workers_to_the_same_book() -> None:
    assert run([*words("answer_slowly", "here")]) == 0
    command = [
        sys.executable,
        "-m",
        "combee",
        *words("answer_slowly", "there", *PROCESSES),
    ]
    calls = Path("calls")
    calls.unlink()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not calls.exists() or calls.read_text(encoding="utf-8").count("\n") < 8:
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert run(["resume", "there", "--quiet", "--workers", "local"]) == 0
    assert book("here") == book("there")


def test_a_worker_ends_with_its_driver() -> None:
    command = [
        sys.executable,
        "-m",
        "combee",
        *words("answer_slowly", "a", *PROCESSES),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    calls = Path("calls")
    while not calls.exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    workers = {int(line.partition(" ")[0]) for line in calls.read_text(encoding="utf-8").splitlines()}
    deadline = time.monotonic() + 20
    while alive := {pid for pid in workers if is_alive(pid)}:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def test_a_user_mistake_is_told_before_anything_is_begun(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words("answer", "a", "--set", "workers.kind=process")]) == 2
    assert "processes" in capsys.readouterr().err


def test_doctor_looks_at_the_workers_that_the_settings_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("combee.toml").write_text('[workers]\nkind = "processes"\ncount = 3\n', encoding="utf-8")
    assert run(["doctor"]) == 0
    assert "3 processes on this machine" in capsys.readouterr().out
    Path("combee.toml").write_text('[workers]\nkind = "ray"\naddress = "127.0.0.1:9"\n', encoding="utf-8")
    assert run(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "NO  workers" in said
    assert "extra ray" in said or "There is no Ray cluster at 127.0.0.1:9" in said


def test_a_lambda_cannot_be_sent_and_the_error_says_what_can() -> None:
    def inside(question: str, playbook: Playbook) -> str:
        return "red"

    with pytest.raises(UsageError, match="cannot be sent to another process") as raised:
        door.learn("words.jsonl", agent=inside, folder="a", settings={"workers": {"kind": "processes"}})
    assert "neither a lambda" in str(raised.value)


def test_every_process_did_a_part() -> None:
    assert run([*words("answer_slowly", "a", *PROCESSES)]) == 0
    lines = Path("calls").read_text(encoding="utf-8").splitlines()
    assert len(Counter(line.partition(" ")[0] for line in lines)) == 2
