"""A scripted student, for ACE and for gepa: it answers right exactly if the lesson that a task needs is in its prompt.

As reflector it writes that lesson down after a wrong answer, or what a recorded run shows of itself; as curator (for
gepa, as reflection model) it forgets: each lesson that enters a call over m inputs is kept with probability exp(-m/m0)
(the paper's loss, as in the embedded agent); what a prompt of gepa's holds already stays. It reads and writes what a
real model would, so a run with it shows that lessons travel the whole way. It does not show that a model learns.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from combee.ace.prompts import Fenced, read_fences
from combee.kernel.learn.roles import Task
from combee.mock.script import whole_prompt
from combee.mock.server import MockServer
from combee.model import Request
from combee.tasks import TaskSet

__all__ = ["STUDENT", "GepaStudent", "student_of", "student_served"]

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


STUDENT = "scripted-student"
"""The name of the model that is asked."""


_WORD = re.compile(r"[^\W\d_]{4,}|\d[\d.,]*\d")


def _lessons(tasks: TaskSet) -> dict[str, str]:
    """Return a lesson a label, made of the words of the training rows that have it; else one of the row's own."""
    words: dict[str | None, dict[str, None]] = {}
    for task in (*tasks.train, *tasks.val, *tasks.test):
        if task.target not in words or task in tasks.train:
            said = task.question.rpartition("\n")[2]
            words.setdefault(task.target, {}).update(dict.fromkeys(_WORD.findall(said)))
    named = {target: f"Sentences with {' '.join(found)} are tagged {target}." for target, found in words.items()}
    return {task.id: named[task.target] for task in tasks}


@contextmanager
def student_served(tasks: TaskSet, *, m0: float | None) -> Iterator[str]:
    """Serve the student of a task set on a thread of its own and yield the URL. `m0`: strength of its memory."""
    lessons = _lessons(tasks)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="combee-student", daemon=True)
    thread.start()
    server = MockServer(reply=student_of(tuple(tasks), lessons, m0=m0))
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result()
        yield server.url
    finally:
        asyncio.run_coroutine_threadsafe(server.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
