"""kill -9 of writers at the same world, and of a swarm between two replies: nothing is lost, nothing done twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from combee.swarm import World, totals
from combee.swarm.ledger import LOST

HERE = Path(__file__).parent


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / program), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_writers_lose_nothing_that_was_safe_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    with World.open(path) as world:
        for name in ("box", "a", "b", "c"):
            world.spawn(name)
    killed = [start("sender_to_kill.py", path, name, 2000) for name in ("a", "b", "c")]
    safe: dict[str, int] = {}
    for name, process in zip("abc", killed, strict=True):
        assert process.stdout is not None
        for _ in range(5):
            safe[name] = int(process.stdout.readline())
    for process in killed:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with World.open(path, read_only=True) as world:
        for name, count in safe.items():
            found = {row[0] for row in world.rows("SELECT body FROM mail WHERE sender = ?", name)}
            assert found >= {str(number) for number in range(count)}
            assert len(found) % 20 == 0  # a batch is there whole or not at all
    again = [start("sender_to_kill.py", path, name, 200) for name in ("a", "b", "c")]
    assert all(process.wait(60) == 0 for process in again)
    for process in again:
        process.communicate()
    with World.open(path, read_only=True) as world:
        for name in "abc":
            rows = world.rows("SELECT body FROM mail WHERE sender = ?", name)
            assert len(rows) == len(set(rows))
            assert len(rows) >= 200


def test_a_swarm_killed_again_and_again_ends_as_one_that_was_not(tmp_path: Path) -> None:
    draw = random.Random(7)
    kills = 0
    while True:
        process = start("swarm_to_kill.py", tmp_path / "killed.sqlite")
        assert process.stdout is not None
        said = process.stdout.read(draw.randint(15, 60))
        if "done" in said:
            process.communicate()
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        if kills > 30:
            raise AssertionError("it does not get on")
    assert kills >= 2
    assert start("swarm_to_kill.py", tmp_path / "whole.sqlite").communicate(timeout=60)[0].endswith("done\n")
    ends = []
    for name in ("killed", "whole"):
        with World.open(tmp_path / f"{name}.sqlite", read_only=True) as world:
            answers = world.rows("SELECT key, kind, sender, body FROM mail ORDER BY key")
            twice = world.rows("SELECT mail FROM context WHERE mail IS NOT NULL GROUP BY mail HAVING count(*) > 1")
            left = world.rows("SELECT 1 FROM mail WHERE state IN ('queued', 'delivered')")
            assert twice == []
            assert left == []
            assert len([row for row in answers if row[1] == "answer" and row[2].startswith("worker")]) == 30
            ends.append([(row[1], row[3]) for row in answers])
    assert sorted(ends[0]) == sorted(ends[1])


def think(path: Path, how: str) -> int:
    return subprocess.run([sys.executable, str(HERE / "thinker_to_kill.py"), str(path), how], check=False).returncode


def test_a_thought_that_was_under_way_at_each_kill_is_booked_as_maybe_paid(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    for _ in range(2):
        assert think(path, "dies") == -signal.SIGKILL
    with World.open(path, read_only=True) as world:
        assert totals(world).replies == 0
    assert think(path, "lives") == 0
    with World.open(path, read_only=True) as world:
        rows = world.rows("SELECT purpose, prompt, completion, estimated FROM spend ORDER BY id")
        assert rows == [(LOST, 70, 5, 1), (LOST, 70, 5, 1), ("ask", 70, 5, 0)]
        assert (totals(world).replies, totals(world).lost) == (3, 2)
        assert world.rows("SELECT key FROM meta WHERE key LIKE 'thinks/%'") == []


@pytest.mark.parametrize("way", ["fails", "limit"])
def test_what_was_lost_at_a_kill_is_booked_also_where_the_next_thought_gives_nothing(tmp_path: Path, way: str) -> None:
    path = tmp_path / "w.sqlite"
    assert think(path, "dies") == -signal.SIGKILL
    assert think(path, way) == 0
    with World.open(path, read_only=True) as world:
        assert totals(world).lost == (1 if way == "fails" else 0)  # a limit ends the run, not the message
    if way == "limit":
        assert think(path, "lives") == 0
        with World.open(path, read_only=True) as world:
            assert (totals(world).replies, totals(world).lost) == (2, 1)
