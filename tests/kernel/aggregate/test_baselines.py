"""The other ways to aggregate: same signature, honest counts, and they stand where they stand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from benchmarks.simulate import SimulatedMethod
from combee.errors import CallError, CallErrorKind, RunError, UsageError
from combee.kernel.aggregate import BASELINES, Retention, Scan, aggregate, plan
from combee.kernel.journal import MemoryScope

Facts = frozenset[str]
FORGETFUL = Retention(0.0, 40.0)


def keys(n: int) -> list[str]:
    return [f"item-{index:05d}" for index in range(n)]


def run(how: str, n: int = 125, method: SimulatedMethod | None = None) -> Scan[Facts]:
    return asyncio.run(aggregate(keys(n), method or SimulatedMethod(FORGETFUL), how=how))


@pytest.mark.parametrize("how", sorted(BASELINES))
@pytest.mark.parametrize("n", [1, 2, 9, 125])
def test_every_way_accounts_for_every_item(how: str, n: int) -> None:
    result = run(how, n)
    assert result.covered | set(result.uncovered) == set(keys(n))
    assert not result.covered & set(result.uncovered)
    assert result.failed == ()
    assert result.calls == len([node for node in result.nodes if node.level == 0 or how in {"paper", "summarize"}])


@pytest.mark.parametrize("how", sorted(BASELINES))
def test_every_way_is_bought_once_and_has_its_own_place(how: str) -> None:
    scope = MemoryScope()
    bought: list[str] = []

    class Counting(SimulatedMethod):
        async def leaf(self, items: Sequence[str], node: str) -> Facts:
            bought.append(node)
            return await super().leaf(items, node)

    for other in sorted(BASELINES):
        asyncio.run(aggregate(keys(40), Counting(FORGETFUL), how=other, scope=scope))
    paid = len(bought)
    again = asyncio.run(aggregate(keys(40), Counting(FORGETFUL), how=how, scope=scope))
    assert len(bought) == paid
    assert again == asyncio.run(aggregate(reversed(keys(40)), SimulatedMethod(FORGETFUL), how=how))


def test_naive_visibly_fails_where_ours_keeps_the_lessons() -> None:
    kept = {how: len(run(how).covered) for how in BASELINES}
    assert kept["naive"] < 20
    assert kept["combee"] > 100
    assert kept["naive"] < kept["paper"] < kept["combee"]
    assert run("naive").calls == 1


def test_a_long_output_limit_is_asked_for_where_the_method_has_one() -> None:
    @dataclass(frozen=True, slots=True)
    class Limited(SimulatedMethod):
        limit: int = 10

        async def leaf(self, items: Sequence[str], node: str) -> Facts:
            return frozenset(list(items)[: self.limit])

        def with_output_limit(self, tokens: int) -> Limited:
            return replace(self, limit=tokens)

    assert len(run("naive", method=Limited()).covered) == 10
    assert len(run("naive_long", method=Limited()).covered) == 125
    assert any("no output limit" in note for note in run("naive_long").notes)


def test_top_k_reads_one_representative_of_each_cluster() -> None:
    words = ["alpha beta", "gamma delta", "epsilon zeta"]
    items = [f"{words[index % 3]} {index}" for index in range(9)]
    result = asyncio.run(aggregate(items, SimulatedMethod(), how="top_k"))
    assert result.reads == 3
    assert {item.rsplit(" ", 1)[0] for item in result.covered} == set(words)
    assert len(result.uncovered) == 6


def test_top_k_uses_the_similarity_that_the_method_offers() -> None:
    class ByLastDigit(SimulatedMethod):
        def similarity(self, a: str, b: str) -> float:
            return float(a[-1] == b[-1])

    items = [f"{index:02d}" for index in range(100)]
    result = asyncio.run(aggregate(items, ByLastDigit(), how="top_k"))
    assert {item[-1] for item in result.covered} == set("0123456789")


class Summarizing(SimulatedMethod):
    """A summary is the texts of its group in one; it speaks for all of them."""

    async def summarize(self, items: Sequence[str], node: str) -> str:
        if node == "r0/l0/g2":
            raise CallError("no", kind=CallErrorKind.TIMEOUT)
        return "|".join(items)

    def sources(self, delta: Facts) -> Facts:
        return frozenset(part for entry in delta for part in entry.split("|"))

    def covered(self, item: str, delta: Facts) -> bool:
        return any(item in entry.split("|") for entry in delta)


def test_summaries_are_read_in_one_call_and_counted_for_their_items() -> None:
    result = asyncio.run(aggregate(keys(49), Summarizing(), how="summarize"))
    assert (result.calls, result.reads, result.depth) == (8, 42, 2)
    assert len(result.failed) == 7
    assert result.covered == result.claimed == set(keys(49)) - set(result.failed)
    assert [node.level for node in result.nodes] == [0] * 7 + [1]


def test_when_no_group_can_be_summarized_it_says_so() -> None:
    class Mute(SimulatedMethod):
        async def summarize(self, items: Sequence[str], node: str) -> str:
            raise CallError(f"{node} is mute: {len(items)}", kind=CallErrorKind.SERVER)

    with pytest.raises(RunError, match="summarised"):
        asyncio.run(aggregate(keys(49), Mute(), how="summarize"))


def test_our_plan_can_be_given_and_unknown_ways_are_named() -> None:
    result = asyncio.run(aggregate(keys(40), SimulatedMethod(), shape=plan(40, max_items=4)))
    assert result.calls == 10
    with pytest.raises(UsageError, match="naiv") as caught:
        asyncio.run(aggregate(keys(3), SimulatedMethod(), how="naiv"))
    assert "naive" in str(caught.value.hint)
