"""One whole step of n = 1,000 samples over HTTP: rollout, reflection, leaves, merge; and the tree of the preset.

The mock answers in a process of its own, in 200 ms, 2 s and 5 s. A step's longest chain is 3 calls, 4 with a second
chance; the bar is a wall of 1.2 times those latencies. "raw aiohttp" makes the same calls with nothing around them, in
the same run: the floor on this machine. Medians. The tree of the preset "paper" is two calls deep whatever n; its
replies are short ones.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from combee.ace import AceCurator, AceGenerator, AceReflector
from combee.kernel.aggregate import aggregate, plan
from combee.kernel.journal import Journal, MemoryScope
from combee.kernel.learn import LearnConfig, LiveTasks, Reflection, Score, Task, learn
from combee.kernel.playbook import Playbook
from combee.kernel.runner import LocalRunner, run_sync
from combee.mock.student import Student, lesson_of
from combee.model import CallOptions, Engine, Ledger, Limiter, OpenAIModel

LATENCY = 0.2
LATENCIES = (LATENCY, 2.0, 5.0)
N = 1_000
LONG = 1_000_000  # tokens of a reply: the preset's calls at n = 4,000 write more than the usual limit allows
BARS = {40: 1.10, 400: 1.10, 4_000: 1.20}

SERVER = """
import asyncio, sys
from benchmarks.bench_step import short, student
from combee.mock import MockConfig, parse_latency, serve
config = MockConfig(latency=parse_latency(sys.argv[1]))
reply = short if sys.argv[2] == "short" else student(float(sys.argv[2]) or None)
asyncio.run(serve(config, reply, port=0, ready=lambda url: print(url, flush=True)))
"""


def tasks() -> list[Task]:
    return [Task(f"t{n:04d}", f"What is the reading of gauge G-{n:04d}?", str(1000 + n)) for n in range(N)]


def student(m0: float | None) -> Student:
    made = tasks()
    return Student(made, {task.id: lesson_of(task) for task in made}, m0=m0)


def short(body: object) -> str:
    """Return one short operation, whatever is asked: so that the trees measure the client, not the mock."""
    operation = {"type": "ADD", "section": "OTHERS", "content": "gauge G-0001 reads 1 bar", "sources": [1]}
    return json.dumps({"reasoning": "", "operations": [operation], "final_answer": ""})


@contextmanager
def mock(kind: str, latency: float = LATENCY) -> Iterator[str]:
    """Serve a student with this m0 ("0": forgets nothing), or "short" replies, after `latency` seconds."""
    command = [sys.executable, "-c", SERVER, str(latency), kind]
    root = str(Path(__file__).resolve().parents[1])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def scorer(task: Task, answer: str) -> Score:
    return Score(int(answer == task.target), 1)


def model_at(url: str, ledger: Ledger | None = None) -> OpenAIModel:
    return OpenAIModel(url, "student", None, engine=Engine(limiter=Limiter(8_192), ledger=ledger))


async def warm(model: OpenAIModel, calls: int) -> None:
    """Open the connections, as a run's first step does for all later ones."""
    generator = AceGenerator(model)
    task = Task("warm", "warm", "")
    await asyncio.gather(*(generator.generate(task, Playbook(), MemoryScope()) for _ in range(calls)))


async def step(url: str, *, warmed: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, Journal.open(Path(folder)) as journal:
        ledger = Ledger(journal.record_call, keep_rows=False)
        async with model_at(url, ledger) as model:
            if warmed:
                await warm(model, N)
            before = ledger.total.calls
            cpu, began = time.process_time(), time.perf_counter()
            result = await learn(
                tasks(),
                LiveTasks(AceGenerator(model), AceReflector(model), scorer),
                AceCurator(model),
                config=LearnConfig(batch=N, concurrency=2 * N, guard=False, near=None),
                journal=journal,
                runner=LocalRunner(2 * N),
            )
            wall = time.perf_counter() - began
            cpu = time.process_time() - cpu
    chain = 2 + max(found.depth for found in result.steps)
    return {
        "wall": wall,
        "cpu": cpu,
        "chain": chain,
        "calls": ledger.total.calls - before,
        "kept": len(result.last),
    }


async def raw(url: str) -> dict[str, float]:
    """Make the calls of a step with aiohttp alone: same number, same chain, prompts of the same size."""
    import aiohttp

    body = json.dumps({"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": "x" * 2_500}]})
    headers = {"Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def call() -> None:
            async with session.post(f"{url}/chat/completions", data=body, headers=headers) as reply:
                json.loads(await reply.read())

        async def chain() -> None:
            await call()
            await call()

        await asyncio.gather(*(call() for _ in range(N)))
        cpu, began = time.process_time(), time.perf_counter()
        await asyncio.gather(*(chain() for _ in range(N)))
        await asyncio.gather(*(call() for _ in range(-(-N // 16))))
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    calls = 2 * N + -(-N // 16)
    return {"wall": wall, "cpu": cpu, "chain": 3, "calls": calls, "kept": 0}


async def tree(url: str, n: int, how: str) -> tuple[float, int, int]:
    items = [
        Reflection(
            f"r{i}", f"r{i}", f"r{i}", f"Lesson: gauge G-{i:04d} reads {i} bar", (f"gauge G-{i:04d} reads {i} bar",)
        )
        for i in range(n)
    ]
    async with model_at(url) as model:
        method = AceCurator(model, options=CallOptions(max_tokens=LONG)).method(Playbook(), MemoryScope())
        await warm(model, min(n, 300))
        began = time.perf_counter()
        result = await aggregate(items, method, how=how, shape=plan(n, second_chances=0), runner=LocalRunner(2_000))
        wall = time.perf_counter() - began
    return wall, result.depth, result.calls


def child(name: str, *arguments: str) -> object:
    """Measure in a process of its own, so that one measurement does not disturb the next."""
    command = [sys.executable, "-m", "benchmarks.bench_step", name, *arguments]
    root = Path(__file__).resolve().parents[1]
    out = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root, env=dict(os.environ)).stdout
    return json.loads(out)


def median_of(tries: int, name: str, *arguments: str) -> dict[str, float]:
    """Return the try with the median wall, with the median of the CPU seconds."""
    found: list[dict[str, Any]] = [child(name, *arguments) for _ in range(tries)]  # type: ignore[misc]  # of our own child
    row = sorted(found, key=lambda one: one["wall"])[tries // 2]
    return {**row, "cpu": statistics.median(one["cpu"] for one in found)}


def steps(latency: float, tries: int) -> None:
    print(f"\none step of {N:,} samples at {latency * 1000:,.0f} ms a call; bar 1.2 x the latencies of its chain")
    print(
        f"{'':<38}{'calls':>7}{'kept':>7}{'chain':>7}{'wall s':>8}{'CPU s':>8}{'wall/chain':>12}{'wall/raw':>10}"
        f"{'CPU/raw':>9}"
    )
    raw_row: dict[str, float] = {}
    for title, m0, warmed in (
        ("raw aiohttp, the same calls", "0", None),
        ("nothing forgotten, connections open", "0", "1"),
        ("nothing forgotten, first step", "0", ""),
        ("forgetting m0 = 40, connections open", "40", "1"),
    ):
        with mock(m0, latency) as url:
            row = median_of(tries, "raw", url) if warmed is None else median_of(tries, "step", url, warmed)
        raw_row = raw_row or row
        waited = row["chain"] * latency
        print(
            f"{title:<38}{row['calls']:>7,.0f}{row['kept']:>7,.0f}{row['chain']:>7.0f}{row['wall']:>8.2f}"
            f"{row['cpu']:>8.2f}{row['wall'] / waited:>12.2f}{row['wall'] / raw_row['wall']:>10.2f}"
            f"{row['cpu'] / raw_row['cpu']:>9.2f}",
            flush=True,
        )


def main() -> None:
    for latency in LATENCIES:
        steps(latency, 3)
    print(f"\n{'aggregation alone':<20}{'n':>7}{'calls':>7}{'chain':>7}{'wall s':>8}{'wall / chain':>14}")
    with mock("short") as url:
        for how in ("paper", "combee"):
            for n, bar in BARS.items():
                found: list[Any] = [child("tree", url, str(n), how) for _ in range(3)]
                wall, depth, calls = sorted(found)[1]
                note = f"  bar {bar:.2f}" if how == "paper" else ""
                print(
                    f"{how:<20}{n:>7,}{calls:>7,}{depth:>7}{wall:>8.2f}{wall / (depth * LATENCY):>14.2f}{note}",
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["step"]:
        print(json.dumps(run_sync(step(sys.argv[2], warmed=bool(sys.argv[3])))))
    elif sys.argv[1:2] == ["raw"]:
        print(json.dumps(asyncio.run(raw(sys.argv[2]))))
    elif sys.argv[1:2] == ["tree"]:
        print(json.dumps(run_sync(tree(sys.argv[2], int(sys.argv[3]), sys.argv[4]))))
    else:
        main()
