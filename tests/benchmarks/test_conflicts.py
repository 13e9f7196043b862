"""Conflict clusters: a model may settle them, nothing that was covered may get lost by it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.conflicts import clusters, settle_conflicts
from combee.errors import CallError, CallErrorKind
from combee.kernel.aggregate import Scan, plan, scan
from combee.kernel.journal import MemoryScope
from combee.kernel.learn import Reflection
from combee.kernel.playbook import Add, Delta, Operation, Remove, Update, delta_of
from combee.kernel.runner import LocalRunner
from combee.lexical import LexicalCurator
from combee.lexical.agent import LexicalMethod

ALIKE = (
    "When the invoice carries code AB-17, book it in account 4711 of the general ledger.",
    "When the invoice carries code AB-17, always book it in account 4711 of the general ledger.",
)
OTHER = "Convert basis points to percent by dividing by 100."


def reflections() -> list[Reflection]:
    return [
        Reflection(id=f"r{n}", trace="t", task="t", text=text, lessons=(text,))
        for n, text in enumerate((*ALIKE, OTHER))
    ]


class Resolving(LexicalMethod):
    answer: Delta | CallError = Delta()

    def __init__(self, answer: Delta | CallError) -> None:
        super().__init__(LexicalCurator(), "place")
        object.__setattr__(self, "answer", answer)

    async def resolve(self, cluster: Sequence[Operation], node: str) -> Delta:
        if isinstance(self.answer, CallError):
            raise self.answer
        return self.answer


async def settled(method: LexicalMethod) -> tuple[Scan[Delta], Scan[Delta]]:
    items = reflections()
    before = await scan(items, method, plan(len(items)))
    after = await settle_conflicts(before, method, items, scope=MemoryScope(), runner=LocalRunner(), max_items=16)
    return before, after


async def test_a_cluster_is_replaced_by_what_the_model_says_of_it() -> None:
    joined = delta_of([Add("OTHERS", ALIKE[1], ("r0", "r1"))])
    before, after = await settled(Resolving(joined))
    assert len(before.delta) == 3
    assert set(after.delta) == {*joined, *(op for op in before.delta if getattr(op, "text", "") == OTHER)}
    assert after.calls == before.calls + 1


@pytest.mark.parametrize(
    "answer",
    [
        Delta(),
        delta_of([Add("OTHERS", "Book invoices with care.", ("r0", "r1"))]),
        delta_of([Add("OTHERS", ALIKE[1], ("r1",))]),
        delta_of([Add("OTHERS", ALIKE[1], ("r0", "r1", "somebody else"))]),
        CallError("too long", kind=CallErrorKind.LENGTH),
    ],
)
async def test_a_result_that_loses_or_invents_something_is_not_taken(answer: Delta | CallError) -> None:
    before, after = await settled(Resolving(answer))
    assert after.delta == before.delta


async def test_without_the_hook_code_merges_and_nothing_is_called() -> None:
    before, after = await settled(LexicalMethod(LexicalCurator(), "place"))
    assert after is before


async def test_a_wrong_key_is_not_swallowed() -> None:
    with pytest.raises(CallError):
        await settled(Resolving(CallError("no", kind=CallErrorKind.AUTH)))


def test_operations_on_one_bullet_are_a_conflict_and_clusters_are_capped() -> None:
    one = Update("ctx-00001", "A.", ("r1",))
    two = Remove("ctx-00001", ("r2",))
    lone = Update("ctx-00002", "B.", ("r3",))
    found = clusters(delta_of([one, two, lone]), max_items=16)
    assert [set(group) for group in found] == [{one, two}]
    many = delta_of(Update("ctx-00001", f"Text {n}.", (f"r{n}",)) for n in range(20))
    assert [len(group) for group in clusters(many, max_items=8)] == [8, 8, 4]
