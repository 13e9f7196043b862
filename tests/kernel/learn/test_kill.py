"""A run of the command line that is killed at random moments and resumed ends with the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.timeout(300)  # nine processes one after the other
def test_a_run_killed_at_four_random_moments_ends_with_the_same_playbook() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kill_resume", "4", "150"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 kills, 4 with the same bytes" in done.stdout
