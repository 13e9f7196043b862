from __future__ import annotations

from hypothesis import given

from combee.kernel.playbook import Add, Delta, Merge, Operation, Remove, Update, delta_of, merge
from tests.kernel.playbook.strategies import OPERATIONS


@given(OPERATIONS, OPERATIONS, OPERATIONS)
def test_merge_is_associative_commutative_and_idempotent(
    one: list[Operation], two: list[Operation], three: list[Operation]
) -> None:
    a, b, c = delta_of(one), delta_of(two), delta_of(three)
    assert merge(a, merge(b, c)) == merge(merge(a, b), c) == merge(c, a, b)
    assert merge(a, b) == merge(b, a)
    assert merge(a, a) == a
    assert merge(a, Delta()) == a


@given(OPERATIONS)
def test_the_order_of_operations_does_not_matter(operations: list[Operation]) -> None:
    assert delta_of(operations) == delta_of(reversed(operations)) == delta_of([*operations, *operations])


@given(OPERATIONS)
def test_no_source_is_lost(operations: list[Operation]) -> None:
    before = {source for operation in operations for source in operation.sources}
    assert before == {source for operation in delta_of(operations) for source in operation.sources}


def test_operations_that_say_the_same_are_one_with_all_sources() -> None:
    delta = delta_of(
        [
            Add("Tax rules", "x ", ("r2",)),
            Add("TAX_RULES", "x", ("r1",)),
            Remove("a-1", ("r1",)),
            Remove("a-1", ("r3",)),
        ]
    )
    assert delta.operations == (Remove("a-1", ("r1", "r3")), Add("TAX_RULES", "x", ("r1", "r2")))


def test_kinds_come_in_the_order_in_which_they_are_done() -> None:
    delta = delta_of([Add("", "x"), Update("a-1", "y"), Merge(("a-2", "a-3"), "z"), Remove("a-4")])
    assert [type(operation) for operation in delta] == [Remove, Merge, Update, Add]
