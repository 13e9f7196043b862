"""kill -9 of `combee learn tags` at random moments, resumed each time to the end: the same bytes, what was done twice.

Run: python -m benchmarks.kill_resume [moments [train rows]]. Every moment kills one run and resumes it; its book must
be that of the run nobody touched. Work may be done again only where it was under way or inside the last commit window.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ARGUMENTS = ("learn", "tags", "--val", "10", "--test", "5", "--batch", "30", "--quiet", "--json")


@dataclass(frozen=True)
class Outcome:
    """One kill: when, what the journal held by then, what the resume reused, bought, and bought again."""

    moment: float
    killed: bool
    same: bool
    reused: int
    bought: int
    again: int
    results: int


def combee(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "combee", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def whole(folder: Path, train: int) -> tuple[bytes, dict[str, int], float]:
    """Run without a kill; return the playbook, the counts of work, and the seconds."""
    began = time.perf_counter()
    done = combee(*ARGUMENTS, "--train", str(train), "--name", "whole", folder=folder)
    assert done.returncode == 0, done.stderr
    book = (folder / "runs/whole/playbook.json").read_bytes()
    return book, json.loads(done.stdout)["calls"], time.perf_counter() - began


def kill_once(name: str, moment: float, book: bytes, *, results: int, folder: Path, train: int) -> Outcome:
    """Kill a run after `moment` seconds, then go on with it to the end."""
    command = [sys.executable, "-m", "combee", *ARGUMENTS, "--train", str(train), "--name", name]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(moment)
            killed = False
        except subprocess.TimeoutExpired:
            process.kill()
            killed = True
    if not killed or not (folder / "runs" / name / "journal.sqlite").exists():
        return Outcome(moment, killed=False, same=True, reused=0, bought=0, again=0, results=results)
    done = combee("resume", name, "--quiet", "--json", folder=folder)
    if done.returncode == 2 and "before it began" in done.stderr:
        return Outcome(moment, killed=False, same=True, reused=0, bought=0, again=0, results=results)
    assert done.returncode == 0, done.stderr
    calls = json.loads(done.stdout)["calls"]
    same = (folder / "runs" / name / "playbook.json").read_bytes() == book
    return Outcome(moment, killed, same, calls["reused"], calls["bought"], calls["bought_again"], results)


def kill_many(moments: int, train: int, *, seed: int = 0) -> list[Outcome]:
    """Kill at so many random moments, spread over the time in which a run works."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        book, calls, seconds = whole(folder, train)
        outcomes: list[Outcome] = []
        tries = 0
        while len(outcomes) < moments and tries < 10 * moments:
            tries += 1
            found = kill_once(
                f"killed{tries}",
                rng.uniform(0.3, 0.95) * seconds,
                book,
                results=calls["bought"],
                folder=folder,
                train=train,
            )
            if found.killed:
                outcomes.append(found)
    return outcomes


def main() -> None:
    """Print one line a kill."""
    moments = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    outcomes = kill_many(moments, int(sys.argv[2]) if len(sys.argv) > 2 else 240)
    print(f"{'killed at':>10}{'reused':>8}{'bought':>8}{'again':>7}   playbook")
    for one in outcomes:
        shown = "the same bytes" if one.same else "DIFFERENT"
        print(f"{one.moment:>9.2f}s{one.reused:>8}{one.bought:>8}{one.again:>7}   {shown}")
    for one in outcomes:
        assert one.same, "a resumed run gave other bytes"
        assert one.reused + one.bought == one.results, "work was done that is not counted"
        assert one.again <= one.bought
    worst = max((one.again / one.results for one in outcomes), default=0.0)
    same = sum(one.same for one in outcomes)
    print(f"{len(outcomes)} kills, {same} with the same bytes; at most {worst:.1%} of the work done twice, all counted")


if __name__ == "__main__":
    main()
