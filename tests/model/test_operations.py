from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.kernel.playbook import Add, Delta, Merge, Remove, Update
from combee.model.operations import parse_operations

KNOWN = ["calc-00001", "misc-00002", "misc-00003"]


def test_each_bad_operation_is_reported_alone_and_the_good_ones_count() -> None:
    raw = [
        {"type": "ADD", "section": "others", "content": "one"},
        {"type": "MERGE", "ids": ["foo-00001", "bar-00002"], "content": "x"},
        "FROB",
        {"type": "ADD", "section": "", "content": "no section"},
        {"type": "ADD", "section": "formulas_and_calculations", "content": "two"},
    ]
    delta, problems = parse_operations(raw, sources=["r1"], known_ids=KNOWN)
    assert set(delta) == {
        Add("OTHERS", "one", ("r1",)),
        Add("OTHERS", "no section", ("r1",)),
        Add("FORMULAS & CALCULATIONS", "two", ("r1",)),
    }
    assert [(problem.index, problem.skipped) for problem in problems] == [(1, True), (2, True), (3, False)]
    assert "foo-00001" in problems[0].reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"type": "FROB", "content": "x"}, "unknown type 'FROB'"),
        ({"type": "UDPATE", "id": "calc-00001", "content": "x"}, "Did you mean 'UPDATE'"),
        ({"content": "x"}, "no type"),
        ({"type": None, "content": "x"}, "no type"),
        ({"type": "ADD", "section": "others"}, "content is missing"),
        ({"type": "ADD", "section": "others", "content": "  "}, "content is empty"),
        ({"type": "ADD", "section": "others", "content": ["x"]}, "must be a text"),
        ({"type": "ADD", "section": "others", "content": None}, "content is missing"),
        ({"type": "UPDATE", "id": "calc-00009", "content": "x"}, "no bullet has the id 'calc-00009'"),
        ({"type": "UPDATE", "content": "x"}, "no id"),
        ({"type": "UPDATE", "id": 3, "content": "x"}, "no id"),
        ({"type": "REMOVE", "id": "foo-1"}, "no bullet"),
        ({"type": "MERGE", "ids": ["calc-00001"], "content": "x"}, "two or more"),
        ({"type": "MERGE", "ids": ["calc-00001", "calc-1"], "content": "x"}, "two or more"),
        ({"type": "MERGE", "ids": ["calc-00001", "foo-1"], "content": "x"}, "foo-1"),
        ({"type": "MERGE", "ids": ["calc-00001", None], "content": "x"}, "None"),
        ({"type": "MERGE", "content": "x"}, "no id"),
        ({"type": "UPDATE", "bullet_ids": ["calc-00001", "foo-1"], "content": "x"}, "foo-1"),
        ({"type": "REMOVE", "bullet_ids": []}, "no id"),
        ({"type": "REMOVE", "ids": "Remove calc-00001, keep misc-00002 please"}, "no bullet has the id 'Remove'"),
        ({"type": "REMOVE", "id": "not misc-00002"}, "no bullet has the id 'not'"),
        (None, "must be an object"),
        (["ADD"], "must be an object"),
        (5, "must be an object"),
    ],
)
def test_the_reason_says_what_is_wrong(raw: object, reason: str) -> None:
    delta, problems = parse_operations(
        [raw, {"type": "ADD", "section": "others", "content": "ok"}], sources=["r"], known_ids=KNOWN
    )
    assert delta.operations == (Add("OTHERS", "ok", ("r",)),)
    assert len(problems) == 1
    assert problems[0].skipped
    assert reason in problems[0].reason


def test_spellings_of_fields_types_and_ids_are_understood() -> None:
    raw = [
        {"Type": "add", "Section": "OTHERS", "Content": " one "},
        {"op": "Update", "bullet_id": "[calc-1]", "new_content": "two"},
        {"action": "remove", "id": "CALC-00001"},
        {"type": "MERGE", "bullet_ids": "misc-00002, misc-00003", "text": "three"},
    ]
    delta, problems = parse_operations(raw, sources=["r"], known_ids=KNOWN)
    assert not problems
    assert set(delta) == {
        Add("OTHERS", "one", ("r",)),
        Update("calc-00001", "two", ("r",)),
        Remove("calc-00001", ("r",)),
        Merge(("misc-00002", "misc-00003"), "three", ("r",)),
    }


@pytest.mark.parametrize("section", ["", None, "  ", 4, "null", ["others"]])
def test_a_blank_section_is_the_default_and_is_reported(section: object) -> None:
    delta, problems = parse_operations([{"type": "ADD", "section": section, "content": "x"}], sources=[], known_ids=[])
    assert delta.operations == (Add("OTHERS", "x"),)
    assert [problem.skipped for problem in problems] == [False]


def test_a_missing_section_is_reported_too() -> None:
    assert len(parse_operations([{"type": "ADD", "content": "x"}], sources=[], known_ids=[])[1]) == 1


def test_a_lone_surrogate_in_a_reply_is_replaced_and_reported() -> None:
    delta, problems = parse_operations(
        [{"type": "ADD", "section": "others", "content": "a\ud800"}], sources=[], known_ids=[]
    )
    assert delta.operations == (Add("OTHERS", "a\ufffd"),)
    assert "surrogate" in problems[0].reason


def test_an_operation_may_name_only_sources_the_model_was_given() -> None:
    raw = [
        {"type": "ADD", "section": "others", "content": "x", "sources": ["r2"]},
        {"type": "ADD", "section": "others", "content": "y", "sources": ["r9"]},
    ]
    delta, problems = parse_operations(raw, sources=["r1", "r2"], known_ids=[])
    assert set(delta) == {Add("OTHERS", "x", ("r2",)), Add("OTHERS", "y", ("r1", "r2"))}
    assert [problem.index for problem in problems] == [1]


def test_the_same_add_twice_is_one() -> None:
    same = {"type": "ADD", "section": "others", "content": "x"}
    first, _ = parse_operations([same, same], sources=["r1"], known_ids=[])
    assert first.operations == (Add("OTHERS", "x", ("r1",)),)


@pytest.mark.parametrize("raw", [None, "ADD", b"x", 3, {"no": 1}])
def test_no_list_at_all_is_one_problem(raw: object) -> None:
    delta, problems = parse_operations(raw, sources=[], known_ids=[])
    assert delta == Delta()
    assert len(problems) == 1


def test_an_object_that_holds_the_list_is_unwrapped() -> None:
    raw = {"reasoning": "", "operations": [{"type": "ADD", "section": "others", "content": "x"}]}
    assert len(parse_operations(raw, sources=[], known_ids=[])[0]) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "content", "section", "id", "ids", "sources", "x"]), inner, max_size=5
        )
    ),
    max_leaves=20,
)


@given(
    st.lists(JSON | st.fixed_dictionaries({"type": st.sampled_from(["ADD", "MERGE", "UPDATE", "REMOVE"])}), max_size=5)
)
def test_nothing_is_skipped_silently_and_nothing_raises(raw: list[object]) -> None:
    delta, problems = parse_operations(raw, sources=["r"], known_ids=KNOWN)
    skipped = {problem.index for problem in problems if problem.skipped}
    several = sum(isinstance(one, Remove) for one in delta)
    assert len(delta) - several <= len(raw) - len(skipped)
    assert bool(delta) == (len(skipped) < len(raw))


def test_an_operation_on_several_bullets_is_several_or_a_merge() -> None:
    raw = [
        {"type": "REMOVE", "bullet_ids": ["calc-00001", "gone-00009", "misc-00002"]},
        {"type": "UPDATE", "id": "", "bullet_ids": ["misc-00002", "misc-00003"], "content": "", "text": "as one"},
        {"type": "UPDATE", "id": "misc-00003", "bullet_ids": ["misc-00002"], "content": "alone"},
    ]
    delta, problems = parse_operations(raw, sources=["r"], known_ids=KNOWN)
    assert set(delta) == {
        Remove("calc-00001", ("r",)),
        Remove("misc-00002", ("r",)),
        Merge(("misc-00002", "misc-00003"), "as one", ("r",)),
        Update("misc-00003", "alone", ("r",)),
    }
    assert [(problem.index, problem.skipped) for problem in problems] == [(0, False)]
    assert "gone-00009" in problems[0].reason
