"""Tasks with one lesson each, and makes the shared helpers importable from any folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from combee.kernel.learn import Task
from combee.mock.student import GepaStudent

sys.path.append(str(Path(__file__).resolve().parents[2]))


@pytest.fixture(scope="session")
def tasks() -> tuple[Task, ...]:
    return tuple(Task(f"t{n}", f"What is the reading of gauge G-{n:03d}?", str(100 + n)) for n in range(24))


@pytest.fixture(scope="session")
def lessons(tasks: Sequence[Task]) -> dict[str, str]:
    return {task.id: f"Gauge {task.question[-6:-1]} reads {task.target}" for task in tasks}


@pytest.fixture
def student(tasks: Sequence[Task], lessons: dict[str, str]) -> GepaStudent:
    """A student that forgets nothing."""
    return GepaStudent(tasks, lessons, m0=None)
