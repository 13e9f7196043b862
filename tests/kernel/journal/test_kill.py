"""kill -9 at random moments: the file stays sound, what was flushed is there, and what is bought again is counted."""

from __future__ import annotations

import asyncio
import os
import random
import runpy
import subprocess
import sys
import time
from pathlib import Path

import pytest

from combee.kernel.journal import JSON, Journal, hash_json

PROGRAM = Path(__file__).parent / "program_to_kill.py"
COUNT = 800
EXPECTED: list[JSON] = [{"item": item, "text": f"lesson {item} " * 20} for item in range(COUNT)]


buy_all = runpy.run_path(str(PROGRAM))["buy_all"]


def kill_after(run_dir: Path, seconds: float) -> int:
    """Start the program, kill it `seconds` after it began to write, and return how many results it had flushed."""
    with subprocess.Popen([sys.executable, PROGRAM, run_dir, str(COUNT)], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        program.stdout.readline()
        time.sleep(seconds)
        program.kill()
        acknowledged = [int(line) for line in program.stdout if line.endswith("\n")]
    return max(acknowledged, default=0)


@pytest.mark.parametrize("moment", range(8))
def test_after_a_kill_only_the_tail_is_bought_again_and_counted(tmp_path: Path, moment: int) -> None:
    acknowledged = kill_after(tmp_path, random.Random(moment).uniform(0.0, 0.25))
    log = [line for line in (tmp_path / "made.log").read_text(encoding="utf-8").split("\n") if line]
    ended = [line for line in log if not line.startswith("+")]
    begun = {line.removeprefix("+ ") for line in log if line.startswith("+")}
    with Journal.open(tmp_path, read_only=True) as journal:
        assert journal.problems() == []
        stored = [address.item for address, _ in journal.results()]
    assert len(stored) >= acknowledged
    assert stored == ended[: len(stored)], "a kill may take the last results, never one from the middle"

    with Journal.open(tmp_path, create=False) as journal:
        lost = journal.stats().lost
        # The list is written just before a computation begins: a kill in between leaves one entry too many.
        assert len(begun - set(stored)) <= lost <= len(begun - set(stored)) + 1
        descriptor = os.open(tmp_path / "made.log", os.O_WRONLY | os.O_APPEND)
        results = asyncio.run(buy_all(journal, descriptor, COUNT))
        os.close(descriptor)
        stats = journal.stats()
    assert (stats.reused, stats.bought, stats.bought_again) == (len(stored), COUNT - len(stored), lost)
    assert hash_json(results) == hash_json(EXPECTED), "the same results as without a kill, byte for byte"
    with Journal.open(tmp_path) as journal:
        assert journal.stats().lost == 0
        assert journal.problems() == []


def test_killed_again_and_again_it_ends_like_a_run_that_was_left_alone(tmp_path: Path) -> None:
    dice = random.Random(3)
    for _ in range(5):
        kill_after(tmp_path, dice.uniform(0.0, 0.1))
    with Journal.open(tmp_path) as journal:
        assert journal.problems() == []
        log = os.open(tmp_path / "made.log", os.O_WRONLY | os.O_APPEND)
        results = asyncio.run(buy_all(journal, log, COUNT))
        os.close(log)
    assert results == EXPECTED


def test_a_result_that_failed_before_a_kill_does_not_count_as_lost(tmp_path: Path) -> None:
    program = """
import asyncio, os, signal, sys
from pathlib import Path
from combee.errors import CallError, CallErrorKind
from combee.kernel.journal import Journal

async def fails():
    raise CallError("down", kind=CallErrorKind.SERVER)

async def hangs():
    os.kill(os.getpid(), signal.SIGKILL)

async def main(journal):
    scope = journal.scope(seed=0, epoch=0, step=0)
    try:
        await scope.once("r", "failed", None, fails)
    except CallError:
        pass
    await scope.once("r", "in flight", None, hangs)

asyncio.run(main(Journal.open(Path(sys.argv[1]))))
"""
    subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    with Journal.open(tmp_path) as journal:
        assert journal.stats().lost == 1
