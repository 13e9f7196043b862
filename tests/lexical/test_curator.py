"""The curator loses nothing by itself, forgets as often as it says, and under a real limit drops the precise first."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.aggregate import BASELINES, Method, aggregate, plan, scan
from combee.kernel.journal import MemoryScope
from combee.kernel.learn import Reflection
from combee.kernel.playbook import Add, Delta, Playbook, count_tokens, delta_of, merge
from combee.lexical import LexicalCurator, LexicalMethod
from combee.lexical.agent import OPERATION_TOKENS, fitting, remembered

SCOPE = MemoryScope(seed=3, step=2)


def _lesson(number: int, words: str = "we repaid notes") -> str:
    return (
        f'When a sentence says "{words} of $ [{number}] million" about an amount of money, the tag is Tag{number % 7}.'
    )


def _reflection(number: int, *lessons: str) -> Reflection:
    lessons = lessons or (_lesson(number),)
    return Reflection(f"t{number}", f"t{number}", f"t{number}", "\n".join(lessons), lessons)


def _method(**options: float) -> LexicalMethod:
    return LexicalCurator(**options).method(Playbook(), SCOPE)  # type: ignore[arg-type] # options by name


async def _leaf(items: Sequence[Reflection], **options: float) -> Delta:
    return await _method(**options).leaf(items, "r0/l0/g0")


async def test_without_options_every_lesson_is_written_once_with_all_its_sources() -> None:
    items = [_reflection(1), _reflection(2, _lesson(2), _lesson(1))]
    assert await _leaf(items) == delta_of(
        [
            Add("CONTEXT CLUES & INDICATORS", _lesson(1), ("t1", "t2")),
            Add("CONTEXT CLUES & INDICATORS", _lesson(2), ("t2",)),
        ]
    )


@pytest.mark.parametrize("m", [16, 100])
async def test_forgetting_keeps_each_lesson_with_the_stated_probability(m: int) -> None:
    kept = 0
    for step in range(40):
        method = LexicalCurator(forget=40.0).method(Playbook(), MemoryScope(step=step))
        kept += len(await method.leaf([_reflection(number) for number in range(m)], "r0/l0/g0"))
    expected = math.exp(-m / 40)
    deviation = math.sqrt(expected * (1 - expected) / (40 * m))
    assert abs(kept / (40 * m) - expected) < 4 * deviation


@settings(max_examples=20)
@given(st.permutations(range(30)))
def test_what_is_forgotten_does_not_depend_on_order_and_repeats(order: list[int]) -> None:
    items = [_lesson(number) for number in order]
    seeds = ("a", "b")
    kept = {seed: {lesson for lesson in items if remembered(seed, lesson, 30, 40.0)} for seed in seeds}
    assert kept["a"] == {_lesson(n) for n in range(30) if remembered("a", _lesson(n), 30, 40.0)}
    assert kept["a"] != kept["b"]


async def test_another_node_seed_or_step_forgets_other_lessons() -> None:
    items = [_reflection(number) for number in range(40)]
    found = [
        await LexicalCurator(forget=40.0, seed=seed).method(Playbook(), MemoryScope(step=step)).leaf(items, node)
        for seed, step, node in [(0, 0, "a"), (0, 0, "a"), (1, 0, "a"), (0, 1, "a"), (0, 0, "b")]
    ]
    assert found[0] == found[1]
    assert all(found[0] != other for other in found[2:])


async def test_the_top_call_of_the_paper_counts_updates_and_a_merge_forgets_nothing() -> None:
    deltas = [await _leaf([_reflection(number)]) for number in range(400)]
    method = _method(forget=400.0)
    assert await method.combine(deltas, "top") == merge(*deltas)
    top = await method.combine_by_model(deltas[:200], "top")
    assert 0.5 < len(top) / 200 < 0.7  # exp(-200/400) = 0.61
    calling = LexicalMethod(LexicalCurator(forget=1.0), combine_calls_model=True)
    assert len(await calling.combine(deltas, "top")) == 0


async def test_forget_and_the_limit_must_be_above_zero() -> None:
    for options in ({"forget": 0.0}, {"forget": math.nan}, {"output_limit": 0}):
        with pytest.raises(UsageError):
            _method(**options)


async def test_under_an_output_limit_the_precise_goes_first_and_the_rest_fits() -> None:
    common = [_reflection(number) for number in range(20)]
    precise = _reflection(99, _lesson(99, "Zorn Basin arbitration escrow tranche Kappa"))
    limit = 10 * (OPERATION_TOKENS + count_tokens(_lesson(10)))
    delta = await _leaf([precise, *common], output_limit=limit)
    assert 9 <= len(delta) <= 11
    assert all("Zorn" not in getattr(operation, "text", "") for operation in delta)
    assert sum(OPERATION_TOKENS + count_tokens(getattr(op, "text", "")) for op in delta) <= limit
    assert await _leaf([precise, *common], output_limit=10_000) == await _leaf([precise, *common])
    assert await _method(output_limit=limit).with_output_limit(10_000).leaf([precise], "n") == await _leaf([precise])


def test_a_limit_below_the_first_lesson_leaves_nothing() -> None:
    assert fitting([Add("OTHERS", _lesson(1))], 3) == []


async def test_coverage_is_verified_by_content_in_an_operation_that_cites() -> None:
    item = _reflection(5, _lesson(5), _lesson(6))
    method = _method()
    whole = await method.leaf([item], "n")
    assert method.covered(item, whole)
    half = Delta(tuple(operation for operation in whole if "[5]" in getattr(operation, "text", "")))
    assert not method.covered(item, half)
    other = delta_of(Add(op.section, op.text, ("t1",)) for op in whole if isinstance(op, Add))
    assert not method.covered(item, other)
    claimed = delta_of([Add("OTHERS", "When debt is repaid, think of the tag.", ("t5",))])
    assert method.sources(claimed) == {"t5"}
    assert not method.covered(item, claimed)
    reworded = delta_of([Add("OTHERS", f"{_lesson(5)} Also: {_lesson(6)}", ("t5",))])
    assert method.covered(item, reworded)
    assert method.covered(_reflection_without_lessons(), Delta())


def _reflection_without_lessons() -> Reflection:
    return Reflection("t0", "t0", "t0", "1 of 1 right.")


async def test_a_delta_survives_the_journal() -> None:
    method: Method[Reflection, Delta] = _method()
    delta = await method.leaf([_reflection(number) for number in range(5)], "n")
    assert method.decode(method.encode(delta)) == delta
    assert method.size(delta) == 5


async def test_a_summary_has_one_lesson_a_label_and_cites_all_it_stands_for() -> None:
    items = [_reflection(number) for number in range(14)]
    method = _method()
    summary = await method.summarize(items, "g0")
    assert len(summary.lessons) == 7
    assert method.sources(await method.leaf([summary], "top")) == {item.id for item in items}


def test_reflections_on_one_thing_are_more_alike_than_others() -> None:
    method = _method()
    one, two, other = _reflection(1), _reflection(8), _reflection(2, _lesson(2, "lawsuit settled in court"))
    assert method.similarity(one, one) == 1
    assert method.similarity(one, two) > method.similarity(one, other)


async def test_ours_keeps_what_one_big_call_forgets() -> None:
    items = [_reflection(number) for number in range(120)]
    random.Random(0).shuffle(items)
    kept = {how: len((await aggregate(items, _method(forget=40.0), how=how, seed=1)).delta) for how in BASELINES}
    ours = await scan(items, _method(forget=40.0), plan(120, second_chances=3), seed=1)
    assert len(ours.delta) >= 0.95 * 120
    assert kept["combee"] >= 0.8 * 120
    assert kept["naive"] <= 0.2 * 120
    assert kept["naive"] < kept["paper"] < kept["combee"]
