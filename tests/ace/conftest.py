"""Tasks with one lesson each, and the scripted student that knows them."""

from __future__ import annotations

import pytest

from combee.kernel.learn import Score, Task
from combee.mock.student import Student, lesson_of

COUNT = 12


def scorer(task: Task, answer: str) -> Score:
    return Score(int(answer.strip() == task.target), 1)


@pytest.fixture(scope="session")
def tasks() -> tuple[Task, ...]:
    return tuple(Task(f"t{n}", f"What is the reading of gauge G-{n:03d}?", str(100 + n)) for n in range(COUNT))


@pytest.fixture(scope="session")
def lessons(tasks: tuple[Task, ...]) -> dict[str, str]:
    return {task.id: lesson_of(task) for task in tasks}


@pytest.fixture
def student(tasks: tuple[Task, ...], lessons: dict[str, str]) -> Student:
    """A student that forgets nothing."""
    return Student(tasks, lessons, m0=None)
