"""Commands of quality: plan, calibrate, versions, promote, rollback, why, forget, gate; and their bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.kernel.guard import Policy, why_refused
from combee.kernel.playbook import distinct_terms
from combee.run.calibrate import CALIBRATIONS, known_calibrations, planted
from combee.tasks import load

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run `one` in a folder of its own; tests must not depend on each other's labels."""
    where = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        arguments = ["learn", "tags", "--train", "80", "--val", "40", "--test", "20", "--name", "one", "--batch", "20"]
        assert run([*arguments, "--quiet"]) == 0
    return where


@pytest.fixture
def call(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, Any, str]]:
    """Run a command with `--json` in the project; return exit code, output and what stands on standard error."""
    monkeypatch.chdir(folder)

    def made(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        found = run([*arguments, "--json"])
        out, err = capsys.readouterr()
        assert found == code, out + err
        return json.loads(out)

    return made


def said(call: Call, *arguments: str, code: int = 2) -> str:
    return str(call(*arguments, code=code)["error"]["message"])


def test_plan_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "10000", "--max-items", "64", "--m0", "40"]) == 0
    out = capsys.readouterr().out
    assert "157 leaf calls" in out
    assert "merged by code" in out
    assert "kept" in out
    assert run(["plan", "40", "--preset", "paper"]) == 0
    assert "6 leaf calls" in capsys.readouterr().out
    assert run(["plan", "100", "--alpha", "1"]) == 2
    assert run(["plan", "0"]) == 2
    assert run(["plan", "8", "--copies", "9", "--preset", "paper"]) == 0
    assert "each read once" in capsys.readouterr().out


def test_versions_promote_and_rollback(call: Call) -> None:
    rows = call("versions", "one")
    assert len(rows) == 5
    assert rows[0]["parent"] is None
    assert "last" in rows[-1]["labels"]
    first, second = rows[1]["version"], rows[2]["version"]
    assert call("promote", "one", first[:8])["version"] == first
    assert call("promote", "one", second[:8], "--note", "better")["before"] == first
    assert call("rollback", "one")["version"] == first
    assert "stable" in call("versions", "one")[1]["labels"]
    assert call("promote", "one", "stable", "--to", "canary")["version"] == first


def test_labels_that_do_not_exist_name_the_nearest(call: Call) -> None:
    call("promote", "one", "last")
    assert "Did you mean 'last'?" in said(call, "promote", "one", "lats")
    assert "Did you mean 'stable'?" in said(call, "rollback", "one", "stabel")
    assert "Did you mean 'stable'?" in said(call, "gate", "one", "--baseline", "stabel")
    assert "Did you mean 'one'?" in said(call, "versions", "onee")
    assert "moved by the run" in said(call, "promote", "one", "last", "--to", "best")
    assert "moved by the run" in said(call, "rollback", "one", "last")
    assert "cannot be a label" in said(call, "promote", "one", "last", "--to", "no label")


def test_why_tells_where_a_bullet_is_from(call: Call, folder: Path) -> None:
    book = call("show", "one", "--version", "last")
    bullet = max(book["bullets"], key=lambda each: each["helpful"] + each["harmful"])
    found = call("why", "one", bullet["id"])
    assert found["bullet"]["text"] == bullet["text"]
    kinds = [touch["what"] for touch in found["touches"]]
    assert kinds[0] == "added"
    assert kinds.count("vote") == bullet["helpful"] + bullet["harmful"]
    assert [origin["reflection"] for origin in found["origins"]] == bullet["sources"]
    assert all(origin["nodes"] and origin["nodes"][0].split(": ")[1].startswith("r") for origin in found["origins"])
    assert any(bullet["text"] in origin["lessons"] for origin in found["origins"])
    assert "no bullet" in said(call, "why", "one", "ctx-99999")


def test_forget_makes_the_book_without_a_trace_and_flags_mixed_texts(call: Call, tmp_path: Path) -> None:
    book = call("show", "one", "--version", "last")
    shared = next((b for b in book["bullets"] if len(b["sources"]) > 1), None)
    alone = next(b for b in book["bullets"] if len(b["sources"]) == 1)
    trace = alone["sources"][0].split("~")[0]
    found = call("forget", "one", "--trace", trace, "--out", str(tmp_path / "book.json"))
    left = call("show", "one@forgot")
    assert alone["id"] in found["removed"]
    assert not any(trace in source for b in left["bullets"] for source in b["sources"])
    assert not any(trace in source for source in (tmp_path / "book.json").read_text())
    kept = {b["id"]: b["text"] for b in left["bullets"]}
    assert all(kept.get(b["id"]) == b["text"] for b in book["bullets"] if b["id"] not in found["removed"])
    if shared is not None:
        mixed = call("forget", "one", "--trace", shared["sources"][0])["mixed"]
        assert shared["id"] in mixed
    assert call("versions", "one")[-1]["verdict"] == "forgot traces"
    assert "knows no trace" in said(call, "forget", "one", "--trace", "nobody")


def test_a_gate_passes_an_equal_book_and_fails_a_worse_one(call: Call, folder: Path) -> None:
    assert call("gate", "one", "--baseline", "last")["passed"]
    first = call("versions", "one")[1]["version"][:10]
    call("promote", "one", "last", "--to", "candidate")
    worse = call("gate", "one", "--version", first, "--baseline", "candidate", "--max-drop", "0.01", code=1)
    assert not worse["passed"]
    assert any("fell from" in reason for reason in worse["reasons"])
    call("show", "one")
    assert call("gate", "one", "--baseline", "runs/one/playbook.json")["passed"]
    assert call("gate", "one", "--baseline", "one@last", "--split", "test")["passed"]


def test_calibration_finds_the_planted_loss_and_learn_takes_it_up(
    call: Call, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = call("calibrate", "--forget", "40")
    assert abs(found["result"]["m0"] - 40) < 4
    assert (folder / found["plot"]).read_text(encoding="utf-8").startswith("<?xml")
    assert known_calibrations(folder)["lexical forget=40"]["max_items"] == found["result"]["max_items"]
    arguments = ["learn", "tags", "--train", "30", "--val", "0", "--test", "5", "--forget", "40"]
    assert run([*arguments, "--name", "calibrated"]) == 0
    told = capsys.readouterr().err
    assert f"max_items = {found['result']['max_items']}, measured" in told
    assert f"{CALIBRATIONS}; delete the file to undo" in told
    assert run([*arguments, "--name", "given", "--max-items", "5"]) == 0
    assert CALIBRATIONS not in capsys.readouterr().err


def test_a_calibration_replaces_that_of_its_own_setting_alone_and_says_so(
    call: Call, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--sizes", "1 2 8", "--repeats", "2")
    forgetting = call("calibrate", "--forget", "20", *few)
    assert forgetting["replaced"] is None
    capsys.readouterr()
    assert run(["calibrate", *few]) == 0  # nothing is forgotten here, and nothing is replaced
    out = capsys.readouterr().out
    assert "inf" not in out
    assert "Fit: no size was tried at which a call loses more" in out
    assert "in place of" not in out
    assert "inf" not in Path("combee-calibration-lexical.svg").read_text(encoding="utf-8")
    assert known_calibrations(folder)["lexical forget=20"] == forgetting["result"]
    assert run(["calibrate", "--forget", "20", "--sizes", "1", "--repeats", "2"]) == 0
    before = forgetting["result"]["max_items"]
    assert before != 1
    said_so = f"in place of an earlier result for lexical forget=20: max_items = {before}, now max_items = 1"
    assert said_so in capsys.readouterr().out
    assert call("calibrate", "--forget", "20", *few)["replaced"]["max_items"] == 1


def test_a_calibration_that_kept_nothing_recommends_nothing_and_changes_no_run(
    call: Call, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = call("calibrate", "--forget", "0.01", "--sizes", "2 4", "--repeats", "2")
    assert {"max_items", "m0", "delta"}.isdisjoint(found["result"])
    assert {"max_items", "m0", "delta"}.isdisjoint(known_calibrations(folder)["lexical forget=0.01"])
    drawn = (folder / found["plot"]).read_text(encoding="utf-8")
    assert "exp(" not in drawn
    assert "max_items" not in drawn
    arguments = ["learn", "tags", "--train", "30", "--val", "0", "--test", "5", "--forget", "0.01"]
    assert run([*arguments, "--name", "uncalibrated"]) == 0
    assert "kept nothing: max_items is the default" in capsys.readouterr().err


def test_a_calibration_that_costs_money_says_its_price_first_and_buys_nothing_unasked(
    call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["calibrate", "--model", "deepseek-chat", "--base-url", "http://127.0.0.1:9/v1"]) == 2
    told = capsys.readouterr().err
    assert "80 calls" in told
    assert "--yes" in told
    assert "Give one of them" in said(call, "calibrate", "--model", "x", "--forget", "3")
    assert "no sizes" in said(call, "calibrate", "--forget", "40", "--sizes", "one two")
    assert "sizes to try" in said(call, "calibrate", "--forget", "40", "--sizes", "0")
    assert "at most" in said(call, "calibrate", "--forget", "40", "--sizes", "1000000000")


def test_a_damaged_calibration_is_named(call: Call, folder: Path) -> None:
    before = (folder / CALIBRATIONS).read_text(encoding="utf-8") if (folder / CALIBRATIONS).exists() else None
    try:
        (folder / CALIBRATIONS).write_text("[1", encoding="utf-8")
        assert "calibrate again" in said(call, "learn", "tags", "--train", "30", "--name", "broken")
    finally:
        (folder / CALIBRATIONS).unlink()
        if before is not None:
            (folder / CALIBRATIONS).write_text(before, encoding="utf-8")


def test_planted_facts_differ() -> None:
    facts = [planted(number) for number in range(2000)]
    terms = [distinct_terms(fact.lessons[0]) for fact in facts]
    assert len({fact.id for fact in facts}) == len(set(terms)) == len(facts)
    assert all(len(found) >= 2 for found in terms)


def test_labels_of_rows_reach_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    lines = [f"What is {n}?,{n},{'acme' if n % 2 else 'other'},internal" for n in range(10)]
    path.write_text("\n".join(["question,answer,tenant,clearance", *lines]), encoding="utf-8")
    tasks = load(path)
    assert {task.labels["tenant"] for task in tasks} == {"acme", "other"}
    policy = Policy(tenants=frozenset({"acme"}), clearance="internal")
    assert sum(not why_refused(task.labels, policy) for task in tasks) == 5


@pytest.mark.parametrize(
    ("guard", "problem"),
    [
        ('alert_command = ""', "alert_command"),
        ("alert_command = 3", "alert_command"),
        ("alert_comand = 'x'", "alert_command"),
    ],
)
def test_an_alert_command_that_cannot_run_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], guard: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("combee.toml").write_text(f"[guard]\n{guard}\n", encoding="utf-8")
    assert run(["learn", "tags", "--train", "30", "--quiet"]) == 2
    assert problem in capsys.readouterr().err
    assert not Path("runs").exists()
