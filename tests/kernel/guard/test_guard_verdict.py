"""The checks and verdicts on single steps, and the memory of a run."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from types import ModuleType

import pytest

from combee.errors import DataError
from combee.kernel.guard import (
    Evidence,
    GuardLimits,
    GuardState,
    HeldOut,
    LeakIndex,
    Trial,
    after,
    alert_payload,
    from_json,
    judge,
    to_json,
)
from combee.kernel.guard.checks import Yield, count_specific, specific_terms
from combee.kernel.playbook import Add, Delta, Remove, Update

USUAL = GuardState(usual=tuple(Yield(40, 36 + i % 3, 36, 36) for i in range(6)))


def step(world: ModuleType, n: int, kept: int, **more: object) -> Evidence:
    items = world.reflections(n, random.Random(3))
    delta = Delta(tuple(world.lesson(item, text) for item, text in list(items.items())[:kept]))
    given: dict[str, object] = {"covered": world.verified(items, delta), "max_items": 16, **more}
    return Evidence(0, items, delta, **given)  # type: ignore[arg-type]  # keyword options of the test


def test_a_sound_step_is_accepted_and_becomes_part_of_the_usual(world: ModuleType) -> None:
    seen = step(world, 40, 36)
    verdict = judge(seen, GuardState())
    assert verdict.action == "accept"
    assert verdict.delta == seen.delta
    assert verdict.reasons == ()
    assert after(GuardState(), seen, verdict).usual == (Yield(40, 36, 36, 36),)


def test_a_collapse_is_caught_in_the_first_step_and_retried_smaller(world: ModuleType) -> None:
    verdict = judge(step(world, 100, 8), GuardState())
    assert verdict.action == "retry_smaller"
    assert verdict.max_items == 8
    assert len(verdict.delta) == 0
    assert any("8 lessons from 100 reflections, under the floor of 10" in reason for reason in verdict.reasons)
    assert any("8 of 100 reflections are verified" in reason for reason in verdict.reasons)


def test_a_loss_above_the_floor_is_caught_against_the_usual(world: ModuleType) -> None:
    seen = step(world, 40, 14, covered=None)
    assert judge(seen, GuardState()).action == "accept"
    verdict = judge(seen, USUAL)
    assert verdict.action == "retry_smaller"
    assert "where about 37 are usual" in verdict.reasons[0]


def test_a_collapse_does_not_become_the_usual(world: ModuleType) -> None:
    seen = step(world, 40, 2, attempt=2)
    verdict = judge(seen, USUAL)
    assert verdict.action == "alert"
    assert after(USUAL, seen, verdict).usual == USUAL.usual


def test_few_lessons_that_hold_all_reflections_are_no_collapse(world: ModuleType) -> None:
    items = {f"r{i}": f"The tag for note {i % 2} is DebtInstrumentTerm{i % 2}." for i in range(40)}
    ops = [
        Add("OTHERS", f"The tag for note {k} is DebtInstrumentTerm{k}.", [i for i in items if int(i[1:]) % 2 == k])  # type: ignore[arg-type]  # any iterable
        for k in range(2)
    ]
    seen = Evidence(0, items, Delta(tuple(ops)), covered=frozenset(items))
    verdict = judge(seen, USUAL)
    assert verdict.action == "accept"
    assert "verified to be in them" in verdict.findings[0].message
    verdict = judge(seen, USUAL, GuardLimits(min_entries=5))  # a floor that somebody set holds all the same
    assert verdict.action == "retry_smaller"
    assert "2 lessons from 40 reflections, under the floor of 5" in verdict.reasons[0]


def test_a_floor_of_entries_asks_no_more_of_a_small_step_than_a_lesson_for_each_reflection(world: ModuleType) -> None:
    assert judge(step(world, 12, 12), GuardState(), GuardLimits(min_entries=60)).action == "accept"
    assert judge(step(world, 12, 11), GuardState(), GuardLimits(min_entries=60)).action == "retry_smaller"


@pytest.mark.parametrize("history", [GuardState(), USUAL])
def test_platitudes_at_the_usual_count_that_cite_everything_are_caught(world: ModuleType, history: GuardState) -> None:
    items = world.reflections(40, random.Random(1))
    delta = world.platitudes(items, 16, random.Random(1))
    claimed = Evidence(0, items, delta, covered=None, max_items=16)  # nobody verified coverage
    verdict = judge(claimed, history)
    assert verdict.action == "retry_smaller"
    assert "0 of 40 lessons" in verdict.reasons[0]
    assert judge(replace(claimed, attempt=2), history).action == "reject"


def test_a_platitude_does_not_become_specific_by_a_word_of_the_subject() -> None:
    items = {f"r{i}": f"In the XBRL filing {i * 1111} the tag was Lease{i}." for i in range(8)}
    platitude = Add("OTHERS", "Be careful with every XBRL filing in 2024.", tuple(items))
    assert count_specific(Delta((platitude,)), items) == 0
    assert count_specific(Delta((Add("OTHERS", "Use Lease3 for XBRL.", ("r3",)),)), items) == 1


def test_form_alone_marks_numbers_identifiers_code_and_names() -> None:
    text = "Never use DebtInstrumentFaceAmount for 5.25% notes; ask John before `show` or apis.login()."
    assert specific_terms(text) >= {"DebtInstrumentFaceAmount", "5.25%", "John", "show", "apis.login()"}
    assert specific_terms("Always check your work. Never forget the final answer.") == frozenset()


def test_lessons_from_a_handful_of_reflections_are_caught(world: ModuleType) -> None:
    items = world.reflections(40, random.Random(2))
    first = next(iter(items))
    ops = tuple(Add("OTHERS", f"{text} {first}", (first,)) for text in items.values())
    verdict = judge(Evidence(0, items, Delta(ops), max_items=16), GuardState())
    assert verdict.action == "retry_smaller"
    assert any("rest on about 1.0 of 40" in reason for reason in verdict.reasons)


def test_citations_of_unknown_reflections_are_noted(world: ModuleType) -> None:
    seen = step(world, 10, 9)
    ghost = Add("OTHERS", "The tag is LeaseInstrumentTerm9 for 77777.", ("nobody",))
    verdict = judge(replace(seen, delta=Delta((*seen.delta.operations, ghost))), GuardState())
    assert verdict.action == "accept"
    assert any("1 citations name no reflection" in finding.message for finding in verdict.findings)


def test_too_few_reflections_say_nothing(world: ModuleType) -> None:
    for n in (0, 1, 2):
        assert judge(step(world, n, 0), USUAL).action == "accept"


def test_a_book_over_its_budget_or_half_lost_is_rejected(world: ModuleType) -> None:
    full = judge(step(world, 40, 36, tokens=1001, token_budget=1000), GuardState())
    assert full.action == "reject"
    assert judge(step(world, 40, 36, tokens=1000, token_budget=1000), GuardState()).action == "accept"
    half = step(world, 40, 36, tokens=499, tokens_before=1000)
    assert judge(half, GuardState()).action == "retry_smaller"
    assert judge(replace(half, attempt=2), GuardState()).action == "reject"
    assert judge(replace(half, tokens=500), GuardState()).action == "accept"
    assert judge(replace(half, tokens=10, tokens_before=100), GuardState()).action == "accept"  # a short text


def test_retries_are_bounded_and_end_at_one_item(world: ModuleType) -> None:
    seen = step(world, 40, 2)
    assert judge(replace(seen, max_items=2), GuardState()).max_items == 1
    assert judge(replace(seen, max_items=1), GuardState()).action == "alert"
    assert judge(seen, GuardState(), GuardLimits(retries=0)).action == "alert"
    assert judge(replace(seen, max_items=None), GuardState()).max_items == 20


@pytest.mark.parametrize("operation", [Remove("calc-00001", ("r000",)), Update("calc-00001", "x 1", ("r000",))])
def test_a_collapsed_aggregation_may_not_rewrite_the_book(world: ModuleType, operation: Remove | Update) -> None:
    seen = step(world, 40, 2, attempt=2)
    verdict = judge(replace(seen, delta=Delta((*seen.delta.operations, operation))), GuardState())
    assert verdict.action == "reject"


def scores(right: int, n: int = 220) -> dict[str, tuple[int, int]]:
    return {f"q{i}": (int(i < right), 1) for i in range(n)}


def test_a_harmful_step_is_rejected_and_its_looks_are_spent(world: ModuleType) -> None:
    seen = step(world, 40, 36)
    verdict = judge(seen, GuardState(), trials=[Trial("old", scores(100), scores(140))])
    assert verdict.action == "reject"
    assert not verdict.rollback
    assert "worse than old beyond chance: 0.455 against 0.636" in verdict.reasons[0]
    assert after(GuardState(), seen, verdict).spending.looks == 1
    assert after(GuardState(), seen, verdict).usual == ()


def test_a_drift_below_stable_rolls_back(world: ModuleType) -> None:
    trials = [Trial("old", scores(100), scores(101)), Trial("stable", scores(100), scores(140))]
    verdict = judge(step(world, 40, 36), GuardState(), trials=trials)
    assert verdict.action == "reject"
    assert verdict.rollback


def test_only_a_gain_beyond_chance_is_promoted(world: ModuleType) -> None:
    for right, promoted in ((141, False), (170, True)):
        trials = [Trial("old", scores(right), scores(140)), Trial("stable", scores(right), scores(140))]
        verdict = judge(step(world, 40, 36), GuardState(), trials=trials)
        assert verdict.action == "accept"
        assert verdict.promote is promoted


def test_three_validation_rows_are_said_to_have_no_power(world: ModuleType) -> None:
    verdict = judge(step(world, 40, 36), GuardState(), trials=[Trial("old", scores(0, 3), scores(3, 3))])
    assert verdict.action == "accept"
    assert "no power" in verdict.findings[-1].message


def test_a_validation_full_of_errors_alerts_but_does_not_undo_the_learning(world: ModuleType) -> None:
    trial = Trial("stable", dict(list(scores(220).items())[:100]), scores(100))
    verdict = judge(step(world, 40, 36), GuardState(), trials=[trial])
    assert verdict.action == "alert"
    assert verdict.applies
    assert not verdict.promote


def test_a_leak_is_left_out_and_alerted_and_the_payload_does_not_repeat_it(world: ModuleType) -> None:
    seen = step(world, 40, 36)
    leak = Add("OTHERS", "The answer to the last one is 987654.5", ("r001",))
    seen = replace(seen, delta=Delta((*seen.delta.operations, leak)))
    verdict = judge(seen, GuardState(), index=LeakIndex([HeldOut("t9", "987654.5")]))
    assert verdict.action == "alert"
    assert leak not in verdict.delta
    assert len(verdict.delta) == 36
    payload = json.dumps(alert_payload(verdict, seen, run="run-1"))
    assert "987654.5" not in payload
    assert "t9" in payload


def test_the_state_survives_json() -> None:
    assert from_json(json.loads(json.dumps(to_json(USUAL)))) == USUAL
    for bad in ({}, {"usual": [], "spending": {"nope": 1}}, {"usual": 3, "spending": {}}):
        with pytest.raises(DataError, match="state of a guard"):
            from_json(bad)
