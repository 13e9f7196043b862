"""A lesson is an English sentence that reads back without hidden state, also after a person changed it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.kernel.playbook import Add, Playbook, apply, delta_of, from_text, normalize, to_text
from combee.lexical import Lesson, Spot, lesson_from, read_lesson
from combee.lexical.features import entity_kind, features, name_words

SENTENCE = "In May 2018 the Company repaid $ 4.5 million of its notes and [ again ] said “ no more ” to banks ."
SPOT = Spot(SENTENCE, SENTENCE.index("4.5"), SENTENCE.index("4.5") + 3)


def test_a_lesson_is_a_sentence_that_a_person_reads() -> None:
    assert lesson_from(SPOT, "RepaymentsOfDebt", 9).text == (
        'When a sentence says "the Company repaid $ [4.5] million of its notes" about an amount of money, '
        "the tag is RepaymentsOfDebt."
    )


def test_the_lesson_reads_back_and_has_the_features_of_the_phrase_around_the_number() -> None:
    lesson = lesson_from(SPOT, "RepaymentsOfDebt")
    assert read_lesson(lesson.text) == lesson
    assert lesson.features() == features(SENTENCE, SPOT.start, SPOT.end)[0]


WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1), max_size=9)


@given(before=WORDS, entity=st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,2})?", fullmatch=True), after=WORDS)
def test_any_sentence_survives_the_way_into_a_playbook_text_and_back(
    before: list[str], entity: str, after: list[str]
) -> None:
    start = len(" ".join([*before, ""]))
    sentence = " ".join([*before, entity, *after])
    lesson = lesson_from(Spot(sentence, start, start + len(entity)), "SomeTag, other")
    book = apply(Playbook(), delta_of([Add("CONTEXT CLUES & INDICATORS", lesson.text)])).playbook
    (bullet,) = from_text(to_text(book)).playbook.bullets
    found = read_lesson(bullet.text)
    assert found is not None
    assert found.label == "SomeTag, other"
    assert found.text == normalize(lesson.text)
    assert found.phrase[found.start : found.end] == entity


@given(st.text(max_size=200), st.text(min_size=1, max_size=30).filter(lambda text: bool(text.split())))
def test_a_lesson_of_plain_text_keeps_its_label(text: str, label: str) -> None:
    found = read_lesson(lesson_from(Spot(text), label).text)
    assert found is not None
    assert found.label == normalize(" ".join(label.split()))


@pytest.mark.parametrize(
    ("text", "label", "phrase"),
    [
        ('When a sentence says "owned 5 % of it", the tag is X.', "X", "owned 5 % of it"),
        ("When a text says “reset my card”, the label is card lost", "card lost", "reset my card"),
        ("Interest paid on notes: the tag is `InterestExpense`.", "InterestExpense", "Interest paid on notes"),
        (
            "ConcentrationRiskPercentage1 is a customer's share.",
            "ConcentrationRiskPercentage1",
            "is a customer's share.",
        ),
    ],
)
def test_what_a_person_writes_is_read(text: str, label: str, phrase: str) -> None:
    assert read_lesson(text) == Lesson(phrase, label)


@pytest.mark.parametrize("text", ["Check the units first.", "GitHub is a name.", "LongTermDebt or ShortTermDebt", ""])
def test_what_names_no_label_is_no_lesson(text: str) -> None:
    assert read_lesson(text) is None


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("owned {5} % of the shares", "a percentage"),
        ("an {80.25} - percent interest", "a percentage"),
        ("paid $ {5} million", "an amount of money"),
        ("loss of $ ( {5} )", "an amount of money"),
        ("par value $ {0.01} per share", "a price"),
        ("granted {5,000} restricted shares", "a number of shares"),
        ("over {three} years", "a length of time"),
        ("on {May} 3", "a date"),
        ("the {4} segments", "a small number"),
        ("of {388} lawsuits", "a number"),
        ("were {no} borrowings", "a word"),
    ],
)
def test_the_kind_of_an_entity_is_seen_from_its_neighbours(sentence: str, kind: str) -> None:
    words = sentence.lower().split()
    at = next(place for place, word in enumerate(words) if word[0] == "{")
    words[at] = words[at].strip("{}")
    assert entity_kind(words, at) == kind


def test_names_are_split_into_their_words() -> None:
    assert name_words("DebtInstrumentFaceAmount") == ("wdebt", "winstrument", "wface", "wamount")
    assert name_words("debt face-amounts") == ("wdebt", "wface", "wamount")
