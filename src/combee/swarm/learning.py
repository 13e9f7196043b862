"""A living swarm learns: its runs on tasks are traces, a playbook is learned from them, its agents get views of it.

`SwarmGenerator` has many questions in flight and one loop that hands messages on. `SwarmTasks` is a sample map of the
learning loop, so journal, resume, guard, versions and report are those of every run. One epoch over all tasks is one
round. Held-out tasks are asked in a copy of the world and leave nothing behind.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from combee.errors import CallError, CallErrorKind, RunError, UsageError
from combee.kernel.journal import JSON, Scope
from combee.kernel.learn import (
    Evaluation,
    Reflection,
    Rollout,
    Sampled,
    Score,
    Scorer,
    Task,
    TraceReflector,
    evaluate,
    reflection_from_json,
    reflection_to_json,
)
from combee.kernel.playbook import Playbook, Vote, VoteKind, digest
from combee.kernel.runner import LocalRunner
from combee.redaction import Outcome, Trace, from_jsonl, to_jsonl
from combee.swarm.briefing import Lessons, cited
from combee.swarm.ledger import totals
from combee.swarm.mail import Mail, get_mail
from combee.swarm.swarm import USER, Swarm
from combee.swarm.traces import question_trace
from combee.swarm.world import HELD_OUT, folder_of

__all__ = ["HeldOutScore", "HeldOutTasks", "SwarmGenerator", "SwarmTasks", "TaskAnswer", "addressed"]


@dataclass(frozen=True, slots=True)
class SwarmTasks:
    """Puts each task to the swarm, scores the answer, and reflects on everything that was done for it.

    Attributes:
        generator: The swarm at work.
        reflector: Reads the trace of a question.
        scorer: Compares an answer with the target.
        run: Name of the learning run; its questions are its own, also when it is resumed.
    """

    generator: SwarmGenerator
    reflector: TraceReflector
    scorer: Scorer
    run: str

    async def __call__(self, sample: Task, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Work on one task. Bullets that were named count as used, and get a vote for a scored answer."""
        inputs: JSON = {"task": sample.id, "question": sample.question, "playbook": digest(playbook)}

        async def work() -> JSON:
            step = f"{self.run}/{scope.address}"
            done = await self.generator.work(sample, playbook, key=f"{step}/{sample.id}", step=step)
            return {"answer": done.answer, "used": list(done.used), "trace": "".join(to_jsonl([done.trace]))}

        kept = cast("dict[str, JSON]", await scope.once("rollout", sample.id, inputs, work, attempt=attempt))
        answer, used = str(kept["answer"]), tuple(map(str, cast("list[JSON]", kept["used"])))
        score = self.scorer(sample, answer) if sample.target is not None else None
        trace = _judged(next(from_jsonl([str(kept["trace"])])), sample, answer, score)

        async def reflect() -> JSON:
            reflection = await self.reflector.reflect_trace(trace, playbook, scope)
            return None if reflection is None else reflection_to_json(reflection)

        evidence: JSON = {"trace": kept["trace"], "playbook": digest(playbook)}
        reflection = reflection_from_json(
            await scope.once("reflect", sample.id, evidence, reflect, attempt=attempt), sample.labels
        )
        return Sampled(_voted(reflection, sample, score, used), score, used)


def _judged(trace: Trace, task: Task, answer: str, score: Score | None) -> Trace:
    if score is None:
        return replace(trace, labels=task.labels)
    detail = score.detail or f"the answer was {answer!r}"
    return replace(trace, labels=task.labels, outcome=Outcome(score.passed, score.hits / score.total, detail=detail))


def _voted(reflection: Reflection | None, task: Task, score: Score | None, used: tuple[str, ...]) -> Reflection | None:
    """Add a vote for each bullet that was used; an answer that nobody scored says nothing about them."""
    if score is None or not used:
        return reflection
    found = reflection or Reflection(task.id, task.id, task.id, "", labels=task.labels)
    kind = VoteKind.HELPFUL if score.passed else VoteKind.HARMFUL
    others = tuple(vote for vote in found.votes if vote.bullet not in used)
    votes = (*others, *(Vote(found.id, bullet, kind) for bullet in used))
    return replace(found, votes=votes, passed=score.passed)


@dataclass(frozen=True, slots=True)
class HeldOutScore:
    """What held-out tasks gave: scores, prompt and reply tokens over all, and how many agents had no room for it."""

    evaluation: Evaluation
    tokens: int
    full: int


@dataclass(frozen=True, slots=True)
class HeldOutTasks:
    """Scores playbooks on tasks that are never learned from, each time in a copy of the world as it is then.

    Copies bring nothing back to their origins there, so that no answer depends on the others.
    """

    swarm: Swarm
    tasks: Sequence[Task]
    scorer: Scorer
    to: str
    attempts: int = 3
    concurrency: int = 64

    async def score(
        self, book: Playbook, scope: Scope, lessons: Lessons, windows: Mapping[str, int] | None = None
    ) -> HeldOutScore:
        """Ask all tasks with views of a book; `windows` gives agents another window than they have."""
        with _copy(self.swarm) as copy:
            for name, window in (windows or {}).items():
                with copy.world.step():
                    copy.world.run("UPDATE agents SET window = ? WHERE name = ?", window, name)
            generator = SwarmGenerator(copy, to=self.to, lessons=lessons)
            before = totals(copy.world)
            try:
                found = await evaluate(
                    generator, self.tasks, self.scorer, book, scope=scope, runner=LocalRunner(self.concurrency),
                    attempts=self.attempts,
                )  # fmt: skip
            finally:
                await generator.aclose()
            after = totals(copy.world)
            spent = after.prompt + after.completion - before.prompt - before.completion
            full = len({one.agent.partition("~")[0] for one in copy.world.events() if one.kind in {"full", "refused"}})
        # A replay asks nothing, and says the same.
        cost = cast("list[int]", scope.decide("cost", [spent, full]))
        return HeldOutScore(found, *cost)


@contextmanager
def _copy(swarm: Swarm) -> Iterator[Swarm]:
    """Open a copy of the world that is gone afterwards, or, after a kill, when the next process runs the world."""
    place = folder_of(swarm.world.path)
    with (
        tempfile.TemporaryDirectory(prefix=HELD_OUT, dir=place if place.is_dir() else None) as folder,
        swarm.world.copy(Path(folder) / "world.sqlite") as world,
    ):
        with world.step():
            world.run("UPDATE agents SET returns = 'none'")
        yield swarm.on(world)


_ADDRESS = re.compile(r"@(\S+)\s+(?=\S)")
_BRACKETS = re.compile(r"\s*\[([^\[\]]+)\]")


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What came of a task: the answer without the ids that it names, the bullets used, and what was done for it."""

    answer: str
    used: tuple[str, ...]
    trace: Trace


def addressed(question: str, to: str) -> tuple[str, str]:
    """Return who a task is for, and the question without the `@name` that says so; `to` where none does."""
    found = _ADDRESS.match(question)
    return (found[1], question[found.end() :]) if found else (to, question)


class SwarmGenerator:
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
        self._book: Playbook | None = None
        self._loop: asyncio.Task[int] | None = None
        self._waiting: dict[int, asyncio.Event] = {}
        self._seen = 0
        self._number = 0
        self._step = ""
        self._turn = asyncio.Lock()
        swarm.after = self._look
        swarm.hold_digests = True

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Do a task once more, as a question of its own."""
        self._number += 1
        done = await self.work(task, playbook, key=f"{scope.address}/{task.id}/{self._number}")
        return Rollout(task.id, done.answer, done.used)

    async def work(self, task: Task, playbook: Playbook, *, key: str, step: str = "") -> TaskAnswer:
        """Ask, and wait for the answer. The same key again asks nothing: it waits for the question sent first.

        Copies that answer within one `step` begin alike: what they bring back is read when another step begins.

        Raises:
            CallError: A model gave nothing usable. An agent that finds no end has failed at the task.
            RunError: No model can be had at all; what was asked waits for the next run.
            UsageError: There is no such agent.
        """
        await self._begin(step)
        if playbook is not self._book:
            self._book, self.swarm.lessons = playbook, replace(self._lessons, book=playbook)
        to, question = addressed(task.question, self._to)
        if self.swarm.world.agent(to) is None:
            raise UsageError(f"the task {task.id} is for {to!r}, who is not there", hint="Name an agent of the file.")
        number = self._put(question, to, key)
        found = await self._answer(number) if number else None
        if found is None and (why := self._waits(number)):
            if self.swarm.outage:
                raise RunError(f"no model can be had: {why}", hint="What was asked waits; the same command goes on.")
            raise CallError(why, kind=CallErrorKind.AGENT)
        if found is not None and found.kind == "report" and (why := self._outside(number)):
            raise CallError(why, kind=CallErrorKind.AGENT)
        trace = question_trace(self.swarm.world, number, name=task.id, task=question)
        said = [step.text for step in trace.steps if step.role == "assistant"]
        answer = found.body if found is not None and found.kind == "answer" else ""
        plain = _BRACKETS.sub(lambda match: "" if match[1].strip() in playbook else match[0], answer).strip()
        return TaskAnswer(plain, cited(said, playbook), trace)

    async def _begin(self, step: str) -> None:
        """Let agents read what copies brought back before this step began, so that its order decides nothing."""
        async with self._turn:
            if step != self._step:
                if self._loop is not None:
                    await self._loop
                await self.swarm.bring_back(lambda mail: not self._root_key(mail).startswith(f"{step}/"))
                self._step = step

    def _root_key(self, mail: Mail) -> str:
        first = get_mail(self.swarm.world, mail.first)
        return first.key if first is not None else ""

    def _put(self, question: str, to: str, key: str) -> int:
        """Send a question, or find it again; a new one only where a model failed at those before."""
        for number in itertools.count():
            sent = self.swarm.ask(USER, question, to=to, key=f"{key}/{number}")
            if not sent or not self._outside(sent):
                return sent
        raise AssertionError("a count has no end")

    async def aclose(self) -> None:
        """Stop the loop. What was in flight is booked; the world goes on from there another time."""
        if self._loop is not None and not self._loop.done():
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def _answer(self, number: int) -> Mail | None:
        """Return the answer or report; None when it waits for a model, or no message is left and nothing has come."""
        if self._waits(number):
            self.swarm.try_again(number)
        ended = False
        while (found := self.swarm.answer(number)) is None and not ended:
            came = self._waiting.setdefault(number, asyncio.Event())
            if self._loop is None or self._loop.done():
                self._loop = asyncio.create_task(self.swarm.run())
            running = self._loop
            waiter = asyncio.create_task(came.wait())
            try:
                await asyncio.wait({waiter, running}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiter.cancel()
            ended = bool(self._waits(number)) or (running.done() and running.result() == 0)
        self._waiting.pop(number, None)
        return found

    def _waits(self, number: int) -> str:
        """Return why what was asked for the sake of a question waits for a model; empty where nothing does."""
        return next((one.why for one in self.swarm.waiting.values() if one.mail.first == number), "")

    def _look(self) -> None:
        """Wake who waits for an answer that has come, or that no model can be had for."""
        sql = "SELECT id, thread FROM mail WHERE recipient = ? AND state = 'inbox' AND id > ? ORDER BY id"
        rows = self.swarm.world.rows(sql, USER, self._seen)
        self._seen = rows[-1][0] if rows else self._seen
        for number in [thread for _, thread in rows] + [one.mail.first for one in self.swarm.waiting.values()]:
            if number in self._waiting:
                self._waiting[number].set()

    def _outside(self, number: int) -> str:
        """Return why a model failed at a question, empty where none did."""
        sql = (
            "SELECT json_extract(data, '$.why') FROM events WHERE kind = 'failed'"
            " AND json_extract(data, '$.ask') = ? AND json_extract(data, '$.outside')"
        )
        return self.swarm.world.value(sql, number) or ""
