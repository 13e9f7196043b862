"""What a run only shows is no failure of it: pages that speak of errors, texts of any length."""

from __future__ import annotations

import subprocess
import sys

import pytest

from combee.traces.mining import survey
from tests.traces.mining.runs import recorded

HELP = [f"Step {number}: look at the table." for number in range(60)]
TEXTS = {
    "disk": "If the log says 'No space left on device', enlarge the volume.",
    "disk line": "cp: error writing 'x': No space left on device",
    "exception": "ValueError: invalid literal for int() with base 10: 'x'",
    "pip": "ERROR: Could not find a version that satisfies the requirement x",
    "module": "If you meet No module named 'numpy', install it.",
    "command": "bash: curl: command not found",
}


@pytest.mark.parametrize("line", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("command", ["python3 show_docs.py", "tool help curl"])
def test_what_stands_in_the_middle_of_a_long_page_is_no_failure(line: str, command: str) -> None:
    page = "\n".join([*HELP, line, *HELP])
    assert survey([recorded((command, page, None), name=name) for name in "abc"]).support() == {}


@pytest.mark.parametrize("code", [None, 1])
@pytest.mark.parametrize("line", TEXTS.values(), ids=TEXTS)
def test_a_call_that_only_shows_a_page_has_no_failure_in_it(line: str, code: int | None) -> None:
    rows = [(command, f"Help\n{line}\nEnd", code) for command in ("cat help.md && grep -n curl a", "sed -n 1,9p a.md")]
    assert survey([recorded(*rows, name=name) for name in "abc"]).support() == {}


@pytest.mark.parametrize(
    ("line", "met"),
    [
        ("cp: error writing 'x': No space left on device", True),
        ("/bin/sh: 1: cannot create a.txt: No space left on device", True),
        ("OSError: [Errno 28] No space left on device: '/a/b'", True),
        ("✗ Error caching model: [Errno 28] No space left on device", True),
        ("error: could not write: No space left on device (os error 28)", True),
        ("java.io.IOException: No space left on device", True),
        ("E: Write error - write (28: No space left on device)", True),
        ("The words No space left on device mean a full disk.", False),
        ("Note: 'No space left on device' may be inodes", False),
        ("No space left on device: what to do", False),
    ],
)
def test_a_full_disk_is_met_where_an_error_line_says_so(line: str, met: bool) -> None:
    found = survey([recorded(("python3 make.py", line, 1), name=name) for name in "abc"]).support()
    assert any("`No space left on device` was met in run after run" in text for text in found) is met


def test_a_manual_that_speaks_of_exit_codes_does_not_say_how_the_call_ended() -> None:
    manual = "tool converts.\n  exit status 1 if one file is missing\n  Unable to locate credentials. Set a key."
    assert survey([recorded(("tool manual", f"{manual}\n" * 20, None), name=name) for name in "abc"]).support() == {}


def test_the_end_of_a_here_document_is_no_program_that_was_missing() -> None:
    row = ("cat <<'EOF' > a.sh\n./x <<'EOF'\nhi\nEOF\nEOF", "sh: 5: EOF: not found", 2)
    assert survey([recorded(row, name=name) for name in "abc"]).support() == {}


def test_a_page_that_speaks_of_time_limits_is_no_command_that_hung() -> None:
    page = "\n".join(
        [*HELP, "Command timed out after 30 s", "The last command <command>x</command> timed out and has been killed."]
    )
    runs = [
        recorded(("tool help", f"{page}\n" + "\n".join(HELP), 1), ("echo n | tool help", "ok", 0), name=name)
        for name in "abc"
    ]
    assert survey(runs).support() == {}


LONG = """
import json
from combee.traces.mining import findings
from combee.redaction import Step, ToolCall, Trace

many = 400_000

def look(output, command, tool="bash"):
    steps = Step(0, "assistant", "", (ToolCall("c", tool, command),)), Step(1, "tool", output, answers="c")
    findings(Trace("t", "x", steps))

look("a" + chr(10) * many + "b", "x")
look("ok", json.dumps({"raw_action": "edit 1:2" + chr(10) * many + "x"}), "swe_agent_action")
look("ok", "cat <<" + "E" * 9_000 + chr(10) * 9_000)
"""


def test_no_pattern_takes_the_square_of_the_length_of_a_text() -> None:
    # what takes seconds took hours: the limit is far from both
    subprocess.run([sys.executable, "-c", LONG], check=True, timeout=120)
