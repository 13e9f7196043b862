"""A team as an environment: rules reach it, what it did is scored in parts, and no trial is done twice."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.team_lab.by_command import learn_by_command
from benchmarks.team_lab.repositories import generate
from combee.cli import run
from combee.kernel.journal import Journal
from combee.kernel.playbook import Bullet, Playbook, load, save
from combee.mock import MockServer
from combee.mock.script import whole_prompt
from combee.run.git import git
from combee.team.testing import check_by
from combee.team.trial import words_of

TEAM = f"{shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).with_name('small_team.py')))} {{rules}}"
ME = {f"GIT_{who}_{what}": "x@y.z" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
RULE = "Hand every repair to dev, with the output that failed."
CHECK = 'out=$(sh add.sh 1 2)\n[ "$out" = 3 ] || { echo "FAILED: got $out"; exit 1; }\n'
SETTINGS = f"""\
[tasks]
source = "tasks"

[environment]
kind = "team"
program = {json.dumps(TEAM)}
test = "sh check.sh"
dollars = 0.05
minutes = 0.2
"""


def write_task(place: Path, said: str = "") -> None:
    shop = place / "repository"
    (shop / "node_modules").mkdir(parents=True)
    (shop / "add.sh").write_text("echo $(($1 - $2))\n")
    (shop / ".gitignore").write_text("node_modules/\n")
    (shop / "node_modules" / "lib").write_text("installed")
    git(shop, "init", "-q", "-b", "main")
    git(shop, "add", "-A")
    git(shop, "commit", "-q", "-m", "Begin", environment=ME)
    (place / "task.md").write_text(f"Mend the sum. {said}\n")
    (place / "hidden").mkdir()
    (place / "hidden" / "check.sh").write_text(CHECK)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two repositories to learn from and one held out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    for name in ("train/a", "train/b", "test/c"):
        write_task(tmp_path / "tasks" / name)
    Path("combee.toml").write_text(SETTINGS)
    bullet = Bullet("str-00001", "STRATEGIES", RULE)
    save(Playbook(bullets=(bullet,), high_water=1), Path("rules.json"))
    return tmp_path


class Scribe:
    """Tells the rule to whoever saw a lead edit, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, body: Mapping[str, Any]) -> str:
        prompt = whole_prompt(body)
        self.asked.append(prompt)
        if '"key_insight"' in prompt:
            return json.dumps({"key_insight": RULE if "changed add.sh itself" in prompt else ""})
        add = {"type": "ADD", "section": "STRATEGIES", "content": RULE, "bullet_ids": [], "sources": [1, 2]}
        return json.dumps({"reasoning": "", "operations": [add] if RULE in prompt.partition("as it is")[2] else []})


def data(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*words, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def trials(name: str = "one") -> list[str]:
    return sorted(path.parent.name.rpartition("-")[2] for path in Path(f"runs/{name}/trials").glob("*/pid"))


def calls(name: str = "one") -> list[dict[str, Any]]:
    with Journal.open(Path("runs") / name, create=False, read_only=True) as journal:
        rows: list[dict[str, Any]] = [dict(row) for row in journal.calls()]  # type: ignore[arg-type]
    return [row for row in rows if row["model"] == "team"]


def until(happened: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := happened():
            return found
        time.sleep(0.05)
    raise AssertionError(Path("out.log").read_text())


def combee(*words: str, pause: str = "0") -> subprocess.Popen[bytes]:
    with Path("out.log").open("ab") as log:
        env = {**os.environ, "PAUSE": pause}
        return subprocess.Popen([sys.executable, "-m", "combee", *words], stdout=log, stderr=log, env=env)


def slow(name: str = "train/b") -> None:
    (Path("tasks") / name / "task.md").write_text("Mend the sum. slow\n")


@pytest.mark.parametrize("method", ["ace", "gepa"])
async def test_rules_are_learned_from_the_records_of_teams_and_hold_on_held_out_repositories(
    here: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    scribe = Scribe()
    async with MockServer(reply=scribe) as server:
        words = ["learn", "--method", method, "--model", "m", "--base-url", server.url, "--batch", "2", "--name", "one"]
        told = await asyncio.to_thread(data, capsys, *words, "--max-calls", "99")
    assert told["reason"] == "completed"
    assert [bullet.text for bullet in load(Path("runs/one/playbook.json"))] == [RULE]
    found = data(capsys, "eval", "one")
    assert (found["accuracy"], found["without_playbook"]) == (1.0, 0.4)  # what a lead alone can get
    assert found["baselines"] == {}
    assert found["summary"][0] == "over 1 repository: 1.00 to 1.00, standard deviation 0.00"
    assert found["summary_without_playbook"][1] == "tests 1.00, completion 1.00, coordination 0.00, collaboration 0.00"
    assert found["summary"][2] == "a trial: $0.0200 ($0.0200 to $0.0200)"
    shown = "\n".join(scribe.asked)
    assert "[commit" in shown  # the record as text, not its place
    assert "record.jsonl" not in shown
    assert "sk-proj-" not in shown
    rows = calls()
    assert {row["cost"] for row in rows} == {0.02}
    assert {(row["usage"]["prompt"], row["usage"]["completion"]) for row in rows} == {(240, 20)}
    assert trials() == ["1"] * len(rows)


def test_the_scripted_team_of_the_laboratory_learns_as_a_program(tmp_path: Path) -> None:
    train = [generate(0), generate(1)]
    found = learn_by_command(tmp_path, "ace", train, [generate(4)], "--epochs", "3")
    assert found["without_playbook"] < 0.2
    assert found["accuracy"] > 0.75


def test_a_trial_that_outlives_a_kill_is_waited_for_and_the_book_is_the_same(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow()
    assert run(["learn", "--name", "whole", "--quiet"]) == 0
    process = combee("learn", "--name", "one", pause="1.5")
    until(lambda: len(trials()) == 2 and len(list(Path("runs/one/trials").glob("*/result.json"))) == 1)
    process.kill()
    process.wait()
    assert data(capsys, "resume", "runs/one")["reason"] == "completed"
    assert trials() == ["1", "1"]
    assert len(calls()) == 2
    assert Path("runs/one/playbook.json").read_bytes() == Path("runs/whole/playbook.json").read_bytes()
    records = [
        sorted(path.read_bytes() for path in Path(f"runs/{n}/trials").glob("*/record.jsonl")) for n in ("one", "whole")
    ]
    assert records[0] == records[1]


def test_a_trial_that_was_killed_with_its_run_is_done_again_and_counted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow()
    process = combee("learn", "--name", "one", pause="60")
    until(lambda: len(trials()) == 2 and len(list(Path("runs/one/trials").glob("*/result.json"))) == 1)
    process.kill()
    process.wait()
    (cut,) = (one.parent for one in Path("runs/one/trials").glob("*/pid") if not (one.parent / "exit").exists())
    os.killpg(int((cut / "pid").read_text()), signal.SIGKILL)
    assert data(capsys, "resume", "runs/one")["reason"] == "completed"
    assert trials() == ["1", "1", "2"]
    assert sorted(row["outcome"] for row in calls()) == ["lost_at_a_kill", "ok", "ok"]


def test_ctrl_c_ends_the_team_too(here: Path) -> None:
    slow()
    process = combee("learn", "--name", "one", pause="60")
    until(lambda: len(trials()) == 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    for path in Path("runs/one/trials").glob("*/pid"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.read_text()), 0)


def test_a_team_that_takes_too_long_is_stopped_and_judged_as_it_stands(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "tasks/test/c/task.md").write_text("Mend it. hangs\n")
    Path("combee.toml").write_text(SETTINGS.replace("minutes = 0.2", "minutes = 0.02"))
    found = data(capsys, "eval", "rules.json")
    (row,) = found["rows"]
    assert row["hits"] == 100
    assert ", stopped)" in row["answer"]


def test_eval_prints_spread_parts_and_cost_also_of_the_control(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Playbook(), Path("empty.json"))
    assert run(["eval", "empty.json"]) == 0
    said = capsys.readouterr().out
    for line in ("over 1 repository: 0.40 to 0.40", "tests 1.00, completion 1.00", "a trial: $0.0200"):
        assert said.count(f"\n  {line}") == 2
    assert "nothing was handed to the workers" in said
    assert "right:" not in said  # a verdict has no right answer beside it


def test_a_program_that_fails_is_tried_again_and_never_scored(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "tasks/train/a/task.md").write_text("Mend it. fails\n")
    (here / "tasks/train/b/task.md").write_text("Mend it. no state\n")
    write_task(here / "tasks/train/d")
    told = data(capsys, "learn", "--name", "one")
    assert sorted(told["unlearned"]) == ["train/a", "train/b"]
    assert sorted(row["outcome"] for row in calls()) == ["agent"] * 6 + ["ok"]


def test_tests_that_cannot_be_started_end_the_run_and_nothing_is_done_twice(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "tasks/train/b").rename(here / "b")
    bad = here / "tasks/train/a/hidden/check.sh"
    bad.rename(here / "check.sh")
    bad.write_text("exit 127\n")
    assert run(["learn", "--name", "one", "--quiet"]) == 1
    assert "cannot be started" in capsys.readouterr().err
    shutil.copy(here / "check.sh", bad)
    assert data(capsys, "resume", "runs/one")["reason"] == "completed"
    assert trials() == ["1"]


def test_a_program_that_starts_nothing_ends_the_run_at_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "--name", "one", "--set", "environment.program=env no-such-program"]) == 2
    assert "cannot be started: env: " in capsys.readouterr().err
    assert (
        data(capsys, "learn", "--name", "one")["reason"] == "completed"
    )  # also where another trial had begun beside it


def test_the_limit_in_money_is_held_against_what_a_trial_may_cost(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = data(capsys, "learn", "--name", "one", "--batch", "1", "--max-cost", "0.06")
    assert (told["reason"], told["model"]["cost"]) == ("budget", 0.02)
    assert data(capsys, "resume", "runs/one", "--max-cost", "1")["reason"] == "completed"
    assert len(trials()) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "environment.program=no-such-program {rules}"], "no-such-program cannot be started from here"),
        (["--set", "environment.program='"], "cannot be read"),
        (["--set", "tasks.source=nowhere"], "The tasks of Team are in a folder"),
        (["--set", "environment.agent=x"], "does nothing"),
        (["--method", "gepa"], "needs a model"),
        (["--max-cost", "0.01"], "max_cost is 0.01"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_paid(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["learn", "--name", "one", *words]) == 2
    assert said in capsys.readouterr().err
    assert not Path("runs/one/trials").exists()


def test_a_task_without_its_repository_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(here / "tasks/train/a/repository")
    assert run(["learn"]) == 2
    assert "has no repository" in capsys.readouterr().err
    run(["doctor", "--json"])
    checks = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (checks["tasks"]["ok"], checks["team"]["ok"], checks["git"]["ok"]) == (False, True, True)


def test_trials_minutes_and_money_are_said_before(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = data(capsys, "learn", "--dry-run", "--epochs", "3")
    assert (told["trials"], told["trial_cost"]) == (6, pytest.approx(0.3))
    url = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1"]
    told = data(capsys, "learn", "--dry-run", "--method", "gepa", *url)
    assert told["trials"] == told["rollouts"] == 2 + 2 * 2 + 2
    assert told["reflection_calls"] == 2 + 2
    assert run(["learn", "--dry-run"]) == 0
    assert "without a model nothing is learned" not in capsys.readouterr().out
    assert run(["learn", "--name", "one"]) == 0
    assert "without a model nothing is learned of a team" in capsys.readouterr().err


def test_a_trial_works_on_a_copy_with_what_is_installed_and_without_what_decides(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = git(here / "tasks/test/c/repository", "for-each-ref")
    assert run(["learn", "--name", "one", "--quiet"]) == 0
    for trial in Path("runs/one/trials").iterdir():
        assert (trial / "repository/node_modules/lib").read_text() == "installed"
        assert not (trial / "repository/check.sh").exists()
        assert git(trial / "repository", "remote") == ""
        assert "sk-proj-" not in (trial / "record.jsonl").read_text()
    assert git(here / "tasks/test/c/repository", "for-each-ref") == before


def test_a_detached_repository_tests_by_pytest_a_clawteam_and_members_of_other_names(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        shop = here / "tasks/train" / name / "repository"
        git(shop, "checkout", "-q", "--detach")
        git(shop, "commit", "-q", "--allow-empty", "-m", "On no branch", environment=ME)
        (shop / ".git/info/exclude").write_text("*.log\n")
        (shop / "old.log").write_text("kept")
        (here / "tasks/train" / name / "hidden/test_sum.py").write_text("def test_sum():\n    assert True\n")
    (here / "bin").mkdir()
    (here / "bin/clawteam").write_text("#!/bin/sh\n")
    (here / "bin/clawteam").chmod(0o755)
    monkeypatch.setenv("PATH", f"{here / 'bin'}{os.pathsep}{os.environ['PATH']}")
    Path("combee.toml").write_text(SETTINGS.replace('test = "sh check.sh"', 'testers = ["dev"]'))
    assert run(["learn", "--name", "one", "--quiet", "--start", "rules.json"]) == 0
    for trial in Path("runs/one/trials").iterdir():
        verdict = json.loads((trial / "result.json").read_text())["verdict"]
        assert "tests 1.00" in verdict
        assert "dev was not dispatched" in verdict  # it tests, and changed no test
        assert (trial / "repository/old.log").read_text() == "kept"
        assert os.access(trial / "bin/clawteam", os.X_OK)


def test_a_repository_that_a_team_destroys_is_no_score_and_no_other_one_is_read(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(here, "init", "-q")  # as where the folder of the run lies in a project
    (here / "tasks/train/a/task.md").write_text("Mend it. breaks git\n")
    assert data(capsys, "learn", "--name", "one")["unlearned"] == ["train/a"]
    (trouble,) = {
        json.loads(path.read_text())["trouble"] for path in Path("runs/one/trials").glob("train-a*/result.json")
    }
    assert "it left no repository" in trouble


def test_hidden_files_lie_over_what_agents_put_there_and_lead_nowhere_else(here: Path) -> None:
    shop, kept = here / "tasks/test/c/repository", here / "kept"
    kept.mkdir()
    (shop / "tests").symlink_to(kept)
    (shop / "check.sh").mkdir()
    (shop / "check.sh" / "x").write_text("x")
    git(shop, "add", "-A")
    git(shop, "commit", "-q", "-m", "Links", environment=ME)
    hidden = here / "tasks/test/c/hidden"
    (hidden / "tests").mkdir()
    (hidden / "tests" / "deep.sh").write_text("exit 0\n")
    assert check_by(shop, "main", "sh tests/deep.sh && sh check.sh", beside=hidden) != {}
    assert list(kept.iterdir()) == []
    assert check_by(shop, "main", "sh tests/deep.sh", beside=hidden) == {"sh tests/deep.sh": ""}


def test_words_of_a_program_name_files_of_the_folder_that_we_are_in(here: Path) -> None:
    Path("team.py").write_text("")
    found = words_of("python team.py {rules} --state={state} 'two words' none.py", Path("/t"))
    assert found == ["python", str(here / "team.py"), "/t/rules.md", "--state=/t/state", "two words", "none.py"]
