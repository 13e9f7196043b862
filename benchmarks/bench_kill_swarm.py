"""Swarms killed with SIGKILL, 300 times each: writers and the process that answers them, and `combee swarm learn`.

Writers put questions to agents of one world, another process answers them; whichever the dice name is killed and begun
again. At the end every question that was safe is there and has one answer. `swarm learn` is killed on scripted agents
and on an endpoint whose replies come late and in no order; each time that it comes to its end, its playbook must be
that of the run nobody touched.

Run: python -m benchmarks.bench_kill_swarm [kills]
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

from benchmarks.desk_server import Desk, desk_server
from combee.files import write_whole
from combee.swarm import USER, PolicyModel, Reply, Swarm, View, World, publish, use
from combee.swarm.example import DESKS, write_rehearsal
from combee.swarm.mail import send

KILLS, WRITERS, BATCH, AGENTS = 300, 8, 20, 4


def _write(folder: Path, name: str, start: int) -> None:
    with World.open(folder / "w.sqlite") as world:
        for number in itertools.count(start, BATCH):
            with world.step():
                for each in range(number, number + BATCH):
                    send(world, key=f"{name}/{each}", kind="ask", sender=name, recipient=f"a{each % AGENTS}",
                         body=f"{each}")  # fmt: skip
            world.flush()
            write_whole(folder / name, f"{number + BATCH}")
            time.sleep(0.05)


def _policy(view: View) -> Reply | str:
    return f"{view.mail.body} found" if view.results() else Reply(calls=(use("read", path="doc"),))


def _answer(folder: Path) -> None:
    with World.open(folder / "w.sqlite") as world:
        swarm = Swarm(world, {"": PolicyModel(_policy)})
        while True:
            if not asyncio.run(swarm.run()):
                time.sleep(0.01)


def _begin(folder: Path, name: str) -> BaseProcess:
    context = multiprocessing.get_context("fork")
    safe = folder / name
    start = max(0, int(safe.read_text()) - 2 * BATCH) if safe.exists() else 0  # what is sent again must not double
    process = context.Process(target=_answer, args=(folder,))
    if name != "answers":
        process = context.Process(target=_write, args=(folder, name, start))
    process.start()
    return process


def messages(kills: int) -> None:
    """Kill writers and answerer in turn as the dice say, then let the questions be answered to their end."""
    draw = random.Random(0)
    names = [f"w{number}" for number in range(WRITERS)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with World.open(folder / "w.sqlite") as world, world.step():
            publish(world, "doc", "what is known", USER)
            for name in names:
                world.spawn(name, mode="outside", window=0)
            for number in range(AGENTS):
                world.spawn(f"a{number}", returns="none")
        running = {name: _begin(folder, name) for name in (*names, "answers")}
        for _ in range(kills):
            time.sleep(draw.uniform(0.02, 0.4))
            name = "answers" if draw.random() < 0.5 else draw.choice(names)
            _kill(running[name])
            running[name] = _begin(folder, name)
        for process in running.values():
            _kill(process)
        with World.open(folder / "w.sqlite") as world:
            asyncio.run(Swarm(world, {"": PolicyModel(_policy)}).run())
            sent = world.rows("SELECT key FROM mail WHERE kind = 'ask'")
            answers = world.rows("SELECT q.key, a.body FROM mail a JOIN mail q ON q.id = a.thread")
            left = world.rows("SELECT count(*) FROM mail WHERE state IN ('queued', 'delivered')")[0][0]
            copies = "SELECT 1 FROM context WHERE mail IS NOT NULL GROUP BY mail, agent HAVING count(*) > 1"
            twice = len(world.rows(copies))
        safe = {f"{name}/{each}" for name in names for each in range(int((folder / name).read_text()))}
        lost = len(safe - {key for (key,) in sent})
        count = Counter(key for key, _ in answers)
        wrong = sum(body != f"{key.split('/')[1]} found" for key, body in answers)
        wrong += sum(count[key] != 1 for (key,) in sent) + twice + left
        print(
            f"messages: {kills} kills, {len(sent):,} questions and {len(answers):,} answers; safe and lost {lost}, "
            f"doubled {len(sent) - len(set(sent))}, without their one right answer or read twice {wrong}"
        )
        assert (lost, len(sent) - len(set(sent)), wrong) == (0, 0, 0)


def _kill(process: BaseProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def described(folder: Path, desk: Desk) -> Path:
    """Write the example for two desks at an endpoint; what copies of one of them bring back is a digest."""
    file = write_rehearsal(folder, desks=DESKS[:2])
    text = file.read_text(encoding="utf-8").replace('returns = "none"', 'returns = "digest"', 1)
    for name in DESKS[:2]:
        text = text.replace(f'role = "{name}"', f'role = "{name}"\ninstructions = "Desk: {name}"')
    start, end = text.index("[model]"), text.index("[documents]")
    model = f'[model]\nkind = "endpoint"\nname = "m"\nbase_url = "{desk.url}"\nprice = "0/0"\n\n'
    file.write_text(text[:start] + model + text[end:], encoding="utf-8")
    return file


def _learn(file: Path, seconds: float | None) -> bool:
    """Learn, or go on; returns whether it came to its end before it was killed after so many seconds."""
    command = [sys.executable, "-m", "combee", "swarm", "learn", str(file), "--rounds", "2", "--quiet"]
    environment = {**os.environ, "OPENAI_API_KEY": "k-1"}
    try:  # at the end of its time it is killed with SIGKILL
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return False
    assert done.returncode == 0, done.stderr
    return True


def learning(kills: int, what: str, fresh: Path, work: Path) -> None:
    """Kill `combee swarm learn` again and again; every playbook that it comes to must be the untouched one's."""
    draw = random.Random(1)
    shutil.copytree(fresh, work / "whole")
    began = time.monotonic()
    _learn(work / "whole" / "swarm.toml", None)
    took = time.monotonic() - began
    book = (work / "whole" / "learned" / "playbook.json").read_bytes()
    done, ends, same, each = 0, 0, 0, 0
    while done < kills:
        if not each:
            shutil.rmtree(work / "cut", ignore_errors=True)
            shutil.copytree(fresh, work / "cut")
        # Ten kills a run on average, most of them in its middle; the last one lets it end.
        seconds = draw.uniform(0.3, 0.8 * took) if each < 10 else None
        ended = _learn(work / "cut" / "swarm.toml", seconds)
        done, each = (done, 0) if ended else (done + 1, each + 1)
        ends += ended
        same += ended and (work / "cut" / "learned" / "playbook.json").read_bytes() == book
    print(f"swarm learn, {what}: {done} kills in {ends} runs; the same playbook, byte for byte, in {same} of them")
    assert same == ends > 0


def main() -> None:
    """Kill all three."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    messages(kills)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_rehearsal(folder / "example")
        learning(kills, "scripted agents", folder / "example", folder / "scripted")
        with desk_server() as desk:
            described(folder / "slow", desk)
            learning(kills, "a slow endpoint", folder / "slow", folder / "endpoint")


if __name__ == "__main__":
    main()
