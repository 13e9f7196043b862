from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given

from combee.errors import UsageError
from combee.kernel.playbook import Bullet, Playbook, count_tokens, to_text, tokens
from tests.kernel.playbook.strategies import ANY_TEXT, books


@pytest.mark.parametrize(
    ("text", "quarter", "words"), [("", 0, 0), ("abcd", 1, 1), ("abcde", 2, 1), ("a b\nc", 2, 3), ("ΣΣΣΣ", 1, 1)]
)
def test_counters_count_what_they_say(text: str, quarter: int, words: int) -> None:
    assert count_tokens(text) == quarter
    assert count_tokens(text, "words") == words


@given(ANY_TEXT)
def test_the_count_of_a_text_does_not_depend_on_its_lines(text: str) -> None:
    assert count_tokens(text) == -(-len(text) // 4)
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
