"""Aggregation at scale: bookkeeping per item, memory, lessons kept and modelled time of the preset and of ours.

Times marked "modelled" run the real code on a clock that jumps over the sleeps of simulated calls; all others are real.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator

from benchmarks.simulate import SimulatedMethod, simulated_time
from combee.kernel.aggregate import CallCost, Retention, expected, plan, scan, scan_stream
from combee.kernel.journal import MemoryScope
from combee.kernel.runner import LocalRunner

MEASURED = CallCost(alpha=10.9, beta=0.06, concurrency=512)
FORGETFUL = Retention(0.0, 40.0)


def keys(n: int) -> list[str]:
    return [f"item-{index:07d}" for index in range(n)]


def child(kind: str, n: int) -> None:
    """Run one scan alone in a process and print its CPU seconds, peak memory in MB, and share kept."""
    retention = FORGETFUL if kind == "forgetting, 3 second chances" else None
    shape = plan(n, second_chances=3 if retention else 1)
    scope = MemoryScope() if kind == "journal in memory" else None
    items, method = keys(n), SimulatedMethod(retention)
    start = time.process_time()
    result = asyncio.run(scan(items, method, shape, scope=scope))
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([seconds, peak, len(result.covered) / n]))


def bookkeeping() -> None:
    print(f"{'scan at fan-in 16':<32}{'items':>10}{'CPU s':>9}{'µs an item':>12}{'peak MB':>9}{'kept':>7}")
    for kind, n, bar in (
        ("trivial", 100_000, "bar 1.5 s, 400 MB"),
        ("trivial", 1_000_000, "bar 20 µs, 1,500 MB"),
        ("journal in memory", 100_000, ""),
        ("forgetting, 3 second chances", 1_000_000, "bar 20 µs, 1,500 MB"),
    ):
        command = [sys.executable, "-m", "benchmarks.bench_scan", kind, str(n)]
        seconds, peak, kept = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"{kind:<32}{n:>10,}{seconds:>9.2f}{seconds / n * 1e6:>12.1f}{peak:>9.0f}{kept:>7.3f}  {bar}")


def quality() -> None:
    print("\nlessons kept (simulated forgetting, m0 = 40) and modelled seconds (10.9 s + 0.06 s an item, 512 at once)")
    print(f"{'items':>10}{'paper: kept':>13}{'seconds':>9}{'ours: kept':>12}{'seconds':>9}{'reads':>7}{'calls':>8}")
    for n in (1_000, 10_000, 100_000, 1_000_000):
        method = SimulatedMethod(FORGETFUL, MEASURED)
        runner = LocalRunner(512)
        paper, slow = simulated_time(scan(keys(n), method, plan(n, preset="paper"), runner=runner))
        ours, fast = simulated_time(scan(keys(n), method, plan(n, second_chances=3), runner=runner))
        row = f"{n:>10,}{len(paper.covered) / n:>13.4f}{slow:>9.1f}{len(ours.covered) / n:>12.4f}{fast:>9.1f}"
        print(f"{row}{ours.reads / n:>7.2f}{ours.calls:>8,}")


def copies_against_second_chances() -> None:
    print("\nsecond reads blind (copies) or where needed (second chances), 10,000 items, leaves of 16")
    print(f"{'':<24}{'kept':>8}{'reads':>8}{'arithmetic':>12}{'depth':>7}")
    n = 10_000
    for name, copies, chances in (
        ("once", 1, 0),
        ("2 copies", 2, 0),
        ("1 second chance", 1, 1),
        ("3 copies", 3, 0),
        ("2 second chances", 1, 2),
    ):
        shape = plan(n, copies=copies, second_chances=chances)
        result = asyncio.run(scan(keys(n), SimulatedMethod(FORGETFUL), shape))
        model = expected(shape, FORGETFUL)
        row = f"{name:<24}{len(result.covered) / n:>8.3f}{result.reads / n:>8.2f}"
        print(f"{row}{model.kept:>12.3f}{result.depth:>7}")


async def _mapped(names: list[str], sigma: float) -> AsyncIterator[str]:
    draw = random.Random(1)
    now = 0.0
    for at, name in sorted((draw.lognormvariate(0.0, sigma), name) for name in names):
        await asyncio.sleep(at - now)
        now = at
        yield name


def pipelining() -> None:
    print(
        "\nmap of 640 calls, then leaves (modelled; medians of 1 s, lognormal): barrier, pipelined, pipelined at 95 %"
    )
    for sigma in (0.3, 0.6, 1.0):
        method = SimulatedMethod(cost=CallCost(1.0, 0.0), spread=sigma)

        async def barrier(sigma: float = sigma, method: SimulatedMethod = method) -> object:
            items = [item async for item in _mapped(keys(640), sigma)]
            return await scan(items, method, plan(640))

        whole, slow = simulated_time(barrier())
        piped, fast = simulated_time(scan_stream(_mapped(keys(640), sigma), keys(640), method, plan(640)))
        _, fastest = simulated_time(scan_stream(_mapped(keys(640), sigma), keys(640), method, plan(640), quorum=0.95))
        same = "same bytes" if piped == whole else "DIFFERENT BYTES"
        print(f"  σ = {sigma}: {slow:6.2f} s {fast:6.2f} s {fastest:6.2f} s   {same}")


def trees() -> None:
    print("\nthe preset's tree over real sleeps of 200 ms a call (two levels: limit 0.4 s)")
    for n in (40, 400, 4_000):
        method = SimulatedMethod(cost=CallCost(0.2, 0.0))
        start = time.perf_counter()
        asyncio.run(scan(keys(n), method, plan(n, preset="paper"), runner=LocalRunner(64)))
        print(f"  n = {n:>5,}: {time.perf_counter() - start:.3f} s")
    method = SimulatedMethod(cost=CallCost(1.0, 0.0))
    start = time.perf_counter()
    asyncio.run(scan(keys(36), method, plan(36, preset="paper", copies=1)))
    print(f"  n = 36, once, 6 groups, 1 s a call: {time.perf_counter() - start:.3f} s (bar 2.2)")


def main() -> None:
    bookkeeping()
    quality()
    copies_against_second_chances()
    pipelining()
    trees()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1], int(sys.argv[2]))
    else:
        main()
