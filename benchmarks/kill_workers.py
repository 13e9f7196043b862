"""Workers, drivers and a node killed with SIGKILL at random moments: the same bytes, and what was worked on twice.

Run: python -m benchmarks.kill_workers [KILLS [processes|ray [worker|driver|node ...]]], in pieces where time is short.
Ray: a cluster of two nodes is begun here, and the driver joins it from outside; an agent leaves a line for each
rollout, so what ran twice is counted. A killed driver's workers on Ray go on, and the next driver takes what they
finished.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from combee.kernel.journal import JOURNAL_NAME
from combee.kernel.playbook import Playbook

ROWS = 120
MARKS = "COMBEE_BENCH_MARKS"
_QUIET = ("--disable-usage-stats",)


def answer(question: str, playbook: Playbook) -> str:
    """A rollout of 50 ms that leaves two lines: begun, and done."""
    number = question.rsplit(maxsplit=1)[-1]
    with Path(os.environ[MARKS]).open("a", encoding="utf-8") as file:
        file.write(f"begun {os.getpid()} {number} {len(playbook)}\n")
    time.sleep(0.05)
    with Path(os.environ[MARKS]).open("a", encoding="utf-8") as file:
        file.write(f"done {os.getpid()} {number} {len(playbook)}\n")
    return f"l{len(question) % 3}"


def marks(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


class Trial:
    """One run in a folder of its own."""

    def __init__(self, folder: Path, kind: str, address: str | None) -> None:
        folder.mkdir()
        self.folder, self.marks = folder, folder / "marks"
        rows = [{"question": f"ticket {'x' * (n % 3)} {n}", "answer": f"l{n * 7 % 3}"} for n in range(ROWS)]
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        variables = json.dumps(str(self.marks))
        (folder / "combee.toml").write_text(
            f"[workers.runtime_env.env_vars]\n{MARKS} = {variables}\n", encoding="utf-8"
        )
        self.workers = ["--workers", kind, *(["--workers-at", address] if address else [])]
        self.environment = {**os.environ, MARKS: str(self.marks), "PYTHONPATH": str(Path.cwd())}

    def driver(self, *, goes_on: bool) -> subprocess.Popen[str]:
        """Begin the run, or go on with it."""
        agent = ("--set", "agent.function=benchmarks.kill_workers:answer", "--batch", "24", "--set", "workers.count=2")
        shape = ("--set", "workers.in_flight=4", "--set", "workers.chunk=1")
        begun = ("learn", "rows.jsonl", *agent, *shape, "--out", "run")
        arguments = ("resume", "run", *self.workers) if goes_on else (*begun, *self.workers)
        return subprocess.Popen(
            [sys.executable, "-m", "combee", *arguments, "--quiet"],
            cwd=self.folder, env=self.environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def until(self, done: int, process: subprocess.Popen[str]) -> None:
        """Wait until so many rollouts are done, or the process has ended."""
        while process.poll() is None and sum(mark[0] == "done" for mark in marks(self.marks)) < done:
            time.sleep(0.01)

    def end(self, process: subprocess.Popen[str]) -> str:
        """Wait for the end of a run; return its book."""
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        return (self.folder / "run/playbook.json").read_text(encoding="utf-8")

    def twice(self) -> int:
        """Return how many rollouts that were finished ran again (a book of one size tells steps apart)."""
        done = Counter((number, book) for what, _, number, book in marks(self.marks) if what == "done")
        return sum(times - 1 for times in done.values())


def main() -> int:
    """Print one line a kind of kill; return 1 where bytes differed."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    kind = sys.argv[2] if len(sys.argv) > 2 else "processes"
    draw, bad = random.Random(0), 0
    with tempfile.TemporaryDirectory(prefix="combee-kill-") as name:
        folder = Path(name)
        print("| kind | killed | kills | same book | finished rollouts that ran again, at how many kills |")
        print("|---|---|---|---|---|")
        local = Trial(folder / "local", "local", None)
        book = local.end(local.driver(goes_on=False))
        address = None if kind == "processes" else begin_cluster(folder)
        try:
            for what in sys.argv[3:] or ("worker", "driver", *(["node"] if address else [])):
                times = kills if what != "node" else max(1, kills // 4)
                twice, same = Counter[int](), 0
                for kill in range(times):
                    trial = Trial(folder / f"{what}-{kill}", kind, address)
                    process = trial.driver(goes_on=False)
                    trial.until(draw.randrange(1, ROWS // 2), process)
                    if what == "driver":
                        process.kill()
                        process.communicate()
                        process = trial.driver(goes_on=(trial.folder / "run" / JOURNAL_NAME).exists())
                    elif what == "worker":
                        os.kill(int(marks(trial.marks)[-1][1]), signal.SIGKILL)
                    else:
                        end_node(folder)
                        begin_node()
                    same += trial.end(process) == book
                    twice[trial.twice()] += 1
                bad += times - same
                again = ", ".join(f"{rollouts} at {count}" for rollouts, count in sorted(twice.items()))
                print(f"| {kind} | {what} | {times} | {same} | {again} |", flush=True)
        finally:
            if address:
                end_all(folder)
    return 1 if bad else 0


def ray_command(*arguments: str) -> str:
    command = [str(Path(sys.executable).parent / "ray"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ}).stdout


def begin_cluster(folder: Path) -> str:
    """Begin a head that takes no work, and a node with two cores' worth of workers; both name the folder."""
    os.environ["PYTHONPATH"] = str(Path.cwd())
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    own = f"--temp-dir={folder}/ray"
    ray_command("start", "--head", "--port=6399", "--num-cpus=0", own, *_QUIET, "--include-dashboard=false")
    begin_node()
    return "127.0.0.1:6399"


def begin_node() -> None:
    ray_command("start", "--address=127.0.0.1:6399", "--num-cpus=2", *_QUIET)


def begun_here(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the processes of this cluster and no other one, with their words."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().decode(errors="replace").split("\0")
            if any(f"{folder}/ray" in word for word in words):
                yield int(entry.parent.name), words


def end_node(folder: Path) -> None:
    """Kill the raylet of the node with cores, and what runs on it."""
    marks = ("CPU,2", "--num_prestart_python_workers=2")
    for process, words in begun_here(folder):
        if words[0].endswith("raylet") and any(mark in word for word in words for mark in marks):
            os.kill(process, signal.SIGKILL)


def end_all(folder: Path) -> None:
    """Kill what is left of the cluster."""
    for process, _ in list(begun_here(folder)):
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
