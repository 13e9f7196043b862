"""Leaves start while the map still runs, and the bytes do not depend on when items come."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulate import SimulatedMethod, simulated_time
from combee.errors import CallError, CallErrorKind, UsageError
from combee.kernel.aggregate import Absent, CallCost, Retention, Scan, aggregate, output_limit, plan, scan, scan_stream
from combee.kernel.journal import MemoryScope

Facts = frozenset[str]
FORGETFUL = Retention(0.0, 40.0)


def keys(n: int) -> list[str]:
    return [f"item-{index:05d}" for index in range(n)]


async def arriving(items: Iterable[str | Absent], gap: float = 0.0) -> AsyncIterator[str | Absent]:
    for item in items:
        await asyncio.sleep(gap)
        yield item


async def mapped(names: Sequence[str], draw: random.Random, sigma: float) -> AsyncIterator[str]:
    """Yield the items as a map of one call each with lognormal latency would finish them."""
    times = sorted((draw.lognormvariate(0.0, sigma), name) for name in names)
    now = 0.0
    for at, name in times:
        await asyncio.sleep(at - now)
        now = at
        yield name


@given(st.integers(0, 2**32), st.integers(1, 80), st.integers(1, 2))
@settings(max_examples=30)
def test_a_streamed_scan_equals_the_scan_over_the_same_items(chaos: int, n: int, copies: int) -> None:
    shuffled = keys(n)
    random.Random(chaos).shuffle(shuffled)
    shape = plan(n, max_items=5, copies=copies)
    method = SimulatedMethod(retention=FORGETFUL)
    whole = asyncio.run(scan(keys(n), method, shape, seed=5))
    streamed = asyncio.run(scan_stream(arriving(shuffled), keys(n), method, shape, seed=5, limit=3))
    assert streamed == whole


def test_the_preset_streams_too() -> None:
    method = SimulatedMethod(retention=FORGETFUL)
    whole = asyncio.run(scan(keys(100), method, plan(100, preset="paper")))
    assert asyncio.run(scan_stream(arriving(keys(100)), keys(100), method, plan(100, preset="paper"))) == whole


@pytest.mark.parametrize("sigma", [0.3, 0.6, 1.0])
def test_leaves_that_start_early_save_time_under_stragglers(sigma: float) -> None:
    method = SimulatedMethod(cost=CallCost(0.5, 0.0), retention=FORGETFUL, spread=sigma)
    shape = plan(640)

    async def barrier() -> Scan[Facts]:
        items = [item async for item in mapped(keys(640), random.Random(1), sigma)]
        return await scan(items, method, shape)

    whole, slow = simulated_time(barrier())
    streamed, fast = simulated_time(scan_stream(mapped(keys(640), random.Random(1), sigma), keys(640), method, shape))
    assert streamed == whole
    assert fast < slow


def test_a_quorum_seals_blocks_and_a_resumed_run_repeats_them() -> None:
    def run(scope: MemoryScope, seed: int, quorum: float) -> tuple[Scan[Facts], float]:
        source = mapped(keys(200), random.Random(seed), 1.0)
        method = SimulatedMethod(cost=CallCost(0.1, 0.0))
        return simulated_time(scan_stream(source, keys(200), method, plan(200), scope=scope, quorum=quorum))

    scope = MemoryScope()
    first, fast = run(scope, 1, 0.9)
    _, slow = run(MemoryScope(), 1, 1.0)
    assert len(first.late) == 20
    assert first.covered == set(keys(200)) - set(first.late)
    assert first.uncovered == first.failed == ()
    assert fast < slow
    again, _ = run(scope, 2, 0.9)  # other items are late now, but the blocks were sealed
    assert again == first


def test_a_resumed_stream_waits_for_the_items_of_blocks_already_read() -> None:
    """Killed after some blocks were read; the second run meets another order of arrival and a quorum."""

    @dataclass(frozen=True, slots=True)
    class Recorded(SimulatedMethod):
        made: list[str] = field(default_factory=list)
        stop_at: int | None = None

        async def leaf(self, items: Sequence[str], node: str) -> Facts:
            if len(self.made) == self.stop_at:
                raise KeyboardInterrupt
            self.made.append(node)
            return frozenset(items)

    scope = MemoryScope()
    early = Recorded(stop_at=4)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(scan_stream(arriving(keys(100)), keys(100), early, plan(100, max_items=5), scope=scope, quorum=0.8))
    late = Recorded()
    backwards = arriving(reversed(keys(100)))
    result = asyncio.run(scan_stream(backwards, keys(100), late, plan(100, max_items=5), scope=scope, quorum=0.8))
    assert not set(early.made) & set(late.made)
    bought = {key for node in result.nodes if node.name in early.made for key in node.inputs}
    assert bought
    assert bought <= result.covered
    assert len(result.covered) >= 80


def test_an_item_that_will_not_come_holds_nobody_up() -> None:
    coming: list[str | Absent] = [Absent(key) if index % 10 == 3 else key for index, key in enumerate(keys(50))]
    result = asyncio.run(scan_stream(arriving(coming), keys(50), SimulatedMethod(), plan(50)))
    gone = {item.key for item in coming if isinstance(item, Absent)}
    assert result.covered == set(keys(50)) - gone
    assert (result.late, result.uncovered, result.failed) == ((), (), ())


def test_a_source_that_ends_early_leaves_the_rest_late() -> None:
    result = asyncio.run(scan_stream(arriving(keys(30)[:20]), keys(30), SimulatedMethod(), plan(30)))
    assert result.late == tuple(keys(30)[20:])
    assert result.covered == set(keys(30)[:20])


def test_failures_in_a_stream_are_split_and_named() -> None:
    def fault(node: str, inputs: int) -> CallError | None:
        return CallError("no", kind=CallErrorKind.LENGTH) if inputs > 2 or node == "r0/l0/g1.0.1" else None

    method = SimulatedMethod(fault=fault)
    shape = plan(40, max_items=8)
    streamed = asyncio.run(scan_stream(arriving(keys(40)), keys(40), method, shape))
    assert streamed == asyncio.run(scan(keys(40), method, shape))
    assert len(streamed.nodes) > 0
    hopeless = SimulatedMethod(fault=lambda *_: CallError("who are you", kind=CallErrorKind.AUTH))
    with pytest.raises(CallError, match="who are you"):
        asyncio.run(scan_stream(arriving(keys(40)), keys(40), hopeless, shape))


def test_a_block_that_turns_out_heavy_is_cut_under_the_token_cap() -> None:
    result = asyncio.run(
        scan_stream(arriving(keys(40)), keys(40), SimulatedMethod(tokens=100), plan(40, max_items=10, max_tokens=450))
    )
    assert max(node.entries_in for node in result.nodes if node.level == 0) == 4
    assert result.covered == set(keys(40))


class Terse(SimulatedMethod):
    """A method whose calls may write 240 tokens, of which an item takes 40 (one of them 400)."""

    output_limit = 240

    def output(self, item: str) -> int:
        return 400 if item.endswith("00007") else 40

    async def leaf(self, items: Sequence[str], node: str) -> Facts:
        room, kept = self.output_limit, set()
        for item in items:
            room -= min(self.output(item), self.output_limit)
            kept |= {item} if room >= 0 else set()
        return frozenset(kept)


def test_a_leaf_is_cut_to_what_its_call_may_write_so_that_nothing_is_lost_to_the_limit() -> None:
    """Streamed or not; the cap holds in second chances too, and an item over it stands alone."""
    shape = plan(60, max_output=output_limit(Terse()))
    for result in (
        asyncio.run(scan(keys(60), Terse(), shape)),
        asyncio.run(scan_stream(arriving(keys(60)), keys(60), Terse(), shape)),
        asyncio.run(aggregate(keys(60), Terse())),
    ):
        sizes = {node.inputs: len(node.inputs) for node in result.nodes}
        leaves = {inputs: size for inputs, size in sizes.items() if inputs[0].startswith("item-")}
        assert max(leaves.values()) == 6
        assert ("item-00007",) in leaves
        assert result.covered == set(keys(60))
        assert result.reads == 60
    assert len(asyncio.run(scan(keys(60), Terse(), plan(60))).covered) < 60
    assert asyncio.run(aggregate(keys(60), Terse(), how="naive")).calls == 1  # a baseline is not healed


def test_a_scan_that_began_without_a_cap_on_output_is_replayed_without() -> None:
    scope = MemoryScope()
    before = asyncio.run(scan_stream(arriving(keys(40)), keys(40), Terse(), plan(40), scope=scope))
    shape = plan(40, max_output=240)
    assert asyncio.run(scan_stream(arriving(keys(40)), keys(40), Terse(), shape, scope=scope)) == before
    fresh, other = MemoryScope(), plan(40, max_output=120)
    first = asyncio.run(scan_stream(arriving(keys(40)), keys(40), Terse(), shape, scope=fresh))
    assert first != before
    assert asyncio.run(scan_stream(arriving(keys(40)), keys(40), Terse(), other, scope=fresh)) == first


def test_errors_of_the_source_and_unknown_keys_come_through() -> None:
    async def broken() -> AsyncIterator[str]:
        yield keys(5)[0]
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        asyncio.run(scan_stream(broken(), keys(5), SimulatedMethod(), plan(5)))
    with pytest.raises(UsageError, match="not announced"):
        asyncio.run(scan_stream(arriving(["stranger"]), keys(5), SimulatedMethod(), plan(5)))
    with pytest.raises(UsageError, match="nothing to aggregate"):
        asyncio.run(scan_stream(arriving([]), [], SimulatedMethod(), plan(5)))


@pytest.mark.parametrize("quorum", [0.0, -0.1, 1.01])
def test_a_quorum_that_is_no_share_is_refused(quorum: float) -> None:
    with pytest.raises(UsageError, match="quorum"):
        asyncio.run(scan_stream(arriving(keys(3)), keys(3), SimulatedMethod(), plan(3), quorum=quorum))
