"""Traces: megabytes read, redacted and cleaned a second on one core, and the memory of reading a growing file."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from combee.redaction import Trace, clean, redact, to_jsonl
from combee.traces.readers import read

MEGABYTE = 1_000_000
SIZES = (100, 500, 2000)
_WORDS = (
    "make|error:|undefined reference|the|test_add|src/calc.py|line 12|passed|pip install|returned|"
    "ModuleNotFoundError|assert|config.yaml|None|port 8080|retry|/app/data|value=3|tokens|def run():"
)
WORDS = _WORDS.split("|")


def a_conversation(chance: random.Random, at: int) -> dict[str, object]:
    """Return a chat of some 30 kB with calls and outputs, as agents leave them."""

    def prose(words: int) -> str:
        return " ".join(chance.choices(WORDS, k=words))

    messages: list[dict[str, object]] = [{"role": "user", "content": f"task {at}: {prose(60)}"}]
    for turn in range(12):
        function = {"name": "bash", "arguments": json.dumps({"command": prose(8)})}
        call = {"id": f"c{turn}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": prose(40), "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": prose(220)})
    return {"messages": messages}


def write_chats(path: Path, megabytes: int) -> None:
    """Write JSON lines until the file has the size; a pool of lines is repeated with a number of their own."""
    chance = random.Random(1)
    pool = [json.dumps(a_conversation(chance, at)) for at in range(200)]
    size = 0
    with path.open("w", encoding="utf-8") as file:
        while size < megabytes * MEGABYTE:
            size += file.write(pool[size % len(pool)].replace("task ", f"task {size}-", 1) + "\n")


def rate(work: Callable[[], int]) -> float:
    """Return the best of three, in MB a second of processor time."""
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        amount = work()
        best = max(best, amount / MEGABYTE / (time.process_time() - start))
    return best


def drained(traces: Iterator[Trace]) -> int:
    return sum(1 for _ in traces)


def peak_of(path: Path) -> tuple[float, float]:
    """Return the peak memory in MB and the seconds of reading a file in a process of its own."""
    code = "import re, sys\nfrom combee.traces.readers import read\nsum(1 for _ in read(sys.argv[1]))\n"
    code += "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    return int(done.stdout) / 1000, time.perf_counter() - start


def main() -> None:
    """Print the speeds, then the memory at 100 MB, 500 MB and 2 GB (smaller where COMBEE_BENCH_SMALL is set)."""
    sizes = (20, 100) if os.environ.get("COMBEE_BENCH_SMALL") else SIZES
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.jsonl"
        write_chats(path, 50)
        traces = list(read(path))
        texts = [step.text for trace in traces for step in trace.steps]
        total = sum(len(text) for text in texts)
        own = Path(folder) / "own.jsonl"
        own.write_text("".join(to_jsonl(traces)), encoding="utf-8")

        def clean_all() -> int:
            for trace in traces:
                clean(trace, 4000)
            return total

        def redact_all() -> int:
            for text in texts:
                redact(text)
            return total

        def read_file(each: Path) -> Callable[[], int]:
            return lambda: each.stat().st_size if drained(read(each)) else 0

        print(f"{'work':<34}{'MB/s of one core':>18}")
        for name, work in (
            ("read chat JSONL", read_file(path)),
            ("read our own JSONL", read_file(own)),
            ("redact texts of steps", redact_all),
            ("clean to 4,000 tokens", clean_all),
        ):
            print(f"{name:<34}{rate(work):>18.1f}")
        print(f"\n{'file':<34}{'peak MB':>10}{'wall s':>8}")
        for size in sizes:
            write_chats(path, size)
            peak, seconds = peak_of(path)
            print(f"{f'chat JSONL of {size} MB':<34}{peak:>10.0f}{seconds:>8.1f}")


if __name__ == "__main__":
    main()
