"""State and git history of a real ClawTeam 0.2.0 run, recorded by its own command line, joined and scored."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.team_lab.testing import check_plain_commit
from combee.errors import RunError, UsageError
from combee.run.git import git
from combee.team.history import LeadEdit, TeamHistory, is_production, read_history
from combee.team.hooks import install_shim, install_trailer, record_transitions
from combee.team.joined import team_trace
from combee.team.score import WEIGHTS, score_run
from combee.team.state import TRANSITIONS, TeamState, read_state
from combee.team.testing import check_commit, check_folder

RECORDED = Path(__file__).parent / "data" / "clawteam-0.2.0"
LEAD = "tech-lead"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The recorded repository, with the edit that the lead never committed."""
    folder = tmp_path / "repository"
    git(tmp_path, "clone", "-q", "-b", "main", str(RECORDED / "repository.bundle"), str(folder))
    git(folder, "branch", "-q", "clawteam/repair/qa-dev", "origin/clawteam/repair/qa-dev")
    with (folder / "pipeline" / "a.py").open("a", encoding="utf-8") as file:
        file.write("Z = 2\n")
    return folder


@pytest.fixture
def history(repository: Path) -> TeamHistory:
    return read_history(repository, "repair", LEAD)


@pytest.fixture
def state() -> TeamState:
    return read_state(RECORDED / "state", "repair")


def test_the_three_ways_a_lead_edits_are_all_found(history: TeamHistory) -> None:
    found = history.lead_edits(LEAD)
    assert [(edit.kind, edit.path) for edit in found] == [
        ("commit", "pipeline/b.py"),
        ("merge", "pipeline/b.py"),
        ("uncommitted", "pipeline/a.py"),
    ]
    assert found[2] == LeadEdit("uncommitted", "pipeline/a.py", "working tree")


def test_merges_are_read_though_their_branches_are_deleted(history: TeamHistory) -> None:
    assert [commit.merged for commit in history.commits if commit.merged] == ["python-dev", "qa-dev", "extra-dev"]


def test_work_that_a_merge_checkpoints_stays_its_agents_work(history: TeamHistory) -> None:
    (checkpoint,) = (commit for commit in history.commits if "pre-merge checkpoint" in commit.subject)
    assert (checkpoint.agent, checkpoint.signed) == ("qa-dev", True)


def test_every_transition_is_kept_with_who_made_it(state: TeamState) -> None:
    task = next(task for task in state.tasks if task.owner == "python-dev")
    moves = [(move.before, move.after, move.by) for move in state.transitions if move.task == task.id]
    assert moves == [
        ("", "pending", "tech-lead"),
        ("pending", "in_progress", "python-dev"),
        ("in_progress", "completed", "python-dev"),
    ]


def test_a_lead_that_edits_gets_no_collaboration_however_well_the_tests_do(
    repository: Path, history: TeamHistory, state: TeamState
) -> None:
    tests = {name: not error for name, error in check_commit(repository, "main").items()}
    assert tests == {"tests/test_a.py::test_f": True, "tests/test_a.py::test_zero": True}
    score = score_run(state, history, tests)
    assert score.tests == 1
    assert score.collaboration == 0
    assert score.total <= 1 - WEIGHTS["collaboration"] + 1e-9
    assert any("changed pipeline/b.py itself (merge)" in reason for reason in score.reasons)


def test_a_test_file_that_cannot_be_imported_has_failed_and_the_quick_runner_agrees(repository: Path) -> None:
    (repository / "tests" / "test_gone.py").write_text("import nowhere\n", encoding="utf-8")
    commit(repository, "A test of nothing")
    found = [check(repository, "main") for check in (check_commit, check_plain_commit)]
    assert {name: not error for name, error in found[0].items()} == {
        name: not error for name, error in found[1].items()
    }
    assert [name for name, error in found[0].items() if error] == ["tests/test_gone.py"]


def test_a_commit_without_tests_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("X = 1\n", encoding="utf-8")
    assert check_folder(tmp_path) == {}


def test_all_files_of_a_commit_are_tested(repository: Path) -> None:
    """Also those that are not to be exported, and beside a link that leads elsewhere."""
    before = check_commit(repository, "main")
    (repository / ".gitattributes").write_text("/tests export-ignore\n", encoding="utf-8")
    (repository / "elsewhere").symlink_to("/no such place")
    index = (repository / ".git" / "index").read_bytes()
    assert check_commit(repository, "main") == before
    assert (repository / ".git" / "index").read_bytes() == index  # what is staged stays as it is
    commit(repository, "Export less")
    assert check_commit(repository, "main") == before
    assert before


def commit(repository: Path, subject: str) -> None:
    git(repository, "add", "-A")
    git(repository, "-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "-q", "-m", subject)


def test_a_pytest_that_cannot_run_is_said(tmp_path: Path) -> None:
    (tmp_path / "pytest.py").write_text("raise SystemExit('no pytest here')\n", encoding="utf-8")
    with pytest.raises(RunError, match="pytest did not run: no pytest here"):
        check_folder(tmp_path)


def test_whatever_a_subject_holds_the_history_is_read(repository: Path, history: TeamHistory) -> None:
    commit(repository, "odd \x1f \x1e \x1f subject")
    now = read_history(repository, "repair", LEAD)
    assert now.commits[-1].files == ("pipeline/a.py",)
    assert now.commits[:-1] == history.commits


def test_notes_in_no_text_are_named(tmp_path: Path) -> None:
    data = tmp_path / "state"
    shutil.copytree(RECORDED / "state", data)
    notes = data / "tasks" / "repair" / TRANSITIONS
    known = len(read_state(data, "repair").transitions)
    with notes.open("ab") as file:
        file.write(b"\xff\xfe\n")
    found = read_state(data, "repair")
    assert len(found.transitions) == known
    assert [problem for problem in found.problems if TRANSITIONS in problem] != []


def test_the_trace_tells_talk_and_work_in_order(history: TeamHistory, state: TeamState) -> None:
    trace = team_trace(state, history)
    texts = [step.text for step in trace.steps]
    order = ["[task] Mend", "to python-dev: tests/", "Add instead", "READY", "merged python-dev", "Lead adds g"]
    places = [next(at for at, text in enumerate(texts) if part in text) for part in order]
    assert places == sorted(places)
    assert trace.outcome is None
    assert trace.id == team_trace(state, history).id


def test_weights_sum_to_one_and_collaboration_weighs_most() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(1)
    assert WEIGHTS["collaboration"] >= 0.4


@pytest.mark.parametrize(
    ("path", "production"),
    [
        ("pipeline/a.py", True),
        ("src/app.ts", True),
        ("cmd/main.go", True),
        ("src/main/java/App.java", True),
        ("lib/latest.rb", True),
        ("web/style.css", True),
        ("src/contest.rs", True),
        ("tests/test_a.py", False),
        ("a/conftest.py", False),
        ("README.md", False),
        ("package-lock.json", False),
        ("src/app.spec.ts", False),
        ("cmd/main_test.go", False),
        ("src/test/java/AppTest.java", False),
        ("src/AppTests.cs", False),
        ("web/__tests__/a.jsx", False),
        ("spec/models/user_spec.rb", False),
    ],
)
def test_what_counts_as_production_code(path: str, production: bool) -> None:
    assert is_production(path) is production


def test_the_trailer_hook_signs_a_commit_and_respects_a_foreign_hook(repository: Path) -> None:
    path = install_trailer(repository)
    subprocess.run(
        ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "More"],
        check=True,
        env={"CLAWTEAM_AGENT_NAME": "python-dev", "PATH": "/usr/bin:/bin"},
    )
    assert git(repository, "log", "-1", "--format=%(trailers:key=Agent,valueonly)").strip() == "python-dev"
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    with pytest.raises(UsageError, match="exists already"):
        install_trailer(repository)


def test_the_shim_notes_transitions_and_keeps_the_exit_code(tmp_path: Path) -> None:
    data = tmp_path / "state"
    shutil.copytree(RECORDED / "state", data)
    (data / "tasks" / "repair" / TRANSITIONS).unlink()
    real = tmp_path / "real"
    real.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    real.chmod(0o755)
    shim = install_shim(tmp_path / "bin", real, data, "repair")
    assert subprocess.run([str(shim)], check=False).returncode == 3
    assert len(read_state(data, "repair").transitions) == 2
    assert record_transitions(data, "repair") == 0


def test_a_note_that_was_cut_off_stops_no_later_one(tmp_path: Path) -> None:
    data = tmp_path / "state"
    shutil.copytree(RECORDED / "state", data)
    notes, task = (data / "tasks" / "repair" / name for name in (TRANSITIONS, "task-1786909a.json"))
    whole = notes.read_text(encoding="utf-8")
    notes.write_text(whole + '{"task": "17', encoding="utf-8")
    assert record_transitions(data, "repair") == 0
    task.write_text('{"id": "1786909a", "status": "blocked"}', encoding="utf-8")
    (data / "tasks" / "repair" / "task-new.json").write_text('{"id": ', encoding="utf-8")
    assert record_transitions(data, "repair", by="ann") == 1
    last = read_state(data, "repair").transitions[-1]
    assert (last.task, last.after, last.by) == ("1786909a", "blocked", "ann")


def test_broken_files_are_named_and_unknown_teams_refused(tmp_path: Path) -> None:
    data = tmp_path / "state"
    shutil.copytree(RECORDED / "state", data)
    next((data / "tasks" / "repair").glob("task-*.json")).write_text("[", encoding="utf-8")
    assert len(read_state(data, "repair").problems) == 1
    with pytest.raises(UsageError, match="no team"):
        read_state(data, "other")


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="git"):
        read_history(tmp_path, "repair", LEAD)
