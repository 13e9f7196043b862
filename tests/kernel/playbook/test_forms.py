from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import DataError, UsageError
from combee.kernel.playbook import (
    SECTIONS,
    Bullet,
    Playbook,
    canonical_section,
    digest,
    from_json,
    from_text,
    to_json,
    to_text,
)
from combee.kernel.playbook.textform import escape, unescape
from tests.kernel.playbook.strategies import ANY_TEXT, books

STYLES: list[Literal["ace", "appworld"]] = ["ace", "appworld"]
TRICKY = [
    "a\n## X\nb",
    "[calc-00001] helpful=9 harmful=0 :: x",
    "helpful=9 harmful=0 :: x",
    " helpful = 1",
    "[misc-00002] x",
    "std::vector",
    "## OTHERS",
    "- item",
    "<!-- combee playbook: high_water=99 counter=words -->",
    "\\alpha + \\nabla \\n \\\\n \\",
    "\\\n\\\\\n",
    "\nn\n\u0303",
    "\u0301 starts with an accent",
    "",
    " ",
    "\n",
    "a\r\nb\rc\u2028d",
    "```python\n# comment\n\n\nx = {'a': 1}\n```",
    "Σ 😀 \ud800",
    "\ufeffbom",
    "\x00\x1c\x1f",
    "a :: b :: c",
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("text", TRICKY)
def test_a_text_that_looks_like_something_else_is_one_bullet_of_that_text(
    text: str, style: Literal["ace", "appworld"]
) -> None:
    bullets = (Bullet("misc-00001", "OTHERS", text, 2, 1), Bullet("misc-00002", "OTHERS", "next", 0, 3))
    parsed = from_text(to_text(Playbook(bullets, 2), style))
    assert not parsed.problems
    assert [(bullet.id, bullet.text) for bullet in parsed.playbook] == [(bullet.id, bullet.text) for bullet in bullets]
    if style == "ace":
        assert parsed.playbook.bullets == bullets


@given(books(ANY_TEXT), st.sampled_from(STYLES))
def test_any_text_survives_the_text_form(book: Playbook, style: Literal["ace", "appworld"]) -> None:
    text = to_text(book, style)
    parsed = from_text(text)
    assert not parsed.problems
    kept = [(bullet.id, bullet.section, bullet.text) for bullet in book]
    assert [(bullet.id, bullet.section, bullet.text) for bullet in parsed.playbook] == [
        (bullet_id, canonical_section(section), content) for bullet_id, section, content in kept
    ]
    if style == "ace":
        assert [(b.helpful, b.harmful) for b in parsed.playbook] == [(b.helpful, b.harmful) for b in book]
    assert parsed.playbook.counter == book.counter
    assert parsed.playbook.high_water >= book.high_water
    assert to_text(parsed.playbook, style) == text or style == "appworld" or book.high_water == 0
    text.encode("utf-8")


@given(ANY_TEXT)
def test_escaping_is_exact_and_gives_one_line(text: str) -> None:
    assert unescape(escape(text)) == text
    assert "\n" not in escape(text)


@given(books(ANY_TEXT))
def test_json_is_lossless(book: Playbook) -> None:
    assert from_json(to_json(book)) == book
    assert digest(from_json(to_json(book))) == digest(book)
    to_json(book).encode("utf-8")


def test_the_digest_changes_with_anything() -> None:
    one = Playbook((Bullet("misc-00001", "OTHERS", "x"),), 1)
    others = [
        Playbook((Bullet("misc-00001", "OTHERS", "y"),), 1),
        Playbook((Bullet("misc-00001", "OTHERS", "x", 1),), 1),
        Playbook((Bullet("misc-00001", "OTHERS", "x", sources=("r",)),), 1),
        Playbook((Bullet("misc-00001", "OTHERS", "x"),), 2),
        Playbook((Bullet("misc-00001", "OTHERS", "x"),), 1, "words"),
    ]
    assert len({digest(book) for book in [one, *others]}) == 6
    assert len(digest(one)) == 64


def test_golden_text() -> None:
    book = Playbook(
        (
            Bullet("sai-00003", "STRATEGIES & INSIGHTS", "Read the question\ntwice.", 2, 0),
            Bullet("tr-00004", "Tax rules", "Use \\alpha", 0, 1),
        ),
        9,
    )
    assert to_text(book) == (
        "## STRATEGIES & INSIGHTS\n"
        "[sai-00003] helpful=2 harmful=0 :: Read the question\\ntwice.\n"
        "\n"
        "## Tax rules\n"
        "[tr-00004] helpful=0 harmful=1 :: Use \\alpha\n"
        "\n"
        "<!-- combee playbook: high_water=9 counter=chars/4 -->\n"
    )
    assert to_text(book, "appworld", mark=False).endswith("## Tax rules\n[tr-00004] Use \\alpha\n")


def test_the_text_of_the_reference_is_read() -> None:
    text = "## STRATEGIES & INSIGHTS\n\n## FORMULAS & CALCULATIONS\n"
    text += "[calc-00001] helpful=1 harmful=0 :: ROI = gain / cost\n\n## OTHERS"
    parsed = from_text(text)
    assert parsed.playbook.bullets == (Bullet("calc-00001", "FORMULAS & CALCULATIONS", "ROI = gain / cost", 1),)
    assert parsed.playbook.high_water == 1
    assert not parsed.problems


@pytest.mark.parametrize(
    "line",
    [
        "[calc-00001] helpful=1 harmful=0 :: x",
        "[calc-00001] x",
        "- [calc-00001] x",
        "[calc-00001]x",
        "- x",
        "* x",
        "1. x",
    ],
)
def test_one_bullet_without_a_section_goes_to_the_default_and_is_reported(line: str) -> None:
    parsed = from_text(f"# A playbook\n\n{line}\n")
    assert [(bullet.section, bullet.text) for bullet in parsed.playbook] == [("OTHERS", "x")]
    assert parsed.problems
    assert all(not problem.skipped and problem.index == 3 for problem in parsed.problems)


def test_lines_after_a_bullet_belong_to_it() -> None:
    text = "## OTHERS\n[misc-00001] helpful=1 harmful=0 :: code:\n"
    text += "```\n# x\n\n- y\n```\n\n[misc-00002] helpful=0 harmful=0 :: z\n\n"
    assert [bullet.text for bullet in from_text(text).playbook] == ["code:\n```\n# x\n\n- y\n```", "z"]


def test_a_formula_of_another_tool_keeps_its_command() -> None:
    text = "## OTHERS\n[misc-00001] helpful=0 harmful=0 :: \\nabla f \\neq 0\\nthen stop"
    assert from_text(text).playbook.bullets[0].text == "\\nabla f \\neq 0\nthen stop"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("## OTHERS\n[misc-00001] a\n[misc-00001] b\n", "used twice"),
        ("##\n[misc-00001] a\n", "without a name"),
        ("prose\n## OTHERS\n[misc-00001] a\n", "not a bullet"),
        ("## OTHERS\n[misc-00001] helpful=x harmful=0 :: a\n", "cannot be read"),
        ("## OTHERS\n[misc-00001] a\ud800\n", "surrogate"),
    ],
)
def test_what_is_odd_is_reported_with_its_line(text: str, reason: str) -> None:
    parsed = from_text(text)
    assert reason in parsed.problems[0].reason
    assert parsed.problems[0].index >= 1
    assert len({bullet.id for bullet in parsed.playbook}) == len(parsed.playbook) > 0


def test_counters_of_any_spacing_are_read() -> None:
    text = "## OTHERS\r\n  [misc-00001]helpful = 3, harmful=1::  x\r\n"
    assert from_text(text).playbook.bullets == (Bullet("misc-00001", "OTHERS", " x", 3, 1),)


@given(st.text(st.one_of(st.sampled_from("#[]-:=\n <>!0miscOTHERS"), st.characters()), max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    parsed = from_text(text)
    assert from_text(to_text(parsed.playbook)).playbook == parsed.playbook


def test_every_known_section_round_trips() -> None:
    book = Playbook(
        tuple(Bullet(f"{slug}-{n:05d}", name, "x") for n, (name, slug) in enumerate(SECTIONS.items(), 1)), 7
    )
    assert from_text(to_text(book)).playbook == book


@pytest.mark.parametrize("bullet_id", ["a b", "a]b", "", "[a"])
def test_an_id_that_cannot_be_written_is_an_error(bullet_id: str) -> None:
    with pytest.raises(UsageError, match="bullet id"):
        to_text(Playbook((Bullet(bullet_id, "OTHERS", "x"),)))


def _edited(**changes: object) -> str:
    raw = json.loads(to_json(Playbook((Bullet("misc-00001", "OTHERS", "x"),), 1)))
    for key, value in changes.items():
        (raw if key in raw else raw["bullets"][0])[key] = value
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ('{"format": "combee-playbook",}', "not JSON"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "not a playbook"),
        ("{}", "not a playbook"),
        ('{"format":"combee-playbook","version":2}', "version 2"),
        (_edited(bullets=3), "bullets"),
        (_edited(bullets=[3]), "bullet 0"),
        (_edited(counter=None), "counter"),
        (_edited(high_water=-1), "high_water"),
        (_edited(high_water=True), "high_water"),
        (_edited(helpful=1.5), "helpful"),
        (_edited(helpful=-1), "helpful"),
        (_edited(text=None), "text"),
        (_edited(id=""), "id"),
        (_edited(sources="r1"), "sources"),
        (_edited(last_used="1"), "last_used"),
        (_edited(surprise=1), "surprise"),
        (_edited(bullets=json.loads(_edited())["bullets"] * 2), "same id"),
    ],
)
def test_json_that_is_no_playbook_is_a_clear_error(text: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        from_json(text)


def test_json_errors_name_line_and_column() -> None:
    with pytest.raises(DataError) as caught:
        from_json('{\n "format": }')
    assert (caught.value.line, caught.value.column) == (2, 12)


@pytest.mark.parametrize(
    "line",
    [
        "[ctx-00005 helpful=1 harmful=0 :: no closing bracket",
        "[] helpful=1 harmful=1 :: no id",
        "ctx-00005] helpful=1 harmful=0 :: no opening bracket",
        "helpful=1 harmful=0 :: no id at all",
        "- [ctx-00005] harmful=0 helpful=1 :: the other way round",
        "[ctx 00005] helpful=1 harmful=0 :: a blank in the id",
    ],
)
def test_a_line_that_was_meant_as_a_bullet_is_never_joined_in_silence(line: str) -> None:
    parsed = from_text(f"## OTHERS\n[misc-00001] helpful=1 harmful=0 :: first\n{line}\n")
    assert any(problem.index == 3 for problem in parsed.problems)
    assert line.split("::")[1].strip() in "".join(bullet.text for bullet in parsed.playbook)
