"""The limiter comes back: outages, windows, limits that rise and fall, on a virtual clock."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from combee.errors import BudgetError, CallError, CallErrorKind
from combee.model import (
    Budget,
    Engine,
    Fault,
    Message,
    Request,
    Response,
    RetryPolicy,
    StoppedError,
    Timing,
    Usage,
)
from tests.model.shared import VirtualLoop

LATENCIES = (0.01, 0.05, 0.2)  # seconds of a reply


@dataclass
class Bucket:
    """`rate` a second; from `out[0]` to `out[1]` nothing; from `change[0]` on at the rate of `change[1]`."""

    rate: float
    out: tuple[float, float] = (0, 0)
    change: tuple[float, float] = (1e9, 0)
    burst: float = 20
    level: float = 20
    at: float = 0.0

    def admits(self, now: float) -> bool:
        if now >= self.change[0] and self.rate != self.change[1]:
            self.rate = self.change[1]
        self.level = min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.out[0] <= now < self.out[1] or self.level < 1 - 1e-6:
            return False
        self.level -= 1
        return True


@dataclass
class Window:
    """`count` calls in each window of `seconds`: at fixed times, or from the first call that opens one."""

    count: int
    seconds: float
    opens: bool = False
    until: float = 0.0
    used: int = 0

    def admits(self, now: float) -> bool:
        if now >= self.until:
            self.until = now + self.seconds if self.opens else self.seconds * (now // self.seconds + 1)
            self.used = 0
        self.used += 1
        return self.used <= self.count


@dataclass
class Sliding:
    """`count` calls in any `seconds`."""

    count: int
    seconds: float
    times: deque[float] = field(default_factory=deque)

    def admits(self, now: float) -> bool:
        while self.times and self.times[0] <= now - self.seconds:
            self.times.popleft()
        if len(self.times) >= self.count:
            return False
        self.times.append(now)
        return True


class Both:
    """Two rules at once."""

    def __init__(self, *rules: Any) -> None:
        self.rules = rules

    def admits(self, now: float) -> bool:
        said = [rule.admits(now) for rule in self.rules]  # both count the call
        return all(said)


class Played:
    """What came of the calls."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.refused = 0
        self.lost: list[BaseException] = []
        self.times: list[float] = []  # of refusals


async def _play(
    rule: Any, calls: int, latency: float, engine: Engine, retry_after: Callable[[float], float] | None
) -> Played:
    loop, played, rng = asyncio.get_running_loop(), Played(), random.Random(3)

    async def send(_: Request) -> Response | Fault:
        now = loop.time()
        if rule.admits(now):
            await asyncio.sleep(latency * rng.uniform(0.9, 1.1))
            return Response("ok", Usage(1, 1), "stop", Timing(), "m", None)
        played.refused += 1
        played.times.append(now)
        await asyncio.sleep(0.002)
        return Fault(CallErrorKind.RATE_LIMIT, "HTTP 429", None, retry_after(now) if retry_after else None, None, 429)

    async def one() -> None:
        try:
            await engine.complete(Request((Message("user", "x"),)), send, model="m", price=None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the call is lost
            played.lost.append(error)
        played.wall = loop.time()

    await asyncio.gather(*(one() for _ in range(calls)))
    return played


def play(rule: Any, calls: int, latency: float = 0.05, engine: Engine | None = None, **options: Any) -> Played:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_play(rule, calls, latency, engine or Engine(), options.get("retry_after")))


SCENES: dict[str, tuple[Callable[[], Any], int, float]] = {
    "refused from second 2 to 12": (lambda: Bucket(200, out=(2, 12)), 2000, 20),
    "refused from second 2 to 4": (lambda: Bucket(200, out=(2, 4)), 2000, 12),
    "refused from the first call on": (lambda: Bucket(200, out=(0, 10)), 1000, 15),
    "200 each 5 seconds": (lambda: Window(200, 5), 800, 15),
    "200 in 5 seconds from the first": (lambda: Window(200, 5, opens=True), 800, 15),
    "100 a second, then 500": (lambda: Bucket(100, change=(3, 500)), 3000, 8.4),
    "500 a second, then 100": (lambda: Bucket(500, change=(3, 100)), 3000, 18),
    "any second 500": (lambda: Sliding(500, 1), 4125, 8.25),
    "600 a minute, 900 calls": (lambda: Window(600, 60), 900, 60),
    "600 a minute and 20 a second": (lambda: Both(Bucket(20), Window(600, 60)), 900, 74),
    "20 a second, then 200": (lambda: Bucket(20, change=(10, 200)), 5000, 34),
    "50 a second without a bucket": (lambda: Bucket(50, burst=5, level=5), 1000, 19.9),
    "5 a second, for long": (lambda: Bucket(5, burst=5, level=5), 1000, 199),
}


@pytest.mark.parametrize("latency", LATENCIES)
@pytest.mark.parametrize("name", SCENES)
def test_three_quarters_of_what_a_server_allows_come_through_and_no_call_is_lost(name: str, latency: float) -> None:
    make, calls, ideal = SCENES[name]
    played = play(make(), calls, latency)
    assert played.lost == []
    assert ideal / played.wall >= 0.75
    assert played.refused / (calls + played.refused) < 0.1


@pytest.mark.parametrize("latency", LATENCIES)
def test_where_a_window_says_when_it_ends_nobody_asks_before(latency: float) -> None:
    played = play(Window(200, 5), 800, latency, retry_after=lambda now: 5 - now % 5)
    assert played.lost == []
    assert played.wall < 17
    assert played.refused < 60


@pytest.mark.parametrize("latency", LATENCIES)
def test_a_few_calls_at_a_low_limit_are_refused_no_more_often_than_it_takes_to_find_it(latency: float) -> None:
    played = play(Bucket(5, burst=5, level=5), 100, latency)
    assert played.lost == []
    assert played.wall < 19 / 0.75
    assert played.refused < 36
    assert sum(time > 8 for time in played.times) < 12


def test_in_an_outage_single_calls_probe_at_a_growing_distance() -> None:
    played = play(Bucket(200, out=(2, 62)), 1000)
    probes = [time for time in played.times if time > 2.5]
    gaps = [after - before for before, after in itertools.pairwise(probes)]
    assert played.lost == []
    assert len(probes) < 40
    assert max(gaps) > 4 * min(gaps)
    assert played.wall < 75


def test_the_beat_of_a_window_is_learned_and_few_calls_ask_in_between() -> None:
    played = play(Window(200, 5), 3000)
    late = [time for time in played.times if time > 30]
    assert played.lost == []
    assert played.wall < 78  # 15 windows
    assert len(late) < 10 * (played.wall - 30) / 5
    assert played.refused / (3000 + played.refused) < 0.08


def test_an_idle_run_that_meets_an_outage_is_not_slow_for_long_after_it() -> None:
    async def main() -> float:
        engine, rule, loop = Engine(), Bucket(500, out=(5, 8)), asyncio.get_running_loop()
        for _ in range(5):
            await _play(rule, 1, 0.05, engine, None)
            await asyncio.sleep(1)
        await _play(rule, 2000, 0.05, engine, None)
        return loop.time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) < 8 + 1.6 * 2000 / 500


def test_an_endpoint_that_refuses_every_call_for_long_stops_the_run() -> None:
    played = play(Bucket(200, out=(0, 1e9)), 50)
    assert len(played.lost) == 50
    assert 900 < played.wall < 1100
    assert sum(isinstance(error, StoppedError) for error in played.lost) == 49
    assert "refused every call for 1" in str(played.lost[0])


class _Clock:
    """The wall clock of the budget, on the loop's time."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    time = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("combee.model.budget.time", _Clock())
    monkeypatch.setattr("combee.model.engine.time", _Clock())


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("calls", [1, 40])
def test_a_wait_longer_than_the_limit_in_minutes_ends_the_run_at_once_and_says_who_asks(calls: int) -> None:
    engine = Engine(budget=Budget(max_minutes=0.2))
    played = play(Bucket(200, out=(0, 1e9)), calls, engine=engine, retry_after=lambda _: 18_180)
    assert played.wall < 1
    assert len(played.lost) == calls
    assert "the endpoint asks to come back in 5 h 3 min, and 12 s of the minutes" in str(played.lost[0])
    assert all(isinstance(error, BudgetError) for error in played.lost)


@pytest.mark.usefixtures("clock")
def test_calls_that_wait_for_their_turn_wait_no_longer_than_the_limit_in_minutes() -> None:
    engine = Engine(budget=Budget(max_minutes=0.2))
    played = play(Bucket(200, out=(1, 1e9)), 1000, engine=engine)
    assert played.wall <= 12.1
    assert 500 < len(played.lost) < 1000
    assert all(isinstance(error, BudgetError) for error in played.lost)


def test_a_wait_of_years_ends_the_run_at_once_and_wakes_all_who_wait() -> None:
    played = play(Bucket(200, out=(0, 1e9)), 40, retry_after=lambda _: 99_999_999)
    assert played.wall < 1
    assert len(played.lost) == 40
    assert all("the endpoint asks to come back in 1,157 days" in str(error) for error in played.lost[1:])


@pytest.mark.usefixtures("clock")
def test_a_long_wait_is_said_with_its_length_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "combee.model"):
        played = play(Bucket(200, out=(0, 50)), 20, retry_after=lambda now: 120 - now)
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage() == "HTTP 429; waiting 2 min, as the endpoint asks."
    assert 120 <= played.wall < 150
    assert max(played.times) < 1


def test_a_run_that_is_stopped_wakes_calls_that_back_off() -> None:
    async def main() -> float:
        engine = Engine(retry=RetryPolicy(backoff=100))
        loop = asyncio.get_running_loop()

        async def send(request: Request) -> Response | Fault:
            if request.role == "first":
                return Fault(CallErrorKind.SERVER, "HTTP 500", status=500)
            await asyncio.sleep(1)
            return Fault(CallErrorKind.AUTH, "HTTP 401", status=401)

        async def one(role: str) -> None:
            with pytest.raises((CallError, StoppedError)):
                await engine.complete(Request((Message("user", "x"),), role=role), send, model="m", price=None)

        await asyncio.gather(one("first"), one("second"))
        return loop.time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) == pytest.approx(1)
