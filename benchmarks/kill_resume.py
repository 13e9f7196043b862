"""kill -9 of `combee learn tags` at random moments, resumed each time to the end: the same bytes, what was done twice.

Run: python -m benchmarks.kill_resume [moments [train rows]]. Every moment kills one run and resumes it; its book must
be that of the run nobody touched. Work may be done again only where it was under way or inside the last commit window.
A moment is a number of results that the journal holds, not a time: it means the same on any machine.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

ARGUMENTS = ("learn", "tags", "--val", "10", "--test", "5", "--batch", "30", "--quiet", "--json")


@dataclass(frozen=True)
class Outcome:
    """One kill: at how many results it was meant, what the resume reused, bought, and bought again."""

    moment: int
    same: bool
    reused: int
    bought: int
    again: int
    results: int


def combee(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "combee", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def whole(folder: Path, train: int) -> tuple[bytes, int]:
    """Run without a kill; return the playbook and the number of results."""
    done = combee(*ARGUMENTS, "--train", str(train), "--name", "whole", folder=folder)
    assert done.returncode == 0, done.stderr
    return (folder / "runs/whole/playbook.json").read_bytes(), json.loads(done.stdout)["calls"]["bought"]


def held(journal: Path) -> int:
    """Return the results that the journal holds; 0 while it is not there yet, or being made."""
    if not journal.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def kill_once(name: str, moment: int, book: bytes, *, results: int, folder: Path, train: int) -> Outcome | None:
    """Kill a run once it holds `moment` results, then go on with it to the end. None if it ended before that."""
    command = [sys.executable, "-m", "combee", *ARGUMENTS, "--train", str(train), "--name", name]
    run = folder / "runs" / name
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and held(run / "journal.sqlite") < moment:
            time.sleep(0.002)
        process.kill()
    if process.returncode == 0:
        return None
    done = combee("resume", name, "--quiet", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    calls = json.loads(done.stdout)["calls"]
    same = (run / "playbook.json").read_bytes() == book
    return Outcome(moment, same, calls["reused"], calls["bought"], calls["bought_again"], results)


def kill_many(moments: int, train: int, *, seed: int = 0) -> list[Outcome]:
    """Kill at so many random moments, spread over all of the work."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        book, results = whole(folder, train)
        outcomes: list[Outcome] = []
        for tried in range(10 * moments):
            moment = rng.randrange(1, results)
            found = kill_once(f"killed{tried}", moment, book, results=results, folder=folder, train=train)
            outcomes += [] if found is None else [found]
            if len(outcomes) == moments:
                break
    return outcomes


def main() -> None:
    """Print one line a kill."""
    moments = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    outcomes = kill_many(moments, int(sys.argv[2]) if len(sys.argv) > 2 else 240)
    print(f"{'killed at':>10}{'reused':>8}{'bought':>8}{'again':>7}   playbook")
    for one in outcomes:
        shown = "the same bytes" if one.same else "DIFFERENT"
        print(f"{one.moment:>10}{one.reused:>8}{one.bought:>8}{one.again:>7}   {shown}")
    for one in outcomes:
        assert one.same, "a resumed run gave other bytes"
        assert one.reused + one.bought == one.results, "work was done that is not counted"
        assert one.again <= one.bought
    worst = max((one.again / one.results for one in outcomes), default=0.0)
    same = sum(one.same for one in outcomes)
    print(f"{len(outcomes)} kills, {same} with the same bytes; at most {worst:.1%} of the work done twice, all counted")


if __name__ == "__main__":
    main()
