"""One sync front everywhere: scripts, threads, inside a running loop; Ctrl-C cancels, cleans up, and ends."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from combee.errors import RunError
from combee.kernel.runner import run_sync

NAME = contextvars.ContextVar("NAME", default="nobody")


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return number * 2


async def fail() -> None:
    raise RunError("no")


async def name() -> str:
    return NAME.get()


def test_it_returns_the_value_and_raises_the_error() -> None:
    assert run_sync(double(21)) == 42
    with pytest.raises(RunError, match="no"):
        run_sync(fail())


async def test_it_works_while_a_loop_is_running() -> None:
    NAME.set("caller")
    assert run_sync(double(21)) == 42
    assert run_sync(name()) == "caller"
    with pytest.raises(RunError, match="no"):
        run_sync(fail())


def test_it_works_in_a_thread() -> None:
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(run_sync(double(21))))
    thread.start()
    thread.join()
    assert results == [42]


PROGRAM = """
import asyncio, sys
from combee.kernel.runner import LocalRunner, run_sync

ended = []

async def fn(item):
    try:
        print("running", flush=True)
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.01)
        ended.append(item)

async def work():
    await LocalRunner(3).run(fn, range(100))

async def inside_a_loop():
    run_sync(work())

try:
    if sys.argv[1] == "loop":
        asyncio.new_event_loop().run_until_complete(inside_a_loop())
    else:
        run_sync(work())
except KeyboardInterrupt:
    print("interrupted", sorted(ended), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("where", ["script", "loop"])
def test_ctrl_c_cancels_the_work_lets_it_clean_up_and_ends(where: str) -> None:
    command = [sys.executable, "-X", "dev", "-W", "ignore::ResourceWarning", "-c", PROGRAM, where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        for _ in range(3):
            program.stdout.readline()
        time.sleep(0.05)
        os.kill(program.pid, signal.SIGINT)
        out, err = program.communicate(timeout=100)
    assert out == "interrupted [0, 1, 2]\n"
    assert err == ""


async def threshold() -> int:
    return gc.get_threshold()[0]


async def meet(inside: threading.Barrier) -> int:
    inside.wait()
    found = await threshold()
    inside.wait()
    return found


def test_garbage_is_looked_for_less_often_while_a_loop_runs_and_as_before_afterwards() -> None:
    before = gc.get_threshold()
    inside = threading.Barrier(2, timeout=60)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(run_sync(meet(inside)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(found) > before[0]
    assert gc.get_threshold() == before
    with pytest.raises(RunError):
        run_sync(fail())
    assert gc.get_threshold() == before


def test_a_caller_who_wants_no_collections_gets_none() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        assert run_sync(threshold()) == 0
    finally:
        gc.set_threshold(*before)
