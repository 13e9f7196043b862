"""A swarm on a slow endpoint that is stopped, killed, or begun while the endpoint is down: nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.bench_kill_swarm import described
from benchmarks.desk_server import desk_server
from combee.cli.main import run
from combee.kernel.journal import JSON, Journal
from combee.swarm import World
from combee.swarm.example import DESKS, write_rehearsal


def learn(file: Path, *, until: Callable[[], bool] | None = None, how: signal.Signals = signal.SIGKILL) -> int:
    """Run the command as a process; end it when something holds."""
    command = [sys.executable, "-m", "combee", "swarm", "learn", str(file), "--rounds", "2", "--json"]
    environment = {**os.environ, "OPENAI_API_KEY": "k-1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if until is not None:
        while not until() and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(how)
    return process.wait()


def questions(file: Path) -> int:
    """Return how many questions were put to the swarm."""
    with World.open(file.parent / "swarm.sqlite", read_only=True) as world:
        return int(world.rows("SELECT count(*) FROM mail WHERE kind = 'ask' AND sender = 'user'")[0][0])


@pytest.mark.timeout(120)
def test_killed_and_stopped_on_a_slow_endpoint_it_comes_to_the_same_book(tmp_path: Path) -> None:
    with desk_server() as desk:
        file = described(tmp_path / "r", desk)
        assert learn(file) == 0
        whole = (file.parent / "learned" / "playbook.json").read_bytes()
        shutil.rmtree(file.parent / "learned")
        (file.parent / "swarm.sqlite").unlink()
        before = desk.asked
        assert learn(file, until=lambda: desk.asked > before + 30) == -signal.SIGKILL  # while the start is scored
        assert list((file.parent / "swarm.sqlite.lock").glob("held-out-*"))  # in a copy, which nobody took away
        assert learn(file, until=lambda: questions(file) >= 20, how=signal.SIGINT) == 130  # in the first round
        assert learn(file, until=lambda: questions(file) > 30) == -signal.SIGKILL  # in the second
        with World.open(file.parent / "swarm.sqlite", read_only=True) as world:
            assert world.rows("SELECT 1 FROM mail WHERE state = 'queued'")  # questions that nobody has read
        desk.bare = 0
        assert learn(file) == 0
        assert (file.parent / "learned" / "playbook.json").read_bytes() == whole
        assert not list((file.parent / "swarm.sqlite.lock").glob("held-out-*"))
        assert desk.bare == 0  # every question of the second round came with its lessons


def test_begun_while_the_endpoint_is_down_it_is_done_when_it_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    with desk_server() as desk:
        file = described(tmp_path / "r", desk)
        text, question = file.read_text(encoding="utf-8"), "Look into the fees: what holds for case 1?"
        file.write_text(f'{text}\n[task]\nto = "billing"\nquestion = "{question}"\n', encoding="utf-8")
        desk.down = True
        assert run(["swarm", "run", str(file), "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert (told["reason"], told["answer"], told["waiting"]) == ("outage", None, 1)
        assert "401" in told["detail"]
        assert run(["swarm", "learn", str(file), "--rounds", "1", "--json", "--quiet"]) == 1
        assert "same command goes on" in capsys.readouterr().err
        desk.down = False
        assert run(["swarm", "run", str(file), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["reason"], told["answer"]["kind"]) == ("completed", "answer")
        assert run(["swarm", "learn", str(file), "--rounds", "1", "--json", "--quiet"]) == 0
        row = json.loads(capsys.readouterr().out)["rounds"][0]
    assert row["training"][1] == 30  # each task was scored
    assert questions(file) == 31  # and each was asked once
    with World.open(file.parent / "swarm.sqlite", read_only=True) as world:
        assert world.rows("SELECT count(*) FROM mail WHERE kind = 'report'") == [(0,)]


def test_killed_between_the_facts_of_its_begin_a_run_has_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_rehearsal(tmp_path / "r", desks=DESKS[:1])
    kept: list[str] = []

    def keep(journal: Journal, key: str, value: JSON) -> None:
        if kept:
            raise KeyboardInterrupt
        kept.append(key)
        set_meta(journal, key, value)

    set_meta = Journal.set_meta
    with monkeypatch.context() as killed:
        killed.setattr(Journal, "set_meta", keep)
        assert run(["swarm", "learn", str(file), "--rounds", "1", "--quiet"]) == 130
    assert run(["swarm", "learn", str(file), "--rounds", "1", "--quiet"]) == 0
    with Journal.open(file.parent / "learned", create=False, read_only=True) as journal:
        assert str(journal.meta("swarm-run")).startswith("learn-")
