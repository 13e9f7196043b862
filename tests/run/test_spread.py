"""Work spread over processes: the results of one process, in their order, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from combee.run import spread as spreading
from combee.run.spread import cores, spread

HERE = os.getpid()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreading, "ALONE", 3)
    monkeypatch.setattr(spreading, "_CHUNK", 4)


def one(item: object) -> int:
    return 1


def where(item: int) -> tuple[int, int]:
    return item, os.getpid()


def dies(item: int) -> tuple[int, int]:
    if item in {9, 40} and os.getppid() == int(os.environ["COMBEE_TEST_DRIVER"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return where(item)


def refuses(item: int) -> int:
    if item >= 30:
        raise ValueError(f"no {item}")
    return item


def padded(item: str) -> str:
    return f"sent {item}"


def same(item: str) -> str:
    return item


def test_results_come_in_order_the_first_from_here_and_the_others_from_workers() -> None:
    found = list(spread(where, range(100), weigh=one, processes=2))
    assert [item for item, _ in found] == list(range(100))
    assert {pid for _, pid in found[:3]} == {HERE}
    assert len({pid for _, pid in found[3:]} - {HERE}) == 2


def test_few_items_and_one_process_begin_no_worker() -> None:
    assert {pid for _, pid in spread(where, range(3), weigh=one, processes=1)} == {HERE}
    assert {pid for _, pid in spread(where, range(2), weigh=one, processes=2)} == {HERE}
    assert cores(5) == 5


def test_items_are_packed_for_the_way_only() -> None:
    found = list(spread(same, ["a", "b", "c", "d"], weigh=one, processes=2, pack=padded))
    assert found == ["a", "b", "c", "sent d"]


def test_what_a_killed_worker_was_at_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMBEE_TEST_DRIVER", str(HERE))
    found = list(spread(dies, range(100), weigh=one, processes=2))
    assert [item for item, _ in found] == list(range(100))
    assert found[9][1] == HERE


def test_the_first_fault_of_the_work_is_raised_after_what_came_before_it() -> None:
    found: list[int] = []
    with pytest.raises(ValueError, match="no 30"):
        found.extend(spread(refuses, range(100), weigh=one, processes=2))
    assert found == list(range(30))


def test_workers_end_with_the_one_who_asks_even_where_it_is_killed() -> None:
    code = (
        "import sys, time; from combee.run import spread as s; from tests.run.test_spread import one, where\n"
        "s.ALONE, s._CHUNK = 1, 1\n"
        "def items():\n  n = 0\n  while True: time.sleep(0.01); yield (n := n + 1)\n"
        "for _, pid in s.spread(where, items(), weigh=one, processes=2): print(pid, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        pids = _first(iter(driver.stdout.readline, ""), 3)
        driver.send_signal(signal.SIGKILL)
    workers = pids - {driver.pid}
    assert len(workers) == 2
    for _ in range(500):
        if not any(map(_is_there, workers)):
            return
        time.sleep(0.01)
    raise AssertionError(f"{workers} are still there")


def _first(lines: Iterator[str], number: int) -> set[int]:
    found: set[int] = set()
    while len(found) < number:
        found.add(int(next(lines)))
    return found


def _is_there(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
