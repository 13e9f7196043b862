"""Any question is taken apart: FiNER's shape, the same number asked twice, a list of labels, and plain text."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from combee.lexical import Asked, Spot, read_question

ROW = (
    "You are XBRL expert.  Here is a list of US GAAP tags options: ,LongTermDebt,Goodwill,LongTermDebt. "
    "Answer the following 2 independent questions.\n"
    '1. What is best tag for entity "34" in sentence: "A 34 % interest in A and a 34 % interest in B , not 134 .?"\n'
    '2. What is best tag for entity "34" in sentence: "A 34 % interest in A and a 34 % interest in B , not 134 .?"\n'
    "Output US GAAP tags:"
)


def test_a_finer_row_gives_its_options_and_one_spot_a_question() -> None:
    asked = read_question(ROW)
    assert asked.options == ("LongTermDebt", "Goodwill")
    assert [spot.sentence for spot in asked.spots] == ["A 34 % interest in A and a 34 % interest in B , not 134 ."] * 2


def test_the_same_number_asked_twice_of_a_sentence_means_its_first_and_second_place() -> None:
    first, second = read_question(ROW).spots
    assert (first.entity, second.entity) == ("34", "34")
    assert first.start == 2
    assert second.start == second.sentence.index("34 % interest in B")


def test_a_sentence_may_hold_quotes_and_an_entity_it_does_not_contain() -> None:
    text = '1. What is best tag for entity "7" in sentence: "They said "no" to us?"\n'
    assert read_question(text) == Asked((Spot('They said "no" to us'),))


def test_plain_text_is_one_spot_and_a_line_of_labels_is_taken_out() -> None:
    assert read_question(" How do I reset my card? ") == Asked((Spot("How do I reset my card?"),))
    asked = read_question("My card is lost.\nLabels: card lost, refund, card lost")
    assert asked == Asked((Spot("My card is lost."),), ("card lost", "refund"))


def test_stock_options_in_a_sentence_are_not_a_list_of_labels() -> None:
    assert read_question("Stock options: 5, 6 and 7 were granted.").options == ()


@given(st.text(max_size=300))
def test_no_text_makes_it_fail(text: str) -> None:
    asked = read_question(text)
    assert asked.spots
    for spot in asked.spots:
        assert 0 <= spot.start <= spot.end <= len(spot.sentence)


def test_every_entity_of_the_real_file_is_found_in_its_sentence(data_dir: Path) -> None:
    rows = [json.loads(line) for line in (data_dir / "finer" / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = [read_question(row["context"]) for row in rows]
    assert {len(one.options) for one in asked} == {139}
    assert {len(one.spots) for one in asked} == {4}
    assert all(spot.entity for one in asked for spot in one.spots)
