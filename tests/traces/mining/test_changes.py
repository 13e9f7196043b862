"""What changed between a failure and a success: the code, a file, or the environment; a look changes nothing."""

from __future__ import annotations

import pytest

from combee.redaction import Step, ToolCall, Trace
from tests.traces.mining.runs import lessons, recorded

TRACED = "Traceback:\n  File \"/app/solve.py\", line 3, in <module>\nModuleNotFoundError: No module named 'numpy'"
WITHOUT = (
    "The Python module `numpy` may be missing (`No module named 'numpy'`): with the code changed to do without it, "
    "`python3 t.py` worked."
)


@pytest.mark.parametrize(
    "edit",
    ["sed -i 1d t.py", "sed -i.bak 1d /app/solve.py", "cat > t.py <<'E'\nimport array\nE", "echo 'x = 1' | tee t.py"],
)
def test_a_module_that_was_not_needed_after_all(edit: str) -> None:
    missing, again = ("python3 t.py", TRACED, 1), ("python3 t.py", "ok", 0)
    assert lessons(recorded(missing, (edit, "", 0), again)) == [("missing", WITHOUT)]
    assert lessons(recorded(missing, again)) == []  # nothing was changed: chance
    assert lessons(recorded(missing, ("pip install scipy", "ok", 0), (edit, "", 0), again)) == []  # that may have it


@pytest.mark.parametrize(
    "between",
    [
        ["sed -n 1,20p t.py"],
        ["cat > notes.py <<'E'\nx\nE"],
        ["sed -i 1d t.py", "source venv/bin/activate"],
        ["sed -i 1d t.py", ". venv/bin/activate"],
        ["sed -i 1d t.py", "export PYTHONPATH=/opt/lib"],
        ["sed -i 1d t.py", "PYTHONPATH=/opt/lib"],
        ["sed -i 1d t.py", "conda activate ml"],
        ["sed -i 1d t.py", "for x in a b; do python3 -m pip install $x; done"],
        ["sed -i 1d t.py", "cd other"],
        ["sed -i 1d t.py", "cat > numpy.py <<'E'\nx\nE"],
        ["sed -i '1i import sys; sys.path.append(1)' t.py"],
        ["cat > t.py <<'E'\nimport numpy\nE"],
    ],
)
def test_code_that_was_not_changed_to_do_without_a_module_is_not_said_to_be(between: list[str]) -> None:
    rows = [("python3 t.py", TRACED, 1), *((command, "", 0) for command in between), ("python3 t.py", "ok", 0)]
    assert "missing" not in {kind for kind, _ in lessons(recorded(*rows))}


def test_a_sed_that_only_reads_mends_nothing_and_hides_nothing() -> None:
    failed, worked = ("tool build", "tool: error: bad 'x'", 1), ("tool build", "ok", 0)
    looked, edit = ("sed -n 1,9p x.cfg", "x", 0), ("sed -i s/x/y/ x.cfg", "", 0)
    assert lessons(recorded(failed, looked, worked)) == []
    ((kind, text),) = lessons(recorded(failed, looked, edit, worked))
    assert kind == "until"
    assert text.endswith("until `sed -i s/x/y/ x.cfg` was run; then it worked.")
    blanks = ("sed -i 's/^  x/    x/' x.cfg", "", 0)  # inline code would show it with other blanks
    assert lessons(recorded(failed, blanks, worked)) == []


@pytest.mark.parametrize("between", ["pip install -e .", "export MODE=test", ". venv/bin/activate"])
def test_a_flip_is_no_lesson_where_the_environment_was_changed_too(between: str) -> None:
    red, green = (
        ("pytest -q", "FAILED tests/test_a.py::test_sum - assert 3 == 4\n1 failed", 1),
        ("pytest", "12 passed", 0),
    )
    edit = ("sed -i 's/a-b/a+b/' src/sums.py", "", 0)
    assert "flip" in {kind for kind, _ in lessons(recorded(red, edit, green))}
    assert "flip" not in {kind for kind, _ in lessons(recorded(red, edit, (between, "", 0), green))}


@pytest.mark.parametrize("between", ["cd other", "MODULE_PATH=/opt/lib"])
def test_a_call_that_worked_in_another_folder_or_environment_was_not_mended(between: str) -> None:
    failed, moved = ("tool -a x y", "tool: error: bad 'x'", 1), (between, "", 0)
    assert lessons(recorded(failed, moved, ("tool -b x y", "ok", 0))) == []
    assert lessons(recorded(failed, moved, ("make x", "ok", 0), ("tool -a x y", "ok", 0))) == []


def test_a_call_is_no_repair_where_a_tool_edited_a_file_between() -> None:
    def steps(*middle: Step) -> Trace:
        run = recorded(("tool -a x y", "tool: error: bad 'x'", 1), ("tool -b x y", "ok", 0))
        *first, last, end = run.steps
        return Trace("t", "x", (*first, *middle, last, end))

    edit = ToolCall("e", "str_replace", '{"path": "/a/x.cfg", "new": "1"}')
    look = ToolCall("e", "read_file", '{"path": "/a/x.cfg"}')
    answer = Step(9, "tool", "done", answers="e", is_error=False)
    assert lessons(steps(Step(8, "assistant", "", (look,)), answer))[0][0] == "repair"
    assert lessons(steps(Step(8, "assistant", "", (edit,)), answer)) == []
