from __future__ import annotations

import pytest

from combee.kernel.playbook import Bullet, Playbook
from combee.model.operations import Cited, find_ids

BOOK = Playbook(
    (
        Bullet("ph-00001", "ph", "a"),
        Bullet("calc-100000", "calc", "b"),
        Bullet("calc-10000", "calc", "c"),
        Bullet("tax-rule-00007", "Tax", "d"),
        Bullet("odd", "Tax", "e"),
    ),
    100_000,
)


@pytest.mark.parametrize(
    ("text", "known", "unknown"),
    [
        ("[foo-99999], [ph-00001], calc-100000", ("ph-00001", "calc-100000"), ("foo-99999",)),
        ("I used [ph-00001, calc-10000].", ("ph-00001", "calc-10000"), ()),
        ("calc-10000 and then calc-100000", ("calc-10000", "calc-100000"), ()),
        ("PH-00001 and ph\u201100001 and ph-1", ("ph-00001",), ()),
        ("[tax-rule-00007] tax-rule-00008", ("tax-rule-00007",), ("tax-rule-00008",)),
        ("GPT-4 in COVID-19 and utf-8", (), ()),
        ("[ph-2]", (), ("ph-2",)),
        ("xph-00001 ph-000012 ph-00001b", (), ("xph-00001", "ph-000012")),
        ("[odd] but not odd", ("odd",), ()),
        ("", (), ()),
        ("ph-00001 ph-00001", ("ph-00001",), ()),
        ("9" * 5000 + " a-" + "9" * 5000, (), ()),
    ],
)
def test_cited_ids_are_found_and_unknown_ones_counted(
    text: str, known: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    assert find_ids(text, BOOK) == Cited(known, unknown)


def test_a_list_of_mentions_is_read_too() -> None:
    assert find_ids(["[ph-00001]", "calc-10000", "nothing", 7, "", "odd"], BOOK) == Cited(
        ("ph-00001", "calc-10000", "odd"), ("nothing", "7")
    )
