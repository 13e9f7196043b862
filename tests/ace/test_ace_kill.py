"""`combee learn` killed with SIGKILL at random moments and gone on with: the same book, nothing paid twice."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from combee.kernel.journal import Journal
from combee.mock import MockConfig, MockServer, parse_latency
from combee.mock.student import Student, lesson_of
from combee.model.ledger import LOST
from combee.tasks import load

KILLS = 4
AT_ONCE = 6


class Watched:
    """A student that keeps a count of what it was asked."""

    def __init__(self, student: Student) -> None:
        self.student = student
        self.asked: Counter[str] = Counter()

    def __call__(self, body: Mapping[str, Any]) -> str:
        self.asked[json.dumps(body["messages"])] += 1
        return self.student(body)


def file_of_tasks(folder: Path, count: int) -> Path:
    path = folder / "gauges.jsonl"
    rows = [{"question": f"What is the reading of gauge G-{n:03d}?", "answer": str(100 + n)} for n in range(count)]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


async def combee(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "combee", *arguments, cwd=folder,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def finished(process: asyncio.subprocess.Process) -> dict[str, Any]:
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def learning(source: Path, url: str, name: str) -> Sequence[str]:
    return (
        "learn", str(source), "--model", "student", "--base-url", url, "--batch", "8", "--epochs", "2",
        "--concurrency", str(AT_ONCE), "--max-in-flight", str(AT_ONCE), "--name", name, "--json",
    )  # fmt: skip


@pytest.mark.parametrize("seed", [1])
async def test_a_killed_run_goes_on_to_the_same_book_and_buys_only_what_was_in_flight(
    tmp_path: Path, seed: int
) -> None:
    source = file_of_tasks(tmp_path, 24)
    tasks = load(source)
    watched = Watched(Student(tasks, {task.id: lesson_of(task) for task in tasks}, m0=40.0))
    async with MockServer(MockConfig(latency=parse_latency("0.04")), watched) as server:
        await finished(await combee(tmp_path, *learning(source, server.url, "whole")))
        all_calls = server.stats.paid
        all_tokens = server.stats.prompt + server.stats.completion
        assert set(watched.asked.values()) == {1}
        watched.asked.clear()
        draw = random.Random(seed)
        in_flight = 0
        for kill in range(KILLS):
            arguments = learning(source, server.url, "cut") if kill == 0 else ("resume", "runs/cut", "--json")
            before = server.stats.requests
            process = await combee(tmp_path, *arguments)
            upto = before + draw.randrange(2, all_calls // KILLS)
            while server.stats.requests < upto and process.returncode is None:  # noqa: ASYNC110 - another program calls
                await asyncio.sleep(0.002)
            await asyncio.sleep(draw.random() * 0.04)
            if process.returncode is None:
                process.kill()
            await process.communicate()
            in_flight += 2 * AT_ONCE  # on the wire, or home for less than the 20 ms that a commit may take
            await asyncio.sleep(0.1)
        last = await finished(await combee(tmp_path, "resume", "runs/cut", "--json"))
        paid = server.stats.paid - all_calls
        charged = server.stats.prompt + server.stats.completion - all_tokens
    whole, cut = ((tmp_path / "runs" / name / "playbook.json").read_bytes() for name in ("whole", "cut"))
    assert whole == cut
    assert len(watched.asked) == all_calls  # the same questions as without a kill
    again = paid - len(watched.asked)
    assert again == sum(count - 1 for count in watched.asked.values())
    # The mock saw a question twice only where its answer was in flight, or in the last 20 ms before a kill.
    assert again <= in_flight
    with Journal.open(tmp_path / "runs" / "cut", create=False, read_only=True) as journal:
        rows = [cast("dict[str, Any]", row) for row in journal.calls()]
    booked = sum(row["usage"]["prompt"] + row["usage"]["completion"] for row in rows)
    lost = sum(row["outcome"] == LOST for row in rows)
    # Our book has every call whose answer came home, and as maybe paid those that were under way at a kill.
    assert all_calls <= len(rows) - lost <= paid <= len(rows)
    assert lost <= in_flight
    assert charged <= booked  # an upper bound: what was begun may have waited for its turn
    assert last["calls"]["bought_again"] <= 2 * AT_ONCE
    with Journal.open(tmp_path / "runs" / "cut") as journal:
        assert journal.stats().lost == 0  # all of it was bought again, and booked
