"""What a book keeps of itself, and hands to the next version, is what would be found out anew."""

from __future__ import annotations

import sys
import threading
from itertools import pairwise
from math import log
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from combee.kernel.playbook import (
    Add,
    Bullet,
    Operation,
    Playbook,
    Remove,
    Revision,
    Vote,
    apply,
    by_relevance,
    delta_of,
    digest,
    revise,
    to_text,
    tokens,
    view,
)
from combee.kernel.playbook.counting import token_counter
from combee.kernel.playbook.text import word_list
from combee.kernel.playbook.views import _CAMEL
from tests.kernel.playbook.strategies import ANY_TEXT, OPERATIONS, VOTES, books

BUDGET = st.none() | st.integers(0, 60)
STEP = st.tuples(OPERATIONS, VOTES, BUDGET, st.sampled_from([None, 0.5, 1.0]), st.sampled_from(["refuse", "evict"]))


def anew(book: Playbook) -> Playbook:
    """Return an equal book that has found out nothing yet."""
    bullets = [
        Bullet(b.id, b.section, b.text, b.helpful, b.harmful, b.sources, b.created, b.last_used) for b in book.bullets
    ]
    return Playbook(tuple(bullets), book.high_water, book.counter)


def step(book: Playbook, drawn: tuple[list[Operation], list[Vote], int | None, float | None, Any], number: int) -> Any:
    operations, votes, budget, near, on_full = drawn
    votes_of_step = tuple(Vote(f"{vote.reflection}.{number}", vote.bullet, vote.kind) for vote in votes)
    return revise(book, Revision(delta_of(operations), votes_of_step, (), number, budget, near, on_full))


@settings(max_examples=150)
@given(books(), st.lists(STEP, max_size=5))
def test_a_history_with_what_is_kept_is_the_history_without(book: Playbook, steps: list[Any]) -> None:
    for number, drawn in enumerate(steps):
        kept, fresh = step(book, drawn, number), step(anew(book), drawn, number)
        assert kept == fresh
        again = step(book, drawn, number)  # the base is as it was
        assert again == kept
        book = kept.playbook
        assert digest(book) == digest(anew(book))
        assert tokens(book) == tokens(anew(book)) == token_counter(book.counter).count(to_text(book, mark=False))
        assert dict(book.by_id) == {bullet.id: bullet for bullet in book.bullets}


@given(books(ANY_TEXT), st.lists(STEP, max_size=4), ANY_TEXT, st.integers(0, 60))
def test_views_of_later_versions_are_those_of_equal_books(
    book: Playbook, steps: list[Any], query: str, budget: int
) -> None:
    for number, drawn in enumerate(steps):
        assert by_relevance(book, query) == by_relevance(anew(book), query) == _by_definition(book, query)
        assert view(book, query, budget) == view(anew(book), query, budget)
        book = step(book, drawn, number).playbook


def _by_definition(book: Playbook, query: str) -> list[Bullet]:
    def words(text: str) -> frozenset[str]:
        return frozenset(word_list(_CAMEL.sub(" ", text)))

    texts = [words(bullet.text) for bullet in book.bullets]
    scores = []
    for text in texts:
        weights = [log(1 + len(texts) / sum(word in other for other in texts)) for word in sorted(words(query) & text)]
        scores.append(round(sum(weights) / (1 + len(text)) ** 0.5, 9))
    order = sorted(range(len(texts)), key=lambda n: (-scores[n], book.bullets[n].harmful - book.bullets[n].helpful, n))
    return [book.bullets[n] for n in order]


def test_words_of_texts_long_gone_are_forgotten() -> None:
    book = Playbook()
    for number in range(40):
        texts = [f"lesson {number} {n}" for n in range(200)]
        gone = [f"misc-{n:05d}" for n in range(200 * (number - 1) + 1, 200 * number + 1)] if number else []
        operations: list[Operation] = [*map(Remove, gone), *(Add("OTHERS", text) for text in texts)]
        book = apply(book, delta_of(operations)).playbook
        assert {b.text for b in by_relevance(book, f"{number} 7")[:1]} == {f"lesson {number} 7"}
        assert len(book.kept.words.texts.lengths) <= 2 * 200 + 1_200  # type: ignore[attr-defined]
    assert len(book) == 200


def test_equal_texts_in_one_book_are_all_found() -> None:
    bullets = tuple(Bullet(f"misc-{n:05d}", "OTHERS", "swap rates" if n % 2 else f"other {n}") for n in range(1, 9))
    found = by_relevance(Playbook(bullets, 8), "swap")
    assert [bullet.id for bullet in found[:4]] == ["misc-00001", "misc-00003", "misc-00005", "misc-00007"]
    assert all(one.id < other.id for one, other in pairwise(found[4:]))


def test_a_view_is_right_while_another_thread_reads_the_next_version() -> None:
    """Versions share the words that they know: three readers ask the newest while the next ones are taken in."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    versions = [apply(Playbook(), delta_of(Add("OTHERS", _lesson(n)) for n in range(1_000))).playbook]
    failed: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            book = versions[-1]
            try:
                assert len(by_relevance(book, " ".join(f"w{n}" for n in range(60)))) == len(book)
            except BaseException as error:  # noqa: BLE001 - looked at by the test
                failed.append(error)
                return

    threads = [threading.Thread(target=ask) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        for number in range(60):
            delta = delta_of(Add("OTHERS", _lesson(1_000 + 20 * number + n)) for n in range(20))
            book = apply(versions[-1], delta).playbook
            by_relevance(book, "w1")
            versions.append(book)
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert failed == []


def _lesson(number: int) -> str:
    return " ".join([f"lesson {number}:", *(f"w{(7 * number + n * n) % 60}" for n in range(9))])
