"""Lessons that travel: the scripted student on Formula, through real HTTP, prompts, replies, journal and playbook.

The student answers right exactly if the formula it needs stands in its prompt; as curator it forgets each lesson of a
call over m inputs with probability 1 - exp(-m/40) (simulated forgetting). The table shows what each way to aggregate
brings home. It shows that lessons travel, not that a model learns.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from combee.ace import AceCurator, AceGenerator, AceReflector
from combee.kernel.journal import Journal
from combee.kernel.learn import LearnConfig, LiveTasks, evaluate, learn
from combee.kernel.runner import LocalRunner
from combee.model import Engine, Ledger, Limiter, OpenAIModel
from combee.tasks import TaskSet, load

DATA = os.environ.get("COMBEE_DATA") or str(Path(__file__).resolve().parents[2] / "shared" / "data")
LATENCY = 0.05
BATCH = 100
AT_ONCE = 128
WAYS = (("sequential", "combee", 1), ("naive", "naive", BATCH), ("paper", "paper", BATCH), ("combee", "combee", BATCH))


@dataclass(frozen=True, slots=True)
class Row:
    """One way's figures."""

    way: str
    score: float
    entries: int
    calls: int
    tokens: int
    latencies: float


async def one(tasks: TaskSet, url: str, way: str, how: str, batch: int) -> Row:
    ledger = Ledger(keep_rows=False)
    engine = Engine(limiter=Limiter(AT_ONCE), ledger=ledger)
    config = LearnConfig(batch=batch, aggregate=how, guard=False, concurrency=AT_ONCE)
    with tempfile.TemporaryDirectory() as folder:
        async with OpenAIModel(url, "student", None, engine=engine) as model:
            generator = AceGenerator(model)
            with Journal.open(Path(folder)) as journal:
                began = time.perf_counter()
                result = await learn(
                    tasks.train,
                    LiveTasks(generator, AceReflector(model), tasks.scorer),
                    AceCurator(model),
                    config=config,
                    journal=journal,
                )
                wall = time.perf_counter() - began
            total = ledger.total
            calls, tokens = total.calls, total.tokens
            found = await evaluate(generator, tasks.test, tasks.scorer, result.last, runner=LocalRunner(AT_ONCE))
    return Row(way, found.accuracy or 0.0, len(result.last), calls, tokens, wall / LATENCY)


def main() -> None:
    if not (Path(DATA) / "formula").is_dir():
        print("no Formula data: set COMBEE_DATA")
        return
    tasks = load("formula", data_dir=DATA)
    command = [
        sys.executable, "-m", "combee", "mock", "--port", "0", "--student", "formula", "--data-dir", DATA,
        "--latency", str(LATENCY),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mock:
        assert mock.stdout is not None
        url = mock.stdout.readline().split()[-1]
        try:
            print(
                f"Formula, {len(tasks.train)} to learn from, {len(tasks.test)} held out; simulated forgetting, m0 = 40"
            )
            print(
                f"{'way':<12}{'batch':>6}{'score':>8}{'entries':>9}{'calls':>8}{'tokens':>12}{'wall, in latencies':>20}"
            )
            for way, how, batch in WAYS:
                row = asyncio.run(one(tasks, url, way, how, batch))
                print(
                    f"{row.way:<12}{batch:>6}{row.score:>8.3f}{row.entries:>9}{row.calls:>8,}{row.tokens:>12,}"
                    f"{row.latencies:>20,.1f}",
                    flush=True,
                )
        finally:
            mock.terminate()


if __name__ == "__main__":
    main()
