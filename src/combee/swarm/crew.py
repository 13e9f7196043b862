"""A swarm at work on tasks: many questions in flight, one loop that hands messages on, each answer when it comes.

It is a `combee.kernel.learn.Generator`: the playbook that it is given is what its agents get views of.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace

from combee.errors import CallError, CallErrorKind, UsageError
from combee.kernel.journal import Scope
from combee.kernel.learn import Rollout, Task
from combee.kernel.playbook import Playbook
from combee.redaction import Trace
from combee.swarm.lessons import Lessons, cited
from combee.swarm.mail import Mail
from combee.swarm.swarm import USER, Swarm
from combee.swarm.traces import question_trace

__all__ = ["Crew", "Done", "addressed"]

_ADDRESS = re.compile(r"@(\S+)\s+(?=\S)")
_BRACKETS = re.compile(r"\s*\[([^\[\]]+)\]")


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a task: the answer without the ids that it names, the bullets used, and what was done for it."""

    answer: str
    used: tuple[str, ...]
    trace: Trace


def addressed(question: str, to: str) -> tuple[str, str]:
    """Return who a task is for, and the question without the `@name` that says so; `to` where none does."""
    found = _ADDRESS.match(question)
    return (found[1], question[found.end() :]) if found else (to, question)


class Crew:
    """Puts tasks to the agents of a swarm.

    Args:
        swarm: The swarm; nothing else may run it meanwhile.
        to: Who is asked what does not begin with `@name`.
        lessons: How much of a playbook goes with a question; its own book is not used.
    """

    def __init__(self, swarm: Swarm, *, to: str, lessons: Lessons) -> None:
        self.swarm = swarm
        self._to = to
        self._lessons = lessons
        self._loop: asyncio.Task[int] | None = None
        self._waiting: dict[int, asyncio.Event] = {}
        self._seen = 0
        self._number = 0
        swarm.after = self._look

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Do a task once more, as a question of its own."""
        self._number += 1
        done = await self.work(task, playbook, key=f"{scope.address}/{task.id}/{self._number}")
        return Rollout(task.id, done.answer, done.used)

    async def work(self, task: Task, playbook: Playbook, *, key: str) -> Done:
        """Ask, and wait for the answer. The same key again asks nothing: it waits for the question sent first.

        Raises:
            CallError: A model gave nothing usable. An agent that is full or finds no end has failed at the task.
            UsageError: There is no such agent.
        """
        self.swarm.lessons = replace(self._lessons, book=playbook)
        to, question = addressed(task.question, self._to)
        if self.swarm.world.agent(to) is None:
            raise UsageError(f"the task {task.id} is for {to!r}, who is not there", hint="Name an agent of the file.")
        number = self.swarm.ask(USER, question, to=to, key=key)
        found = await self._answer(number) if number else None
        if found is not None and found.kind == "report" and (why := self._outside(number)):
            raise CallError(why, kind=CallErrorKind.AGENT)
        trace = question_trace(self.swarm.world, number, name=task.id, task=question)
        said = [step.text for step in trace.steps if step.role == "assistant"]
        answer = found.body if found is not None and found.kind == "answer" else ""
        plain = _BRACKETS.sub(lambda match: "" if match[1].strip() in playbook else match[0], answer).strip()
        return Done(plain, cited(said, playbook), trace)

    async def aclose(self) -> None:
        """Stop the loop. What was in flight is booked; the world goes on from there another time."""
        if self._loop is not None and not self._loop.done():
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def _answer(self, number: int) -> Mail | None:
        """Return the answer or report; None when no message is left and nothing has come."""
        idle = False
        while (found := self.swarm.answer(number)) is None and not idle:
            came = self._waiting.setdefault(number, asyncio.Event())
            if self._loop is None or self._loop.done():
                self._loop = asyncio.create_task(self.swarm.run())
            running = self._loop
            waiter = asyncio.create_task(came.wait())
            try:
                await asyncio.wait({waiter, running}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiter.cancel()
            idle = running.done() and running.result() == 0
        self._waiting.pop(number, None)
        return found

    def _look(self) -> None:
        """Wake who waits for an answer that has come."""
        sql = "SELECT id, thread FROM mail WHERE recipient = ? AND state = 'inbox' AND id > ? ORDER BY id"
        for row, thread in self.swarm.world.rows(sql, USER, self._seen):
            self._seen = row
            if thread in self._waiting:
                self._waiting[thread].set()

    def _outside(self, number: int) -> str:
        """Return why a model failed at a question, empty where none did."""
        sql = (
            "SELECT json_extract(data, '$.why') FROM events WHERE kind = 'failed'"
            " AND json_extract(data, '$.ask') = ? AND json_extract(data, '$.outside')"
        )
        row = self.swarm.world.one(sql, number)
        return str(row[0]) if row else ""
