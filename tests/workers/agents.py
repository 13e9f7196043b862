"""Agents that workers import: they answer at once, slowly, or end their process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from combee.kernel.playbook import Playbook

HERE = "COMBEE_TEST_WORKERS"  # the folder in which agents leave marks


def answer(question: str, playbook: Playbook) -> str:
    """The nearest bullet's last word, or a guess; each call leaves a line with the process it ran in."""
    with Path(os.environ[HERE], "calls").open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {question}\n")
    near = [bullet.text for bullet in playbook if question.split(maxsplit=1)[0] in bullet.text]
    return near[0].split()[-1] if near else "red"


def answer_slowly(question: str, playbook: Playbook) -> str:
    """The same, in a fifth of a second."""
    time.sleep(0.2)
    return answer(question, playbook)


def end_once(question: str, playbook: Playbook) -> str:
    """The same, but the first process that sees question 7 is killed."""
    mark = Path(os.environ[HERE], "killed")
    if question.endswith(" 7") and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(question, playbook)


def end_always(question: str, playbook: Playbook) -> str:
    """Question 7 kills whoever answers it."""
    if question.endswith(" 7"):
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(question, playbook)
