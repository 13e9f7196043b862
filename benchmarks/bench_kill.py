"""`combee learn` killed with SIGKILL at 20 random moments and gone on with: what is bought again, by both books.

The other side's book is the mock's: what it charged, and which questions it saw twice. Ours is the ledger in the
journal: what came home, and as maybe paid what was under way at a kill. Together they must cover the mock's.
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

from combee.ace import Student, lesson_of
from combee.kernel.journal import Journal
from combee.model.ledger import LOST
from combee.model.mock import MockConfig, MockServer, parse_latency
from combee.tasks import load

KILLS = 20
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
            "--concurrency", str(AT_ONCE), "--max-in-flight", str(AT_ONCE), "--quiet",
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
    with Journal.open(folder / "runs" / "cut", create=False, read_only=True) as journal:
        kept = [cast("dict[str, Any]", row) for row in journal.calls()]
    booked = sum(row["usage"]["prompt"] + row["usage"]["completion"] for row in kept)
    lost = sum(row["outcome"] == LOST for row in kept)
    again = sum(asked.values()) - len(asked)
    print(f"a whole run asks {calls:,} questions; killed {KILLS} times, {AT_ONCE} calls in flight at most")
    print(f"charged by the mock {paid:,}, of which asked before {again} ({again / KILLS:.1f} a kill)")
    print(
        f"booked as paid {len(kept) - lost:,}, as maybe paid at a kill {lost}; tokens {booked:,} of {charged:,} charged"
    )
    print(f"the same playbook, byte for byte: {books[0] == books[1]}")
    assert len(kept) - lost <= paid <= len(kept), "the books do not cover what was charged"
    assert charged <= booked, "the books do not cover the tokens that were charged"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))


if __name__ == "__main__":
    main()
