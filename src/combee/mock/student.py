"""A scripted student: it answers right exactly if the lesson that a task needs stands in its prompt.

As reflector it writes that lesson down after a wrong answer, or what a recorded run shows of itself; as curator it
forgets: each lesson that enters a call over m inputs is kept with probability exp(-m/m0) (the paper's loss, as in the
embedded agent). It reads and writes what a real model would, so a run with it shows that lessons travel the whole way.
It does not show that a model learns.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from combee.ace.prompts import Fenced, read_fences
from combee.kernel.learn.roles import Task
from combee.model import Request

UNKNOWN = "I do not know"
_LESSON = re.compile(r"^Lesson: (.+)$", re.MULTILINE)
_OPERATION = re.compile(r"^(\d+)\. .*?\| text: (.+)$", re.MULTILINE)
_DEFINITION = re.compile(r"^Formula: (.+), Explanation: (.*)$", re.MULTILINE)


def lesson_of(task: Task, shown: Task | None = None) -> str:
    """Return the lesson that a task needs: the formula that stands in `shown` (the task with it), else its own answer.

    Tasks with one formula need one lesson; other tasks need one each.
    """
    formula = _DEFINITION.search(shown.question) if shown is not None else None
    if formula is not None:
        return f"{formula[1].strip()}. {formula[2].strip()}".strip()
    name = hashlib.blake2b(task.question.encode("utf-8", "replace"), digest_size=3).hexdigest()
    return f"Case {name}: {' '.join(task.question.split())[:120]} gives {task.target}"


@dataclass(frozen=True, slots=True)
class _Known:
    lesson: str
    target: str


class Student:
    """Replies as text to chat bodies (for a mock endpoint) or to requests (`reply`).

    Args:
        tasks: What it can be asked.
        lessons: The lesson that each task needs, by task id.
        m0: Strength of its memory as a curator; None forgets nothing.
        seed: Decides what is forgotten.
    """

    def __init__(
        self, tasks: Iterable[Task], lessons: Mapping[str, str], *, m0: float | None = 40.0, seed: int = 0
    ) -> None:
        self._known = {task.question.strip(): _Known(lessons[task.id], task.target or "") for task in tasks}
        self._m0 = m0
        self._seed = seed

    def __call__(self, body: Mapping[str, Any]) -> str:
        """Return the reply to one chat completion."""
        return self._reply("\n".join(str(message.get("content") or "") for message in body.get("messages") or ()))

    def reply(self, request: Request) -> str:
        """Return the reply to one request."""
        return self._reply("\n".join(message.content for message in request.messages))

    def _reply(self, prompt: str) -> str:
        fenced: dict[str, list[Fenced]] = {}
        for part in read_fences(prompt):
            fenced.setdefault(part.name, []).append(part)
        if "reflection" in fenced:
            return json.dumps(self._curate(fenced["reflection"], prompt))
        if "update" in fenced:
            return json.dumps(self._combine(fenced["update"], prompt))
        if "answer" in fenced:
            return json.dumps(self._reflect(fenced))
        if "trace" in fenced:
            return json.dumps(_insight("\n".join(_seen_in(fenced["trace"][0].text))))
        if "task" in fenced:
            return json.dumps(self._answer(fenced))
        return "ok"

    def _answer(self, fenced: Mapping[str, list[Fenced]]) -> dict[str, Any]:
        known = self._known.get(fenced["task"][0].text.strip())
        used = None if known is None else _entry_with(fenced.get("playbook", []), known.lesson)
        if known is None or used is None:
            return {"reasoning": "No entry fits.", "bullet_ids": [], "final_answer": UNKNOWN}
        return {"reasoning": f"{used} says how.", "bullet_ids": [used], "final_answer": known.target}

    def _reflect(self, fenced: Mapping[str, list[Fenced]]) -> dict[str, Any]:
        known = self._known.get(fenced["task"][0].text.strip())
        right = known is not None and fenced["answer"][0].text.strip() == known.target
        lesson = "" if known is None or right else known.lesson
        ids = re.findall(r"^\[([^\]\s]+)\]", fenced["bullets"][0].text, re.MULTILINE) if "bullets" in fenced else []
        wrong = "" if right else "The rule was not known."
        return _insight(lesson, wrong, [{"id": name, "tag": "helpful" if right else "neutral"} for name in ids])

    def _curate(self, reflections: list[Fenced], prompt: str) -> dict[str, Any]:
        lessons: dict[str, list[int]] = {}
        for part in reflections:
            for lesson in _LESSON.findall(part.text):
                lessons.setdefault(lesson, []).append(part.number)
        call = _hash("\n".join(part.text for part in reflections))
        kept = {lesson: numbers for lesson, numbers in lessons.items() if self._kept(lesson, len(reflections), call)}
        if '"lessons"' in prompt:
            return {"reasoning": "", "lessons": [{"text": text, "sources": n} for text, n in kept.items()]}
        return _operations(kept)

    def _combine(self, updates: list[Fenced], prompt: str) -> dict[str, Any]:
        lessons: dict[str, list[int]] = {}
        for part in updates:
            for number, text in _OPERATION.findall(part.text):
                lessons.setdefault(text, []).append(int(number))
        call = _hash("\n".join(part.text for part in updates))
        return _operations({text: n for text, n in lessons.items() if self._kept(text, len(updates), call)})

    def _kept(self, lesson: str, m: int, call: str) -> bool:
        if self._m0 is None:
            return True
        data = f"{self._seed}\0{call}\0{lesson}".encode("utf-8", "replace")
        draw = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") / 2**64
        return draw < math.exp(-m / self._m0)


def _insight(lesson: str, wrong: str = "", tags: Sequence[Mapping[str, str]] = ()) -> dict[str, Any]:
    return {
        "reasoning": "Compared.",
        "error_identification": wrong,
        "root_cause_analysis": "",
        "correct_approach": "",
        "key_insight": lesson,
        "bullet_tags": list(tags),
    }


_FOUND = re.compile(r"^- (.+?)(?: \(steps? [\d, ]+\))?$", re.MULTILINE)
_CALLED = re.compile(r'^ +calls \w+ \{"\w+": "([^"]+)".*\n\[\d+\] tool: (.*)\n(?:exit code (\d+))?', re.MULTILINE)


def _seen_in(run: str) -> list[str]:
    """Return what code has found in a recorded run, or else what failed first, worked later, and came between."""
    head, judge, rest = run.partition("judge each")
    if judge and head.startswith("[0] system: Found by code"):
        return _FOUND.findall(rest.partition("\n[")[0])
    calls = [(command, said, code not in {"", "0"}) for command, said, code in _CALLED.findall(run)]
    lessons = []
    for place, (command, said, failed) in enumerate(calls):
        between = [other for other, _, broke in calls[place + 1 :] if other != command and not broke]
        if failed and between and (command, False) in [(other, broke) for other, _, broke in calls[place + 1 :]]:
            lessons.append(f"`{command}` fails with `{said.strip()}` until `{between[0]}` is run.")
    return lessons


def _operations(lessons: Mapping[str, list[int]]) -> dict[str, Any]:
    return {
        "reasoning": "Written down.",
        "operations": [
            {
                "type": "ADD",
                "section": "FORMULAS & CALCULATIONS",
                "content": lesson,
                "bullet_ids": [],
                "sources": numbers,
            }
            for lesson, numbers in lessons.items()
        ],
    }


def _entry_with(playbooks: list[Fenced], lesson: str) -> str | None:
    """Return the id of the entry that holds the lesson, word for word."""
    for book in playbooks:
        at = book.text.find(lesson)
        if at >= 0:
            line = book.text[book.text.rfind("\n", 0, at) + 1 : at]
            head = re.match(r"\[([^\]\s]+)\]", line)
            return head[1] if head else None
    return None


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
