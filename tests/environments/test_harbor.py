"""Learning on Harbor's tasks: lessons reach the agent as text, trials are bought once, and what fails is not scored.

`harbor` is a stand-in that writes what Harbor 0.26 wrote; the last test runs the real one where it is installed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import runpy
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

from benchmarks.bench_harbor import LAB, shuffled
from combee.cli import run
from combee.environments.jobs import read_trial
from combee.kernel.playbook import Bullet, Playbook, load, save
from combee.mock import MockServer
from combee.mock.script import whole_prompt
from combee.traces.readers import read

HARBOR = f"{shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).with_name('fake_harbor.py')))}"
A_KEY = "sk-proj-" + "abcdefghijklmnopqrstuvwxyz0123456789ABCD"
TAUGHT = {"test/pack-label": 1, "test/seal-route": 1, "test/weigh-seal": 1, "test/pack-insure": 0}
SETTINGS = f"""\
[tasks]
source = "tasks"

[environment]
kind = "harbor"
agent = "scripted"
program = {json.dumps(HARBOR)}
dollars = 0.03
minutes = 5

[learn]
batch = 3
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["make_tasks.py"])
    runpy.run_path(str(LAB / "make_tasks.py"), run_name="__main__")
    Path("combee.toml").write_text(SETTINGS, encoding="utf-8")


def jobs(name: str = "one") -> list[list[str]]:
    """Return the tasks of each job of a run."""
    configs = sorted(Path(f"runs/{name}/trials").glob("*.tasks.json"), key=lambda path: path.stat().st_mtime_ns)
    return [sorted(Path(one["path"]).name for one in json.loads(path.read_text())["tasks"]) for path in configs]


def scored(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["eval", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def add_to(task: str, line: str) -> None:
    path = Path("tasks") / task / "instruction.md"
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")


def test_held_out_reward_rises_by_what_was_taught_and_by_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "--name", "one", "--quiet"]) == 0
    found = scored(capsys, "one")
    assert {row["task"]: row["hits"] for row in found["rows"]} == TAUGHT
    assert found["without_playbook"] == 0.0
    assert found["baselines"] == {}  # "always the commonest answer" would mean: always pass

    save(shuffled(load(Path("runs/one/playbook.json"))), Path("shuffled.json"))
    assert scored(capsys, "shuffled.json")["accuracy"] == 0.0


def test_each_minibatch_is_one_job_and_its_lessons_are_in_the_next_one() -> None:
    assert run(["learn", "--name", "one", "--quiet"]) == 0
    assert [len(tasks) for tasks in jobs()] == [3, 3]
    first, second = (path.with_suffix("").with_suffix(".book") for path in _configs())
    assert not first.exists()  # nothing is known yet
    (shown,) = second.iterdir()
    assert "depot" in shown.read_text(encoding="utf-8")


def _scribe(body: Mapping[str, Any]) -> str:
    """Say again of each command what code found: that it worked."""
    prompt = whole_prompt(body)
    SHOWN.append(prompt)
    found = dict.fromkeys(re.findall(r"`depot (\w+ --\w+) [^`]*` worked", prompt))
    lessons = [f"`depot {words} FILE` worked." for words in found]
    if '"key_insight"' in prompt:
        return json.dumps({"key_insight": "\n".join(lessons)})
    cited = [int(number) for number in re.findall(r"(?:Record|reflection) (\d+)", prompt)]
    adds = [{"type": "ADD", "section": "OTHERS", "content": one, "bullet_ids": [], "sources": cited} for one in lessons]
    return json.dumps({"reasoning": "", "operations": adds})


SHOWN: list[str] = []


async def test_gepa_searches_over_trials_and_reads_their_records(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    SHOWN.clear()
    add_to("train/pack-seal", f"The key is {A_KEY}.")
    async with MockServer(reply=_scribe) as server:
        words = ["learn", "--method", "gepa", "--model", "m", "--base-url", server.url, "--batch", "6", "--name", "one"]
        assert await asyncio.to_thread(run, [*words, "--quiet"]) == 0
    assert scored(capsys, "one")["accuracy"] >= 0.75
    shown = "\n".join(SHOWN)
    assert "depot: unknown option" in shown
    assert A_KEY not in shown
    assert "trials/" not in shown


def _configs() -> list[Path]:
    return sorted(Path("runs/one/trials").glob("*.tasks.json"), key=lambda path: path.stat().st_mtime_ns)


def test_a_playbook_can_reach_the_agent_as_a_skill(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "--name", "one", "--quiet", "--set", "environment.book=skill"]) == 0
    assert list(Path("runs/one/trials").glob("*.book/playbook/SKILL.md"))
    assert scored(capsys, "one")["accuracy"] == 0.75


def test_recorded_trials_are_learned_from_and_the_playbook_is_scored_by_new_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["learn", "--name", "one", "--quiet"]) == 0
    assert run(["learn", "--from", "runs/one/trials", "--name", "offline", "--quiet"]) == 0
    assert scored(capsys, "runs/offline", "tasks")["accuracy"] == 0.75


def combee(*words: str) -> subprocess.Popen[str]:
    with Path("out.log").open("a", encoding="utf-8") as log:
        return subprocess.Popen([sys.executable, "-m", "combee", *words], stdout=log, stderr=log, text=True)


def until(happened: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := happened():
            return found
        time.sleep(0.05)
    raise AssertionError(Path("out.log").read_text(encoding="utf-8"))


def ended(name: str = "one") -> list[str]:
    return sorted(path.parent.name for path in Path(f"runs/{name}/trials").glob("*/*__x/result.json"))


def pid() -> int | None:
    found = list(Path("runs/one/trials").glob("*.pid"))
    text = found[0].read_text(encoding="utf-8") if found else ""
    return int(text) if text else None


def test_after_a_kill_of_both_no_trial_that_ended_is_run_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fourth = sorted(path.name for path in Path("tasks/train").iterdir())[3]
    add_to(f"train/{fourth}", "slow 60")
    process = combee("learn", "--name", "one", "--set", "learn.batch=6")
    until(lambda: len(ended()) == 3 and pid())
    process.kill()
    process.wait()
    os.kill(pid() or 0, signal.SIGKILL)
    assert len(ended()) == 3
    monkeypatch.setenv("NO_PAUSE", "1")
    assert run(["resume", "runs/one", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "completed"
    assert [len(tasks) for tasks in jobs()] == [6, 3]
    # Three of the first job and three of the second; the one that was broken off may have been paid for besides.
    assert len(_calls("one")) == 7
    assert sum(row["outcome"] == "lost_at_a_kill" for row in _calls("one")) == 1


def _calls(name: str) -> list[dict[str, Any]]:
    from combee.kernel.journal import Journal

    with Journal.open(Path("runs") / name, create=False, read_only=True) as journal:
        return [dict(row) for row in journal.calls()]  # type: ignore[arg-type]


def test_a_job_that_outlives_its_combee_is_waited_for() -> None:
    slow = sorted(path.name for path in Path("tasks/train").iterdir())[3]
    add_to(f"train/{slow}", "slow 3")
    process = combee("learn", "--name", "one", "--set", "learn.batch=6")
    until(lambda: len(ended()) == 3 and pid())
    process.kill()
    process.wait()
    assert run(["resume", "runs/one", "--quiet"]) == 0
    assert [len(tasks) for tasks in jobs()] == [6]
    assert all(row["outcome"] == "ok" for row in _calls("one"))


def test_ctrl_c_ends_harbor_too_and_the_run_goes_on() -> None:
    slow = sorted(path.name for path in Path("tasks/train").iterdir())[3]
    add_to(f"train/{slow}", "slow 60")
    process = combee("learn", "--name", "one", "--set", "learn.batch=6")
    harbor = until(lambda: len(ended()) == 3 and pid())
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(harbor, 0)
    assert "combee resume runs/one" in Path("out.log").read_text(encoding="utf-8").replace(f"{sys.executable} -m ", "")


def test_a_trial_whose_model_failed_is_tried_again_and_never_scored(capsys: pytest.CaptureFixture[str]) -> None:
    add_to("train/pack-seal", "service fails")
    assert run(["learn", "--name", "one", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["unlearned"] == ["train/pack-seal"]
    assert sum("pack-seal" in tasks for tasks in jobs()) == 3
    rows = [row for row in _calls("one") if row["item"] == "train/pack-seal"]
    assert [row["outcome"] for row in rows] == ["agent"] * 3
    assert all(row["cost"] > 0 for row in rows)  # it was paid for all the same


def test_a_trial_without_a_result_is_no_score_either(capsys: pytest.CaptureFixture[str]) -> None:
    add_to("test/pack-label", "no result")
    save(Playbook(), Path("empty.json"))
    found = scored(capsys, "empty.json")
    assert list(found["errors"]) == ["test/pack-label"]
    assert found["total"] == 3


def test_the_limit_in_money_holds_over_resumes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "--name", "one", "--max-cost", "0.1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["reason"] == "budget"
    assert told["model"]["cost"] == pytest.approx(0.09)
    assert run(["resume", "runs/one", "--max-cost", "0.2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "completed"
    assert sum(row["cost"] for row in _calls("one")) == pytest.approx(0.18)
    assert len(_calls("one")) == 6


def test_what_an_agent_does_not_report_counts_as_the_most_it_may_cost() -> None:
    assert run(["learn", "--name", "one", "--quiet", "--set", 'environment.options=["--price", "0"]']) == 0
    assert [row["cost"] for row in _calls("one")] == [0.03] * 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "environment.agent=nobody"], "Unknown agent: nobody"),
        (["--set", "environment.program=no-such-harbor"], "no-such-harbor cannot be started"),
        (["--max-cost", "0.05"], "the 3 trials of one step may take 0.09"),
        (["--max-calls", "2"], "the 3 trials of one step may take 3"),
        (
            ["--set", "environment.options=['--ae', 'K=sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD']"],
            "holds a key",
        ),
        (["--set", "environment.turns=3"], "environment.turns"),
        (["--set", "workers.kind=processes"], "workers.kind"),
        (["--set", "environment.kind=harbour"], "Did you mean 'harbor'?"),
        (["nowhere"], "The tasks of Harbor are in a folder"),
        (["runs"], "holds no task"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_paid(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("runs").mkdir()
    assert run(["learn", "--name", "one", "--quiet", *words]) != 0
    assert said in capsys.readouterr().err
    assert not list(Path().glob("runs/one/trials/*/*__x"))


def test_a_limit_in_money_needs_the_price_of_a_trial(capsys: pytest.CaptureFixture[str]) -> None:
    Path("combee.toml").write_text(SETTINGS.replace("dollars = 0.03\n", ""), encoding="utf-8")
    assert run(["learn", "--max-cost", "1"]) == 2
    assert "environment.dollars" in capsys.readouterr().err


def test_a_dry_run_says_trials_time_and_money(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["trials"], told["trial_minutes"], told["trial_cost"]) == (6, 10.0, pytest.approx(0.18))
    save(Playbook((Bullet("a-1", "S", "x"),), 1), Path("b.json"))
    assert run(["eval", "b.json", "--dry-run"]) == 0
    assert "8 trials in harbor, 4 at once: about 10 minutes" in capsys.readouterr().out
    assert not Path("runs").exists()


def test_doctor_names_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    run(["doctor", "--json"])
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert checks["harbor"]["found"] == "0.26.0"
    assert "docker" in checks
    Path("combee.toml").write_text(
        SETTINGS.replace(json.dumps(HARBOR), '"no-such-harbor"').replace(
            "dollars", 'options = ["-e", "modal"]\ndollars'
        ),
        encoding="utf-8",
    )
    assert run(["doctor", "--json"]) == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert checks["harbor"]["ok"] is False
    assert "uv tool install harbor" in checks["harbor"]["fix"]
    assert checks["docker"]["ok"] is True  # another kind of environment is named


def test_tasks_without_folders_of_splits_are_cut_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    for split in ("train", "test"):
        for task in Path("tasks", split).iterdir():
            task.rename(Path("tasks") / task.name)
        Path("tasks", split).rmdir()
    cut = ["--set", "tasks.train=7", "--set", "tasks.test=3"]
    assert run(["learn", "--name", "one", "--quiet", "--batch", "7", *cut]) == 0
    (learned,) = jobs()
    capsys.readouterr()
    assert run(["eval", "one", "--json"]) == 0
    rows = [row["task"] for row in json.loads(capsys.readouterr().out)["rows"]]
    assert (len(learned), len(rows)) == (7, 3)
    assert not set(learned) & set(rows)


def test_a_result_that_is_half_written_has_not_ended(tmp_path: Path) -> None:
    trial = tmp_path / "t"
    shutil.copytree(Path(__file__).parent / "recorded/trial", trial)
    whole = (trial / "result.json").read_text(encoding="utf-8")
    found = read_trial(trial)
    assert found is not None
    assert (found.reward, found.cost, found.broken_off) == (0.0, 0.03, False)
    for text in (whole[:500], "", whole.replace('"finished_at": "20', '"finished_before": "20')):
        (trial / "result.json").write_text(text, encoding="utf-8")
        if '"finished_at"' not in text:
            assert read_trial(trial) is None
    (trial / "result.json").unlink()
    assert read_trial(trial) is None


def test_a_reward_that_harbor_calls_invalid_is_none(tmp_path: Path) -> None:
    trial = tmp_path / "t"
    shutil.copytree(Path(__file__).parent / "recorded/trial", trial)
    result = json.loads((trial / "result.json").read_text(encoding="utf-8"))
    (trial / "result.json").write_text(json.dumps({**result, "reward_valid": False}), encoding="utf-8")
    (found,) = read(trial)
    assert found.outcome is None or (found.outcome.score, found.outcome.success) == (None, None)


@pytest.mark.skipif(
    shutil.which("harbor") is None or os.name != "posix" or os.geteuid() != 0, reason="needs harbor, Linux and root"
)
def test_the_same_with_the_real_harbor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(LAB / "overlay.py", "overlay.py")
    shutil.copy(LAB / "combee.toml", "combee.toml")
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    assert run(["learn", "--name", "one", "--quiet"]) == 0
    found = scored(capsys, "one")
    assert {row["task"]: row["hits"] for row in found["rows"]} == TAUGHT
    assert found["without_playbook"] == 0.0
