from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given

from combee.errors import UsageError
from combee.kernel.playbook import (
    Add,
    Bullet,
    Playbook,
    apply,
    count_tokens,
    delta_of,
    narrow_length,
    to_text,
    tokens,
)
from tests.kernel.playbook.strategies import ANY_TEXT, books


@pytest.mark.parametrize(
    ("text", "quarter", "words"), [("", 0, 0), ("abcd", 1, 1), ("abcde", 2, 1), ("a b\nc", 2, 3), ("ΣΣΣΣ", 1, 1)]
)
def test_counters_count_what_they_say(text: str, quarter: int, words: int) -> None:
    assert count_tokens(text) == quarter
    assert count_tokens(text, "words") == words


@given(ANY_TEXT)
def test_the_count_of_a_text_does_not_depend_on_its_lines(text: str) -> None:
    assert count_tokens(text) == -(-narrow_length(text) // 4)
    assert count_tokens(text, "words") == len(text.split())


@given(books(ANY_TEXT))
def test_a_book_counts_as_much_as_the_text_that_agents_read(book: Playbook) -> None:
    assert tokens(book) == count_tokens(to_text(book, mark=False), book.counter)


def test_an_empty_book_has_no_tokens() -> None:
    assert tokens(Playbook()) == 0


@pytest.mark.parametrize("name", ["word", "chars", "", "tiktoken"])
def test_an_unknown_counter_is_an_error(name: str) -> None:
    with pytest.raises(UsageError, match="unknown token counter"):
        count_tokens("x", name)
    with pytest.raises(UsageError):
        tokens(Playbook((Bullet("a-1", "OTHERS", "x"),), counter=name))


@pytest.mark.skipif(importlib.util.find_spec("tiktoken") is not None, reason="tiktoken is installed here")
def test_tiktoken_is_never_replaced_by_something_else() -> None:
    with pytest.raises(UsageError, match="pip install tiktoken"):
        count_tokens("x", "tiktoken:cl100k_base")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("签收四十天后要求退款，怎么处理？", 12),  # 16 characters, three quarters of a token each
        ("返品はできますか。", 7),
        ("환불이 가능합니까?", 7),  # the blank and the question mark are narrow
        ("ｆｕｌｌ　ｗｉｄｔｈ", 8),
        ("Größe: 12 €", 3),
        ("𠮷野家", 3),
        ("plain text", 3),
        ("", 0),
    ],
)
def test_chinese_japanese_and_korean_take_three_quarters_of_a_token_each(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


def test_a_book_in_chinese_is_held_to_its_budget() -> None:
    lessons = [Add("rules", f"第{number}号仓库的退货必须在七天之内登记，并附上照片和单号。") for number in range(40)]
    book = apply(Playbook(), delta_of(lessons), budget=200).playbook
    assert 150 < tokens(book) <= 200
    assert len(book) < 10  # some 27 characters each: 50 of them would fit by four characters to a token
