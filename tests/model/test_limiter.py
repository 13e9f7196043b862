"""The limiter against simulated servers on a virtual clock: minutes of simulation in milliseconds, always the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from combee.errors import UsageError
from combee.model import Limiter
from tests.model.shared import VirtualLoop


@dataclass
class Server:
    """A bucket of `burst` that fills at `rate`; at most `together` at once; refusals answer after `refuses` seconds."""

    rate: float = 1e9
    burst: float = 50
    latency: float = 0.2
    sigma: float = 0.0
    refuses: float = 0.002
    together: int = 10**9
    chance: float = 0.0
    refused: int = 0
    in_flight: int = 0
    level: float = -1.0
    at: float = 0.0

    async def call(self, rng: random.Random) -> bool:
        now = asyncio.get_running_loop().time()
        self.level = self.burst if self.level < 0 else min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level < 1 - 1e-6 or self.in_flight >= self.together or rng.random() < self.chance:
            self.refused += 1
            await asyncio.sleep(self.refuses)
            return False
        self.level -= 1
        self.in_flight += 1
        await asyncio.sleep(self.latency * rng.lognormvariate(0, self.sigma))
        self.in_flight -= 1
        return True


@dataclass
class Result:
    wall: float
    finished: int
    refused_share: float


async def _drive(
    calls: int, server: Server, limiter: Limiter, retry_after: float, later: Callable[[Server], Awaitable[None]] | None
) -> Result:
    rng = random.Random(7)
    loop = asyncio.get_running_loop()
    began = loop.time()
    finished = 0

    async def one() -> None:
        nonlocal finished
        tries = 0
        while True:
            ticket = await limiter.acquire(again=tries > 0)
            ok = await server.call(rng)
            limiter.release(ticket, ok=ok, retry_after=None if ok else retry_after)
            if ok:
                finished += 1
                return
            tries += 1
            await asyncio.sleep(retry_after * (1 + 0.25 * rng.random()))

    change = asyncio.ensure_future(later(server)) if later else None
    await asyncio.gather(*(one() for _ in range(calls)))
    wall = loop.time() - began
    if change:
        await change
    return Result(wall, finished, server.refused / (calls + server.refused))


def drive(
    calls: int,
    server: Server,
    limiter: Limiter,
    *,
    retry_after: float = 1.0,
    later: Callable[[Server], Awaitable[None]] | None = None,
) -> Result:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_drive(calls, server, limiter, retry_after, later))


@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_an_unknown_limit_of_500_a_second_is_used_to_70_percent_and_no_call_is_lost(sigma: float) -> None:
    result = drive(2000, Server(rate=500, sigma=sigma), Limiter())
    assert result.finished == 2000
    assert 2000 / result.wall >= 0.7 * 500
    assert result.refused_share < 0.1


def test_a_longer_run_uses_80_percent() -> None:
    result = drive(10_000, Server(rate=500), Limiter())
    assert result.finished == 10_000
    assert 10_000 / result.wall >= 0.8 * 500
    assert result.refused_share < 0.05


def test_a_limit_of_5_a_second_is_kept_by_pauses_between_single_calls() -> None:
    result = drive(100, Server(rate=5, burst=5, latency=0.02), Limiter())
    assert result.finished == 100
    assert result.wall < 30
    assert result.refused_share < 0.3  # a hundred calls are few to find so small a limit with


@pytest.mark.parametrize(("before", "after"), [(500, 100), (100, 500)])
def test_a_limit_that_changes_midway_is_followed(before: float, after: float) -> None:
    async def change(server: Server) -> None:
        await asyncio.sleep(3)
        server.rate = after

    result = drive(4000, Server(rate=before), Limiter(), later=change)
    ideal = 3 + (4000 - 3 * before) / after
    assert result.finished == 4000
    assert result.wall < 2 * ideal
    assert result.refused_share < 0.1


def test_chance_refusals_do_not_starve_a_run() -> None:
    result = drive(2000, Server(chance=0.03), Limiter(64))
    assert result.finished == 2000
    assert result.wall < 60  # cut by a fifth at each, the limit would end at one call in 20 latencies: half an hour


def test_a_fixed_concurrency_is_reached_at_once_and_never_passed() -> None:
    limiter = Limiter(8)
    result = drive(500, Server(together=8), limiter)
    assert limiter.state.peak == 8
    assert result.refused_share == 0
    assert result.wall == pytest.approx(500 / 8 * 0.2, rel=0.02)


def test_too_high_a_fixed_concurrency_falls_to_what_the_server_takes() -> None:
    result = drive(1500, Server(rate=500), Limiter(1500))
    assert result.finished == 1500
    assert result.wall < 8


def test_a_known_rate_is_never_exceeded() -> None:
    server = Server(rate=10, burst=10)
    result = drive(200, server, Limiter(100, rpm=600))
    assert server.refused == 0
    assert result.wall == pytest.approx((200 - 10) / 10 + 0.2, rel=0.05)


def test_a_known_number_of_tokens_a_minute_is_kept() -> None:
    async def main() -> float:
        limiter = Limiter(100, tpm=6000)
        loop = asyncio.get_running_loop()

        async def one() -> None:
            ticket = await limiter.acquire(200)
            limiter.release(ticket, ok=True, tokens=100)

        await asyncio.gather(*(one() for _ in range(60)))
        return loop.time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        # 60 calls took 100 tokens each, at 100 a second.
        assert runner.run(main()) == pytest.approx(60, abs=3)


def test_a_call_that_is_cancelled_while_it_waits_gives_its_slot_back() -> None:
    async def main() -> None:
        limiter = Limiter(1)
        first = await limiter.acquire()
        waiting = [asyncio.ensure_future(limiter.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        limiter.release(first, ok=True)  # hands the slot to the second before it runs
        waiting[1].cancel()
        ticket = await waiting[2]
        assert limiter.state.in_flight == 1
        limiter.release(ticket, ok=True)
        assert limiter.state.in_flight == 0
        await asyncio.gather(*waiting, return_exceptions=True)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


def test_a_retry_goes_before_calls_that_were_never_started() -> None:
    async def main() -> list[str]:
        limiter = Limiter(1)
        order: list[str] = []

        async def one(name: str, *, again: bool) -> None:
            ticket = await limiter.acquire(again=again)
            order.append(name)
            limiter.release(ticket, ok=True)

        held = await limiter.acquire()
        tasks = [asyncio.ensure_future(one(name, again=name == "retry")) for name in ("new", "newer", "retry")]
        await asyncio.sleep(0)
        limiter.release(held, ok=True)
        await asyncio.gather(*tasks)
        return order

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) == ["retry", "new", "newer"]


def test_a_limiter_whose_loop_ended_goes_on_in_the_next_one() -> None:
    limiter = Limiter(rpm=60, burst=1)

    async def stopped() -> None:
        await limiter.acquire()
        with pytest.raises(TimeoutError):  # the next one would start a second later: a timer is set
            await asyncio.wait_for(limiter.acquire(), 0.3)

    async def again() -> int:
        return len(await asyncio.gather(*(limiter.acquire() for _ in range(3))))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(stopped())
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(asyncio.wait_for(again(), 60)) == 3


def test_when_nothing_gets_through_everybody_waits_as_long_as_was_asked() -> None:
    server = Server(rate=1000, burst=100)

    async def outage(served: Server) -> None:
        rate = served.rate
        served.rate, served.level, served.burst = 0.0, 0.0, 0.0
        await asyncio.sleep(5)
        served.rate, served.burst = rate, 100

    result = drive(200, server, Limiter(50), retry_after=2.0, later=outage)
    assert result.finished == 200
    assert server.refused < 400  # 5 seconds of hammering at 2 ms a refusal would be thousands


@pytest.mark.parametrize("bad", [{"concurrency": 0}, {"rpm": -1}, {"start": 0}, {"tpm": 0}])
def test_a_limit_of_nothing_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="above zero"):
        Limiter(**bad)


class _BareTimer:
    """All that asyncio promises of what `call_later` returns in uvloop: it can be cancelled."""

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.cancel = timer.cancel


class OtherLoop(VirtualLoop):
    """A loop as other libraries make them: its timers cannot say when they are due, and count in milliseconds."""

    short = 0

    def call_later(self, delay: float, callback: Callable[..., object], *args: object, **_: object) -> _BareTimer:  # type: ignore[override]
        self.short += delay < 0.001
        return _BareTimer(super().call_later(delay, callback, *args))


def test_a_known_rate_is_kept_on_another_librarys_loop_without_a_busy_wait() -> None:
    async def work() -> float:
        limiter = Limiter(64, rpm=60_000, burst=1)

        async def one() -> None:
            limiter.release(await limiter.acquire(), ok=True)

        await asyncio.gather(*(one() for _ in range(200)))
        return asyncio.get_running_loop().time()

    loop = OtherLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(work()) >= 0.199
    assert loop.short == 0
