"""A scripted endpoint for `combee learn --method gepa`: it does tasks by the lessons shown, and reflects as told."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from combee.mock.script import whole_prompt
from combee.mock.student import GepaStudent, Student, lesson_of
from combee.tasks import load


class Both:
    """The student of ACE where a task is asked, that of gepa where records are; counts what it was asked.

    `reflects` takes the place of the second.
    """

    def __init__(self, source: Path, *, m0: float | None = 12.0) -> None:
        tasks = load(source)
        self.lessons = {task.id: lesson_of(task) for task in tasks}
        self._answers = Student(tasks, self.lessons, m0=None)
        self.reflects: Callable[[str], str] = GepaStudent(tasks, self.lessons, m0=m0)
        self.asked: Counter[str] = Counter()
        self._goal, self._reached = 0, asyncio.Event()

    async def reached(self, count: int) -> None:
        self._goal = count
        await self._reached.wait()

    def __call__(self, body: Mapping[str, Any]) -> str:
        prompt = whole_prompt(body)
        self.asked[prompt] += 1
        if sum(self.asked.values()) == self._goal:
            self._reached.set()
        return self._answers(body) if "<<<task" in prompt else self.reflects(prompt)


def rows(path: Path, count: int) -> Path:
    found = [{"question": f"What is the reading of gauge G-{n:03d}?", "answer": str(100 + n)} for n in range(count)]
    path.write_text("\n".join(json.dumps(row) for row in found), encoding="utf-8")
    return path


def records_in(prompt: str) -> int:
    return len(re.findall(r"^Record \d+:$", prompt, re.MULTILINE))


def learning(url: str, name: str, *more: str, train: int = 20) -> list[str]:
    return [
        "learn", "gauges.jsonl", "--val", "0", "--test", "4", "--train", str(train), "--model", "student",
        "--base-url", url, "--method", "gepa", "--batch", "10", "--epochs", "2", "--name", name, "--json", *more,
    ]  # fmt: skip
