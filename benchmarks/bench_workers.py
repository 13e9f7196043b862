"""Workers side by side: the same run local, on processes and, where Ray is installed, on Ray.

What a sample costs the driver, in CPU: the whole run but for the aggregation, which is local in each. Then rollouts
that take CPU (2 s each, or SECONDS as the first argument) on 1, 2 and 4 workers: the speed-up over one, and over what
plain processes gain that do the same without us (a shared machine gives less than its cores); with SECONDS 0 none.
Run: python -m benchmarks.bench_workers [SECONDS [SAMPLES [CHUNK ...]]]
"""

from __future__ import annotations

import hashlib
import importlib.util
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

import combee
from combee.kernel.journal import Journal
from combee.kernel.playbook import Playbook

SAMPLES = 6_000
LABELS = 40
CHUNKS = (1, 16, 128)
ROLLOUTS = 24


def answer(question: str, playbook: Playbook) -> str:
    """An agent that costs nothing."""
    return "l0"


def work(question: str, playbook: Playbook) -> str:
    """An agent that takes CPU: as many rounds as the environment says."""
    text = b""
    for _ in range(int(os.environ["COMBEE_BENCH_ROUNDS"])):
        text = hashlib.sha256(text).digest()
    return f"l{text[0] % LABELS}"


def rounds_for(seconds: float) -> int:
    begun, text = time.process_time(), b""
    for _ in range(200_000):
        text = hashlib.sha256(text).digest()
    return int(200_000 * seconds / (time.process_time() - begun))


def rows(count: int) -> list[tuple[str, str]]:
    return [
        (f"ticket {n}: the {n * 7919 % 9973}th word of it", f"l{n * 31 % (LABELS if count > 400 else 3)}")
        for n in range(count)
    ]


def run(folder: Path, samples: int, workers: dict[str, object], agent: object) -> tuple[float, float, str]:
    """Return the driver's CPU seconds, the wall, and the hash of book, results and decisions."""
    cpu, wall = time.process_time(), time.perf_counter()
    learning = {"aggregate": "combee", "eval_every": 10**9, "concurrency": 512}
    settings = {"learn": learning, "workers": workers, "tasks": {"train": samples - 2, "val": 1, "test": 1}}
    combee.learn(rows(samples), agent=agent, batch=500, folder=folder, settings=settings)  # type: ignore[arg-type]
    used = time.process_time() - cpu, time.perf_counter() - wall
    hasher = hashlib.sha256((folder / "playbook.json").read_bytes())
    with Journal.open(folder, create=False, read_only=True) as journal:
        lines = sorted(f"{address} {value}" for address, value in journal.results())
    hasher.update("\n".join(lines).replace(folder.name, "RUN").encode())
    return *used, hasher.hexdigest()[:12]


def main() -> None:
    """Print both tables."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    samples = int(sys.argv[2]) if len(sys.argv) > 2 else SAMPLES
    chunks = [int(each) for each in sys.argv[3:]] or CHUNKS
    kinds = ["processes", *(["ray"] if importlib.util.find_spec("ray") else [])]
    with tempfile.TemporaryDirectory(prefix="combee-workers-") as name:
        folder = Path(name)
        local, wall, whole = run(folder / "local", samples, {}, answer)
        print(f"{samples} samples, driver CPU a sample; local {1e6 * local / samples:.0f} us, wall {wall:.1f} s")
        print("| kind | chunk | driver, us | over local, us | wall, s | same bytes |\n|---|---|---|---|---|---|")
        for kind in kinds:
            for chunk in chunks:
                workers = {"kind": kind, "count": 2, "chunk": chunk, "in_flight": 256}
                used, wall, found = run(folder / f"{kind}-{chunk}", samples, workers, answer)
                each = 1e6 * used / samples
                print(
                    f"| {kind} | {chunk} | {each:.0f} | {each - 1e6 * local / samples:.0f} | {wall:.1f} "
                    f"| {'yes' if found == whole else 'NO'} |",
                    flush=True,
                )
        if not seconds:
            return
        os.environ["COMBEE_BENCH_ROUNDS"] = str(rounds_for(seconds))
        print(f"\n{ROLLOUTS} rollouts of {seconds:g} s CPU")
        print("| kind | workers | wall, s | plain processes, s | speed-up | of that of plain processes |")
        print("|---|---|---|---|---|---|")
        for kind in kinds:
            first = (0.0, 0.0)
            for count in (1, 2, 4):
                workers = {"kind": kind, "count": count, "chunk": 1, "in_flight": 1, "cpus": 0.25}
                least = plain(count)
                _, wall, _ = run(folder / f"{kind}-work-{count}", ROLLOUTS + 2, workers, work)
                first = first if first[0] else (wall, least)
                gain = first[0] / wall
                print(
                    f"| {kind} | {count} | {wall:.1f} | {least:.1f} | {gain:.2f} | {gain / (first[1] / least):.2f} |",
                    flush=True,
                )


def plain(count: int) -> float:
    """Return the seconds that so many processes take for all rollouts (and the one that validates)."""
    begun = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        pool.map(_plain, range(ROLLOUTS + 1), chunksize=1)
    return time.perf_counter() - begun


def _plain(number: int) -> None:
    work(str(number), Playbook())


if __name__ == "__main__":
    main()
