"""The scan over real playbook deltas and a real journal file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from combee.kernel.aggregate import Plan, Scan, plan, scan
from combee.kernel.journal import JSON, Journal
from combee.kernel.playbook import Add, Delta, Playbook, apply, delta_of, digest, distinct_terms, merge


@dataclass(frozen=True, slots=True)
class Note:
    id: str
    text: str


class Writing:
    """Every note becomes an ADD; notes of one text become one."""

    combine_calls_model = False

    def __init__(self) -> None:
        self.leaves: list[str] = []
        self.stop_at: int | None = None

    def key(self, item: Note) -> str:
        return item.id

    def weight(self, item: Note) -> int:
        return len(item.text) // 4

    async def leaf(self, items: Sequence[Note], node: str) -> Delta:
        if len(self.leaves) == self.stop_at:
            raise KeyboardInterrupt
        self.leaves.append(node)
        return delta_of(Add("OTHERS", item.text, (item.id,)) for item in items)

    async def combine(self, deltas: Sequence[Delta], node: str) -> Delta:
        return merge(*deltas)

    def sources(self, delta: Delta) -> frozenset[str]:
        return frozenset(source for operation in delta.operations for source in operation.sources)

    def size(self, delta: Delta) -> int:
        return len(delta.operations)

    def covered(self, item: Note, delta: Delta) -> bool:
        return any(
            item.id in operation.sources and distinct_terms(item.text) <= distinct_terms(operation.text)
            for operation in delta.operations
            if isinstance(operation, Add)
        )

    def encode(self, delta: Delta) -> JSON:
        return [
            [operation.section, operation.text, list(operation.sources)]
            for operation in delta.operations
            if isinstance(operation, Add)
        ]

    def decode(self, value: JSON) -> Delta:
        rows = cast("list[tuple[str, str, list[str]]]", value)
        return delta_of(Add(section, text, tuple(sources)) for section, text, sources in rows)


def notes(texts: Sequence[str]) -> list[Note]:
    return [Note(f"reflection-{index:04d}", text) for index, text in enumerate(texts)]


def book_of(result: Scan[Delta]) -> Playbook:
    return apply(Playbook(), result.delta).playbook


@pytest.mark.parametrize(
    ("texts", "shape"),
    [
        (["use 3 decimals", "use 3 decimals"], plan(2)),
        (["use 3 decimals"] * 40, plan(40, max_items=4)),
        (["use 3 decimals"] * 12, plan(12, preset="paper")),
        (["use 3 decimals"] * 12, plan(12, copies=2, max_items=5)),
    ],
)
async def test_the_same_lesson_from_several_reflections_is_one_bullet_with_all_sources(
    texts: list[str], shape: Plan
) -> None:
    items = notes(texts)
    bullets = book_of(await scan(items, Writing(), shape)).bullets
    assert [bullet.text for bullet in bullets] == ["use 3 decimals"]
    assert bullets[0].sources == tuple(item.id for item in items)


async def test_a_reflection_that_stands_twice_in_the_batch_counts_once() -> None:
    items = notes(["use 3 decimals", "never round"])
    once = book_of(await scan(items, Writing(), plan(2)))
    twice = book_of(await scan([*items, items[0], items[1]], Writing(), plan(4)))
    assert digest(once) == digest(twice)


async def test_reflections_that_finish_in_any_order_give_the_same_playbook() -> None:
    items = notes([f"the rate of tag {index} is {index * 7} bp" for index in range(40)])
    books = [
        digest(book_of(await scan(order, Writing(), plan(40, max_items=6), seed=2)))
        for order in (items, items[::-1], items[20:] + items[:20])
    ]
    assert len(set(books)) == 1


@pytest.mark.parametrize("stop_at", [0, 1, 7, 12])
def test_a_killed_scan_goes_on_from_its_journal_without_paying_twice(tmp_path: Path, stop_at: int) -> None:
    items = notes([f"the rate of tag {index} is {index * 7} bp" for index in range(100)])
    whole = asyncio.run(scan(items, Writing(), plan(100, max_items=8)))
    killed, resumed = Writing(), Writing()
    killed.stop_at = stop_at
    with Journal.open(tmp_path) as journal, pytest.raises(KeyboardInterrupt):
        asyncio.run(scan(items, killed, plan(100, max_items=8), scope=journal.scope(seed=0, epoch=0, step=0)))
    with Journal.open(tmp_path) as journal:
        again = asyncio.run(scan(items, resumed, plan(100, max_items=8), scope=journal.scope(seed=0, epoch=0, step=0)))
    assert digest(book_of(again)) == digest(book_of(whole))
    assert not set(killed.leaves) & set(resumed.leaves)
    assert len(killed.leaves) + len(resumed.leaves) == whole.calls
