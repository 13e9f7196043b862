from __future__ import annotations

import pytest

from combee.kernel.playbook import distinct_terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Use the tag DebtInstrumentFaceAmount for 1,000 shares", {"DebtInstrumentFaceAmount", "1000", "share", "tag"}),
        ("Don't call `foo(x)`", {"not", "foo(x)"}),
        ("never use std::vector or utf_8", {"not", "std::vector", "utf_8"}),
        ("The rate is 5% or -3.5", {"rate", "5%", "-3.5"}),
        ("e.g. the same as before", set()),
        ("EBITDA excludes amortization", {"EBITDA", "exclude", "amortization"}),
        ("收入 100", {"收", "入", "100"}),
        ("", set()),
    ],
)
def test_distinct_terms_are_what_the_text_would_not_be_the_same_without(text: str, terms: set[str]) -> None:
    assert distinct_terms(text) == terms


def test_other_forms_of_the_same_lesson_have_the_same_terms() -> None:
    assert distinct_terms("Check the margins of EBITDA") == distinct_terms("check EBITDA: the margin!")
