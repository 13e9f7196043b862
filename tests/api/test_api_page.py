"""docs/api.md says what the docstrings say, and their examples run as they stand there."""

from __future__ import annotations

import doctest
import runpy
from pathlib import Path

import pytest

import combee

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "make_api.py"))
    assert (DOCS / "api.md").read_text(encoding="utf-8") == made["page"](), "run: python docs/make_api.py"


@pytest.mark.parametrize("name", [name for name in combee.__all__ if not name.startswith("__") and name != "redaction"])
def test_the_example_of_a_name_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = getattr(combee, name)
    tests = [test for test in doctest.DocTestFinder(recurse=False).find(found, name, globs={}) if test.examples]
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0
    assert tests or inspect_free(name)


def inspect_free(name: str) -> bool:
    """Whether a name is plain data or an error, which `learn` and `evaluate` show at work."""
    return name in {
        "BudgetError", "Bullet", "CallError", "CombeeError", "Playbook", "Result", "RunError", "Score", "Scores",
        "Task", "UsageError",
    }  # fmt: skip
