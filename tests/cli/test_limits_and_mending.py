"""What a limit refuses before anything is paid, in each command that pays; how a run with a wrong setting goes on."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.kernel.journal import Journal
from combee.kernel.playbook import Bullet, Playbook, save
from combee.mock import MockConfig, MockServer, parse_latency
from combee.redaction import to_jsonl
from combee.run.rows import interval
from combee.traces.mining import vote_trace
from tests.cli.gauges import SPLIT, combee, gauges_here, learn, student


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gauges_here(tmp_path, monkeypatch)


def write(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def there(name: str) -> bool:
    return Path(name).exists()


@pytest.mark.parametrize("limit", [("--max-cost", "0.004"), ("--max-calls", "13"), ("--max-tokens", "5000")])
async def test_what_a_dry_run_refuses_is_refused_by_the_run_and_nothing_is_paid(
    limit: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    async with MockServer(reply=student()) as server:
        command = learn(server.url, "--price", "0.28/0.42", "--name", "a", *limit)
        assert await combee(*command, "--dry-run") == 2
        refused = capsys.readouterr().err
        assert re.match(r"error: one step takes about \$?[\d.,]+.*, more than max_", refused)
        assert await combee(*command) == 2
        assert capsys.readouterr().err == refused
        assert server.stats.requests == 0
    assert not there("runs")


@pytest.mark.parametrize("method", ["ace", "gepa"])
def test_minutes_are_not_refused_by_a_guess_of_how_fast_an_endpoint_is(method: str) -> None:
    write("combee.toml", "[budget.reflector]\nmax_minutes = 0.01\n")
    more = ("--method", "gepa", "--metric-calls", "20") if method == "gepa" else ()
    assert run([*learn("http://127.0.0.1:9/v1", "--max-minutes", "0.01", *more), "--dry-run"]) == 0


async def test_a_limit_of_one_role_is_held_against_its_part_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    write("combee.toml", "[budget.reflector]\nmax_calls = 5\n")
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url)) == 2
        assert "[budget.reflector]: one step takes about 6 calls" in capsys.readouterr().err
        assert server.stats.requests == 0


async def test_eval_and_gate_hold_the_limits_of_the_folder_and_say_what_they_took(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--name", "a", "--max-calls", "40", "--price", "1/2")) == 0
        with Journal.open(Path("runs/a"), create=False, read_only=True) as journal:
            first = journal.versions()[0].digest[:12]
        paid = server.stats.requests
        for command in (("eval", "a"), ("gate", "a", "--baseline", first)):
            capsys.readouterr()
            assert await combee(*command, "--dry-run") == 0
            assert "4 answers to score 2 playbooks." in capsys.readouterr().out
            assert await combee(*command, "--max-calls", "3") == 2
            assert await combee(*command, "--max-cost", "0.001") == 2
            write("combee.toml", "[budget]\nmax_calls = 3\n")
            assert await combee(*command) == 2
            assert "this command takes about 4 calls, more than max_calls = 3" in capsys.readouterr().err
            write("combee.toml", "")
        assert server.stats.requests == paid
        for command in (("eval", "a"), ("gate", "a", "--baseline", first)):
            assert await combee(*command, "--max-calls", "4") == 0
            assert re.search(r"model      4 calls this time, [\d,]+ tokens, \$0\.00\d\d", capsys.readouterr().out)
        assert server.stats.requests == paid + 8


async def test_calibrate_holds_limits_and_has_a_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student()) as server:
        command = ("calibrate", "--model", "m", "--base-url", server.url, "--sizes", "1 2", "--repeats", "2", "--yes")
        assert await combee(*command, "--dry-run") == 0
        assert "This buys 4 calls" in capsys.readouterr().out
        assert await combee(*command, "--max-calls", "3") == 2
        assert server.stats.requests == 0
        assert await combee(*command, "--max-calls", "4") == 0
        assert "model      4 calls this time" in capsys.readouterr().out


async def test_a_dry_run_on_traces_says_calls_tokens_and_money_by_phase(capsys: pytest.CaptureFixture[str]) -> None:
    turns: list[dict[str, Any]] = [{"role": "user", "content": "Do it"}, {"role": "assistant", "content": "Done"}]
    lines = [json.dumps({"messages": [*turns, {"role": "user", "content": f"Thanks {n}"}]}) for n in range(4)]
    write("chat.jsonl", "\n".join(lines))
    command: tuple[str, ...] = (
        "learn",
        "--from",
        "chat.jsonl",
        "--model",
        "m",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--price",
        "1/2",
    )
    assert await combee(*command, "--dry-run") == 0
    assert "code found nothing" in capsys.readouterr().out
    command = (*command, "--set", "tasks.shown=runs")
    assert await combee(*command, "--dry-run") == 0
    out = capsys.readouterr().out
    assert re.search(r"^reflection +4 +[\d,]+ +\$0\.\d+", out, re.MULTILINE)
    assert "rollout" not in out
    assert "Price of m: 1/2 dollars per million tokens (given)." in out
    for more in (("--dry-run",), ()):
        assert await combee(*command, *more, "--max-cost", "0.001") == 2
        assert "one step takes about $" in capsys.readouterr().err
    assert await combee("learn", "--from", "chat.jsonl", "--agent", "ace", "--dry-run") == 2
    assert "No model is named" in capsys.readouterr().err


async def test_a_wrong_url_is_mended_by_the_command_that_the_message_prints(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url.removesuffix("/v1"), "--name", "wu")) == 1
        hint = re.search(r"Go on with: .*?combee (resume .*)$", capsys.readouterr().err, re.MULTILINE)
        assert hint is not None
        assert await combee(*shlex.split(hint[1]), "--json") == 0
        assert json.loads(capsys.readouterr().out)["reason"] == "completed"
        assert await combee("resume", "wu", "--quiet") == 0  # the run keeps the setting
        assert await combee("resume", "wu", "--model", "other") == 2
        assert "results that were made with student" in capsys.readouterr().err


async def test_a_run_that_bought_nothing_may_begin_anew_and_one_that_did_may_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with MockServer(reply=student()) as server:
        assert await combee(*learn("http://127.0.0.1:9/v1", "--name", "wu")) == 1
        assert "may also be given anew" in capsys.readouterr().err
        assert await combee(*learn(server.url, "--name", "wu")) == 0
        assert await combee(*learn(server.url, "--name", "wu")) == 2
        assert "There is a run" in capsys.readouterr().err


def test_a_run_that_learned_from_votes_alone_keeps_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    save(Playbook((Bullet("err-00001", "ERRORS", "Close the valve first"),), 1), Path("book.json"))
    write("votes.jsonl", "\n".join(to_jsonl([vote_trace("v", "err-00001", "helpful", {})])))
    command = ("learn", "--from", "votes.jsonl", "--start", "book.json", "--name", "v", "--quiet")
    assert run(command) == 0
    assert run(command) == 2
    assert "There is a run" in capsys.readouterr().err
    assert there("runs/v/journal.sqlite")


async def test_another_model_and_a_mended_file_serve_a_run_without_results() -> None:
    async with MockServer(MockConfig(models=("student",)), reply=student()) as server:
        command = ("learn", "gauges.jsonl", *SPLIT, "--base-url", server.url, "--quiet")
        assert await combee(*command, "--model", "studnet", "--name", "one") == 1
        assert await combee("resume", "one", "--model", "student", "--quiet") == 0
        assert await combee(*command, "--model", "studnet", "--name", "two") == 1
        write("mended.toml", '[model]\nname = "student"\n')
        assert await combee("resume", "two", "--config", "mended.toml", "--quiet") == 0


async def test_a_run_that_used_up_its_budget_names_the_command_that_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--name", "b", "--batch", "3", "--max-calls", "10")) == 0
        said = re.search(r"^next .*?combee (resume \S+ --max-calls 20)", capsys.readouterr().out, re.MULTILINE)
        assert said is not None
        assert await combee(*said[1].split(), "--json") == 0
        assert json.loads(capsys.readouterr().out)["reason"] == "completed"


async def test_ctrl_c_says_how_many_calls_were_in_flight() -> None:
    async with MockServer(MockConfig(latency=parse_latency("30")), student()) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "combee", *learn(server.url, "--name", "c"), stderr=asyncio.subprocess.PIPE
        )
        while server.stats.in_flight < 6 and process.returncode is None:  # noqa: ASYNC110 - another program calls
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert "6 calls were in flight: they may be paid, and are asked again. Go on with: " in err.decode()


async def test_a_run_killed_with_calls_on_their_way_keeps_its_name_and_books_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with MockServer(MockConfig(latency=parse_latency("30")), student()) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "combee", *learn(server.url, "--name", "k")
        )
        while server.stats.in_flight < 6 and process.returncode is None:  # noqa: ASYNC110 - another program calls
            await asyncio.sleep(0.01)
        process.kill()
        await process.wait()
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--name", "k")) == 2
        assert "There is a run" in capsys.readouterr().err
        assert await combee("resume", "k", "--base-url", server.url) == 0
        assert re.search(r"^lost +6 calls of these went with a kill", capsys.readouterr().out, re.MULTILINE)


async def test_a_summary_says_what_failed_and_an_error_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(MockConfig(faults={"empty": 0.2}, seed=1), student()) as server:
        assert await combee(*learn(server.url, "--name", "f")) == 0
        assert re.search(
            r"^failed +\d+ of these gave nothing to use: \d+ empty$", capsys.readouterr().out, re.MULTILINE
        )
        loud = [word for word in learn(server.url.removesuffix("/v1"), "--name", "g") if word != "--quiet"]
        assert await combee(*loud) == 1
        assert capsys.readouterr().err.count("there is no chat endpoint") == 1


def test_a_gate_with_few_rows_says_that_it_is_weak(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "tags", "--train", "60", "--val", "8", "--test", "2", "--name", "w", "--quiet"]) == 0
    with Journal.open(Path("runs/w"), create=False, read_only=True) as journal:
        first = journal.versions()[0].digest
    capsys.readouterr()
    gate = ["gate", "w", "--baseline", first, "--max-drop", "1", "--alpha", "0.2"]
    assert run(gate) == 0
    assert re.match(r"passed \(weak: a loss under \d+ points can stay unseen\): ", capsys.readouterr().out)
    assert run([*gate, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "passed"
    assert told["caveat"].startswith("weak")


async def test_an_alert_is_said_once() -> None:
    """In a process of its own: pytest takes what Python would print of a log."""
    async with MockServer() as server:
        command = ("learn", "tags", "--train", "24", "--val", "0", "--model", "m", "--base-url", server.url)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "combee", *command, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
        )
        _, err = await process.communicate()
    assert err.decode().count("guard, step 0: alert: ") == 1


def test_an_interval_has_width_where_all_or_none_are_right_and_counts_tasks() -> None:
    assert interval([(1, 1)] * 2) == pytest.approx((0.342, 1.0), abs=1e-3)
    assert interval([(0, 1)] * 8) == pytest.approx((0.0, 0.324), abs=1e-3)
    assert interval([(4, 4)] * 24) == interval([(1, 1)] * 24)  # four parts of a task that are always alike say no more
    alike, mixed = interval([(4, 4), (0, 4)] * 12), interval([(2, 4)] * 24)
    assert alike[1] - alike[0] > mixed[1] - mixed[0] - 1e-9
    assert interval([]) == (0.0, 1.0)
