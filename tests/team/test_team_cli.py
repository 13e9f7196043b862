"""The commands for a real team's repository: hooks before, a score after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from combee.errors import UsageError
from combee.redaction import from_jsonl
from combee.run.git import git
from combee.team.command import command

RECORDED = Path(__file__).parent / "data" / "clawteam-0.2.0"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    git(tmp_path, "clone", "-q", "-b", "main", str(RECORDED / "repository.bundle"), str(folder))
    return folder


def test_score_says_what_was_missed_and_writes_the_joined_trace(repository: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    arguments = ["score", str(repository), "--team", "repair", "--data", str(RECORDED / "state"), "--run-tests"]
    done = CliRunner().invoke(command, [*arguments, "--trace", str(out), "--json"], catch_exceptions=False)
    told = json.loads(done.output)
    assert told["tests"] == 1
    assert told["collaboration"] == 0
    assert {edit["kind"] for edit in told["lead_edits"]} == {"commit", "merge"}
    (trace,) = from_jsonl(out.read_text(encoding="utf-8").splitlines())
    assert trace.outcome is not None
    assert trace.outcome.score == pytest.approx(told["total"])


def test_tests_are_not_run_unasked(repository: Path) -> None:
    with pytest.raises(UsageError, match="tests"):
        CliRunner().invoke(command, ["score", str(repository), "--team", "repair"], catch_exceptions=False)


def test_hooks_installs_the_trailer_and_a_shim_that_lacks_its_program_installs_nothing(repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "prepare-commit-msg"
    arguments = ["hooks", str(repository), "--team", "repair"]
    with pytest.raises(UsageError, match="no clawteam"):
        CliRunner(env={"PATH": ""}).invoke(command, [*arguments, "--shim", "bin"], catch_exceptions=False)
    assert not hook.exists()
    done = CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False)
    assert json.loads(done.output) == {"hook": str(hook), "shim": None}
    assert hook.exists()
