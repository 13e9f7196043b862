"""The scan: everything is read, nothing is lost silently, the order of completion changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulate import SimulatedMethod, simulated_time
from combee.errors import BudgetError, CallError, CallErrorKind, RunError, UsageError
from combee.kernel.aggregate import CallCost, Plan, Retention, Scan, plan, scan
from combee.kernel.journal import JSONLike, MemoryScope, hash_json
from combee.kernel.runner import LocalRunner

Facts = frozenset[str]
FORGETFUL = Retention(0.0, 40.0)


def keys(n: int) -> list[str]:
    return [f"item-{index:05d}" for index in range(n)]


def bytes_of(result: Scan[Facts]) -> str:
    """Everything a report or a resumed run can see, as one hash."""
    nodes: list[JSONLike] = [
        [node.name, node.level, node.round, list(node.inputs), node.entries_in, node.entries_out, str(node.error)]
        for node in result.nodes
    ]
    counts: JSONLike = [result.calls, result.reads, result.depth]
    sets: JSONLike = [sorted(result.delta), sorted(result.covered), sorted(result.claimed)]
    return hash_json([nodes, counts, sets, result.uncovered, result.failed, result.late, result.notes])


def failing(names: Callable[[str, int], bool], kind: CallErrorKind = CallErrorKind.SERVER) -> Any:
    return lambda node, inputs: CallError(f"{node} fails", kind=kind) if names(node, inputs) else None


async def test_every_item_is_read_once_and_covered() -> None:
    result = await scan(keys(1000), SimulatedMethod(), plan(1000))
    assert result.covered == result.claimed == set(keys(1000))
    assert (result.uncovered, result.failed, result.late, result.notes) == ((), (), (), ())
    assert (result.calls, result.reads, result.depth) == (63, 1000, 1)
    leaves = [node for node in result.nodes if node.level == 0]
    assert sum(node.entries_in for node in leaves) == 1000
    assert result.nodes[-1].inputs == tuple(node.name for node in leaves)


async def test_the_preset_reads_copies_in_different_groups_and_ends_in_one_call() -> None:
    result = await scan(keys(100), SimulatedMethod(), plan(100, preset="paper"))
    leaves = [node for node in result.nodes if node.level == 0]
    assert (len(leaves), result.reads, result.calls, result.depth) == (10, 200, 11, 2)
    assert all(len(set(node.inputs)) == len(node.inputs) == 20 for node in leaves)
    assert [(node.name, node.entries_in) for node in result.nodes if node.level == 1] == [("r0/l1/g0", 200)]


@pytest.mark.parametrize("n", [1, 2, 8])
async def test_the_preset_is_one_call_below_nine_items(n: int) -> None:
    result = await scan(keys(n), SimulatedMethod(), plan(n, preset="paper"))
    assert (result.calls, result.reads, len(result.nodes)) == (1, n, 1)


def test_a_tree_of_one_second_calls_takes_two_seconds() -> None:
    """36 items in 6 groups, once each, every call 1 s: 2 s, where one call after the other takes 7."""
    for n, copies in ((36, 1), (36, 2), (100, 1)):
        method = SimulatedMethod(cost=CallCost(1.0, 0.0))
        result, seconds = simulated_time(scan(keys(n), method, plan(n, preset="paper", copies=copies)))
        assert seconds == pytest.approx(2.0)
        assert result.depth == 2


@dataclass(frozen=True, slots=True)
class Restless(SimulatedMethod):
    """Sleeps a random number of turns in every call, so that calls finish in any order."""

    clock: random.Random = field(default_factory=random.Random)

    async def leaf(self, items: Sequence[str], node: str) -> Facts:
        for _ in range(self.clock.randrange(6)):
            await asyncio.sleep(0)
        return await SimulatedMethod.leaf(self, items, node)


@given(st.integers(0, 2**32), st.integers(1, 60), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_same_seed_same_bytes_in_any_order_of_input_and_completion(
    chaos: int, n: int, paper: bool, by_model: bool
) -> None:
    shape = plan(n, preset="paper" if paper else None, max_items=4)
    shuffled = keys(n)
    random.Random(chaos).shuffle(shuffled)
    results = [
        asyncio.run(scan(items, method, shape, seed=7, scope=scope))
        for items, method, scope in (
            (keys(n), SimulatedMethod(retention=FORGETFUL, combine_calls_model=by_model), None),
            (
                shuffled,
                Restless(retention=FORGETFUL, combine_calls_model=by_model, clock=random.Random(chaos)),
                MemoryScope(),
            ),
        )
    ]
    assert bytes_of(results[0]) == bytes_of(results[1])


async def test_a_batch_whose_items_finish_in_reverse_gives_the_same_bytes() -> None:
    for n in (2, 3, 17, 50):
        first = await scan(keys(n), SimulatedMethod(), plan(n), seed=3)
        second = await scan(reversed(keys(n)), SimulatedMethod(), plan(n), seed=3)
        assert bytes_of(first) == bytes_of(second)


async def test_items_with_one_key_are_one_item() -> None:
    twice = [*keys(20), *keys(20)]
    result = await scan(twice, SimulatedMethod(), plan(40))
    assert result.reads == 20
    assert bytes_of(result) == bytes_of(await scan(keys(20), SimulatedMethod(), plan(20)))


async def test_two_different_items_with_one_key_are_refused() -> None:
    class ByFirstLetter(SimulatedMethod):
        def key(self, item: str) -> str:
            return item[0]

    with pytest.raises(UsageError, match="two different items"):
        await scan(["apple", "avocado"], ByFirstLetter(), plan(2))
    with pytest.raises(UsageError, match="nothing to aggregate"):
        await scan([], SimulatedMethod(), plan(1))


@given(st.sets(st.integers(0, 11)), st.sets(st.integers(0, 47)), st.booleans())
@settings(max_examples=60)
def test_any_failing_nodes_lose_only_what_fails_alone(groups: set[int], poison: set[int], by_model: bool) -> None:
    """Whole groups fail at first, and poisoned items fail every call they are in: only these are lost."""
    bad = {keys(48)[index] for index in poison}
    broken = {f"r0/l0/g{index}" for index in groups}

    class Poisoned(SimulatedMethod):
        async def leaf(self, items: Sequence[str], node: str) -> Facts:
            if node in broken or bad & set(items):
                raise CallError("no", kind=CallErrorKind.SCHEMA)
            return await super().leaf(items, node)

    method = Poisoned(combine_calls_model=by_model)
    shape = plan(48, max_items=4, combine_calls_model=by_model)
    if len(bad) == 48:
        with pytest.raises(RunError, match="none of the 48 items"):
            asyncio.run(scan(keys(48), method, shape))
        return
    result = asyncio.run(scan(keys(48), method, shape))
    assert set(result.failed) == bad == set(result.uncovered)
    assert result.covered == set(keys(48)) - bad
    assert result.reads == 48 - len(bad)
    given_up = {key for node in result.nodes if node.error for key in node.lost}
    assert given_up == bad


async def test_one_group_of_six_that_always_fails_costs_no_other() -> None:
    for n, doomed in ((36, "r0/l0/g5"), (36, "r0/l0/g0"), (49, "r0/l0/g3")):
        shape = plan(n, preset="paper", copies=1)
        fault = failing(lambda node, _, doomed=doomed: node.startswith(doomed))  # type: ignore[misc]  # bound now
        result = await scan(keys(n), SimulatedMethod(fault=fault), shape, scope=MemoryScope())
        lost = next(node for node in result.nodes if node.name == doomed).inputs
        assert set(result.failed) == set(lost)
        assert len(result.covered) == n - len(lost)
        tries = [node for node in result.nodes if node.error]
        assert len(tries) == 2 * len(lost) - 1
        assert sum("given up" in str(node.error) for node in tries) == len(lost)


@pytest.mark.parametrize(
    "kind", [CallErrorKind.CONTEXT_TOO_LONG, CallErrorKind.LENGTH, CallErrorKind.SCHEMA, CallErrorKind.TIMEOUT]
)
async def test_a_call_that_is_too_large_is_split_until_it_fits(kind: CallErrorKind) -> None:
    fault = failing(lambda _, inputs: inputs > 5, kind)
    result = await scan(keys(40), SimulatedMethod(fault=fault), plan(40, max_items=20))
    assert result.covered == set(keys(40))
    assert [node.entries_in for node in result.nodes if node.level == 0 and not node.error] == [5] * 8
    assert (result.calls, result.depth) == (2 + 4 + 8, 3)


@pytest.mark.parametrize("error", [CallErrorKind.AUTH, CallErrorKind.NO_SUCH_MODEL, None])
async def test_errors_that_no_smaller_group_mends_stop_the_scan_at_once(error: CallErrorKind | None) -> None:
    calls = []

    class Denied(SimulatedMethod):
        async def leaf(self, items: Sequence[str], node: str) -> Facts:
            calls.append(node)
            if len(calls) > 3:
                raise BudgetError("spent") if error is None else CallError("denied", kind=error)
            return await super().leaf(items, node)

    with pytest.raises(BudgetError if error is None else CallError):
        await scan(keys(1000), Denied(), plan(1000, max_items=2), runner=LocalRunner(1))
    assert len(calls) == 4


async def test_items_that_no_delta_covers_get_a_second_chance_and_the_rest_is_named() -> None:
    method = SimulatedMethod(retention=FORGETFUL)
    kept = []
    for chances in range(4):
        result = await scan(keys(800), method, plan(800, second_chances=chances))
        assert result.uncovered == tuple(sorted(set(keys(800)) - result.covered))
        assert result.failed == ()
        assert result.depth == 1 + chances
        again = {key for node in result.nodes if node.level == 0 and node.round == 1 for key in node.inputs}
        missed = {key for node in result.nodes if node.level == 0 and node.round == 0 for key in node.lost}
        assert again == (missed if chances else set())
        kept.append(len(result.covered) / 800)
    assert kept == sorted(kept)
    assert kept[0] < 0.72
    assert kept[3] > 0.96


async def test_platitudes_that_cite_everything_are_claimed_but_not_covered() -> None:
    """A curator at its usual entry count whose operations say nothing of the items that they cite."""

    @dataclass(frozen=True, slots=True)
    class Platitudes(SimulatedMethod):
        async def leaf(self, items: Sequence[str], node: str) -> Facts:
            return frozenset(f"cites:{item}" for item in items)

        def sources(self, delta: Facts) -> Facts:
            return frozenset(entry.removeprefix("cites:") for entry in delta)

    result = await scan(keys(50), Platitudes(), plan(50))
    assert len(result.delta) == 50
    assert result.claimed == set(keys(50))
    assert result.covered == frozenset()
    assert result.uncovered == tuple(keys(50))


async def test_two_copies_of_an_item_make_one_lesson_with_one_source() -> None:
    for copies in (1, 2, 3):
        result = await scan(keys(40), SimulatedMethod(), plan(40, copies=copies, max_items=7))
        assert result.reads == 40 * copies
        assert sorted(result.delta) == keys(40)
        for node in result.nodes:
            assert len(set(node.inputs)) == len(node.inputs)


async def test_a_method_that_combines_by_model_gets_levels_and_counted_losses() -> None:
    method = SimulatedMethod(retention=FORGETFUL, combine_calls_model=True)
    result = await scan(keys(300), method, plan(300, max_items=8, second_chances=0))
    upper = [node for node in result.nodes if node.level > 0]
    assert max(len(node.inputs) for node in upper) <= 8
    assert result.depth == 1 + max(node.level for node in upper)
    assert result.calls == len(result.nodes)
    read = {key for node in result.nodes if node.level == 0 for key in node.inputs}
    assert read - {key for node in result.nodes for key in node.lost} == result.covered


async def test_a_second_chance_that_makes_things_worse_is_dropped() -> None:
    """Combining the old root with the new leaves forgets almost everything: the first result stands."""

    class Worse(SimulatedMethod):
        async def combine(self, deltas: Sequence[Facts], node: str) -> Facts:
            united = frozenset[str]().union(*deltas)
            return frozenset(sorted(united)[:3]) if node.startswith("r1") else united

    method = Worse(retention=FORGETFUL, combine_calls_model=True)
    result = await scan(keys(100), method, plan(100))
    alone = await scan(keys(100), method, plan(100, second_chances=0))
    assert result.covered == alone.covered
    assert any("dropped" in note for note in result.notes)


@pytest.mark.parametrize(("most", "kept"), [(3, 64), (2, 64), (1, 8)])
async def test_a_combining_call_that_fails_is_split_and_loses_no_more_than_it_must(most: int, kept: int) -> None:
    fault = failing(lambda node, inputs: "/l0/" not in node and inputs > most, CallErrorKind.CONTEXT_TOO_LONG)
    method = SimulatedMethod(combine_calls_model=True, fault=fault)
    shape = plan(64, max_items=8, combine_calls_model=True, second_chances=0)
    result = await scan(keys(64), method, shape, scope=MemoryScope())
    assert len(result.covered) == kept
    lost = {key for node in result.nodes if node.error for key in node.lost}
    assert set(result.uncovered) == lost
    assert result.failed == ()


@dataclass(frozen=True, slots=True)
class Counting(SimulatedMethod):
    """Counts the calls that are really made."""

    made: list[str] = None  # type: ignore[assignment]  # given by every test

    async def _call(self, lessons: Sequence[str], inputs: int, node: str) -> Facts:
        self.made.append(node)
        return await SimulatedMethod._call(self, lessons, inputs, node)


def test_replay_buys_nothing_again_not_even_calls_that_failed() -> None:
    fault = failing(lambda node, inputs: inputs > 6 or node == "r0/l0/g2.1")
    for shape in (plan(100, max_items=10), plan(100, preset="paper"), plan(100, max_items=10, copies=2)):
        scope = MemoryScope()
        first = Counting(retention=FORGETFUL, fault=fault, made=[])
        one = asyncio.run(scan(keys(100), first, shape, scope=scope))
        assert len(first.made) == one.calls
        second = Counting(retention=FORGETFUL, fault=None, made=[])
        assert bytes_of(asyncio.run(scan(keys(100), second, shape, scope=scope))) == bytes_of(one)
        assert second.made == []


@given(st.integers(0, 40))
@settings(max_examples=20)
def test_a_scan_that_is_cut_off_anywhere_goes_on_without_paying_twice(cut: int) -> None:
    class Killed(Exception):  # noqa: N818 - stands for a kill, not for an error
        pass

    made: list[str] = []

    class Mortal(SimulatedMethod):
        async def leaf(self, items: Sequence[str], node: str) -> Facts:
            if len(made) == cut:
                raise Killed
            made.append(node)
            return await super().leaf(items, node)

    scope = MemoryScope()
    shape = plan(200, max_items=8)
    whole = asyncio.run(scan(keys(200), SimulatedMethod(retention=FORGETFUL), shape, seed=1))
    with contextlib.suppress(Killed):
        asyncio.run(scan(keys(200), Mortal(retention=FORGETFUL), shape, seed=1, scope=scope))
    rest = Counting(retention=FORGETFUL, made=[])
    again = asyncio.run(scan(keys(200), rest, shape, seed=1, scope=scope))
    assert bytes_of(again) == bytes_of(whole)
    assert sorted([*made, *rest.made]) == sorted(node.name for node in whole.nodes if node.level == 0)


def test_another_fingerprint_or_content_is_another_call() -> None:
    scope = MemoryScope()

    class Printed(Counting):
        fingerprint = "playbook 1"

    class Reprinted(Counting):
        fingerprint = "playbook 2"

    class Digested(Counting):
        fingerprint = "playbook 1"

        def digest(self, item: str) -> str:
            return f"new content of {item}"

    for kind, bought in ((Printed, 4), (Printed, 0), (Reprinted, 4), (Digested, 4)):
        method = kind(made=[])
        asyncio.run(scan(keys(50), method, plan(50), scope=scope))
        assert len(method.made) == bought


def test_a_retry_in_smaller_groups_does_not_meet_the_decisions_of_the_first_try() -> None:
    scope = MemoryScope()
    fault = failing(lambda _, inputs: inputs > 4)
    first = asyncio.run(scan(keys(32), SimulatedMethod(fault=fault), plan(32), scope=scope))
    again = asyncio.run(scan(keys(32), SimulatedMethod(fault=fault), plan(32, max_items=4), scope=scope))
    assert first.calls > again.calls == 8
    assert all(node.error is None for node in again.nodes)


async def test_the_token_cap_holds_in_every_leaf_and_a_heavy_item_stands_alone() -> None:
    class Weighed(SimulatedMethod):
        def weight(self, item: str) -> int:
            return 5000 if item.endswith("00007") else 100

    result = await scan(keys(60), Weighed(), plan(60, max_tokens=450))
    sizes = {node.inputs: len(node.inputs) for node in result.nodes if node.level == 0}
    assert max(sizes.values()) == 4
    assert ("item-00007",) in sizes
    assert result.covered == set(keys(60))


async def test_a_plan_for_another_number_of_items_is_made_again() -> None:
    made: Plan = plan(10, max_items=5)
    result = await scan(keys(23), SimulatedMethod(), made)
    assert sorted(node.entries_in for node in result.nodes if node.level == 0) == [4, 4, 5, 5, 5]
    assert bytes_of(result) == bytes_of(
        await scan(keys(23), SimulatedMethod(), replace(made).resized(23, weights=None, combine_calls_model=False))
    )


async def test_a_method_without_a_combining_call_says_so_in_the_preset() -> None:
    class OnlyMerge:
        combine_calls_model = False

        def __init__(self) -> None:
            inner = SimulatedMethod()
            for name in ("key", "weight", "leaf", "combine", "sources", "size", "covered", "encode", "decode"):
                setattr(self, name, getattr(inner, name))

    method: Any = OnlyMerge()
    result = await scan(keys(36), method, plan(36, preset="paper"))
    assert (result.calls, result.depth) == (6, 1)
    assert any("merged by code" in note for note in result.notes)


async def test_coverage_for_many_items_at_once_is_used_where_offered() -> None:
    class Bulk(SimulatedMethod):
        def covered(self, item: str, delta: Facts) -> bool:
            raise AssertionError("the bulk hook stands in for this")

        def coverage(self, items: Sequence[str], delta: Facts) -> set[str]:
            return set(items) & delta

    result = await scan(keys(40), Bulk(retention=FORGETFUL), plan(40))
    assert bytes_of(result) == bytes_of(await scan(keys(40), SimulatedMethod(retention=FORGETFUL), plan(40)))


async def test_an_item_with_nothing_to_say_is_not_counted_as_lost() -> None:
    class Silent(SimulatedMethod):
        async def leaf(self, items: Sequence[str], node: str) -> Facts:
            return frozenset(item for item in items if not item.endswith("7"))

        def covered(self, item: str, delta: Facts) -> bool:
            return item.endswith("7") or item in delta

    result = await scan(keys(50), Silent(), plan(50))
    assert result.covered == set(keys(50))
    assert len(result.claimed) == 45
    assert result.depth == 1


async def test_a_merge_that_is_no_union_is_found_out() -> None:
    class Dropping(SimulatedMethod):
        async def combine(self, deltas: Sequence[Facts], node: str) -> Facts:
            return frozenset(sorted(frozenset[str]().union(*deltas))[1:])

    result = await scan(keys(50), Dropping(), plan(50))
    assert result.uncovered == (keys(50)[0],)
    assert result.nodes[-1].lost == (keys(50)[0],)
