"""Twelve tasks about gauges, a model that knows them, and the command to learn them: what several tests begin with."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

from combee.cli import run
from combee.mock.student import Student, lesson_of
from combee.tasks import load

if TYPE_CHECKING:
    import pytest

__all__ = ["FILE", "SPLIT", "combee", "gauges_here", "learn", "student"]

FILE = "gauges.jsonl"
SPLIT = ("--train", "6", "--val", "2", "--test", "2")


def gauges_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder that holds the file, in an environment without a key."""
    monkeypatch.chdir(folder)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    rows = [{"question": f"What is the reading of gauge G-{n:03d}?", "answer": str(100 + n)} for n in range(12)]
    Path(FILE).write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


def student() -> Student:
    tasks = load(FILE)
    return Student(tasks, {task.id: lesson_of(task) for task in tasks}, m0=None)


async def combee(*arguments: str) -> int:
    return await asyncio.to_thread(run, list(arguments))


def learn(url: str, *more: str) -> tuple[str, ...]:
    return ("learn", FILE, *SPLIT, "--model", "student", "--base-url", url, "--quiet", *more)
