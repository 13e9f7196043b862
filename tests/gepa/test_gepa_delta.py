"""Delta mode: a playbook gets operations, and everything that nobody touched stays as it is."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from combee.gepa import CombeeReflection
from combee.gepa.methods import is_playbook
from combee.kernel.learn import Judge
from combee.kernel.playbook import Bullet, Playbook, from_text, to_text
from tests.gepa.answers import Asked, records

UNGUARDED = Judge(enabled=False)

BOOK = Playbook(
    tuple(
        Bullet(f"calc-{n:05d}", "FORMULAS & CALCULATIONS", f"Rule {n}: part XA-{n:03d} fits.", helpful=n)
        for n in range(1, 31)
    ),
    high_water=30,
)


def operations(*found: dict[str, object]) -> str:
    return json.dumps({"reasoning": "", "operations": list(found)})


def add(text: str, *sources: int) -> dict[str, object]:
    return {"type": "ADD", "section": "OTHERS", "content": text, "bullet_ids": [], "sources": list(sources)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (to_text(BOOK), True),
        (to_text(BOOK, mark=False), True),
        (to_text(Playbook()), True),
        ("## OTHERS\n[misc-00001] Be brief.", True),
        ("You are an assistant. Answer with a number.", False),
        ("# Rules\n- be brief\n- be exact", False),
        ("", False),
    ],
)
def test_a_playbook_is_known_by_its_form(text: str, found: bool) -> None:
    assert is_playbook(text) is found


def test_operations_of_all_leaves_reach_the_book_and_the_rest_stays_byte_for_byte() -> None:
    def answer(prompt: str) -> str:
        numbers = [int(found) for found in re.findall(r"Inputs: case (\d+)\n", prompt)]
        return operations(*(add(f"Name part XK-{n:03d}.", place) for place, n in enumerate(numbers, start=1)))

    lm = Asked(answer)
    with CombeeReflection(lm) as reflection:
        proposal, _ = reflection.reflect({"book": to_text(BOOK)}, {"book": records(40)}, ["book"])
        text = proposal.new_texts["book"]
        book = reflection.book_of(text)
    figures = proposal.metadata["combee:book"]
    assert (figures["mode"], figures["covered"], figures["levels"], figures["calls"]) == ("delta", 40, 1, 3)
    assert from_text(text).playbook.bullets[:30] == BOOK.bullets
    assert {bullet.text for bullet in book.bullets[30:]} == {f"Name part XK-{n:03d}." for n in range(40)}
    assert all(len(bullet.sources) == 1 for bullet in book.bullets[30:])  # the text alone would not say it
    assert len(book) == 70


def test_records_that_no_operation_says_are_read_again_and_right_ones_are_not() -> None:
    lm = Asked(lambda prompt: operations())
    wrong, right = records(6), [{**record, "Score": 1.0} for record in records(12)[6:]]
    with CombeeReflection(lm, judge=UNGUARDED) as reflection:
        proposal, _ = reflection.reflect({"book": to_text(BOOK)}, {"book": [*wrong, *right]}, ["book"])
    assert proposal.metadata["combee:book"]["uncovered"] == 6
    assert len(lm.prompts) == 2
    assert lm.prompts[1].count("Record ") == 6 + lm.prompts[1].split("Record 1:")[0].count("Record ")


def test_an_operation_that_claims_a_record_without_saying_it_does_not_cover_it() -> None:
    lm = Asked(lambda prompt: operations(add("Be careful.", 1, 2, 3)))
    with CombeeReflection(lm, second_chances=0) as reflection:
        proposal, _ = reflection.reflect({"book": to_text(BOOK)}, {"book": records(3)}, ["book"])
    assert proposal.metadata["combee:book"]["covered"] == 0


def test_a_bad_operation_is_left_out_alone_and_named() -> None:
    reply = operations(add("Name part XK-000.", 1), {"type": "FROB"}, {"type": "REMOVE", "bullet_ids": ["calc-99999"]})
    with CombeeReflection(lambda prompt: reply, second_chances=0) as reflection:
        proposal, _ = reflection.reflect({"book": to_text(BOOK)}, {"book": records(1)}, ["book"])
    assert "Name part XK-000." in proposal.new_texts["book"]
    assert len([note for note in proposal.metadata["combee:book"]["notes"] if "r0/l0/g0" in note]) == 2


def test_entries_are_changed_merged_and_removed_in_the_form_that_is_asked_for() -> None:
    def change(kind: str, text: str, *ids: str) -> dict[str, object]:
        return {"type": kind, "section": "", "content": text, "bullet_ids": list(ids), "sources": [1]}

    reply = operations(
        change("UPDATE", "Name part XK-000 first.", "calc-00001"),
        change("MERGE", "Rules 2 and 3: parts XA-002 and XA-003 fit.", "calc-00002", "calc-00003"),
        change("REMOVE", "", "calc-00004", "calc-00005"),
    )
    unvoted = to_text(Playbook(tuple(replace(bullet, helpful=0) for bullet in BOOK), 30))
    with CombeeReflection(lambda prompt: reply) as reflection:
        proposal, _ = reflection.reflect({"book": unvoted}, {"book": records(1)}, ["book"])
    book = from_text(proposal.new_texts["book"]).playbook
    assert book.bullets[0].text == "Name part XK-000 first."
    assert {bullet.id for bullet in BOOK} - {bullet.id for bullet in book} >= {"calc-00004", "calc-00005"}
    assert len(book) == len(BOOK) - 3
    assert proposal.metadata["combee:book"]["notes"] == []


def test_a_component_can_be_named_a_playbook_or_kept_from_being_one() -> None:
    reply = operations(add("Name part XK-000.", 1))
    with CombeeReflection(lambda prompt: reply, playbooks=["book"]) as reflection:
        proposal, _ = reflection.reflect({"book": ""}, {"book": records(1)}, ["book"])
        assert from_text(proposal.new_texts["book"]).playbook.bullets[0].text == "Name part XK-000."
    with CombeeReflection(lambda prompt: "```\nnew\n```", playbooks=[], judge=UNGUARDED) as reflection:
        proposal, _ = reflection.reflect({"book": to_text(BOOK)}, {"book": records(1)}, ["book"])
        assert proposal.new_texts["book"] == "new"


def test_the_budget_is_kept_and_refusals_are_told() -> None:
    reply = operations(add("Name part XK-000 whatever it takes.", 1))
    with CombeeReflection(lambda prompt: reply, token_budget=10, second_chances=0) as reflection:
        text = to_text(Playbook((Bullet("misc-00001", "OTHERS", "Be brief."),), 1))
        proposal, _ = reflection.reflect({"book": text}, {"book": records(1)}, ["book"])
    assert any("budget" in note for note in proposal.metadata["combee:book"]["notes"])


def test_sources_survive_a_resume_through_the_state() -> None:
    reply = operations(add("Name part XK-000.", 1))
    with CombeeReflection(lambda prompt: reply) as first, CombeeReflection(lambda prompt: reply) as second:
        text = first.reflect({"book": to_text(BOOK)}, {"book": records(1)}, ["book"])[0].new_texts["book"]
        second.set_state(json.loads(json.dumps(first.get_state())))
        assert second.book_of(text) == first.book_of(text)
        assert second.book_of(text).bullets[-1].sources
