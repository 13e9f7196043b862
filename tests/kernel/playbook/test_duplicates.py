from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.playbook import (
    Bullet,
    Playbook,
    deduplicate,
    near_duplicates,
    same_lesson,
    similarity,
)
from tests.kernel.playbook.strategies import ANY_TEXT, books


def book_of(*texts: str) -> Playbook:
    return Playbook(tuple(Bullet(f"misc-{n:05d}", "OTHERS", text, n, 1, (f"r{n}",)) for n, text in enumerate(texts, 1)))


def test_two_identical_bullets_become_one_with_all_counters_and_sources() -> None:
    book = Playbook(
        (Bullet("misc-00001", "OTHERS", "x", 2, 1, ("a",)), Bullet("misc-00002", "OTHERS", "x", 3, 0, ("b",)))
    )
    assert [(b.id, b.helpful, b.harmful, b.sources) for b in deduplicate(book)] == [("misc-00002", 5, 1, ("a", "b"))]


def test_near_duplicates_need_not_be_transitive_for_counters_to_be_conserved() -> None:
    a = "check units of each number before adding numbers in the table"
    d = "Check the units of each number before adding the numbers in the table."
    b = "Please check the units of every number before adding the numbers in the tables."
    scores = (similarity(a, d), similarity(b, d), similarity(a, b))
    threshold = (min(scores[0], scores[1]) + scores[2]) / 2
    assert scores[2] < threshold < min(scores[:2]), "A~D, B~D, A not ~ B"
    for order in ([a, b, d], [d, a, b], [a, d, b], [b, d, a]):
        book = book_of(*order)
        after = deduplicate(book, threshold)
        assert len(after) < 3
        assert sum(bullet.helpful for bullet in after) == 6
        assert sum(bullet.harmful for bullet in after) == 3
        assert {source for bullet in after for source in bullet.sources} == {"r1", "r2", "r3"}


@given(books(), st.sampled_from([0.3, 0.7, 1.0]))
def test_folding_conserves_counters_and_sources_and_is_done_once(book: Playbook, threshold: float) -> None:
    after = deduplicate(book, threshold)
    assert sum(bullet.helpful for bullet in after) == sum(bullet.helpful for bullet in book)
    assert sum(bullet.harmful for bullet in after) == sum(bullet.harmful for bullet in book)
    assert {s for bullet in after for s in bullet.sources} == {s for bullet in book for s in bullet.sources}
    assert {bullet.id for bullet in after} <= {bullet.id for bullet in book}
    assert deduplicate(after, threshold) == after


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Check the units before adding.", "check units before adding"),
        ("Don't add totals to parts.", "Do not add the totals to parts"),
        ("You cannot add percents", "you can not add percents."),
        ("**Always** read the whole question", "Read the whole question!"),
        ("Use `sum(x)` for totals", "use `sum(x)` for the totals"),
        ("Verify every sign", "check each sign"),
        ("1,000 is one thousand", "1000 is one thousand"),
    ],
)
def test_the_same_lesson_in_other_clothes_may_become_one(one: str, other: str) -> None:
    assert same_lesson(one, other, 0.1)
    assert len(deduplicate(book_of(one, other), 0.1)) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Round the result to 2 decimals", "Round the result to 3 decimals"),
        ("Round to 1.5 percent", "Round to 15 percent"),
        ("From 3 to 5 years", "From 5 to 3 years"),
        ("The rate is 5%", "The rate is 5"),
        ("The change is -5", "The change is 5"),
        ("It costs $5", "It costs €5"),
        ("Use version 2 of 10-K", "Use version 2 of 10-Q"),
        ("Round to two decimals", "Round to three decimals"),
        ("Call foo_bar with the total", "Call foo_baz with the total"),
        ("Tag it DebtInstrumentFaceAmount", "Tag it DebtInstrumentCarryingAmount"),
        ("Tag it LineOfCredit", "Tag it lineOfCredit"),
        ("Use std::vector here", "Use std::array here"),
        ("Use `a[i]` for the last row", "Use `a[j]` for the last row"),
        ("Use `x == 1` as the test", "Use `x = 1` as the test"),
        ('The key is "id" in each row', 'The key is "ID" in each row'),
        ("Compute a*(b+c) first", "Compute (a*b)+c first"),
        ("Compute a + b first", "Compute a - b first"),
        ("It holds when x > 0", "It holds when x < 0"),
        ("Add the tax to the total", "Do not add the tax to the total"),
        ("Always add the tax to the total", "Never add the tax to the total"),
        ("Add the tax", "Don't add the tax"),
        ("Add the total with the tax", "Add the total without the tax"),
        ("Add it unless the sign is wrong", "Add it if the sign is wrong"),
        ("If revenue grows then buy the share", "If revenue grows then sell the share"),
        ("Use the average of the months", "Use the sum of the months"),
        ("Use the average of months", "Use the weighted average of months"),
        ("Divide revenue by assets to get the ratio", "Divide assets by revenue to get the ratio"),
        ("Read the table before the question", "Read the table after the question"),
        ("The answer must be in thousands", "The answer must be in millions"),
        ("Umsatz durch Aktiva teilen", "Umsatz durch Passiva teilen"),
        ("收入除以资产", "收入乘以资产"),
        ("Weight x", "Weight X"),
        ("✅ rounding", "❌ rounding"),
        ("→", "←"),
    ],
)
def test_what_differs_in_meaning_is_never_merged(one: str, other: str) -> None:
    assert not same_lesson(one, other, 0.01)
    padding = " and then write the answer into the last column of the table that the question names"
    assert not same_lesson(one + padding, other + padding, 0.01)
    assert len(deduplicate(book_of(one + padding, other + padding), 0.01)) == 2


def _brute_force(texts: list[str], threshold: float) -> list[tuple[int, int, float]]:
    found = []
    for i, one in enumerate(texts):
        for j in range(i + 1, len(texts)):
            score = similarity(one, texts[j])
            if score >= threshold:
                found.append((i, j, score))
    return found


@given(
    st.lists(
        st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "G", "g"]), max_size=9).map(" ".join) | ANY_TEXT,
        max_size=14,
    ),
    st.sampled_from([0.01, 0.2, 0.34, 0.5, 0.8, 1.0]),
)
def test_near_duplicates_are_those_of_all_pairs(texts: list[str], threshold: float) -> None:
    assert near_duplicates(texts, threshold) == _brute_force(texts, threshold)


def test_near_duplicates_of_longer_lessons_are_those_of_all_pairs() -> None:
    rng = random.Random(7)
    vocabulary = [f"w{n}" for n in range(120)]
    texts = [" ".join(rng.choices(vocabulary, k=rng.randint(5, 25))) for _ in range(60)]
    for text in texts[:50]:
        words = text.split()
        words[rng.randrange(len(words))] = rng.choice(vocabulary)
        texts.append(" ".join(words))
    pairs = _brute_force(texts, 0.2)
    for threshold in (0.2, 0.6, 0.8):
        wanted = [pair for pair in pairs if pair[2] >= threshold]
        assert near_duplicates(texts, threshold) == wanted
        assert len(wanted) > 10


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.1, float("nan")])
def test_an_impossible_threshold_is_an_error(threshold: float) -> None:
    with pytest.raises(UsageError):
        near_duplicates(["a"], threshold)
    with pytest.raises(UsageError):
        deduplicate(Playbook(), threshold)
