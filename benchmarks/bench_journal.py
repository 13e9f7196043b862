"""What the journal and the runner cost: microseconds an item, results a second, beside raw SQLite in the same run."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from combee.kernel.journal import JSON, Journal
from combee.kernel.runner import LocalRunner, run_sync

ITEMS = 50_000
VALUE: JSON = {"text": "lesson " * 60, "helpful": ["misc-00001"], "harmful": []}


class Cost(NamedTuple):
    """Seconds on the clock, and of processor (other programs on the machine do not count in the second)."""

    wall: float
    processor: float


def measure(work: Callable[[], object]) -> Cost:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - wall, time.process_time() - processor)


def row(name: str, cost: Cost, count: int) -> None:
    wall, processor = (seconds / count * 1e6 for seconds in cost)
    print(f"{name:<48}{1e6 / wall:>12,.0f}{wall:>10.1f}{processor:>10.1f}")


async def trivial(item: int) -> int:
    return item


async def waiting(item: int) -> int:
    await asyncio.sleep(0)
    return item


async def consume(items: Iterable[int], fn: Callable[[int], Awaitable[int]], limit: int) -> None:
    async for _ in LocalRunner(limit).stream(fn, items):
        pass


async def collect(items: Iterable[int], fn: Callable[[int], Awaitable[int]], limit: int) -> None:
    await LocalRunner(limit).run(fn, items)


def runner_rows() -> None:
    for limit in (64, 2_000):
        for what, fn in (("never waits", trivial), ("waits once", waiting)):
            run = partial(collect, range(ITEMS), fn, limit)
            row(f"run, limit {limit:,}, {what}", measure(lambda: run_sync(run())), ITEMS)  # noqa: B023 - used at once
            stream = partial(consume, range(ITEMS), fn, limit)
            row(f"stream, limit {limit:,}, {what}", measure(lambda: run_sync(stream())), ITEMS)  # noqa: B023 - likewise
    row(
        "stream of 1,000,000 from an iterator",
        measure(lambda: run_sync(consume(iter(range(10**6)), trivial, 64))),
        10**6,
    )
    tracemalloc.start()
    run_sync(consume(iter(range(100_000)), trivial, 64))
    print(f"peak memory of a stream: {tracemalloc.get_traced_memory()[1] / 1e6:.2f} MB")
    tracemalloc.stop()


async def buy(journal: Journal, *, step: int) -> None:
    scope = journal.scope(seed=0, epoch=0, step=step)

    async def one(item: int) -> JSON:
        async def make() -> JSON:
            return VALUE

        return await scope.once("reflect", str(item), {"item": item}, make)

    await LocalRunner(64).run(one, range(ITEMS))
    journal.flush()


def raw_sqlite(folder: Path, synchronous: str) -> Cost:
    connection = sqlite3.connect(folder / f"raw-{synchronous}.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute("CREATE TABLE results (id INTEGER PRIMARY KEY, key TEXT UNIQUE, value TEXT)")
    rows = [(f"{index * 2654435761 % 2**32:08x}", json.dumps(VALUE)) for index in range(ITEMS)]

    def write() -> None:
        for start in range(0, ITEMS, 100):
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO results (key, value) VALUES (?, ?)", rows[start : start + 100])
            connection.execute("COMMIT")

    cost = measure(write)
    connection.close()
    return cost


def record_events(journal: Journal, count: int, *, flush_each: bool) -> None:
    for index in range(count):
        journal.record_event("e", index)
        if flush_each:
            journal.flush()
    journal.flush()


def journal_rows(folder: Path) -> None:
    with Journal.open(folder / "run") as journal:
        row("results bought through once(), then flushed", measure(lambda: run_sync(buy(journal, step=1))), ITEMS)
        row("results found again through once()", measure(lambda: run_sync(buy(journal, step=1))), ITEMS)
        row("events, then flushed", measure(lambda: record_events(journal, ITEMS, flush_each=False)), ITEMS)
        row("events, each flushed", measure(lambda: record_events(journal, 200, flush_each=True)), 200)
    row("raw executemany, groups of 100, NORMAL", raw_sqlite(folder, "NORMAL"), ITEMS)
    row("raw executemany, groups of 100, FULL", raw_sqlite(folder, "FULL"), ITEMS)
    size = (folder / "run" / "journal.sqlite").stat().st_size / 1e6
    row(f"open, check and close a file of {size:.0f} MB", measure(lambda: Journal.open(folder / "run").close()), 1)
    row("open and close a new run", measure(lambda: Journal.open(folder / "new").close()), 1)


def version_row(folder: Path) -> None:
    bullets = [{"id": f"misc-{index:05}", "helpful": 0, "text": f"lesson {index} " * 8} for index in range(10_000)]
    texts: list[str] = []
    for step in range(50):
        bullets[step * 7] = {**bullets[step * 7], "helpful": 1}
        texts.append(json.dumps({"bullets": bullets}))

    def add(journal: Journal) -> None:
        parent = None
        for step, text in enumerate(texts):
            parent = journal.add_version(text, f"{step:064x}", parent=parent, step=step)

    with Journal.open(folder / "versions") as journal:
        row("versions of 10,000 bullets, one changed", measure(lambda: add(journal)), len(texts))
    size = (folder / "versions" / "journal.sqlite").stat().st_size
    print(f"{sum(map(len, texts)) / 1e6:.0f} MB of playbooks are {size / 1e6:.1f} MB on disk")


def main() -> None:
    print(f"{'':<48}{'a second':>12}{'us wall':>10}{'us CPU':>10}")
    runner_rows()
    with tempfile.TemporaryDirectory() as folder:
        journal_rows(Path(folder))
        version_row(Path(folder))


if __name__ == "__main__":
    main()
