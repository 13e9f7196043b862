"""The user's command gets the alert, and cannot stop, hang or inject into the run. Real processes."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from combee.run.notify import notify


def script(body: str) -> list[str]:
    return [sys.executable, "-c", body]


def test_the_command_reads_the_alert_as_json(tmp_path: Path) -> None:
    out = tmp_path / "alert.json"
    command = script("import sys, pathlib; pathlib.Path(sys.argv[1]).write_bytes(sys.stdin.buffer.read())")
    payload = {"verdict": "reject", "reasons": ["Σ fell", "lone \ud800"], "path": tmp_path}
    assert notify([*command, str(out)], payload).ok
    assert json.loads(out.read_bytes()) == {**payload, "path": str(tmp_path)}


def test_a_text_is_split_into_words_but_runs_in_no_shell(tmp_path: Path) -> None:
    target = tmp_path / "made"
    result = notify(f"echo hello; touch {target}", {})
    assert result.ok
    assert not target.exists()
    assert notify(f"echo hello; touch {target}", {}, shell=True).ok  # noqa: S604  # the shell that was asked for is what is tested
    assert target.exists()


def test_what_the_command_says_on_its_error_output_is_kept() -> None:
    result = notify(script("import sys; print('no such room', file=sys.stderr); sys.exit(3)"), {})
    assert (result.ok, result.code, result.detail) == (False, 3, "no such room")


def test_a_hanging_command_is_killed_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    body = (
        "import subprocess, sys, time, pathlib; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid)); time.sleep(60)"
    )
    began = time.monotonic()
    result = notify(script(body), {"big": "x" * 200_000}, timeout=2)
    assert result.code is None
    assert "killed after 2 s" in result.detail
    assert time.monotonic() - began < 30
    child = int(pid_file.read_text())
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return  # dead; nobody has collected it yet
        time.sleep(0.05)
    pytest.fail("the command's child is still alive")


@pytest.mark.parametrize(
    "command",
    ["", [], "no-such-command-anywhere", ["/"], 'echo "unbalanced', ["echo", "\0"], "   "],
    ids=["empty", "empty list", "missing", "a folder", "unbalanced", "null byte", "blank"],
)
def test_a_command_that_cannot_run_never_raises(command: str | list[str]) -> None:
    result = notify(command, {})
    assert not result.ok
    assert result.code is None
    assert result.detail
