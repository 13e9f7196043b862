from __future__ import annotations

import logging
import unicodedata

import pytest
from hypothesis import given

from combee.kernel.playbook import Bullet, count_lone_surrogates, normalize
from tests.kernel.playbook.strategies import ANY_TEXT


@pytest.mark.parametrize("text", ["a\r\nb", "a\rb", "a\nb", "a\u2028b", "a\x85b", "a\x0bb"])
def test_every_line_end_becomes_a_line_feed(text: str) -> None:
    assert normalize(text) == "a\nb"


def test_composed_and_decomposed_letters_are_the_same() -> None:
    assert normalize("e\u0301") == normalize("\u00e9") == "\u00e9"
    assert Bullet("a-1", "OTHERS", "e\u0301") == Bullet("a-1", "OTHERS", "\u00e9")


def test_a_lone_surrogate_is_replaced_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "combee.kernel.playbook"):
        assert normalize("a\ud800b\udc00") == "a\ufffdb\ufffd"
    assert "2 lone surrogate" in caplog.text
    assert count_lone_surrogates("a\ud800b\udc00") == 2


def test_a_surrogate_pair_is_its_character() -> None:
    assert normalize("\ud83d\ude00") == "\U0001f600"
    assert count_lone_surrogates("\ud83d\ude00") == 0


@given(ANY_TEXT)
def test_normalising_twice_changes_nothing_and_the_result_can_be_written(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once
    assert unicodedata.is_normalized("NFC", once)
    once.encode("utf-8")
