"""Runs side by side: which rows flipped, by how much one is better and how sure that is, and what each took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import combee
from combee.cli.main import run
from combee.report.side_by_side import Side, flipped, paired, pareto_plots, sides_page
from combee.run.rows import ScoredRow
from tests.report.pages import HOSTILE, read_page


def side(name: str, right: str, seconds: float = 1.0) -> Side:
    rows = (ScoredRow(f"t{n}", f"question {n}", "yes", "no", int(one == "+"), 1) for n, one in enumerate(right))
    return Side(name, "eval", tuple(rows), seconds, 10, 1000, 0.5, 3)


def test_a_difference_is_paired_and_few_rows_are_not_sure() -> None:
    found = paired(side("a", "++--"), side("b", "+++-"))
    assert found is not None
    assert (found.rows, found.difference, found.gained, found.lost) == (4, 0.25, 1, 0)
    assert found.low < 0 < found.high
    # Agresti and Min (2005): half an observation in each cell. 40 rows gained, 10 lost, 50 alike.
    many = paired(side("a", "-" * 40 + "+" * 10 + "+" * 50), side("b", "+" * 40 + "-" * 10 + "+" * 50))
    assert many is not None
    assert (many.low, many.high) == pytest.approx((0.16933, 0.41891), abs=0.0001)
    assert paired(side("a", "+"), Side("b", "eval", ())) is None


def test_flipped_rows_begin_with_those_that_the_last_side_lost() -> None:
    groups = flipped([side("a", "+-+-"), side("b", "++--")])
    assert [group[0].task for group in groups] == ["t2", "t1"]


def test_the_best_trades_are_joined_and_the_page_holds_any_text() -> None:
    sides = [side("cheap", "+---", 1), side("poor", "----", 5), side(HOSTILE, "++++", 20)]
    seconds, tokens, cost = pareto_plots(sides)
    assert "most for what it takes" in seconds.standalone()
    page = read_page(sides_page(sides))
    assert HOSTILE in page.text
    assert {tokens.title, cost.title} == {"Score by tokens of models", "Score by US dollars"}


def test_runs_and_evals_are_compared_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [(f"Which account takes the {word} of {n}?", word.upper()) for n in range(20) for word in ("rent", "tax")]
    combee.learn(rows, batch=12, folder="runs/a")
    combee.learn(rows, batch=12, folder="runs/b", settings={"learn": {"token_budget": 30}})
    assert run(["compare", "a", "b", "--out", "page.html"]) == 0
    said = capsys.readouterr().out
    assert "flipped" in said
    read_page(Path("page.html").read_text(encoding="utf-8"))
    run(["gate", "b", "--baseline", "a", "--json"])
    assert json.loads(capsys.readouterr().out)["baselines"].keys() == {"majority", "nearest"}
    run(["gate", "b", "--baseline", "a"])
    assert "without an agent: always the commonest answer" in capsys.readouterr().out
    assert run(["eval", "a", "--json"]) == 0
    Path("a.json").write_text(capsys.readouterr().out)
    assert run(["compare", "a.json", "a.json", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["flipped"] == []
    assert data["sides"][1]["against_first"]["difference"] == 0
    Path("no.json").write_text("[]")
    assert run(["compare", "a", "no.json"]) == 2
    assert run(["compare", "a"]) == 2


def test_runs_that_learned_from_traces_are_compared_by_what_they_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = Path(__file__).parents[2] / "examples" / "coding-traces" / "sessions"
    (tmp_path / "fewer").mkdir()
    first = min(sessions.iterdir())
    (tmp_path / "fewer" / first.name).write_bytes(first.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert run(["learn", "--from", str(sessions), "--name", "all"]) == 0
    assert run(["learn", "--from", "fewer", "--name", "one"]) == 0
    capsys.readouterr()
    assert run(["compare", "all", "one", "--out", "page.html"]) == 0
    said = capsys.readouterr().out
    assert "lessons only in all:" in said
    assert "flipped" not in said
    assert "Only in all" in read_page(Path("page.html").read_text(encoding="utf-8")).text
    assert run(["compare", "all", "one", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["sides"][1]["lessons"]
    assert len(found["only_first"]) >= 1
    assert run(["promote", "all", "stable"]) == 2
    assert "promote all VERSION --to stable" in capsys.readouterr().err
