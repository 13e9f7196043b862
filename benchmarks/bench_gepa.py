"""GEPA reflection: wall over the latencies of its levels, calls, and tokens of delta mode beside full rewrites.

Every row runs in a process of its own. Rows on gepa's main branch need GEPA_MAIN, the `src` folder of a checkout; they
are skipped with a reason otherwise.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from combee.kernel.playbook import Bullet, Playbook, count_tokens, to_text

LATENCY = 0.2
SIZES = (40, 400, 4_000)
BARS = {40: 1.15, 400: 1.2, 4_000: 1.3}
REPEATS = 3


def records(n: int) -> list[dict[str, str]]:
    text = "The assistant was asked for the reading of a gauge and gave the reading of another one. " * 3
    said = [f"Gauge G-{i:04d} reads {i * 37 % 1000}." for i in range(n)]
    return [{"Inputs": f"case {i}", "Generated": text, "Feedback": one} for i, one in enumerate(said)]


class Sleepy:
    """Answers after 200 ms, blocking its thread; counts."""

    calls = 0
    lock = threading.Lock()

    def __call__(self, prompt: object) -> str:
        """Return the same text each time."""
        with self.lock:
            self.calls += 1
        time.sleep(LATENCY)
        return "```\nA better text.\n```"


def reflection_of(kind: str, lm: Sleepy) -> Any:
    if kind == "gepa's ComBEE":
        from gepa.proposer.reflective_mutation.combee import ComBEEReflectionLM  # type: ignore[import-not-found]

        return ComBEEReflectionLM(lm)
    from combee.gepa import CombeeReflection

    if kind == "threads":
        return CombeeReflection(lm, concurrency=512)

    async def ask(prompt: str) -> str:
        lm.calls += 1
        await asyncio.sleep(LATENCY)
        return "```\nA better text.\n```"

    return CombeeReflection(ask)


def child(kind: str, n: int) -> None:
    """Reflect once on n records; print wall, calls and levels as JSON."""
    lm = Sleepy()
    reflection = reflection_of(kind, lm)
    job = ({"a": "The text."}, {"a": records(n)}, ["a"])
    if kind != "gepa's ComBEE":
        reflection.reflect({"a": "warm"}, {"a": records(2)}, ["a"])  # starts the loop and imports what is lazy
        lm.calls = 0
    begun, used = time.perf_counter(), time.process_time()
    proposal, _ = reflection.reflect(*job)
    wall, cpu = time.perf_counter() - begun, time.process_time() - used
    levels = proposal.metadata.get("combee:a", {}).get("levels", 0)
    print(json.dumps([wall, lm.calls, levels, cpu]))


def measure(kind: str, n: int, path: str | None = None) -> tuple[float, int, int, float]:
    env = dict(os.environ) | ({"PYTHONPATH": path} if path else {})
    found = []
    for _ in range(1 if kind == "gepa's ComBEE" else REPEATS):
        command = [sys.executable, "-m", "benchmarks.bench_gepa", kind, str(n)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    wall, calls, levels, cpu = min(found)
    return wall, calls, levels, cpu


def main_branch() -> str | None:
    """The `src` of gepa's main branch, or None with the reason printed."""
    given = os.environ.get("GEPA_MAIN")
    if not given:
        print("gepa main: skipped, GEPA_MAIN is not set to the src folder of a checkout")
        return None
    path = Path(given).resolve()
    if not (path / "gepa/proposer/reflective_mutation/combee.py").is_file():
        print(f"gepa main: skipped, {path} holds no gepa with a ComBEE")
        return None
    return str(path)


def speed() -> None:
    path = main_branch()
    print(f"one proposal, {LATENCY * 1000:.0f} ms a call; best of {REPEATS} (ComBEE: one run)")
    print(f"{'':<34}{'records':>8}{'calls':>7}{'levels':>8}{'wall s':>9}{'CPU s':>8}{'over its levels':>17}")
    for n in SIZES:
        rows: list[tuple[str, str, str | None]] = [
            ("Combee, function in threads", "threads", None),
            ("Combee, async function", "async", None),
        ]
        if path:
            rows += [("Combee on gepa main", "async", path), ("gepa main, its ComBEE", "gepa's ComBEE", path)]
        for name, kind, where in rows:
            wall, calls, levels, cpu = measure(kind, n, where)
            ratio = f"{wall / (levels * LATENCY):.3f}" if levels else "-"
            bar = f"  bar {BARS[n]}" if levels else ""
            print(f"{name:<34}{n:>8,}{calls:>7,}{levels or '-':>8}{wall:>9.3f}{cpu:>8.3f}{ratio:>17}{bar}", flush=True)


def book_of(count: int) -> Playbook:
    lesson = "When gauge G-{0:04d} of the north hall is asked for, its reading is {1}; check the valve beside it first."
    section = "FORMULAS & CALCULATIONS"
    bullets = [Bullet(f"calc-{i:05d}", section, lesson.format(i, 900 + i)) for i in range(1, count + 1)]
    return Playbook(tuple(bullets), count)


class Writer:
    """Writes what it is asked for in full: the whole text again, or only operations; counts tokens."""

    def __init__(self) -> None:
        self.calls = self.read = self.wrote = 0
        self._lock = threading.Lock()  # Combee calls it from many threads

    def __call__(self, prompt: str) -> str:
        """Return what was asked for."""
        reply = self._reply(prompt)
        read, wrote = count_tokens(prompt), count_tokens(reply)
        with self._lock:
            self.calls += 1
            self.read += read
            self.wrote += wrote
        return reply

    def _reply(self, prompt: str) -> str:
        lessons = dict.fromkeys(line for line in prompt.split("\n") if line.startswith(("Feedback: ", "- Gauge")))
        texts = [line.removeprefix("Feedback: ").removeprefix("- ") for line in lessons]
        texts += [line for line in prompt.split("\n") if line.startswith("Gauge G-")]  # as gepa's own prompt shows it
        if '"operations"' not in prompt:
            book = [line for line in dict.fromkeys(prompt.split("\n")) if line.startswith(("[calc-", "## "))]
            return "\n".join(["```", *book, *(f"- {text}" for text in dict.fromkeys(texts)), "```"])
        order = [
            {"type": "ADD", "section": "OTHERS", "content": text, "bullet_ids": [], "sources": [place]}
            for place, text in enumerate(texts, start=1)
        ]
        return json.dumps({"reasoning": "", "operations": order})


def tokens() -> None:
    from gepa.proposer.reflective_mutation.reflection_lm import StatelessReflectionLM

    from combee.gepa import CombeeReflection

    text = to_text(book_of(200))
    print(f"\n40 records on a playbook of 200 bullets ({count_tokens(text):,} tokens): tokens of reflection")
    print(f"{'':<44}{'calls':>6}{'read':>10}{'written':>10}{'in a row':>10}{'lessons':>9}")
    rows: list[tuple[str, dict[str, Any] | None, int]] = [
        ("gepa, full rewrite, 3 records a time", None, 3),
        ("gepa, full rewrite, 40 records at once", None, 40),
        ("Combee, full rewrite (tree, p = 2)", {"playbooks": []}, 40),
        ("Combee, delta mode, 3 records a time", {}, 3),
        ("Combee, delta mode", {}, 40),
    ]
    for name, options, batch in rows:
        lm = Writer()
        now, chain = text, 0
        ours = None if options is None else CombeeReflection(lm, output_tokens=50_000, **options)
        reflection: Any = ours or StatelessReflectionLM(lm)
        for start in range(0, 40, batch):
            job = ({"book": now}, {"book": records(40)[start : start + batch]}, ["book"])
            proposal, _ = reflection.reflect(*job)
            now = proposal.new_texts["book"]
            chain += proposal.metadata.get("combee:book", {}).get("levels", 1)
        learned = sum(f"Gauge G-{i:04d} reads {i * 37 % 1000}." in now for i in range(40))
        print(f"{name:<44}{lm.calls:>6}{lm.read:>10,}{lm.wrote:>10,}{chain:>10}{learned:>6}/40")


def main() -> None:
    speed()
    tokens()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1], int(sys.argv[2]))
    else:
        main()
