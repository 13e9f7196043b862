"""The page of a comparison holds every figure of the rows it was made of."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from combee.bench import Setup, WayResult, compare
from combee.bench.compare import MethodTable, comparison_page, write_comparison
from combee.cli.main import run
from combee.tasks import load
from tests.report.pages import HOSTILE, read_page


@pytest.fixture(scope="module")
def rows() -> list[WayResult]:
    tasks = load("tags", sizes=(40, 0, 30))
    setup = Setup(tasks.train, tasks.test, tasks.scorer, batch=20, forget=20.0)
    return [asyncio.run(compare(setup, way)) for way in ("sequential", "naive", "combee")]


def test_each_table_has_its_bars_lines_and_figures(rows: list[WayResult], tmp_path: Path) -> None:
    tables = [MethodTable("(a) first", ("a note",), rows), MethodTable(HOSTILE, (HOSTILE,), rows)]
    path = write_comparison(tmp_path / "demo.html", HOSTILE, ("about",), tables)
    page = read_page(path.read_text(encoding="utf-8"))
    assert page.tags.count("svg") == 8
    assert HOSTILE in page.text
    for row in rows:
        assert f"{row.accuracy:.3f}" in page.text
        assert f"{row.kept} ({row.kept / row.lessons:.0%})" in page.text
    assert [path.name for path in tmp_path.iterdir()] == ["demo.html"]


def test_a_comparison_of_nothing_is_still_a_page() -> None:
    read_page(comparison_page("none", (), [MethodTable("empty", (), [])]))


def test_the_demo_writes_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "demo.html"
    data = tmp_path / "data.jsonl"
    lines = [f'{{"id": "r{i}", "question": "What is {i} plus 1?", "answer": "{i + 1}"}}' for i in range(12)]
    data.write_text("\n".join(lines), encoding="utf-8")
    assert run(["demo", "--tasks", str(data), "--batch", "4", "--report", str(path), "--json"]) == 0
    page = read_page(path.read_text(encoding="utf-8"))
    assert "(a) Simulated forgetting" in page.text
    assert "sequential" in page.text
