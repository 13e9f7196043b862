"""Teams of any size, names and language: who is who, whose tests run how, and whose a move of a task was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from combee.errors import RunError, UsageError
from combee.run.git import git
from combee.team.command import command
from combee.team.hooks import record_transitions
from combee.team.score import Roles, roles_of
from combee.team.state import TeamState, read_state
from combee.team.testing import check_by

ME = {f"GIT_{who}_{what}": "x@y.z" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def commit(place: Path, agent: str, subject: str, **files: str) -> None:
    for name, text in files.items():
        path = place / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", f"{subject}\n\nAgent: {agent}", environment=ME)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository of shell scripts whose tests need a tool that is installed in it, and is not part of it."""
    place = tmp_path / "shop"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    commit(place, "user", "Begin", add_dot_sh="echo $(($1 - $2))\n", _dot_gitignore="node_modules/\n*.xml\n")
    tool = place / "node_modules" / "check"
    tool.parent.mkdir()
    tool.write_text(
        "#!/bin/sh\nout=$(sh add.sh 1 2)\n"
        'if [ "$out" = 3 ]; then bad=""; else bad="<failure message=\\"got $out\\"/>"; fi\n'
        "echo \"<testsuite><testcase classname='add' name='sums'>$bad</testcase>"
        "<testcase classname='add' name='runs'/></testsuite>\" > out.xml\n[ -z \"$bad\" ]\n"
    )
    return place


def write_team(data: Path, *members: str, lead: str = "boss") -> None:
    folder = data / "teams" / "shop"
    (folder / "events").mkdir(parents=True)
    rows = [{"agentId": name, "name": name} for name in (lead, *members)]
    (folder / "config.json").write_text(json.dumps({"leadAgentId": lead, "members": rows, "description": "Mend it"}))
    (data / "tasks" / "shop").mkdir(parents=True)


def write_task(data: Path, name: str, status: str, owner: str, *, locked: str = "", said: str = "") -> None:
    made = "2026-01-01T00:00:00+00:00"
    task = {"id": name, "subject": name, "description": said, "status": status, "owner": owner, "lockedBy": locked}
    (data / "tasks" / "shop" / f"task-{name}.json").write_text(json.dumps({**task, "createdAt": made}))


def test_tests_of_any_language_run_with_what_the_project_has_installed(shop: Path) -> None:
    before = check_by(shop, "main", "sh node_modules/check", "out.xml")
    assert before == {"add::sums": "got -1", "add::runs": ""}
    assert check_by(shop, "main", "sh node_modules/check") == {"sh node_modules/check": "exit code 1"}
    (shop / "add.sh").write_text("echo $(($1 + $2))\n")  # not committed: earns nothing
    assert check_by(shop, "main", "sh node_modules/check", "out.xml") == before
    commit(shop, "user", "Mend")
    assert set(check_by(shop, "main", "sh node_modules/check", "out.xml").values()) == {""}
    assert not (shop / "out.xml").exists()
    with pytest.raises(RunError, match=r"wrote no none.xml"):
        check_by(shop, "main", "true", "none.xml")


def test_a_team_of_three_developers_and_a_reviewer_in_shell(shop: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_team(data, "ann", "bob", "cay", "eve-review")
    arguments = ["score", str(shop), "--team", "shop", "--data", str(data), "--json"]
    arguments += ["--test-command", "sh node_modules/check", "--junit", "out.xml"]

    def score(*more: str) -> dict[str, object]:
        done = CliRunner().invoke(command, [*arguments, *more], catch_exceptions=False)
        return dict(json.loads(done.output))

    told = score()
    assert (told["tests"], told["collaboration"]) == (0.5, 0.0)
    for name in ("ann", "bob", "cay", "eve-review"):
        write_task(data, name, "completed", name, said="add::sums FAILED: got -1")
    commit(shop, "ann", "Mend", add_dot_sh="echo $(($1 + $2))\n")
    commit(shop, "bob", "More", sub_dot_sh="echo\n")
    commit(shop, "eve-review", "Test", tests__add_dot_sh="sh add.sh 1 2\n")
    told = score()
    assert told["tests"] == 1.0
    assert told["collaboration"] == pytest.approx((2 / 3 + 1 + 1) / 3)
    assert "cay was not dispatched" in str(told["reasons"])
    told = score("--dev", "ann", "--dev", "bob", "--qa", "eve-review")
    assert told["collaboration"] == 1.0
    commit(shop, "boss", "Quick fix", add_dot_sh="echo 3\n")
    assert score()["collaboration"] == 0.0
    with pytest.raises(UsageError, match="--junit"):
        CliRunner().invoke(command, [*arguments[:6], "--run-tests", "--junit", "x"], catch_exceptions=False)


def test_who_is_who_by_the_names_of_the_members() -> None:
    team = TeamState("shop", "", "boss", ("ann", "boss", "latest", "qa-1", "tester", "code-review"))
    assert roles_of(team) == Roles(("ann", "latest"), ("qa-1", "tester", "code-review"))
    with pytest.raises(UsageError, match="no worker"):
        roles_of(TeamState("shop", "", "boss", ("boss",)))


def test_moves_that_one_agent_s_command_notes_of_others_are_booked_to_those_who_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_team(tmp_path, "ann", "bob")
    monkeypatch.setenv("CLAWTEAM_AGENT_NAME", "boss")
    write_task(tmp_path, "1", "pending", "ann")
    write_task(tmp_path, "2", "pending", "")
    assert record_transitions(tmp_path, "shop") == 2
    write_task(tmp_path, "1", "in_progress", "ann", locked="ann")  # while the boss lists the tasks
    write_task(tmp_path, "2", "pending", "bob")
    assert record_transitions(tmp_path, "shop") == 2
    monkeypatch.delenv("CLAWTEAM_AGENT_NAME")  # a shell of the user
    write_task(tmp_path, "1", "completed", "ann")
    write_task(tmp_path, "2", "in_progress", "bob")
    assert record_transitions(tmp_path, "shop") == 2
    moves = [(move.task, move.after, move.by) for move in read_state(tmp_path, "shop").transitions]
    assert moves == [
        ("1", "pending", "boss"), ("2", "pending", "boss"), ("1", "in_progress", "ann"), ("2", "pending", "boss"),
        ("1", "completed", "ann"), ("2", "in_progress", "bob"),
    ]  # fmt: skip
