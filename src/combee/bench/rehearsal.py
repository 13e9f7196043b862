"""A scripted student over HTTP on the loopback address, for arms that need a model and are only rehearsed.

It is right exactly if the lesson of a label stands in its prompt, and forgets as it writes lessons down. So a rehearsal
shows that lessons travel the whole way; it does not show that a model learns.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from combee.mock import MockServer
from combee.mock.gepa_student import student_of
from combee.tasks import TaskSet

__all__ = ["STUDENT", "student_served"]

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
