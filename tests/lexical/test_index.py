"""The index is a function of the bullets alone: grown, shrunk or built at once, it gives the same predictions."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from combee.kernel.playbook import Bullet, Playbook
from combee.lexical import Lexicon, Prediction, Spot, lesson_from, read_question
from combee.tasks import tag_set

SET = tag_set((60, 0, 12))


def _spots() -> list[tuple[Spot, str]]:
    return [(read_question(task.question).spots[0], task.target or "") for task in SET]


SPOTS = _spots()
BULLETS = tuple(
    Bullet(f"ctx-{number:05d}", "CONTEXT CLUES & INDICATORS", lesson_from(spot, tag).text)
    for number, (spot, tag) in enumerate(SPOTS[:60], 1)
)
QUESTIONS = [spot for spot, _ in SPOTS[60:]]


def _book(bullets: list[Bullet]) -> Playbook:
    return Playbook(tuple(bullets), high_water=99)


def _predictions(lexicon: Lexicon, book: Playbook) -> list[Prediction]:
    return [lexicon.index(book).predict(spot) for spot in QUESTIONS]


@settings(max_examples=30)
@given(st.lists(st.sets(st.integers(0, 59), min_size=1), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_an_index_that_followed_other_books_equals_a_new_one(books: list[set[int]], rng: random.Random) -> None:
    lexicon = Lexicon(keep=1)
    for chosen in books:
        order = sorted(chosen)
        rng.shuffle(order)
        book = _book([BULLETS[place] for place in order])
        assert _predictions(lexicon, book) == _predictions(Lexicon(), book)


def test_a_bullet_whose_text_changed_counts_with_its_new_text() -> None:
    lexicon = Lexicon()
    _predictions(lexicon, _book(list(BULLETS)))
    edited = [Bullet(BULLETS[0].id, BULLETS[0].section, BULLETS[1].text), *BULLETS[2:]]
    assert _predictions(lexicon, _book(edited)) == _predictions(Lexicon(), _book(edited))


def test_the_bullets_used_speak_for_the_label_that_was_chosen() -> None:
    book = _book(list(BULLETS))
    for prediction in _predictions(Lexicon(), book):
        assert prediction.used
        for name in prediction.used:
            bullet = book.get(name)
            assert bullet is not None
            assert bullet.text.endswith(f"the tag is {prediction.label}.")


def test_only_labels_on_offer_are_chosen_and_an_empty_book_goes_by_their_names() -> None:
    spot = Spot("The face amount of the debt is $ 5 million", 32, 33)
    offered = ("Goodwill", "DebtInstrumentFaceAmount", "InterestExpense")
    assert Lexicon().index(Playbook()).predict(spot, offered) == Prediction("DebtInstrumentFaceAmount", 1.0, ())
    index = Lexicon().index(_book(list(BULLETS)))
    assert index.predict(spot, ("Goodwill",)).label == "Goodwill"
    assert Lexicon().index(Playbook()).predict(spot) == Prediction("", 0.0, ())
