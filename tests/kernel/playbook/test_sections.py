from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.kernel.playbook import DEFAULT_SECTION, SECTIONS, Add, canonical_section
from combee.kernel.playbook.sections import section_key, section_slug


@pytest.mark.parametrize(
    "name",
    [
        "problem_solving_heuristics",
        "Problem-Solving Heuristics",
        "PROBLEM SOLVING HEURISTIC",
        "## Problem-solving heuristics:",
        "ProblemSolvingHeuristics",
        "**problem-solving   heuristics**",
        "ph",
    ],
)
def test_a_known_section_is_found_under_any_spelling(name: str) -> None:
    assert canonical_section(name) == "PROBLEM-SOLVING HEURISTICS"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("strategies_and_insights", "STRATEGIES & INSIGHTS"),
        ("Strategies&Insights", "STRATEGIES & INSIGHTS"),
        ("strategiesandinsights", "STRATEGIES & INSIGHTS"),
        ("formulas and calculations", "FORMULAS & CALCULATIONS"),
        ("Formula & Calculation", "FORMULAS & CALCULATIONS"),
        ("codeSnippetsAndTemplates", "CODE SNIPPETS & TEMPLATES"),
        ("common-mistakes-to-avoid", "COMMON MISTAKES TO AVOID"),
        ("Context clues and indicators", "CONTEXT CLUES & INDICATORS"),
        ("other", "OTHERS"),
        ("Miscellaneous", "OTHERS"),
    ],
)
def test_other_known_sections_are_found_too(name: str, known: str) -> None:
    assert canonical_section(name) == known


@pytest.mark.parametrize("name", ["", None, "  ", "##", "null", "None", ":", "\n"])
def test_a_blank_name_means_the_default_section(name: str | None) -> None:
    assert canonical_section(name) == DEFAULT_SECTION


def test_an_unknown_section_keeps_its_name_and_has_a_slug_of_its_own() -> None:
    assert canonical_section("Tax  Rules") == "Tax Rules"
    assert section_slug("Tax Rules") == "tr"
    assert section_slug("Verification") == "veri"
    assert section_slug("Стратегии").isascii()
    assert section_slug("Стратегии") != section_slug("Правила")
    slugs = set(SECTIONS.values())
    assert section_slug("Common Table X") not in slugs, "initials c, t, x spell the slug of a known section"


def test_spellings_of_an_unknown_section_share_a_key() -> None:
    assert section_key("Tax Rules") == section_key("tax_rule") == section_key("TAX-RULES")
    assert section_key("Tax Rules") != section_key("Tax Tables")


@given(st.text(max_size=20))
def test_a_canonical_name_is_canonical_and_one_line(name: str) -> None:
    canonical = canonical_section(name)
    assert canonical_section(canonical) == canonical
    assert canonical.strip()
    assert len(canonical.splitlines()) == 1
    assert section_slug(canonical).isascii()
    assert Add(name, "x").section == canonical
