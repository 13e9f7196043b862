"""The work itself is no lesson: a run's own scripts, edits of its code, tests that are being written, and judges."""

from __future__ import annotations

import pytest

from combee.redaction import Step, ToolCall, Trace
from tests.traces.mining.runs import Row, lessons, recorded

FAILED = (
    "collected 2 items\n\n"
    "E       FileNotFoundError: [Errno 2] No such file or directory: '/root/.tool'\n"
    "=========================== short test summary info ============================\n"
    "FAILED tests/test_lint.py::test_home - FileNotFoundError: [Errno 2] No such file\n"
    "========================= 1 failed, 50 passed in 2.20s ========================="
)
PASSED = "========================= 51 passed in 2.20s ========================="


def said(*rows: Row) -> list[str]:
    return [text for _, text in lessons(recorded(*rows))]


@pytest.mark.parametrize(
    "mends",
    [
        "sed -i 's/colour/color/' src/paint/mix.py",
        "sed -i '12d' repro.py",
        "git checkout src/paint/mix.py",
        "git stash",
        "rm repro.sqlite3",
    ],
)
def test_an_edit_of_the_code_or_its_undoing_is_no_lesson(mends: str) -> None:
    rows = [
        ("cat > repro.py <<'EOF'\nimport paint\nEOF", "", 0),
        ("python repro.py", "NameError: name 'colour' is not defined", 1),
        (mends, "", 0),
        ("python repro.py", "ok", 0),
    ]
    assert said(*rows) == []


def test_an_edit_of_what_another_one_wrote_is_one() -> None:
    error = "ValueError: Unable to avoid copy while creating an array as requested."
    edit = "sed -i 's/copy=False/copy=None/' /usr/lib/python3/site-packages/fasttext/FastText.py"
    (text,) = said(("python use.py", error, 1), (edit, "", 0), ("python use.py", "ok", 0))
    assert "until `sed -i" in text


def test_a_folder_that_tests_need_is_a_lesson_with_the_error_not_the_summary() -> None:
    (text,) = said(
        ("pytest tests/test_lint.py", FAILED, 1), ("mkdir -p ~/.tool", "", 0), ("pytest tests/test_lint.py", PASSED, 0)
    )
    assert "FileNotFoundError: [Errno 2] No such file or directory" in text
    assert "===" not in text


@pytest.mark.parametrize("judge", ["pytest tests/test_{}.py", "python -m pylint src/{}.py", "npx eslint src/{}.js"])
def test_that_other_files_pass_a_judge_mends_nothing_and_failing_often_is_no_dead_end(judge: str) -> None:
    bad = "src/a: error: 3 problems, unused name 'x'\nAssertionError: 1 != 2"
    rows: list[Row] = [(judge.format(name), bad, 1) for name in "aaa"]
    assert said(*rows, (judge.format("b"), "all well", 0)) == []


def test_a_line_that_wrote_a_file_before_the_call_is_no_repair_of_it() -> None:
    error = "This project needs the extension at least in version 0.11"
    (first, second) = (f"cat > conf.py <<'EOF'\nneeds = '0.1{n}'\nEOF\nbuild -b html . _out{n}" for n in (1, 0))
    assert said((first, error, 2), (second, "build succeeded.", 0)) == []


def test_a_module_of_the_run_itself_is_not_one_to_do_without() -> None:
    rows = [
        ("cat > demo.py <<'EOF'\nsettings.configure(INSTALLED_APPS=['shop'])\nEOF", "", 0),
        ("python demo.py", "ModuleNotFoundError: No module named 'shop'", 1),
        ("cat > demo.py <<'EOF'\nsettings.configure(INSTALLED_APPS=['__main__'])\nEOF", "", 0),
        ("python demo.py", "ok", 0),
    ]
    assert said(*rows) == []


def test_a_test_that_is_being_written_or_gives_no_reason_is_no_flip() -> None:
    def flips(test: str, why: str, change: str, first: str = "ls") -> list[str]:
        failed = f"FAILED {test}{why}\n1 failed"
        return said((first, "", 0), ("pytest -q", failed, 1), (change, "", 0), ("pytest -q", "1 passed", 0))

    mend = "cat > src/add.py <<'EOF'\nx\nEOF"
    reason = " - assert 3 == 4"
    assert len(flips("tests/test_add.py::test_two", reason, mend)) == 1
    assert flips("tests/test_add.py::test_two", "", mend) == []
    assert flips("tests/test_add.py::test_two", " - Asserti...", mend) == []
    assert flips("tests/test_add.py::test_two", reason, "cat > tests/test_add.py <<'EOF'\nx\nEOF") == []
    wrote = "cat > tests/test_add.py <<'EOF'\nx\nEOF"
    assert flips("tests/test_add.py::test_two", reason, mend, first=wrote) == []


def test_code_in_the_call_that_was_changed_is_no_quoting() -> None:
    first, second = (f"python3 -c \"import re; print(re.compile(r'^a{slash}g'))\"" for slash in ("\\\\", "\\\\\\\\"))
    assert said((first, "re.error: bad escape \\g at position 4", 1), (second, "ok", 0)) == []


def test_another_program_that_was_given_the_very_same_stands_in() -> None:
    file = "lib/core/tests/test_sum.py"
    (text,) = said(
        (f"pytest {file}", "bash: pytest: command not found", 127), ("ls bin", "test", 0), (f"bin/test {file}", "ok", 0)
    )
    assert "`bin/test` stood in for it" in text
    (text,) = said((f"python -m pytest {file}", "No module named pytest", 1), (f"./bin/test {file}", "ok", 0))
    assert "`bin/test` stood in for it" in text
    assert said((f"pytest {file}", "bash: pytest: command not found", 127), (f"cat {file}", "def test", 0)) == []


def test_what_is_not_available_is_no_error_in_a_header_of_versions() -> None:
    header = "Numpy: 1.25.2\nScipy: not available\nMatplotlib: not available\n"
    (text,) = said(("pytest a", header + FAILED, 1), ("mkdir -p ~/.tool", "", 0), ("pytest a", header + PASSED, 0))
    assert "Scipy" not in text


def test_what_fails_because_the_run_itself_changed_it_is_no_lesson() -> None:
    """The packages' sources were changed before, by a call that failed in its second part."""
    lost = "E: The repository 'old Release' does not have a Release file."
    none = "E: Package 'nano' has no installation candidate"
    change = ("sed -i 's/archive/old-releases/' /etc/apt/sources.list\napt-get update", lost, 100)
    rest = [
        ("apt-get update", lost, 100),
        ("apt-get install nano", none, 100),
        ("apt-get install -y nano", none, 100),
        ("sed -i '/old-releases/d' /etc/apt/sources.list", "", 0),
        ("apt-get update", "Hit:1", 0),
    ]
    assert len(lessons(recorded(*rest))) == 2
    assert lessons(recorded(change, *rest)) == []


def test_a_program_that_the_run_had_put_elsewhere_is_no_dead_end() -> None:
    gone = "/bin/bash: line 9: /repo/jdk/bin/javac: No such file or directory"
    rows = [(f"javac -cp {name}.jar A.java", gone, 127) for name in "abc"]
    assert lessons(recorded(*rows)) == []


def test_code_and_places_in_it_are_no_repair_of_a_tool() -> None:
    def run(first: str, second: str, error: str) -> Trace:
        made = [ToolCall("c0", "edit", first), ToolCall("c1", "edit", second)]
        steps = [Step(0, "assistant", "", (made[0],)), Step(1, "tool", error, answers="c0", is_error=True)]
        steps += [Step(2, "assistant", "", (made[1],)), Step(3, "tool", "done", answers="c1", is_error=False)]
        return Trace("t", "x", tuple(steps))

    lint = "- E999 SyntaxError: invalid syntax"
    assert lessons(run('{"text": "a b", "line": 5}', '{"text": "a.b", "line": 5}', lint)) == []
    late = "Error: view is out of bounds"
    assert lessons(run('{"path": "a", "end": 26}', '{"path": "a", "end": 34}', late)) == []
    limit = "Error: limit must be at most 100"
    ((_, text),) = lessons(run('{"path": "a", "limit": 500}', '{"path": "a", "limit": 100}', limit))
    assert "it worked when `limit` was `100` instead of `500`" in text
