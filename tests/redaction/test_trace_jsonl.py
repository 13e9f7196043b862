"""Our JSON lines hold a trace without loss and name the line that is not one."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import DataError
from combee.kernel.journal import clean_text
from combee.redaction import Outcome, Step, ToolCall, Trace, from_jsonl, to_jsonl, trace_id

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates too
CALLS = st.lists(st.builds(ToolCall, TEXT, TEXT, TEXT), max_size=2).map(tuple)
STEPS = st.builds(
    Step,
    st.integers(0, 10**6),
    st.sampled_from(["system", "user", "assistant", "tool"]),
    TEXT,
    CALLS,
    st.none() | TEXT,
    st.none() | st.booleans(),
    st.none() | TEXT,
    st.none() | TEXT,
)
OUTCOMES = st.builds(
    Outcome,
    st.none() | st.booleans(),
    st.none() | st.floats(allow_nan=False),
    st.booleans(),
    st.dictionaries(TEXT, st.booleans(), max_size=3),
    TEXT,
)
TABLES = st.dictionaries(TEXT, TEXT, max_size=3)
TRACES = st.builds(Trace, TEXT, TEXT, st.lists(STEPS, max_size=4).map(tuple), st.none() | OUTCOMES, TABLES, TABLES)


@given(st.lists(TRACES, max_size=3))
def test_writing_and_reading_loses_nothing(traces: list[Trace]) -> None:
    lines = list(to_jsonl(traces))
    assert all(line.count("\n") == 1 for line in lines)
    again = from_jsonl(line.encode().decode() for line in lines)
    assert list(again) == traces


def test_a_score_that_is_no_number_comes_back() -> None:
    trace = Trace("t", "x", (), Outcome(score=math.nan))
    (again,) = from_jsonl(to_jsonl([trace]))
    assert again.outcome is not None
    assert again.outcome.score is not None
    assert math.isnan(again.outcome.score)


def test_reading_is_a_stream() -> None:
    lines = iter(to_jsonl([Trace("t", "x", ())] * 3))
    first = next(from_jsonl(lines))
    assert first.id == "t"
    assert len(list(lines)) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "Expecting"),
        ("[]", "not an object"),
        ("{}", "no combee_trace version"),
        ('{"combee_trace": 2}', "newer version"),
        ('{"combee_trace": 1, "id": "a"}', "trace.task is not text"),
        ('{"combee_trace": 1, "id": "a", "task": "b", "steps": [{"i": 0, "role": "x", "text": ""}]}', "steps[0].role"),
        ('{"combee_trace": 1, "id": "a", "task": "b", "steps": [{"i": true}]}', "steps[0].role is not text"),
        ('{"combee_trace": 1, "id": "a", "task": "b", "outcome": {"score": [1]}}', "outcome.score is not a number"),
        (
            '{"combee_trace": 1, "id": "a", "task": "b", "outcome": {"score": 1' + "0" * 400 + "}}",
            "outcome.score is not a number",
        ),
        ('{"combee_trace": 1, "id": "a", "task": "b", "meta": {"x": 1}}', "trace.meta is not an object of texts"),
        ("[" * 100_000, ""),
    ],
)
def test_a_line_that_is_no_trace_is_named(line: str, said: str) -> None:
    good = next(to_jsonl([Trace("t", "x", ())]))
    reading = from_jsonl([good, "\n", line])
    next(reading)
    with pytest.raises(DataError) as caught:
        next(reading)
    assert caught.value.line == 3
    assert said in caught.value.message


def test_the_version_stands_first_in_each_line() -> None:
    line = next(to_jsonl([Trace("t", "x", (Step(0, "user", "hi"),))]))
    assert line.startswith('{"combee_trace":1,')
    assert json.loads(line)["steps"] == [{"i": 0, "role": "user", "text": "hi"}]


def test_the_id_depends_on_content_alone() -> None:
    steps = (Step(0, "user", "a"), Step(1, "assistant", "b", (ToolCall("1", "n", "x"),)))
    base = trace_id("task", steps, Outcome(True))
    assert base == trace_id("task", steps, Outcome(True))
    others = [
        trace_id("taska", (Step(0, "user", ""), steps[1]), Outcome(True)),
        trace_id("task", steps[:1], Outcome(True)),
        trace_id("task", steps, Outcome(False)),
        trace_id("task", steps, None),
        trace_id("task", (steps[0], Step(1, "assistant", "b", (ToolCall("1", "nx", ""),))), Outcome(True)),
    ]
    assert len({base, *others}) == 6


def test_plain_text_joins_pairs_and_replaces_lone_surrogates() -> None:
    assert clean_text("a\ud83d\ude00b\udc80") == "a\U0001f600b\ufffd"
    same = "gr\u00fc\u00df"
    assert clean_text(same) is same
