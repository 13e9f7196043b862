"""Reports of an evaluation beside the recorded runs say which of them passed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from combee.redaction import Outcome, Trace
from combee.traces.readers import Report

Read = Callable[[Path], tuple[list[Trace], Report]]
NEW = {"resolved_ids": ["a__b-1"], "unresolved_ids": ["a__b-2"], "submitted_ids": ["a__b-1", "a__b-2"], "total": 2}
OLD = {"resolved": ["a__b-1"], "generated": ["a__b-1", "a__b-2"], "no_logs": []}


def write(root: Path, places: dict[str, object]) -> Path:
    for name, value in places.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
    return root


def run(number: int) -> object:
    steps = [{"action": f"ls {number}", "observation": "a"}]
    return {"trajectory": steps, "history": [], "info": {"exit_status": "submitted"}}


@pytest.mark.parametrize("report", [NEW, OLD], ids=["new", "old"])
@pytest.mark.parametrize("place", ["results/results.json", "trajs/report.json", "gpt-4o.run1.json"])
def test_a_report_judges_the_runs_beside_and_below_it(
    report: object, place: str, tmp_path: Path, read_all: Read
) -> None:
    runs = {f"trajs/a__b-{number}.traj": run(number) for number in (1, 2, 3)}
    traces, told = read_all(write(tmp_path, {place: report, **runs}))
    found = {trace.meta["source"][-6]: trace.outcome or Outcome() for trace in traces}
    assert [found[each].success for each in "123"] == [True, False, True]
    assert [found[each].claimed for each in "123"] == [False, False, True]
    assert told.lost == 0


def test_a_report_of_one_folder_says_nothing_of_another(tmp_path: Path, read_all: Read) -> None:
    runs = {f"{model}/trajs/a__b-2.traj": run(at) for at, model in enumerate(("one", "two"))}
    traces, _ = read_all(write(tmp_path, {"one/results/results.json": NEW, **runs}))
    assert [trace.outcome and trace.outcome.success for trace in traces] == [False, True]


def test_lists_of_other_things_are_no_report(tmp_path: Path, read_all: Read) -> None:
    _, told = read_all(write(tmp_path, {"results.json": {"resolved": ["x"], "open": []}, "a.traj": run(1)}))
    assert told.lost == 1
