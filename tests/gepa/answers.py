"""Language models as plain functions that keep what they were asked, and records to reflect on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from combee.kernel.learn import Score, Task

Record = dict[str, Any]


def exact(task: Task, answer: str) -> Score:
    return Score(int(answer.strip() == task.target), 1)


class Asked:
    """A language model that answers with a function of the prompt, and counts."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        self.answer = answer
        self.prompts: list[str] = []
        self.at_once = 0
        self._busy = 0
        self._lock = threading.Lock()

    def __call__(self, prompt: str) -> str:
        with self._lock:
            self.prompts.append(prompt)
            self._busy += 1
            self.at_once = max(self.at_once, self._busy)
        try:
            return self.answer(prompt)
        finally:
            with self._lock:
                self._busy -= 1


def fenced(prompt: str) -> str:
    """A reply that depends on the prompt and on nothing else."""
    return f"```\nA better text, number {sum(map(ord, prompt)) % 100_000}.\n```"


def records(count: int) -> list[Record]:
    return [{"Inputs": f"case {n}", "Feedback": f"It must name part XK-{n:03d}."} for n in range(count)]
