"""FiNER and Formula rows: parsing, and the real files where they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import DataError, UsageError
from combee.tasks import Question, finer_context, finer_options, finer_questions, formula_row, load

ROW = (
    "You are XBRL expert.  Here is a list of US GAAP tags options: ,Goodwill,LineOfCredit,InterestExpense. Answer the "
    "following 2 independent questions by providing only  2 US GAAP tags answers in the order of the questions. Each "
    "answer must be saperated by a comma (,).  Provide nothing else. \n"
    '1. What is best tag for entity "34.6" in sentence: "It owned 34.6 % of “ the “ fund .?"\n'
    '2. What is best tag for entity "86" in sentence: "He said " 86 % " ? Yes .?"\nOutput US GAAP tags:'
)
FORMULA = (
    "Use formula Current Ratio to answer the question. Answer with a numerical answer with 2 decimal places and with "
    "no explanations or other text. Formula: Current Ratio = Current Assets / Current Liabilities, Explanation: "
    "Current Assets: current assets, Current Liabilities: current liabilities. Question: {}. Answer:"
)


def test_questions_and_options_of_a_row() -> None:
    assert finer_questions(ROW) == (
        Question("34.6", "It owned 34.6 % of “ the “ fund ."),
        Question("86", 'He said " 86 % " ? Yes .'),
    )
    assert finer_options(ROW) == ("Goodwill", "LineOfCredit", "InterestExpense")


@pytest.mark.parametrize("text", ["", "What is 2 + 2?", '1. What is best tag for entity "5', "tags options"])
def test_text_of_another_shape_has_no_questions(text: str) -> None:
    assert finer_questions(text) == ()
    assert finer_options(text) == ()


words = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=40).map(str.strip)


@given(st.lists(st.tuples(words.filter(lambda text: '"' not in text), words), min_size=1, max_size=5))
def test_what_is_written_is_read_back(parts: list[tuple[str, str]]) -> None:
    asked = tuple(Question(entity, sentence) for entity, sentence in parts)
    assert finer_questions(finer_context(asked)) == asked
    with_options = finer_context(asked, ["Goodwill", "LineOfCredit"])
    assert finer_questions(with_options) == asked
    assert finer_options(with_options) == ("Goodwill", "LineOfCredit")


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ('"What is it?"', "What is it?"),
        ('  "What is it at 5%?".', "What is it at 5%?"),
        ("“What is it?”", "What is it?"),
        ('"Cost: $3.\n  Find it."', "Cost: $3.\n  Find it."),
    ],
)
def test_the_definition_is_dropped_from_a_formula_question(asked: str, shown: str) -> None:
    row = formula_row(FORMULA.format(asked))
    assert row is not None
    assert (row.name, row.question) == ("Current Ratio", shown)
    assert "Current Assets /" not in row.ask()
    assert "Current Ratio = Current Assets / Current Liabilities" in row.ask(definition=True)


def test_text_of_another_shape_is_no_formula() -> None:
    assert formula_row("Use formula to answer the question.") is None


def test_the_real_finer_files(data_dir: Path) -> None:
    tasks = load("finer", data_dir=data_dir)
    assert (tasks.kind, len(tasks.train), len(tasks.val), len(tasks.test)) == ("finer", 499, 0, 220)
    assert tasks.choices is not None
    assert len(tasks.choices) == 139
    assert "499 rows" in tasks.about
    assert "validation file" in tasks.about
    scores = [tasks.scorer(task, task.target or "") for task in tasks.test]
    assert sum(score.hits for score in scores) == sum(score.total for score in scores) == 880
    assert all(len(finer_questions(task.question)) == 4 for task in tasks)
    bare = load("finer", data_dir=data_dir, options=False)
    for task, short in zip(tasks, bare, strict=True):
        assert finer_questions(short.question) == finer_questions(task.question)
        assert len(short.question) < len(task.question) - 5000


def test_validation_is_cut_from_train_without_a_common_sentence(data_dir: Path) -> None:
    tasks = load("finer", data_dir=data_dir, sizes=(399, 100, None), seed=1)
    assert (len(tasks.train), len(tasks.val), len(tasks.test)) == (399, 100, 220)
    assert "val cut from the train file" in tasks.notes
    train, val, test = (
        {question.sentence for task in part for question in finer_questions(task.question)}
        for part in (tasks.train, tasks.val, tasks.test)
    )
    assert not train & val
    assert not (train | val) & test


def test_the_real_formula_files(data_dir: Path) -> None:
    tasks = load("formula", data_dir=data_dir)
    assert (tasks.kind, len(tasks.train), len(tasks.val), len(tasks.test)) == ("formula", 500, 300, 100)
    assert all("Explanation:" not in task.question and "formula" in task.labels for task in tasks)
    assert all(tasks.scorer(task, task.target or "").passed for task in tasks)
    assert len({task.labels["formula"] for task in tasks.train}) >= 50


def test_the_folder_may_come_from_the_environment(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("COMBEE_DATA", raising=False)
    with pytest.raises(UsageError, match="COMBEE_DATA"):
        load("formula")
    monkeypatch.setenv("COMBEE_DATA", str(data_dir))
    assert len(load("formula").test) == 100
    with pytest.raises(DataError, match="no such folder"):
        load("formula", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"context": "What is it?", "target": "A"}, "not a FiNER row"),
        ({"context": ROW, "target": "A"}, "2 questions and 1 tags"),
        ({"context": ROW, "target": "A,B,C"}, "2 questions and 3 tags"),
    ],
)
def test_a_finer_row_that_does_not_fit_is_named(row: dict[str, str], says: str, tmp_path: Path) -> None:
    (tmp_path / "finer").mkdir()
    good = json.dumps({"context": ROW, "target": "Goodwill,LineOfCredit"})
    (tmp_path / "finer" / "train.jsonl").write_text(f"{good}\n{json.dumps(row)}\n", encoding="utf-8")
    with pytest.raises(DataError, match=says) as caught:
        load("finer", data_dir=tmp_path)
    assert caught.value.line == 2


def test_files_of_that_shape_are_seen_as_such(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"context": ROW, "target": "Goodwill, LineOfCredit,"}), encoding="utf-8")
    tasks = load(path)
    assert tasks.kind == "finer"
    assert tasks.train[0].target == "Goodwill,LineOfCredit"
    assert tasks.choices == ("Goodwill", "InterestExpense", "LineOfCredit")
    assert any("shape of finer" in note for note in tasks.notes)
