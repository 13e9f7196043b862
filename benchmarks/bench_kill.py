"""Killed with SIGKILL at random moments and gone on with: what is bought again, and what is booked, by both books.

The other side's book is the mock's: what it charged, and which questions it saw twice. Ours is the ledger in the
journal: what came home, and as maybe paid what was under way at a kill. Ours must cover the mock's, and stay near it.
Two settings: `combee learn` with 64 samples and 16 calls at once, and 2,000 calls gathered at once. Most wait then.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from combee.kernel.journal import Journal
from combee.mock import MockConfig, MockServer, parse_latency
from combee.mock.student import Student, lesson_of
from combee.model.ledger import LOST
from combee.tasks import load

KILLS = 20
GATHERED, GATHERED_KILLS = 2_000, 10
NEAR = 1.1  # booked calls and tokens may be this many times the charged ones
ROWS = 200
AT_ONCE = 16


async def combee(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "combee", *arguments, cwd=folder,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip


async def measure(folder: Path) -> None:
    source = folder / "gauges.jsonl"
    rows = [{"question": f"What is the reading of gauge G-{n:03d}?", "answer": str(100 + n)} for n in range(ROWS)]
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    tasks = load(source)
    student = Student(tasks, {task.id: lesson_of(task) for task in tasks})
    asked: Counter[str] = Counter()

    def reply(body: Mapping[str, Any]) -> str:
        asked[json.dumps(body["messages"])] += 1
        return student(body)

    draw = random.Random(0)
    async with MockServer(MockConfig(latency=parse_latency("lognormal:0.05:0.4")), reply) as server:
        learn = (
            "learn", str(source), "--model", "student", "--base-url", server.url, "--batch", "40", "--epochs", "2",
            "--concurrency", str(4 * AT_ONCE), "--max-in-flight", str(AT_ONCE), "--quiet",
        )  # fmt: skip
        await (await combee(folder, *learn, "--name", "whole")).wait()
        calls, tokens = server.stats.paid, server.stats.prompt + server.stats.completion
        asked.clear()
        for kill in range(KILLS):
            before = server.stats.requests
            arguments = (*learn, "--name", "cut") if kill == 0 else ("resume", "runs/cut", "--quiet")
            process = await combee(folder, *arguments)
            upto = before + draw.randrange(1, 2 * calls // KILLS)
            while server.stats.requests < upto and process.returncode is None:  # noqa: ASYNC110 - another program calls
                await asyncio.sleep(0.001)
            await asyncio.sleep(draw.random() * 0.05)
            if process.returncode is None:
                process.kill()
            await process.wait()
            await asyncio.sleep(0.2)
        await (await combee(folder, "resume", "runs/cut", "--quiet")).wait()
        paid = server.stats.paid - calls
        charged = server.stats.prompt + server.stats.completion - tokens
    books = [(folder / "runs" / name / "playbook.json").read_bytes() for name in ("whole", "cut")]
    again = sum(asked.values()) - len(asked)
    print(f"`combee learn`: a whole run asks {calls:,} questions; killed {KILLS} times, {AT_ONCE} in flight at most")
    print(f"asked again {again} ({again / KILLS:.1f} a kill); the same playbook, byte for byte: {books[0] == books[1]}")
    compare(folder / "runs" / "cut", paid, charged)


def compare(run: Path, paid: int, charged: int) -> None:
    """Print what the mock charged (calls, tokens) beside what the ledger holds."""
    with Journal.open(run, create=False, read_only=True) as journal:
        kept = [cast("dict[str, Any]", row) for row in journal.calls()]
    kept = [row for row in kept if row["paid"] != "no"]
    lost = sum(row["outcome"] == LOST for row in kept)
    booked = sum(row["usage"]["prompt"] + row["usage"]["completion"] for row in kept)
    print(f"{'':<10}{'charged':>10}{'booked':>10}{'of those maybe paid at a kill':>32}{'booked / charged':>19}")
    print(f"{'calls':<10}{paid:>10,}{len(kept):>10,}{lost:>32,}{len(kept) / paid:>19.3f}")
    print(f"{'tokens':<10}{charged:>10,}{booked:>10,}{'':>32}{booked / charged:>19.3f}", flush=True)
    assert paid <= len(kept) <= NEAR * paid, "the books do not cover what was charged, or not nearly"
    assert charged <= booked <= NEAR * charged, "the books do not cover the tokens that were charged, or not nearly"


GATHER = """
import asyncio, sys
from pathlib import Path
from combee.kernel.journal import Journal
from combee.kernel.runner import run_sync
from combee.model import Engine, Ledger, Limiter, Message, OpenAIModel, Price, Request

async def main(folder, url, count):
    with Journal.open(folder) as journal:
        engine = Engine(limiter=Limiter(), ledger=Ledger(journal.record_call, keep_rows=False))
        scope = journal.scope(seed=0, epoch=0, step=0)
        async with OpenAIModel(url, "student", engine=engine, price=Price(1, 2)) as model:

            async def one(number):
                async def ask():
                    return (await model.complete(request)).text

                said = f"What is the reading of gauge G-{number:04d}? " + "Look again. " * (number % 7)
                request = Request((Message("user", said),), max_tokens=64, role="reflector", item=str(number))
                await scope.once("reflector", str(number), said, ask)

            await asyncio.gather(*map(one, range(count)))

run_sync(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
"""


async def measure_gathered(folder: Path) -> None:
    """Kill a process that gathers all its calls at once, again and again, and let the last one end."""
    draw = random.Random(1)

    def reply(body: Mapping[str, Any]) -> str:
        return "about " * (1 + len(json.dumps(body["messages"])) % 9)

    async with MockServer(MockConfig(latency=parse_latency("lognormal:0.2:0.4")), reply) as server:
        arguments = ("-c", GATHER, str(folder / "gathered"), server.url, str(GATHERED))
        for _ in range(GATHERED_KILLS):
            upto = server.stats.requests + draw.randrange(1, 2 * GATHERED // GATHERED_KILLS)
            process = await asyncio.create_subprocess_exec(sys.executable, *arguments)
            while server.stats.requests < upto and process.returncode is None:  # noqa: ASYNC110 - another program calls
                await asyncio.sleep(0.001)
            await asyncio.sleep(draw.random() * 0.05)
            if process.returncode is None:
                process.kill()
            await process.wait()
            await asyncio.sleep(0.5)
        await (await asyncio.create_subprocess_exec(sys.executable, *arguments)).wait()
        paid, charged = server.stats.paid, server.stats.prompt + server.stats.completion
    print(f"\n{GATHERED:,} calls gathered at once, killed {GATHERED_KILLS} times")
    compare(folder / "gathered", paid, charged)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))
        asyncio.run(measure_gathered(Path(folder)))


if __name__ == "__main__":
    main()
