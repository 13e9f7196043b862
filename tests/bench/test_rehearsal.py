"""Everything that a model does can be rehearsed with the scripted student: tasks, gepa, recorded runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from combee.cli import run
from combee.kernel.learn import Task
from combee.kernel.playbook import load
from combee.mock import MockServer
from combee.mock.student import GepaStudent, lesson_of, student_of

TASKS = [Task(f"t{n}", f"What is the reading of gauge G-{n:03d}?", str(100 + n)) for n in range(6)]
LESSONS = {task.id: lesson_of(task) for task in TASKS}


def call(number: int, command: str, said: str) -> list[dict[str, Any]]:
    name = f"call{number}"
    asked = {
        "id": name,
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps({"command": command})},
    }
    return [
        {"role": "assistant", "content": "", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": name, "content": said},
    ]


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "traces"
    folder.mkdir()
    for number in range(3):
        messages = [
            {"role": "user", "content": f"Run the tests of project {number}"},
            *call(1, "npm test", "sh: vitest: command not found\nexit code 127"),
            *call(2, "npm ci", "added 320 packages\nexit code 0"),
            *call(3, "npm test", "12 passed\nexit code 0"),
        ]
        (folder / f"run{number}.json").write_text(json.dumps({"messages": messages}), encoding="utf-8")
    return folder


@pytest.mark.parametrize("shown", ["evidence", "runs"])
async def test_reflection_on_recorded_runs_is_rehearsed(
    traces: Path, capsys: pytest.CaptureFixture[str], shown: str
) -> None:
    async with MockServer(reply=student_of(TASKS, LESSONS, m0=None)) as server:
        arguments = ["learn", "--from", str(traces), "--model", "student", "--base-url", server.url, "--json"]
        assert await asyncio.to_thread(run, [*arguments, "--name", shown, "--set", f"tasks.shown={shown}"]) == 0
        assert server.stats.paid >= 4
    told = json.loads(capsys.readouterr().out)
    (bullet,) = load(Path(f"runs/{shown}/playbook.json"))
    assert told["bullets"] == 1
    assert all(part in bullet.text for part in ("npm test", "command not found", "npm ci"))
    assert len(bullet.sources) == 3


@pytest.fixture
def _gauges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(json.dumps({"question": task.question, "answer": task.target}) for task in TASKS)
    (tmp_path / "gauges.jsonl").write_text(rows, encoding="utf-8")


@pytest.mark.usefixtures("_gauges")
async def test_the_same_student_answers_the_roles_of_ace_and_gepa(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student_of(TASKS, LESSONS, m0=None)) as server:
        common = ["learn", "gauges.jsonl", "--model", "student", "--base-url", server.url, "--json", "--batch", "5"]
        common += ["--train", "5", "--val", "0", "--test", "1"]
        for method in ("ace", "gepa"):
            assert await asyncio.to_thread(run, [*common, "--method", method, "--name", method]) == 0
            assert json.loads(capsys.readouterr().out)["bullets"] == 5


def test_tasks_with_one_first_line_are_told_apart_by_their_last() -> None:
    tasks = [Task(str(n), f"Pick a tag of: a, b.\n1. Which fits sentence {n}?", "a") for n in range(2)]
    student = GepaStudent(tasks, {"0": "Sentence zero is a.", "1": "Sentence one is a."}, m0=None)
    written = student("Improve this:\n```\n\n```\nRecord 1:\n" + tasks[1].question + "\nFeedback: wrong")
    assert "Sentence one" in written
    assert "Sentence zero" not in written
