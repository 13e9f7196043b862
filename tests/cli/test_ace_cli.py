"""Commands that call models: bad input, dry run, budgets, mock, refine, doctor."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from combee.cli import run
from combee.kernel.journal import Journal, Version
from combee.kernel.playbook import Bullet, Playbook, load, save
from combee.mock import MockConfig, MockServer
from tests.cli.gauges import SPLIT, combee, gauges_here, learn, student


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def there(name: str) -> bool:
    return Path(name).exists()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gauges_here(tmp_path, monkeypatch)


def journal_versions(name: str) -> tuple[Version, ...]:
    with Journal.open(Path("runs") / name, create=False, read_only=True) as journal:
        return journal.versions()


async def test_learn_eval_and_show_with_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--name", "a", "--json")) == 0
        learned = json.loads(capsys.readouterr().out)
        assert (learned["bullets"], learned["reason"]) == (6, "completed")
        booked = server.stats.requests
        assert await combee("eval", "runs/a", "--split", "train", "--json") == 0
        assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0
        assert await combee("show", "runs/a") == 0
        assert capsys.readouterr().out.count("[calc-") == 6
    with Journal.open(Path("runs/a"), create=False, read_only=True) as journal:
        assert len(list(journal.calls())) == booked


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--base-url", "https://api.example.com/v1"), "OPENAI_API_KEY"),
        (("--base-url", "ftp://x"), "not a base URL"),
        ((), "no base URL"),
        (("--base-url", "http://127.0.0.1:9/v1", "--max-calls", "0"), "of at least 1"),
        (("--base-url", "http://127.0.0.1:9/v1", "--max-cost", "-1"), "number above 0"),
        (("--base-url", "http://127.0.0.1:9/v1", "--max-cost", "1"), "--price"),
        (("--base-url", "http://127.0.0.1:9/v1", "--price", "cheap"), "not a price"),
        (("--base-url", "http://127.0.0.1:9/v1", "--max-calls", "11"), "one step takes about 14 calls"),
        (("--base-url", "http://127.0.0.1:9/v1", "--prompts", "nowhere"), "no folder of prompts"),
        (("--base-url", "http://127.0.0.1:9/v1", "--max-in-flight", "0"), "max-in-flight"),
    ],
)
def test_bad_settings_are_refused_with_what_to_do_and_nothing_is_made(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["learn", "gauges.jsonl", *SPLIT, "--model", "m", *options]) == 2
    assert said in capsys.readouterr().err
    assert not Path("runs").exists()


def test_ace_without_a_model_says_how_to_name_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "gauges.jsonl", "--agent", "ace"]) == 2
    assert "--model" in capsys.readouterr().err


def test_an_unknown_price_is_refused_in_the_same_words_by_a_dry_run_and_by_a_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = learn("http://127.0.0.1:9/v1", "--max-cost", "2")
    assert run([*arguments, "--dry-run"]) == 2
    dry = capsys.readouterr().err
    for other in ([], ["--method", "gepa", "--dry-run"]):
        assert run([*arguments, *other]) == 2
        assert capsys.readouterr().err == dry
    assert "'student' is not known" in dry
    assert "0/0 for a model that costs nothing" in dry
    assert "--price 0.27/1.10" in dry
    assert "Price(" not in dry
    assert run([*arguments, "--dry-run", "--price", "0/0"]) == 0


def test_traces_and_refine_refuse_an_unknown_price_too(capsys: pytest.CaptureFixture[str]) -> None:
    save(Playbook((Bullet("misc-00001", "OTHERS", "Read the unit first."),), 1), Path("b.json"))
    money = ("--model", "student", "--base-url", "http://127.0.0.1:9/v1", "--max-cost", "1")
    for command in (["learn", "--from", ".", "--dry-run"], ["learn", "--from", "."], ["refine", "b.json"]):
        assert run([*command, *money]) == 2
        assert "--price 0.27/1.10" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_dry_run_without_a_price_says_what_it_can_and_how_to_give_one(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*learn("http://127.0.0.1:9/v1"), "--dry-run"]
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert "unknown" in out
    assert "The price of student is not known. Give it in dollars per million tokens: --price 0.27/1.10" in out
    assert run([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["cost"] is None
    assert told["unpriced"] == ["student"]
    assert told["calls"] > 0
    assert told["tokens"] > 0
    assert run([*arguments, "--price", "1/2"]) == 0
    assert "is not known" not in capsys.readouterr().out


def test_what_a_model_costs_at_its_own_provider_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = ["--model", "deepseek-chat", "--base-url", "https://api.example.com/v1", "--max-cost", "1"]
    assert run(["learn", "gauges.jsonl", *SPLIT, *elsewhere, "--dry-run"]) == 2
    err = capsys.readouterr().err
    assert "At its own provider (genai-prices" in err
    assert "deepseek/deepseek-chat" in err


def test_a_run_by_gepa_that_is_stopped_or_fails_is_listed_as_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gepa")
    arguments = [*learn("http://127.0.0.1:9/v1"), "--method", "gepa", "--json"]
    assert run([*arguments, "--name", "down"]) == 1
    assert "resume runs/down" in json.loads(capsys.readouterr().out)["error"]["message"]

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("combee.gepa.search._search", stop)
    assert run([*arguments, "--name", "stopped"]) == 130
    assert json.loads(capsys.readouterr().out)["reason"] == "interrupted"
    assert run(["runs", "--json"]) == 0
    listed = {row["run"]: row["reason"] for row in json.loads(capsys.readouterr().out)}
    assert listed == {"down": "failed", "stopped": "interrupted"}


async def test_an_evaluation_that_scored_nothing_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--name", "a")) == 0
        port = int(server.url.rsplit(":", 1)[1].split("/")[0])
    capsys.readouterr()
    async with MockServer(MockConfig(faults={"content_filter": 1.0}), port=port):
        assert await combee("eval", "a", "--json") == 1
    assert len(json.loads(capsys.readouterr().out)["errors"]) == 2


async def test_a_gate_without_its_endpoint_does_not_judge_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--name", "a")) == 0
        first = journal_versions("a")[0].digest
        capsys.readouterr()
        assert await combee("gate", "a", "--baseline", first[:12]) == 0
        told = capsys.readouterr().out
        assert told.startswith("passed (no power): ")
        assert re.search(r"^model +4 calls this time, [\d,]+ tokens, at an unknown price$", told, re.MULTILINE)
        assert await combee("gate", "a", "--version", first[:12], "--baseline", "last") == 1
        assert capsys.readouterr().out.startswith("FAILED: ")
    assert await combee("gate", "a", "--baseline", "last") == 0
    assert capsys.readouterr().out.startswith("passed (the same playbook): ")  # that costs nothing
    assert await combee("gate", "a", "--baseline", first[:12]) == 1
    out = capsys.readouterr().out
    assert out.startswith("NOT JUDGED: ")
    assert "Connection refused" in out
    assert await combee("eval", "a") == 1
    assert "Connection refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("config", "key", "said"),
    [
        (MockConfig(key="right-key-123"), "wrong-key-456", "does not accept the key"),
        (MockConfig(models=("other",)), None, "does not exist"),
        (MockConfig(schema="ignore", json_mode="ignore"), None, "6 samples could be worked on"),
    ],
)
async def test_an_endpoint_that_refuses_ends_the_run_with_a_reason_and_never_shows_the_key(
    config: MockConfig, key: str | None, said: str
) -> None:
    async with MockServer(config, student()) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "combee", *learn(server.url),
            stderr=asyncio.subprocess.PIPE, env=os.environ | ({} if key is None else {"OPENAI_API_KEY": key}),
        )  # fmt: skip
        try:
            _, err = await asyncio.wait_for(process.communicate(), 100)
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 1
    assert said in err.decode()
    assert "wrong-key" not in err.decode()


async def test_a_dry_run_needs_no_key_calls_nothing_and_counts_the_calls_that_come(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with MockServer(reply=student()) as server:
        more = ("--no-guard", "--batch", "6", "--price", "1/2", "--json")
        assert await combee(*learn(server.url, "--dry-run", *more)) == 0
        told = json.loads(capsys.readouterr().out)
        assert server.stats.requests == 0
        assert not there("runs")
        assert await combee(*learn(server.url, *more)) == 0
        # A third of the leaves is counted on top for second chances, rounded up; this student needs none.
        assert told["calls"] == server.stats.requests + 1
        assert told["cost"] > 0
    assert run(["learn", "gauges.jsonl", *SPLIT, "--dry-run"]) == 0
    assert "0 calls" in capsys.readouterr().out


def test_a_dry_run_of_a_remote_model_knows_its_list_price(capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--model", "deepseek-chat", "--base-url", "https://api.deepseek.com/v1", "--dry-run", "--json")
    assert run(["learn", "gauges.jsonl", *SPLIT, *more]) == 0
    assert json.loads(capsys.readouterr().out)["cost"] > 0


async def test_a_used_up_budget_stops_the_run_and_a_higher_one_goes_on_without_paying_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--name", "b", "--batch", "2", "--max-calls", "9", "--json")) == 0
        assert json.loads(capsys.readouterr().out)["reason"] == "budget"
        assert server.stats.paid == 9
        assert await combee("resume", "runs/b", "--quiet", "--json") == 0
        assert json.loads(capsys.readouterr().out)["reason"] == "budget"
        assert server.stats.paid == 9
        assert await combee("resume", "runs/b", "--max-calls", "99", "--quiet", "--json") == 0
        done = json.loads(capsys.readouterr().out)
        assert (done["reason"], done["bullets"]) == ("completed", 6)
        again = server.stats.paid
        assert await combee(*learn(server.url, "--name", "c", "--batch", "2")) == 0
        assert again == server.stats.paid - again


async def test_a_role_may_have_its_own_model_prompts_and_budget(capsys: pytest.CaptureFixture[str]) -> None:
    write("prompts/generator.md", "--- system ---\nMINE {{playbook}}\n--- user ---\n{{task}}")
    async with MockServer(reply=student()) as server:
        write(
            "combee.toml",
            f'[agent]\nkind = "ace"\nprompts = "prompts"\n[model]\nname = "strong"\nbase_url = "{server.url}"\n'
            '[model.generator]\nname = "cheap"\n[budget.reflector]\nmax_calls = 3\n',
        )
        assert await combee("learn", "gauges.jsonl", *SPLIT, "--batch", "2", "--name", "r", "--quiet", "--json") == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "budget"
    with Journal.open(Path("runs/r"), create=False, read_only=True) as journal:
        rows = [(row["role"], row["model"]) for row in journal.calls() if isinstance(row, dict)]
    assert {("generator", "cheap"), ("reflector", "strong")} <= set(rows)
    assert rows.count(("reflector", "strong")) == 3


async def test_prompts_that_changed_do_not_go_on_with_an_old_run(capsys: pytest.CaptureFixture[str]) -> None:
    write("mine/generator.md", "--- system ---\nA {{playbook}}\n--- user ---\n{{task}}")
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--name", "p", "--prompts", "mine")) == 0
        write("mine/generator.md", "--- system ---\nB {{playbook}}\n--- user ---\n{{task}}")
        assert await combee("resume", "runs/p", "--quiet") == 2
    assert "prompts have changed" in capsys.readouterr().err


async def test_refine_joins_entries_of_a_file_and_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ("Read gauge G-1 before the pump starts", "Before the pump starts read gauge G-1")
    book = Playbook(tuple(Bullet(f"misc-{n:05d}", "OTHERS", text, 1) for n, text in enumerate(texts, 1)), 2)
    save(book, Path("book.json"))
    reply = json.dumps({"bullets": [{"text": texts[0], "bullet_ids": ["misc-00001", "misc-00002"]}]})
    async with MockServer(reply=lambda _: reply) as server:
        call = ("--model", "m", "--base-url", server.url)
        assert await combee("refine", "book.json", *call, "--out", "new.json", "--json") == 0
        assert json.loads(capsys.readouterr().out)["rewritten"] == 1
        assert [(bullet.text, bullet.helpful) for bullet in load(Path("new.json"))] == [(texts[0], 2)]
        assert load(Path("book.json")) == book
    async with MockServer(reply=student()) as server:
        assert await combee(*learn(server.url, "--name", "a", "--start", "book.json")) == 0
    async with MockServer(reply=lambda _: reply) as server:
        capsys.readouterr()
        assert await combee("refine", "runs/a", "--base-url", server.url) == 0
        assert await combee("show", "runs/a@refined") == 0
    shown = capsys.readouterr().out
    assert shown.count("[misc-") == 1


def test_refine_without_a_model_says_how_to_name_one(capsys: pytest.CaptureFixture[str]) -> None:
    save(Playbook(), Path("book.json"))
    assert run(["refine", "book.json"]) == 2
    assert "--model" in capsys.readouterr().err


async def test_doctor_says_what_an_endpoint_can_do_and_how_to_mend_it(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(MockConfig(models=("good",))) as server:
        toml = f'[model]\nname = "%s"\nbase_url = "{server.url}"\n[prices]\n"good" = {{ input = 1.0, output = 2.0 }}\n'
        write("combee.toml", toml % "good")
        assert await combee("doctor", "--json") == 0
        checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
        assert checks["json_schema"]["found"] == "JSON schema is obeyed"
        assert "$1 in and $2 out" in checks["price"]["found"]
        write("combee.toml", toml % "goof")
        assert await combee("doctor") == 1
        assert "good" in capsys.readouterr().out
    write("combee.toml", '[model]\nname = "m"\nbase_url = "https://x.example"\n')
    assert run(["doctor"]) == 1
    assert "OPENAI_API_KEY" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options", [("--fault", "nosuch=0.1"), ("--fault", "server"), ("--latency", "fast"), ("--script", "none.json")]
)
def test_a_mock_that_cannot_be_is_refused(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mock", "--port", "0", *options]) == 2
    assert capsys.readouterr().err.startswith("error: ")


async def test_the_mock_command_serves_a_student_and_tells_what_was_asked() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "combee", "mock", "--port", "0", "--student", "gauges.jsonl", "--json",
        stdout=asyncio.subprocess.PIPE, env=dict(os.environ),
    )  # fmt: skip
    assert process.stdout is not None
    url = json.loads(await process.stdout.readline())["url"]
    assert url.startswith("http://127.0.0.1:")
    assert await combee(*learn(url, "--json")) == 0
    process.send_signal(signal.SIGINT)
    out, _ = await process.communicate()
    assert json.loads(out)["paid"] > 12


def prepare_places(*, broken: bool) -> None:
    """A book of two entries, and a file of calibrations that is damaged or empty."""
    lines = ["[misc-00001] helpful=0 harmful=0 :: a b", "[misc-00002] helpful=0 harmful=0 :: a b c", ""]
    Path("book.md").write_text("\n".join(["## OTHERS", *lines]), encoding="utf-8")
    Path("combee-calibration.json").write_text("broken" if broken else "{}", encoding="utf-8")


@pytest.mark.parametrize(
    "command",
    [
        ("refine", "book.md", "--out", "nodir/x.md", "--similarity", "0.01"),
        ("refine", "book.md", "--out", "x.toml", "--similarity", "0.01"),
        ("calibrate", "--sizes", "1", "--repeats", "1", "--yes", "--plot", "nodir/x.svg"),
        ("calibrate", "--sizes", "1", "--repeats", "1", "--yes"),
    ],
)
async def test_where_a_result_goes_is_looked_at_before_it_is_paid_for(command: tuple[str, ...]) -> None:
    prepare_places(broken="--plot" not in command)
    async with MockServer(reply=student()) as server:
        assert await combee(*command, "--model", "m", "--base-url", server.url) == 2
        assert server.stats.requests == 0
