"""Every answer can be seen, whichever way it is read, and what a score has to beat is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import combee
from combee.cli.main import run
from combee.kernel.learn import Task
from combee.kernel.playbook import Bullet, Playbook
from combee.run.baselines import baselines, contradictions
from combee.run.rows import read_rows, row_lines, rows_from_json, rows_to_json
from combee.tasks import Exact

ROWS = [(f"Which account takes the {word} of case {n}?", word.upper()) for n in range(20) for word in ("rent", "tax")]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_python_and_the_journal_show_the_same_rows_failures_first() -> None:
    result = combee.learn([*ROWS, ("Which account takes the fee of case 1?", "FEE")], batch=12)
    kept = read_rows(result.folder)
    assert (kept.validation, kept.training) == (result.rows, result.training)
    assert sum(row.hits for row in result.rows) / len(result.rows) == result.score
    order = [row.passed for row in (*result.training,)]
    assert order == sorted(order)
    assert {row.expected for row in result.training} <= {"RENT", "TAX", "FEE"}
    used = {name for row in result.rows for name in row.used}
    assert used <= {bullet.id for bullet in result.playbook}
    assert rows_from_json(json.loads(json.dumps(rows_to_json(result.training)))) == result.training


def test_a_view_says_which_bullets_were_there() -> None:
    result = combee.learn(ROWS, batch=12, settings={"learn": {"view_tokens": 40}})
    scores = combee.evaluate(result, [("Which account takes the rent of case 99?", "RENT")])
    (row,) = scores.rows
    assert row.view is not None
    assert len(row.view) < len(result.playbook)
    assert set(row.used) <= set(row.view)
    assert all(row.view is not None for row in result.rows)


def test_rows_whose_tasks_have_changed_are_not_shown_beside_other_questions(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.jsonl").write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in ROWS))
    assert run(["learn", "rows.jsonl", "--name", "one", "--quiet"]) == 0
    Path("rows.jsonl").write_text(json.dumps({"question": "Another?", "answer": "yes"}) + "\n")
    found = read_rows(Path("runs/one"))
    assert not found.validation
    assert found.missing is not None
    assert run(["report", "one"]) == 0
    capsys.readouterr()


def test_eval_shows_failures_and_json_has_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    held = "".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in [*ROWS[:4], ("What of the fee?", "FEE")])
    Path("held.jsonl").write_text(held)
    combee.learn(ROWS[4:], batch=12, folder="runs/one")
    assert run(["eval", "one", "held.jsonl", "--rows", "3"]) == 0
    said = capsys.readouterr().out
    assert "wrong  held-5: What of the fee?" in said
    assert "right: FEE" in said
    assert "without an agent: always the commonest answer 0.400" in said
    assert run(["eval", "one", "held.jsonl", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["right"] for row in data["rows"]] == [False, True, True, True, True]
    assert data["rows"][0]["expected"] == "FEE"
    assert len(data["rows_without_playbook"]) == 5
    assert run(["eval", "one", "held.jsonl", "--find", "the RENT of case 0"]) == 0
    assert "right  held-1" in capsys.readouterr().out


def test_what_is_left_out_is_counted() -> None:
    rows = combee.evaluate(combee.learn(ROWS, batch=12), [(f"What is {n}?", str(n)) for n in range(9)]).rows
    assert row_lines(rows, 2, more="see there")[-1] == "... 7 more rows not right: see there"
    assert row_lines(rows, 2, more="see there", find="nowhere") == ["no row holds 'nowhere'"]


def test_majority_and_nearest_are_what_they_say() -> None:
    train = [Task(f"t{n}", f"alpha {n}", "A") for n in range(3)] + [Task(f"u{n}", f"beta {n}", "B") for n in range(2)]
    asked = [Task("x", "what of beta", "B"), Task("y", "what of alpha", "A"), Task("z", "beta again", "B")]
    assert baselines(train, asked, Exact()) == {"majority": 1 / 3, "nearest": 1.0}
    assert baselines([], asked, Exact()) == {}
    texts = [Task(f"t{n}", f"alpha {n}", f"a text of its own {n}") for n in range(5)]
    assert baselines(texts, asked, Exact()) == {}


def test_lessons_that_contradict_each_other_name_both_sources() -> None:
    def says(name: str, phrase: str, label: str, source: str) -> Bullet:
        return Bullet(name, "x", f'When a text says "{phrase}", the label is {label}.', sources=(source,))

    book = Playbook(
        (
            says("a-00001", "the invoice was paid twice by mistake", "REFUND", "row-1~0"),
            says("a-00002", "The invoice was paid twice by mistake.", "IGNORE", "row-7~0"),
            says("a-00003", "refund asked 3 days after delivery", "REFUND", "row-8~0"),
            says("a-00004", "refund asked 40 days after delivery", "IGNORE", "row-9~0"),
        )
    )
    (found,) = contradictions(book)
    assert str(found) == "[a-00001] REFUND (row-1) against [a-00002] IGNORE (row-7)"


def test_numbers_are_told_before_learning(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.dumps({"question": f"What is {n} times 7?", "answer": str(7 * n)}) for n in range(30)]
    Path("sums.jsonl").write_text("\n".join(lines))
    assert run(["learn", "sums.jsonl", "--name", "sums"]) == 0
    assert "only gives labels" in capsys.readouterr().err
