"""Scorers: what is right, what is wrong, and that nothing is ever run."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.learn.roles import Score, Task
from combee.tasks import scorer
from combee.tasks.scorers import MAX_ANSWER, number_of


def right(spec: str, target: str, answer: str) -> bool:
    return scorer(spec)(Task("t", "q", target), answer).passed


HOSTILE = [
    '__import__("os").system("touch combee-was-here")', "1e400", "-1e400", "nan", "inf", "0x10", "1_000", "１２", "$5",
    "5%", "", "   ", "9" * 100_000, "1" + "0" * 5_000, "1e999999999", "[" * 50_000, "\0", "\ud800", "5\n5", "٣", "5 5",
]  # fmt: skip


@pytest.mark.parametrize("spec", ["exact", "number", "number:0.5", "formula", "tags", "regex:(.+)"])
@pytest.mark.parametrize("answer", HOSTILE)
def test_no_answer_runs_or_breaks_a_scorer(
    spec: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert scorer(spec)(Task("t", "q", "16.25"), answer) is not None
    assert not right(spec, "16.25", answer)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "answer", "verdict"),
    [
        ("5", "5.0", True),
        ("1000", "1,000", True),
        ("1,000.50", "1000.5", True),
        ("-3", "-3.00", True),
        ("0", "-0", True),
        ("2e3", "2000", True),
        ("5", " 5 ", True),
        ("1e400", "1e400", True),  # equal as text
        ("1e400", "2e400", False),  # both would be infinite
        ("nan", "nan", True),
        ("nan", "NaN", False),
        ("inf", "1e999", False),
        ("16", "0x10", False),
        ("1000", "1_000", False),
        ("12", "１２", False),
        ("5", "$5", False),
        ("5", "5%", False),
        ("5", "", False),
        ("5", "five", False),
        ("n/a", "n/a", True),
        ("9" * 30_000, "9" * 30_000, True),
        ("9" * 30_000, "8" + "9" * 29_999, False),
        ("0.1", "0.10000000000000001", True),
        ("0.3", "0.31", False),
    ],
)
def test_formula_rule(target: str, answer: str, verdict: bool) -> None:
    assert right("formula", target, answer) is verdict


@pytest.mark.parametrize(
    ("spec", "target", "answer", "verdict"),
    [
        ("number", "5", "5.0", True),
        ("number", "5", "5.01", False),
        ("number:0.01", "5", "5.01", True),
        ("number:0.01", "5", "5.02", False),
        ("number:0.1", "1.0", "1.1", True),
        ("number:1%", "200", "202", True),
        ("number:1%", "200", "202.1", False),
        ("number:1%", "-200", "-198", True),
        ("number", "1234567", "$1,234,567.", True),
        ("number", "-5", "-$5", True),
        ("number", "1.5", "1,5", False),
        ("number", "12", "1,2", False),
        ("number", "5%", "5 %", True),
        ("number", "5", "5%", False),
        ("number", "5%", "0.05", False),
        ("number", "unknown", "Unknown.", True),
        ("number", "5", "about 5", False),
    ],
)
def test_numbers_with_tolerance(spec: str, target: str, answer: str, verdict: bool) -> None:
    assert right(spec, target, answer) is verdict


@given(st.text(max_size=60))
def test_a_number_is_finite_or_none(text: str) -> None:
    value = number_of(text)
    assert value is None or abs(value) < float("inf")


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=3))
def test_plain_decimals_are_numbers(value: object) -> None:
    assert number_of(f"{value:f}") == float(f"{value:f}")


@pytest.mark.parametrize("option", ["x", "-1", "nan", "1e999", "5%%", "0x1"])
def test_a_tolerance_that_is_none(option: str) -> None:
    with pytest.raises(UsageError, match="tolerance"):
        scorer(f"number:{option}")


@pytest.mark.parametrize(
    ("target", "answer", "hits", "total"),
    [
        ("A,B,C,D", "A,B,C,D", 4, 4),
        ("A,B,C,D", "a, b ,C,x", 3, 4),
        ("A,B,C,D", "A,B", 2, 4),
        ("A,B", "A,B,C,D", 2, 2),
        ("A,B", "B,A", 0, 2),
        ("A,B", "A,,B", 1, 2),
        ("A", "", 0, 1),
        ("A,B,", "A,B", 2, 2),
        ("5", '__import__("os").system("x")', 0, 1),
    ],
)
def test_tags_in_order(target: str, answer: str, hits: int, total: int) -> None:
    score = scorer("tags")(Task("t", "q", target), answer)
    assert (score.hits, score.total) == (hits, total)


@pytest.mark.parametrize(
    ("target", "answer", "verdict"),
    [
        ("Paris", " paris. ", True),
        ("Paris", '"Paris"', True),
        ("Paris", "`paris`", True),
        ("two  words", "Two\nWords", True),
        ("12", "１２", True),
        ("Stra\u00dfe", "STRASSE", True),
        ("Paris", "\ufeffPa\u00adris\u200b", True),
        ("Paris", "Paris, France", False),
        ("...", "", False),
        ("a", "", False),
    ],
)
def test_exact_after_normalising(target: str, answer: str, verdict: bool) -> None:
    assert right("exact", target, answer) is verdict


@pytest.mark.parametrize(
    ("spec", "target", "answer", "verdict"),
    [
        (r"regex:answer:\s*(\w+)", "Blue", "Reasons. Answer: red. answer: blue", True),
        (r"regex:(?i)answer is (\d+)", "42", "The Answer is 41, no, the answer is 42.", True),
        (r"regex:\d+", "7", "maybe 6, then 7", True),
        (r"regex:\d+", "6", "maybe 6, then 7", False),
        (r"regex:\d+", "6", "none", False),
        ("regex", r"^\d{3}$", "123", True),
        ("regex", r"^\d{3}$", "1234", False),
        ("regex", "colou?r", "the color", True),
    ],
)
def test_patterns(spec: str, target: str, answer: str, verdict: bool) -> None:
    assert right(spec, target, answer) is verdict


def test_a_pattern_that_hangs_is_stopped_and_the_next_answer_is_scored() -> None:
    judge = scorer(r"regex:(a|aa)+$")
    task = Task("t", "q", "aaa")
    stopped = judge(task, "a" * 60 + "!")
    assert not stopped.passed
    assert "stopped after" in stopped.detail
    assert judge(Task("t", "q", "a"), "xa").passed
    del judge
    gc.collect()  # its process goes with it: a process left behind would be a ResourceWarning, which is an error here


def test_only_the_end_of_a_long_answer_is_searched() -> None:
    assert right(r"regex:X(\d+)", "2", "X1 " + "." * MAX_ANSWER + " X2")
    assert not right(r"regex:X(\d+)", "1", "X1 " + "." * MAX_ANSWER)


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "(?P<n>a)(?P<n>b)", "*", "x" * 3000])
def test_an_invalid_pattern_is_a_usage_error(pattern: str) -> None:
    with pytest.raises(UsageError, match="pattern"):
        scorer(f"regex:{pattern}")
    with pytest.raises(UsageError, match="task t9"):
        scorer("regex")(Task("t9", "q", pattern), "x")


@pytest.mark.parametrize("spec", ["exact", "tags", "formula", "number", "regex", r"regex:\d"])
def test_a_task_without_target_is_a_usage_error(spec: str) -> None:
    with pytest.raises(UsageError, match="t7"):
        scorer(spec)(Task("t7", "q"), "x")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("exakt", "Did you mean 'exact'"),
        ("", "no scorer"),
        ("exact:1", "takes no option"),
        ("nope_nope:f", "no module 'nope_nope'"),
        ("os.nope:f", "no module 'os.nope'"),
        ("json:nope", "has no 'nope'"),
        ("json:lods", "Did you mean 'loads'"),
        ("string:digits", "not a function"),
        ("a b:c", "does not name a function"),
        (":f", "does not name a function"),
        ("json:", "does not name a function"),
        ("json:loads()", "does not name a function"),
    ],
)
def test_a_bad_spec_is_a_usage_error(spec: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        scorer(spec)
    assert says in str(caught.value)


USER_MODULE = """
import asyncio
from combee.kernel.learn.roles import Score

def same(task, answer): return answer == task.target
def half(task, answer): return 0.5
def almost(task, answer): return 0.999
def full(task, answer): return 1.0
def score(task, answer): return Score(2, 3, "two")
def raises(task, answer): return {}["x"]
def text(task, answer): return "yes"
def nothing(task, answer): return None
def nan(task, answer): return float("nan")
def two(task, answer): return 2.0
def bad(task, answer): return Score(4, 3)
def zero(task, answer): return Score(0, 0)
def one_argument(task): return True
async def late(task, answer): return True
class Judge:
    @staticmethod
    def rule(task, answer): return 1
"""


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"my_scorers_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(USER_MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return name


def test_a_function_of_the_users(user_module: str) -> None:
    task = Task("t", "q", "A")

    def scored(name: str, answer: str = "A") -> Score:
        return scorer(f"{user_module}:{name}")(task, answer)

    before = list(sys.path)
    assert scored("same") == Score(1, 1)
    assert scored("same", "B") == Score(0, 1)
    assert scored("half") == Score(50, 100)
    assert not scored("almost").passed
    assert scored("full").passed
    assert scored("score") == Score(2, 3, "two")
    assert scored("Judge.rule") == Score(1, 1)
    assert sys.path == before


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("raises", "raised KeyError on task t"),
        ("one_argument", "raised TypeError"),
        ("text", "returned 'yes'"),
        ("nothing", "returned None"),
        ("nan", "returned nan"),
        ("two", "returned 2.0"),
        ("bad", "4 hits of 3"),
        ("zero", "0 hits of 0"),
        ("late", "a coroutine"),
    ],
)
def test_what_a_users_function_does_wrong_is_named(user_module: str, function: str, says: str) -> None:
    judge = scorer(f"{user_module}:{function}")
    with pytest.raises(UsageError) as caught:
        judge(Task("t", "q", "A"), "A")
    assert says in str(caught.value)
    assert f"{user_module}:{function}" in str(caught.value)


def test_a_module_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_scorer.py").write_text("1 / 0", encoding="utf-8")
    (tmp_path / "needy_scorer.py").write_text("import not_installed_at_all", encoding="utf-8")
    (tmp_path / "odd_scorer.py").write_text("def f(:", encoding="utf-8")
    for name, says in (
        ("broken_scorer", "raised ZeroDivisionError"),
        ("needy_scorer", "not_installed_at_all"),
        ("odd_scorer", "raised SyntaxError"),
    ):
        with pytest.raises(UsageError) as caught:
            scorer(f"{name}:f")
        assert says in str(caught.value)
