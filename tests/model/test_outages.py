"""An endpoint that answered before and is gone for a minute costs no call, whatever stands in front of it says then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from combee.errors import CallErrorKind
from combee.model import Engine, Fault, Message, Request, Response, StoppedError, Timing, Usage
from tests.model.shared import VirtualLoop

_SERVER, _CONNECTION = CallErrorKind.SERVER, CallErrorKind.CONNECTION


class Played:
    """What came of the calls."""

    def __init__(self) -> None:
        self.wall, self.sent = 0.0, 0
        self.lost: list[Exception] = []


def play(
    fault: Fault, out: tuple[float, float], calls: int = 800, *, at_once: int = 800, bad: range = range(0)
) -> Played:
    """Make calls of 50 ms, of which those that begin in `out` get the fault, and those in `bad` always do."""

    async def main() -> Played:
        loop, engine, played = asyncio.get_running_loop(), Engine(), Played()
        turns = asyncio.Semaphore(at_once)

        async def send(request: Request) -> Response | Fault:
            played.sent += 1
            if out[0] <= loop.time() < out[1] or int(request.item) in bad:
                await asyncio.sleep(0.002)
                return fault
            await asyncio.sleep(0.05)
            return Response("ok", Usage(1, 1), "stop", Timing(), "m", None)

        async def one(number: int) -> None:
            request = Request((Message("user", "x"),), item=str(number))
            try:
                async with turns:
                    await engine.complete(request, send, model="m", price=None)
            except Exception as error:  # noqa: BLE001 - whatever it is, the call is lost
                played.lost.append(error)
            played.wall = loop.time()

        await asyncio.gather(*(one(number) for number in range(calls)))
        return played

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


GONE: dict[str, Any] = {
    "refused connections": Fault(_CONNECTION, "connection refused"),
    "502": Fault(_SERVER, "HTTP 502", status=502),
    "503": Fault(_SERVER, "HTTP 503", status=503, overloaded=True),
    "529": Fault(_SERVER, "HTTP 529", status=529, overloaded=True),
    "a page of a proxy": Fault(_SERVER, "HTTP 523", status=523),
}


@pytest.mark.parametrize("name", GONE)
@pytest.mark.parametrize("at_once", [16, 800])
@pytest.mark.parametrize("seconds", [2, 60])
def test_no_call_is_lost_in_an_outage_of_a_minute_and_few_are_sent(name: str, at_once: int, seconds: float) -> None:
    played = play(GONE[name], (0.1, 0.1 + seconds), at_once=at_once)
    assert played.lost == []
    assert played.wall < 1.5 * seconds + 6
    assert played.sent < 800 + 150


@pytest.mark.parametrize(("name", "longest"), [("502", 200), ("refused connections", 200), ("503", 1000)])
def test_an_endpoint_that_does_not_come_back_stops_the_run(name: str, longest: float) -> None:
    played = play(GONE[name], (0.1, 1e9))
    assert played.wall < longest
    assert any(isinstance(error, StoppedError) for error in played.lost)
    assert "has refused every call for" in str(played.lost[0])


@pytest.mark.parametrize("at_once", [4, 800])
def test_calls_that_an_endpoint_cannot_answer_fail_alone(at_once: int) -> None:
    played = play(Fault(_SERVER, "HTTP 500", status=500), (0, 0), 200, at_once=at_once, bad=range(20, 28))
    assert len(played.lost) == 8
    assert played.wall < 120


@pytest.mark.parametrize("status", [500, 502, 504])
def test_where_nothing_ever_answered_the_run_ends_soon_and_after_tens_of_calls(status: int) -> None:
    played = play(Fault(_SERVER, f"HTTP {status}", status=status), (0, 1e9), 200)
    assert len(played.lost) == 200
    assert played.wall < 60
    assert played.sent < 60


@pytest.mark.parametrize("at_once", [4, 200])
def test_the_first_calls_may_fail_where_others_succeed(at_once: int) -> None:
    played = play(Fault(_SERVER, "HTTP 500", status=500), (0, 0), 200, at_once=at_once, bad=range(3))
    assert len(played.lost) == 3
