"""Commands that pay and are no run: killed, they go on by the same command and buy only what was in flight."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.kernel.playbook import Bullet, Playbook, save
from combee.mock import MockConfig, MockServer, parse_latency
from combee.mock.student import Student, lesson_of
from combee.run.unfinished import UNFINISHED
from combee.tasks import load
from tests.cli.gauges import combee, gauges_here

AT_ONCE = 4
SPLIT = ("--train", "2", "--val", "0", "--test", "10")
_ENTRY = re.compile(r"^\[(\w+-\d{5})\][^:]*:: (.*)$", re.MULTILINE)
_PLANTED = re.compile(r"When a .+? book it in \w+ \d+\.")


class Answering:
    """A model that tidies, keeps what was planted, and knows the gauges; it counts each question."""

    def __init__(self) -> None:
        tasks = load("gauges.jsonl")
        self.student = Student(tasks, {task.id: lesson_of(task) for task in tasks}, m0=None)
        self.asked: Counter[str] = Counter()

    def __call__(self, body: Mapping[str, Any]) -> str:
        self.asked[json.dumps(body["messages"])] += 1
        text = body["messages"][-1]["content"]
        entries, planted = _ENTRY.findall(text), _PLANTED.findall(text)
        if "Terms that must not be lost" in text:
            return json.dumps({"bullets": [{"text": entries[0][1], "bullet_ids": [name for name, _ in entries]}]})
        if planted:
            return json.dumps({"operations": [{"type": "ADD", "content": lesson} for lesson in planted]})
        return self.student(body)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gauges_here(tmp_path, monkeypatch)
    pairs = [(f"Close valve V-{n} before pump P-{n}", f"Before pump P-{n} close valve V-{n}") for n in range(100, 112)]
    texts = [text for pair in pairs for text in pair]
    save(Playbook(tuple(Bullet(f"misc-{n:05d}", "OTHERS", t) for n, t in enumerate(texts, 1)), 24), Path("book.json"))


def settings(url: str, at_once: int = AT_ONCE) -> None:
    Path("combee.toml").write_text(
        f'[agent]\nkind = "ace"\n[model]\nname = "m"\nbase_url = "{url}"\nmax_in_flight = {at_once}\n', encoding="utf-8"
    )


EVAL = ("eval", "book.json", "gauges.jsonl", *SPLIT, "--json")


def taken(made: Path) -> str:
    """Return what a command made, and take it away: the next one finds the folder as the first did."""
    text = made.read_text(encoding="utf-8")
    made.unlink()
    return text


COMMANDS: dict[str, tuple[tuple[str, ...], Callable[[], object]]] = {
    "calibrate": (
        ("calibrate", "--sizes", "1 2 4 8", "--repeats", "6", "--concurrency", str(AT_ONCE), "--yes", "--json"),
        lambda: taken(Path("combee-calibration.json")),
    ),
    "refine": (
        ("refine", "book.json", "--cluster", "2", "--concurrency", str(AT_ONCE), "--out", "new.json", "--json"),
        lambda: taken(Path("new.json")),
    ),
    "eval": (EVAL, lambda: None),
    "gate": (("gate", "r", "--baseline", "book.json", "--split", "test", "--json"), lambda: None),
}


async def started(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "combee", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


async def paid(server: MockServer, upto: int, process: asyncio.subprocess.Process) -> None:
    while server.stats.paid < upto and process.returncode is None:  # noqa: ASYNC110 - another program calls
        await asyncio.sleep(0.002)


def result_of(printed: str) -> dict[str, Any]:
    """What a command found; what it took differs after a kill."""
    return {
        name: value
        for name, value in json.loads(printed).items()
        if name not in {"model", "model_calls", "seconds"} or isinstance(value, str)
    }


@pytest.mark.parametrize("name", list(COMMANDS))
async def test_a_killed_command_goes_on_to_the_same_end_and_pays_only_for_what_was_in_flight(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, made = COMMANDS[name]
    answering = Answering()
    async with MockServer(MockConfig(latency=parse_latency("0.06")), answering) as server:
        settings(server.url)
        if name == "gate":
            assert await combee("learn", "gauges.jsonl", *SPLIT, "--start", "book.json", "--name", "r", "--quiet") == 0
        answering.asked.clear()
        before = server.stats.paid
        capsys.readouterr()
        assert await combee(*command) == 0
        whole, all_calls = (result_of(capsys.readouterr().out), made()), server.stats.paid - before
        assert not UNFINISHED.exists()
        assert set(answering.asked.values()) == {1}
        answering.asked.clear()
        before = server.stats.paid
        process = await started(*command)
        await paid(server, before + all_calls // 2, process)
        await asyncio.sleep(0.03)  # a call counts as paid when it comes in; the answers before it are on disk by now
        process.kill()
        await process.communicate()
        while server.stats.in_flight:  # noqa: ASYNC110 - what was asked is charged, whoever has gone
            await asyncio.sleep(0.01)
        at_kill = server.stats.paid - before
        assert await combee(*command) == 0
        bought = server.stats.paid - before
    told = capsys.readouterr()
    assert (result_of(told.out), made()) == whole
    assert not UNFINISHED.exists()
    assert all_calls // 2 <= at_kill < all_calls
    assert "Going on where it stopped" in told.err
    assert (name != "calibrate") or re.search(r"buys 24 calls.*\(\d+ calls of them answered already\)", told.err)
    assert len(answering.asked) == all_calls
    # Paid twice: on the wire at the kill, or home for less than the 20 ms that a commit may take.
    assert bought - all_calls == sum(count - 1 for count in answering.asked.values()) <= 2 * AT_ONCE


@pytest.mark.parametrize("of_run", [False, True])
async def test_ctrl_c_says_how_to_go_on(*, of_run: bool) -> None:
    command = ("refine", "r", "--cluster", "2", "--concurrency", str(AT_ONCE), "--json") if of_run else EVAL
    answering = Answering()
    async with MockServer(MockConfig(latency=parse_latency("0.02")), answering) as server:
        settings(server.url)
        if of_run:
            assert await combee("learn", "gauges.jsonl", *SPLIT, "--start", "book.json", "--name", "r", "--quiet") == 0
        answering.asked.clear()
        process = await started(*command)
        await paid(server, server.stats.paid + 2 * AT_ONCE, process)
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        assert process.returncode == 130
        assert json.loads(out)["error"]["kind"] == "Interrupted"
        told = re.search(r"No answer is lost: the same command goes on with those kept in (\S+)\.\n", err.decode())
        assert told is not None
        assert (Path(told[1]) / "journal.sqlite").is_file()
        asked = set(answering.asked)
        answering.asked.clear()
        assert await combee(*command) == 0
    assert len(asked & set(answering.asked)) <= 2 * AT_ONCE < len(asked | set(answering.asked))
    assert not UNFINISHED.exists()


async def test_another_book_is_another_command_beside_one_that_is_at_work_or_was_killed() -> None:
    save(Playbook((Bullet("misc-00001", "OTHERS", "Read each gauge twice"),), 1), Path("other.json"))
    other = tuple("other.json" if word == "book.json" else word for word in EVAL)
    async with MockServer(MockConfig(latency=parse_latency("300")), Answering()) as server:
        settings(server.url)
        process = await started(*EVAL)
        while server.stats.in_flight < AT_ONCE and process.returncode is None:  # noqa: ASYNC110 - another program calls
            await asyncio.sleep(0.01)
        server.config = MockConfig()
        assert await combee(*other) == 0
        process.kill()
        await process.communicate()
        kept = list(UNFINISHED.iterdir())
        assert len(kept) == 1
        assert await combee(*other) == 0
        assert list(UNFINISHED.iterdir()) == kept
        assert await combee(*EVAL) == 0
    assert not UNFINISHED.exists()


async def test_answers_stay_where_some_calls_gave_none(capsys: pytest.CaptureFixture[str]) -> None:
    """The window is too small for 64 facts: the same command, given a larger one, asks only for those."""
    calibrate = ("calibrate", "--sizes", "1 64", "--repeats", "3", "--yes", "--json")
    answering = Answering()
    async with MockServer(MockConfig(context=2_000), answering) as server:
        settings(server.url)
        assert await combee(*calibrate) == 0
        told = capsys.readouterr()
        assert [row[2] for row in json.loads(told.out)["result"]["measured"]] == [0, 3]
        assert "The same command makes only those: 3 answers kept in" in told.err
        server.config = MockConfig()
        assert await combee(*calibrate) == 0
    assert [row[2] for row in json.loads(capsys.readouterr().out)["result"]["measured"]] == [0, 0]
    assert set(answering.asked.values()) == {1}
    assert not UNFINISHED.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("name", ["eval", "gate"])
async def test_a_result_that_standard_output_did_not_take_is_not_paid_for_again(name: str) -> None:
    command, _ = COMMANDS[name]
    answering = Answering()
    async with MockServer(MockConfig(), answering) as server:
        settings(server.url)
        if name == "gate":
            assert await combee("learn", "gauges.jsonl", *SPLIT, "--start", "book.json", "--name", "r", "--quiet") == 0
        answering.asked.clear()
        line = f"exec {shlex.join([sys.executable, '-m', 'combee', *command])} > /dev/full"
        process = await asyncio.create_subprocess_shell(line, stderr=asyncio.subprocess.PIPE)
        _, err = await process.communicate()
        assert process.returncode == 1
        assert re.search(r"No answer is lost: .* kept in combee-unfinished/\S+\.\n", err.decode())
        if name == "eval":
            settings(server.url, at_once=2)  # how fast the endpoint is asked changes no answer
        assert await combee(*command) == 0
    assert set(answering.asked.values()) == {1}
    assert not UNFINISHED.exists()


def test_what_lies_where_answers_are_to_be_kept_is_said_before_anything_is_paid_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings("http://127.0.0.1:9/v1")  # nothing is asked there

    def told(odd: Path) -> str:
        odd.parent.mkdir(parents=True, exist_ok=True)
        odd.write_text("mine", encoding="utf-8")
        assert run(EVAL) != 0
        assert odd.read_text(encoding="utf-8") == "mine"
        odd.unlink()
        return str(json.loads(capsys.readouterr().out)["error"]["message"])

    message = told(UNFINISHED)
    assert "where nothing else has that name" in message
    folder = Path(message.split()[0])
    assert f"Or take {folder} away" in told(folder)
    assert f"Or take {folder} away" in told(folder / "journal.sqlite")


async def test_a_refine_whose_calls_all_gave_nothing_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(MockConfig(), lambda _: "no") as server:
        settings(server.url)
        assert await combee(*COMMANDS["refine"][0]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["failed"] == len(told["clusters"]) == 12
