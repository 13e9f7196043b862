"""Bounded, ordered, streaming; a CallError stays with its item, everything else ends the run cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from combee.errors import CallError, CallErrorKind, UsageError
from combee.kernel.runner import Done, LocalRunner, Runner


class Load:
    """An async function that notes how many are inside at once, and whether each that began also ended."""

    def __init__(self, seconds: float = 0.001) -> None:
        self.seconds = seconds
        self.inside = 0
        self.most = 0
        self.begun = 0
        self.ended = 0

    async def __call__(self, item: int) -> int:
        self.begun += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.inside -= 1
            self.ended += 1
        return item * 2


async def use(runner: LocalRunner, fn: Callable[[int], Awaitable[int]], *, streaming: bool) -> None:
    if streaming:
        async for _ in runner.stream(fn, range(1000)):
            pass
    else:
        await runner.run(fn, range(1000))


def down(item: int) -> CallError:
    return CallError(f"item {item} is down", kind=CallErrorKind.SERVER)


@pytest.fixture(autouse=True)
async def no_task_is_left_behind() -> AsyncIterator[None]:
    """After every test no task runs and the event loop had nothing to complain about."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    yield
    gc.collect()
    await asyncio.sleep(0)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert complaints == []


@pytest.mark.parametrize("count", [0, 1, 7, 500])
@pytest.mark.parametrize("limit", [1, 8, 1000])
async def test_results_come_in_item_order_with_at_most_limit_at_once(count: int, limit: int) -> None:
    load = Load(0.0)
    results = await LocalRunner().run(load, range(count), limit=limit)
    assert results == [Done(index, index * 2) for index in range(count)]
    assert load.most == min(limit, count)


async def test_the_default_limit_holds() -> None:
    load = Load()
    await LocalRunner(5).run(load, range(50))
    assert load.most == 5


async def test_a_stream_yields_in_completion_order() -> None:
    async def later_is_quicker(item: int) -> int:
        await asyncio.sleep((5 - item) * 0.02)
        return item

    order = [done.index async for done in LocalRunner().stream(later_is_quicker, range(5))]
    assert order == [4, 3, 2, 1, 0]


async def test_a_call_error_belongs_to_its_item_alone() -> None:
    async def fn(item: int) -> int | None:
        if item % 3 == 0:
            raise down(item)
        return None if item % 3 == 1 else item

    results = await LocalRunner(4).run(fn, range(30))
    assert [done.index for done in results if done.error is not None] == list(range(0, 30, 3))
    assert results[1].get() is None
    assert results[2].get() == 2
    with pytest.raises(CallError, match="item 3 is down"):
        results[3].get()
    streamed = [done async for done in LocalRunner(4).stream(fn, range(30))]
    assert [done.index for done in sorted(streamed, key=lambda done: done.index)] == list(range(30))
    assert sum(done.error is not None for done in streamed) == 10


@pytest.mark.parametrize("streaming", [False, True])
async def test_any_other_error_stops_the_rest_and_is_raised_as_it_is(streaming: bool) -> None:
    load = Load(0.01)

    async def fn(item: int) -> int:
        value = await load(item)
        if item in {20, 21, 22}:
            raise ValueError(f"fault at {item}")
        return value

    with pytest.raises(ValueError, match="fault at 2"):
        await use(LocalRunner(8), fn, streaming=streaming)
    assert load.begun < 40
    assert load.begun == load.ended


async def test_the_error_is_raised_only_when_every_worker_stands_still() -> None:
    tidy: list[int] = []

    async def fn(item: int) -> None:
        if item == 0:
            raise ValueError("first")
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.01)
            tidy.append(item)

    with pytest.raises(ValueError, match="first"):
        await LocalRunner(4).run(fn, range(1, -1, -1))
    assert tidy == [1]


async def test_an_error_while_stopping_does_not_hide_the_first() -> None:
    async def fn(item: int) -> None:
        if item == 0:
            await asyncio.sleep(0.01)
            raise ValueError("first")
        try:
            await asyncio.sleep(10)
        finally:
            raise KeyError("second")

    with pytest.raises(ValueError, match="first"):
        await LocalRunner(4).run(fn, range(3))


@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelling_the_run_cancels_every_item_and_waits(streaming: bool) -> None:
    load = Load(10)

    task = asyncio.create_task(use(LocalRunner(16), load, streaming=streaming))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (load.begun, load.ended) == (16, 16)


async def test_a_cancellation_from_inside_an_item_is_not_swallowed() -> None:
    async def fn(item: int) -> int:
        await asyncio.sleep(0)
        if item == 3:
            raise asyncio.CancelledError
        return item

    with pytest.raises(asyncio.CancelledError):
        await LocalRunner(2).run(fn, range(10))


async def test_leaving_a_stream_early_cancels_the_rest() -> None:
    load = Load()
    async with contextlib.aclosing(LocalRunner(4).stream(load, range(1000))) as stream:
        async for done in stream:
            if done.index >= 10:
                break
    assert load.begun == load.ended < 40


async def test_a_slow_consumer_holds_the_workers_back() -> None:
    load = Load(0.0)
    seen = 0
    async for _ in LocalRunner(4).stream(load, range(200)):
        seen += 1
        await asyncio.sleep(0.0005)
        assert load.begun - seen <= 12
    assert seen == 200


async def test_a_source_that_fails_ends_the_run() -> None:
    def source() -> Iterator[int]:
        yield from range(5)
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        await LocalRunner(2).run(Load(), source())


async def test_items_are_pulled_as_they_are_needed_and_a_million_items_are_not_a_million_tasks() -> None:
    pulled = 0
    most = 0

    def source() -> Iterator[int]:
        nonlocal pulled
        for item in range(1_000_000):
            pulled += 1
            yield item

    async def fn(item: int) -> int:
        nonlocal most
        if item % 50_000 == 0:
            most = max(most, len(asyncio.all_tasks()))
        return item

    tracemalloc.start()
    total = 0
    async with contextlib.aclosing(LocalRunner(64).stream(fn, source())) as stream:
        async for done in stream:
            total += 1
            assert pulled - done.index <= 1_000
            if total == 30_000:
                break
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 70
    assert peak < 3_000_000


async def test_functions_that_never_wait_leave_the_event_loop_its_turn() -> None:
    turns = 0

    async def beat() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def busy(item: int) -> int:
        return sum(range(item % 20_000))

    heart = asyncio.create_task(beat())
    await LocalRunner(2).run(busy, range(0, 1_000_000, 1000))
    heart.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await heart
    assert turns > 3


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(UsageError, match="limit"):
        LocalRunner(limit)
    with pytest.raises(UsageError, match="limit"):
        await LocalRunner().run(Load(), range(3), limit=limit)
    with pytest.raises(UsageError, match="limit"):
        async for _ in LocalRunner().stream(Load(), range(3), limit=limit):
            pass


async def test_runs_inside_runs_do_not_wait_for_each_other() -> None:
    runner = LocalRunner(2)

    async def outer(item: int) -> int:
        return sum(done.get() for done in await runner.run(Load(), range(item)))

    assert [done.get() for done in await runner.run(outer, range(6))] == [0, 0, 2, 6, 12, 20]


def test_it_is_a_runner() -> None:
    assert isinstance(LocalRunner(), Runner)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "3", None])
def test_a_limit_is_a_whole_number_of_at_least_one(limit: Any) -> None:
    with pytest.raises(UsageError):
        LocalRunner(limit)
