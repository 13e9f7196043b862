"""The suite ends where it is started in the background, with Ctrl-C ignored (`nohup`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals that can be ignored")
def test_a_test_that_interrupts_a_program_passes_where_sigint_is_ignored() -> None:
    interrupts = "tests/kernel/runner/test_run_sync.py"
    assert "SIGINT" in (ROOT / interrupts).read_text(encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", interrupts]
    ended = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
