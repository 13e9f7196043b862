"""Whatever a text holds, on the page it is text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from combee.report.html import Html, cut, el, escape, join
from tests.report.pages import HOSTILE, Page


def test_hostile_text_comes_out_as_it_went_in() -> None:
    page = Page(el("p", HOSTILE, title=HOSTILE))
    assert page.text == HOSTILE
    assert page.attributes == [("title", HOSTILE)]
    assert page.tags == ["p"]


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_survives_and_can_be_written_as_utf8(text: str) -> None:
    made = el("p", text, title=text)
    made.encode("utf-8")
    page = Page(made)
    assert page.tags == ["p"]
    wanted = re.sub("\r\n?", "\n", text)
    assert len(page.text) == len(wanted)
    assert all(got in {was, "\ufffd"} for got, was in zip(page.text, wanted, strict=True))


def test_markup_is_kept_and_joined_text_is_escaped_again() -> None:
    assert el("p", el("b", "1 < 2"), None, 3) == "<p><b>1 &lt; 2</b>3</p>"
    assert join(["a & b", Html("<br>")]) == "a &amp; b<br>"
    # Markup that was changed as a plain string is no markup any more.
    assert el("p", Html("<b>") + "x") == "<p>&lt;b&gt;x</p>"


def test_controls_and_lone_surrogates_are_replaced() -> None:
    assert escape("a\x00b\ud800c\x7f\ttab\n") == "a\ufffdb\ufffdc\ufffd\ttab\n"


def test_a_cut_text_says_how_much_is_missing() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 3) == "abc… (4 more characters)"
