"""The real Harbor on ten tasks of ours, without docker: held-out reward by what was taught, and by nothing else.

Needs `harbor` (0.26) on the PATH, Linux and root; says so and ends where that is missing. Commands are those that a
user types, in a folder of their own. The control says of each failed command what worked for another one.
Run: python -m benchmarks.bench_harbor
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from combee.kernel.playbook import Playbook, load, save

LAB = Path(__file__).parent / "harbor_lab"


def main() -> None:
    """Print a table of held-out rewards by playbook."""
    if shutil.which("harbor") is None or os.name != "posix" or os.geteuid() != 0:
        print("harbor is not on the PATH, or this is not Linux as root: nothing is measured")
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("overlay.py", "combee.toml", "make_tasks.py"):
            shutil.copy(LAB / name, folder)
        subprocess.run([sys.executable, "make_tasks.py"], cwd=folder, check=True)
        rows = [("reference solution", *oracle(folder))]
        for name, words in {"instruction": (), "skill": ("--set", "environment.book=skill")}.items():
            combee(folder, "learn", "--name", name, *words)
            rows.append((f"learned; read as {name}", *scored(folder, name)))
        combee(folder, "learn", "--name", "offline", "--from", "runs/instruction/trials")
        rows.append(("learned from the recorded trials", *scored(folder, "runs/offline", "tasks")))
        save(shuffled(load(folder / "runs/instruction/playbook.json")), folder / "shuffled.json")
        rows.append(("the same lessons, shuffled", *scored(folder, "shuffled.json")))
    print(f"{'playbook':34} {'taught (3)':>10} {'never taught (1)':>16} {'none (4)':>9} {'seconds':>8}")
    for name, taught, never, without, seconds in rows:
        print(f"{name:34} {taught:10.2f} {never:16.2f} {without:9.2f} {seconds:8.1f}")


def combee(folder: Path, *words: str) -> str:
    """Run combee as a user does."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "combee", *words]
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def scored(folder: Path, *words: str) -> tuple[float, float, float, float]:
    """Return held-out reward of what was taught and of what never was, that without a playbook, and the seconds."""
    begun = time.perf_counter()
    found = json.loads(combee(folder, "eval", *words, "--json"))
    passed = {row["task"]: row["hits"] for row in found["rows"]}
    never = passed.pop("test/pack-insure")
    return sum(passed.values()) / len(passed), never, found["without_playbook"], time.perf_counter() - begun


def oracle(folder: Path) -> tuple[float, float, float, float]:
    """Return the reward of the reference solutions, by Harbor alone."""
    begun = time.perf_counter()
    words = ["harbor", "run", "-p", "tasks/test", "-e", "overlay:Overlay", "-a", "oracle", "--job-name", "oracle", "-y"]
    subprocess.run(
        [*words, "-q"], cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, check=True, capture_output=True
    )
    results = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("jobs/oracle/*/result.json")]
    rewards = {one["task_name"]: one["verifier_result"]["rewards"]["reward"] for one in results}
    never = rewards.pop("pack-insure")
    return sum(rewards.values()) / len(rewards), never, float("nan"), time.perf_counter() - begun


def shuffled(book: Playbook) -> Playbook:
    """Return the book with each lesson's remedy taken from a lesson on another command."""
    verbs = [bullet.text.split()[1] for bullet in book]
    options = {bullet.text.split()[1]: bullet.text.rpartition("`depot ")[2].split()[1] for bullet in book}
    names = sorted(options)
    other = {name: options[names[(at + 1) % len(names)]] for at, name in enumerate(names)}
    bullets = [
        replace(bullet, text=bullet.text.replace(options[verb], other[verb]))
        for bullet, verb in zip(book, verbs, strict=True)
    ]
    return Playbook(tuple(bullets), book.high_water, counter=book.counter)


if __name__ == "__main__":
    main()
