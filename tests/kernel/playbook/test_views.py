from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.playbook import Bullet, Playbook, diff, tokens, view
from tests.kernel.playbook.strategies import ANY_TEXT, books

BOOK = Playbook(
    (
        Bullet("calc-00001", "FORMULAS & CALCULATIONS", "Return on equity is net income over equity", 1, 0),
        Bullet("calc-00002", "FORMULAS & CALCULATIONS", "Gross margin is gross profit over revenue", 0, 3),
        Bullet("misc-00003", "OTHERS", "Tag the interest rate swap as DerivativeNotionalAmount", 0, 0),
        Bullet("misc-00004", "OTHERS", "Answer in one line", 9, 0),
    ),
    9,
)


def test_the_bullets_nearest_to_the_task_come_first() -> None:
    part = view(BOOK, "What is the notional amount of the swap?", 30)
    assert [bullet.id for bullet in part] == ["misc-00003"]
    assert part.high_water == 9
    assert [bullet.id for bullet in view(BOOK, "return on equity?", 28)] == ["calc-00001"]


def test_what_is_left_is_filled_with_the_most_helpful_in_the_order_of_the_book() -> None:
    assert [bullet.id for bullet in view(BOOK, "gross margin", 50)] == ["calc-00002", "misc-00004"]


def test_a_book_that_fits_is_returned_whole() -> None:
    assert view(BOOK, "", tokens(BOOK)) is BOOK
    assert len(view(BOOK, "", tokens(BOOK) - 1)) == 3


@given(books(ANY_TEXT), ANY_TEXT, st.integers(0, 200))
def test_a_view_fits_its_budget_and_cuts_no_text(book: Playbook, query: str, budget: int) -> None:
    part = view(book, query, budget)
    assert tokens(part) <= budget
    assert all(book.get(bullet.id) == bullet for bullet in part)


def test_a_negative_budget_is_an_error() -> None:
    with pytest.raises(UsageError):
        view(BOOK, "", -1)


def test_diff_names_what_changed() -> None:
    old = Playbook((Bullet("a-1", "OTHERS", "x"), Bullet("a-2", "OTHERS", "y"), Bullet("a-4", "OTHERS", "v")))
    new = Playbook((Bullet("a-2", "OTHERS", "z", 1), Bullet("a-3", "OTHERS", "w"), Bullet("a-4", "OTHERS", "v")))
    found = diff(old, new)
    assert [bullet.id for bullet in found.added] == ["a-3"]
    assert [bullet.id for bullet in found.removed] == ["a-1"]
    assert [(change.before.text, change.after.text, change.fields) for change in found.changed] == [
        ("y", "z", ("text", "helpful"))
    ]
    assert not diff(old, old)


@given(books(), books())
def test_diff_accounts_for_every_bullet(old: Playbook, new: Playbook) -> None:
    found = diff(old, new)
    same = len(new) - len(found.added) - len(found.changed)
    assert len(old) == len(found.removed) + len(found.changed) + same
