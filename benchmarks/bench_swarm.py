"""Messages a second by 16 writers, half of them killed; scripted agents in memory, and what they handle."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

from combee.swarm import USER, PolicyModel, Reply, Swarm, View, World, publish, use
from combee.swarm.mail import send

WRITERS = 16
EACH = 5_000
AGENTS = 10_000


def _write(path: Path, name: str, safe: str) -> None:
    with World.open(path) as world, Path(safe).open("a", encoding="ascii") as file:
        for start in range(0, EACH, 100):
            with world.step():
                for number in range(start, start + 100):
                    send(world, key=f"{name}/{number}", kind="tell", sender=name, recipient="box", body="x" * 100)
            world.flush()
            file.write(f"{start + 100}\n")
            file.flush()


def _start(folder: Path) -> list[multiprocessing.process.BaseProcess]:
    context = multiprocessing.get_context("fork")
    made: list[multiprocessing.process.BaseProcess] = [
        context.Process(target=_write, args=(folder / "w.sqlite", f"w{n}", str(folder / f"safe{n}")))
        for n in range(WRITERS)
    ]
    for process in made:
        process.start()
    return made


def writers(*, kill: bool) -> None:
    """Print the rate of 16 writing processes; with `kill`, half die by SIGKILL and are started again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with World.open(folder / "w.sqlite") as world, world.step():
            world.spawn("box")
            for number in range(WRITERS):
                world.spawn(f"w{number}")
        began = time.perf_counter()
        running = _start(folder)
        if kill:
            while sum((folder / f"safe{n}").exists() for n in range(WRITERS)) < WRITERS // 2:
                time.sleep(0.01)
            for process in running[::2]:
                if process.pid is not None:
                    os.kill(process.pid, signal.SIGKILL)
        for process in running:
            process.join()
        took = time.perf_counter() - began
        lost = _missing(folder)
        if kill:
            for process in _start(folder):
                process.join()
        with World.open(folder / "w.sqlite", read_only=True) as world:
            rows, keys = world.rows("SELECT count(*), count(DISTINCT key) FROM mail")[0]
        ok = rows == keys == WRITERS * EACH
        what = "kill -9 of 8 of 16, gone on" if kill else f"16 writers, {rows / took:,.0f} messages/s"
        verdict = "ok" if ok and not lost else "WRONG"
        print(f"{what:<34}{rows:>8} messages   safe and lost: {lost}   doubled: {rows - keys}   {verdict}")


def _missing(folder: Path) -> int:
    lost = 0
    with World.open(folder / "w.sqlite", read_only=True) as world:
        for number in range(WRITERS):
            file = folder / f"safe{number}"
            safe = int(file.read_text().split()[-1]) if file.exists() and file.read_text() else 0
            found = world.rows("SELECT count(*) FROM mail WHERE sender = ?", f"w{number}")[0][0]
            lost += max(0, safe - found)
    return lost


def _policy(view: View) -> Reply | str:
    if view.mail.kind == "tell":
        return "read" if view.results() else Reply(calls=(use("read", path=view.mail.body),))
    return "answer"


def agents() -> None:
    """Print memory and speed of 10,000 scripted agents that each read a document and answer a question."""
    with tempfile.TemporaryDirectory() as name, World.open(Path(name) / "w.sqlite") as world:
        swarm = Swarm(world, {"": PolicyModel(_policy)})
        began = time.perf_counter()
        with world.step():
            for number in range(AGENTS):
                publish(world, f"doc/{number:05d}", f"k{number}={'x' * 400}", "author")
                world.spawn(f"a{number}")
                swarm.tell(f"a{number}", f"doc/{number:05d}")
            for number in range(AGENTS):
                swarm.ask(USER, "?", to=f"a{number}")
        handled = asyncio.run(swarm.run())
        took = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
        rate = f"{handled:,} messages handled in {took:.1f} s ({handled / took:,.0f}/s)"
        print(f"{AGENTS:,} agents: {rate}, peak {peak:,.0f} MB")


def main() -> None:
    """Run all three."""
    writers(kill=False)
    writers(kill=True)
    agents()


if __name__ == "__main__":
    main()
