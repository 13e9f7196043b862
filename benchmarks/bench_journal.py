"""What the journal and the runner cost: microseconds an item, results a second, beside raw SQLite in the same run."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from combee.journal import JSON, Journal
from combee.runner import LocalRunner, run_sync

ITEMS = 50_000
VALUE: JSON = {"text": "lesson " * 60, "helpful": ["misc-00001"], "harmful": []}


def measure(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


async def trivial(item: int) -> int:
    return item


async def waiting(item: int) -> int:
    await asyncio.sleep(0)
    return item


def runner_rows() -> None:
    print(f"{'runner, microseconds an item':<44}{'never waits':>12}{'waits once':>12}")
    for limit in (64, 2_000):
        runner = LocalRunner(limit)
        costs = [
            measure(lambda fn=fn, runner=runner: run_sync(runner.run(fn, range(ITEMS)))) for fn in (trivial, waiting)
        ]
        print(f"{f'run, limit {limit:,}':<44}{costs[0] / ITEMS * 1e6:>12.1f}{costs[1] / ITEMS * 1e6:>12.1f}")

        async def stream(fn: Callable[[int], object], runner: LocalRunner = runner) -> None:
            async for _ in runner.stream(fn, range(ITEMS)):  # type: ignore[arg-type]  # fn is one of two coroutines
                pass

        costs = [measure(lambda fn=fn: run_sync(stream(fn))) for fn in (trivial, waiting)]  # type: ignore[misc]  # likewise
        print(f"{f'stream, limit {limit:,}':<44}{costs[0] / ITEMS * 1e6:>12.1f}{costs[1] / ITEMS * 1e6:>12.1f}")


def million_row() -> None:
    async def stream() -> None:
        async for _ in LocalRunner(64).stream(trivial, iter(range(1_000_000))):
            pass

    seconds = measure(lambda: run_sync(stream()))
    tracemalloc.start()
    run_sync(LocalRunner(64).run(trivial, range(1)))
    base = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()

    async def part() -> None:
        async for _ in LocalRunner(64).stream(trivial, iter(range(100_000))):
            pass

    run_sync(part())
    peak = tracemalloc.get_traced_memory()[1] - base
    tracemalloc.stop()
    print(f"\nstream of 1,000,000 items: {seconds:.2f} s; peak memory of a stream {peak / 1e6:.2f} MB")


async def buy(journal: Journal, *, step: int) -> None:
    scope = journal.scope(seed=0, epoch=0, step=step)

    async def one(item: int) -> JSON:
        async def make() -> JSON:
            return VALUE

        return await scope.once("reflect", str(item), {"item": item}, make)

    await LocalRunner(64).run(one, range(ITEMS))
    journal.flush()


def raw_sqlite(folder: Path, synchronous: str) -> float:
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

    seconds = measure(write)
    connection.close()
    return seconds


def journal_rows(folder: Path) -> None:
    def row(name: str, seconds: float) -> None:
        print(f"{name:<44}{ITEMS / seconds:>12,.0f}{seconds / ITEMS * 1e6:>16.1f}")

    print(f"\n{'journal, results of 480 bytes':<44}{'a second':>12}{'microseconds':>16}")
    with Journal.open(folder / "run") as journal:
        row("bought through once(), flushed", measure(lambda: run_sync(buy(journal, step=1))))
        row("found again through once()", measure(lambda: run_sync(buy(journal, step=1))))
        row("events", measure(lambda: [journal.record_event("e", index) for index in range(ITEMS)] and journal.flush()))
    row("raw executemany, groups of 100, NORMAL", raw_sqlite(folder, "NORMAL"))
    row("raw executemany, groups of 100, FULL", raw_sqlite(folder, "FULL"))
    seconds = measure(lambda: Journal.open(folder / "run").close())
    size = (folder / "run" / "journal.sqlite").stat().st_size
    print(f"open and close, {size / 1e6:.0f} MB, checked: {seconds * 1000:.0f} ms")
    begin = time.perf_counter()
    with Journal.open(folder / "small") as journal:
        opened = time.perf_counter()
        for index in range(200):
            journal.record_event("e", index)
            journal.flush()
        print(
            f"open a new run: {(opened - begin) * 1000:.1f} ms; one flush: {(time.perf_counter() - opened) * 5:.2f} ms"
        )


def version_row(folder: Path) -> None:
    bullets = [{"id": f"misc-{index:05}", "helpful": 0, "text": f"lesson {index} " * 8} for index in range(10_000)]
    with Journal.open(folder / "versions") as journal:
        parent, total = None, 0
        begin = time.perf_counter()
        for step in range(50):
            bullets[step * 7] = {**bullets[step * 7], "helpful": 1}
            text = json.dumps({"bullets": bullets})
            total += len(text)
            parent = journal.add_version(text, f"{step:064x}", parent=parent, step=step)
        seconds = time.perf_counter() - begin
    size = (folder / "versions" / "journal.sqlite").stat().st_size
    print(
        f"50 versions of 10,000 bullets: {seconds / 50 * 1000:.0f} ms each, {total / 1e6:.0f} MB stored in {size / 1e6:.1f} MB"
    )


def main() -> None:
    runner_rows()
    million_row()
    with tempfile.TemporaryDirectory() as folder:
        journal_rows(Path(folder))
        version_row(Path(folder))


if __name__ == "__main__":
    main()
