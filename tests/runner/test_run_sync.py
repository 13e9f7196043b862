"""One sync front everywhere: scripts, threads, inside a running loop; Ctrl-C cancels, cleans up, and ends."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from combee.errors import RunError
from combee.runner import run_sync

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
from combee.runner import LocalRunner, run_sync

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
