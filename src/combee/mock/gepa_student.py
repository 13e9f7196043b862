"""A scripted student for gepa: it answers right exactly if the lesson that a task needs stands in its prompt.

As a reflection model it writes down the lessons of the cases it is shown, and forgets: each new lesson that enters a
call over m records or versions is kept with probability exp(-m/m0) (the paper's loss); what the text holds already
stays. It reads gepa's own prompts as well as ours. It shows which lessons travel, not that a model learns.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from combee.kernel.learn.roles import Task
from combee.mock.script import whole_prompt
from combee.mock.student import Student
from combee.model import Request

__all__ = ["GepaStudent", "student_of"]

UNKNOWN = "I do not know"
_VERSION = re.compile(r"^(?:Version \d+:|#+ Proposed Instruction Update)", re.MULTILINE)
_RECORD = re.compile(r"^Record (\d+):$", re.MULTILINE)
_FIRST_FENCE = re.compile(r"(`{3,})\n(.*?)\n?\1", re.DOTALL)


class GepaStudent:
    """Replies to prompts (a function for gepa or `CombeeReflection`), or to requests (`reply`).

    Args:
        tasks: What it can be asked. The first line of each question must be its own, or else the last.
        lessons: The lesson that each task needs, by task id, on one line.
        m0: Strength of its memory; None forgets nothing.
        seed: Decides what is forgotten.
    """

    def __init__(
        self, tasks: Iterable[Task], lessons: Mapping[str, str], *, m0: float | None = 40.0, seed: int = 0
    ) -> None:
        self._tasks = list(tasks)
        first = Counter(map(_first_line, self._tasks))
        self._line_of = {
            task.id: _first_line(task) if first[_first_line(task)] == 1 else _last_line(task) for task in self._tasks
        }
        self._lesson_of = {task.id: " ".join(lessons[task.id].split()) for task in self._tasks}
        self._lessons = sorted(set(self._lesson_of.values()))
        self._m0, self._seed = m0, seed

    def reply(self, request: Request) -> str:
        """Return the reply to a request."""
        return self("\n\n".join(message.content for message in request.messages))

    def __call__(self, prompt: str) -> str:
        """Return the reply to a prompt."""
        whole = prompt.rstrip()
        asked = next((task for task in self._tasks if whole.endswith(task.question.rstrip())), None)
        if asked is not None:
            return (asked.target or "") if self._lesson_of[asked.id] in prompt else UNKNOWN
        found = _FIRST_FENCE.search(prompt)
        current, rest = (found[2], prompt[found.end() :]) if found is not None else ("", prompt)
        if '"operations"' in prompt:
            return self._operations(current, rest)
        versions = len(_VERSION.findall(rest))
        if versions:
            new, size = [lesson for lesson in self._lessons if lesson in rest], versions
        else:
            seen = [(task, rest.count(self._line_of[task.id])) for task in self._tasks]
            new = list(dict.fromkeys(self._lesson_of[task.id] for task, count in seen if count))
            size = sum(count for _, count in seen)
        kept = self._kept([lesson for lesson in new if lesson not in current], size, rest)
        lines = [line for line in current.split("\n") if line.strip()]
        return "\n".join(["```", *lines, *(f"- {lesson}" for lesson in kept), "```"])

    def _operations(self, current: str, rest: str) -> str:
        marks = list(_RECORD.finditer(rest))
        ends = [mark.start() for mark in marks[1:]] + [len(rest)]
        sources: dict[str, list[int]] = {}
        for mark, end in zip(marks, ends, strict=True):
            text = rest[mark.end() : end]
            lesson = next((self._lesson_of[task.id] for task in self._tasks if self._line_of[task.id] in text), None)
            if lesson is not None and lesson not in current and "Feedback: Right." not in text:
                sources.setdefault(lesson, []).append(int(mark[1]))
        kept = self._kept(list(sources), len(marks), rest)
        adds = [
            {"type": "ADD", "section": "FORMULAS & CALCULATIONS", "content": one, "bullet_ids": [], "sources": at}
            for one, at in sources.items()
            if one in kept
        ]
        return json.dumps({"reasoning": "Written down.", "operations": adds})

    def _kept(self, lessons: Sequence[str], size: int, call: str) -> list[str]:
        if self._m0 is None:
            return list(lessons)
        chance = math.exp(-size / self._m0)
        name = hashlib.blake2b(call.encode("utf-8", "replace"), digest_size=8).hexdigest()
        return [lesson for lesson in lessons if self._draw(name, lesson) < chance]

    def _draw(self, call: str, lesson: str) -> float:
        data = f"{self._seed}\0{call}\0{lesson}".encode("utf-8", "replace")
        return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") / 2.0**64


def student_of(
    tasks: Iterable[Task], lessons: Mapping[str, str], *, m0: float | None = 40.0, seed: int = 0
) -> Callable[[Mapping[str, Any]], str]:
    """Return what answers chat bodies of either method: as `Student` where the prompt has fences, else as gepa's."""
    known = tuple(tasks)
    ace, gepa = Student(known, lessons, m0=m0, seed=seed), GepaStudent(known, lessons, m0=m0, seed=seed)

    def reply(body: Mapping[str, Any]) -> str:
        prompt = whole_prompt(body)
        return ace(body) if "<<<" in prompt else gepa(prompt)

    return reply


def _first_line(task: Task) -> str:
    return task.question.strip().split("\n")[0].strip()


def _last_line(task: Task) -> str:
    return task.question.strip().split("\n")[-1].strip()
