"""An agent for small models: the few bullets that fit a question best stand before it as answered examples.

A model of a hundred million parameters follows one rule in its prompt nearly always, and one of eight hardly ever; so
what it is shown must be short and right. A wrong answer becomes a lesson: the question, and what was right.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from combee.bench.compare import Setup, compare
from combee.kernel.journal import JSON, Scope, hash_json
from combee.kernel.learn import Evaluation, Reflection, Rollout, Score, Task, evaluate
from combee.kernel.playbook import Bullet, Playbook, Vote, VoteKind, by_relevance
from combee.kernel.runner import LocalRunner
from combee.lexical.embedding import Encoder
from combee.lexical.lesson import lesson_from, read_lesson, read_question
from combee.model.types import ChatModel, Message, Request
from combee.tasks import TaskSet

Completing = Callable[[str], Awaitable[str]]
"""Completes a prompt; returns one of the labels, or whatever an endpoint replies."""

Choosing = Callable[[Playbook, Task, int], Sequence[Bullet]]
"""Returns the bullets of the book, best first, that a task is shown."""

_TOKENS = 16  # of a local reply: labels are short


def nearest(book: Playbook, task: Task, count: int) -> Sequence[Bullet]:
    """Return the bullets that share most with the question, nearest first."""
    return by_relevance(book, task.question)[:count]


def randomly(book: Playbook, task: Task, count: int) -> Sequence[Bullet]:
    """Return `count` bullets drawn by chance: the control that shows what choosing them is worth."""
    chance = random.Random(f"random view {task.id}")
    return chance.sample(book.bullets, min(count, len(book)))


def by_meaning() -> Choosing:
    """Return a choice by a sentence encoder, which finds what is said in other words. Raises as `Encoder`."""
    encoder = Encoder()

    def choose(book: Playbook, task: Task, count: int) -> Sequence[Bullet]:
        texts = [_phrase(bullet.text) for bullet in book]
        return [book.bullets[place] for place in encoder.nearest(texts, task.question, count)]

    return choose


@lru_cache(maxsize=32_768)
def _phrase(text: str) -> str:
    lesson = read_lesson(text)
    return text if lesson is None else lesson.phrase


@dataclass(frozen=True, slots=True)
class ViewGenerator:
    """Answers by a prompt of examples, worst first so that the best one stands next to the question.

    Args:
        complete: The model.
        labels: The answers that are allowed: an endpoint is asked for them, a local model can write nothing else.
        count: Bullets in view.
        choose: Chooses the bullets.
    """

    complete: Completing
    labels: Sequence[str]
    count: int = 1
    choose: Choosing = nearest

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        """Answer with the view of this task; all bullets in view are reported as used."""
        shown = self.choose(playbook, task, self.count)
        answer = await self.complete(prompt_of(task, shown))
        return Rollout(task.id, answer.strip().strip(".").strip(), tuple(bullet.id for bullet in shown))


def prompt_of(task: Task, shown: Sequence[Bullet]) -> str:
    """Return the prompt: each bullet as an answered ticket, then the question."""
    parts = []
    for bullet in reversed(shown):
        lesson = read_lesson(bullet.text)
        parts.append(bullet.text if lesson is None else f"Ticket: {lesson.phrase}\nDesk: {lesson.label}")
    return "\n\n".join([*parts, f"Ticket: {task.question}\nDesk:"])


@dataclass(frozen=True, slots=True)
class LessonFromFailure:
    """Writes a lesson for each wrong answer, and votes on what was in view: helpful where the answer was right."""

    async def reflect(
        self, task: Task, rollout: Rollout, score: Score | None, playbook: Playbook, scope: Scope
    ) -> Reflection | None:
        """Return what was learned; None without a target."""
        if task.target is None or score is None:
            return None
        kind = VoteKind.HELPFUL if score.passed else VoteKind.HARMFUL
        votes = tuple(Vote(task.id, bullet, kind) for bullet in rollout.used)
        lessons = () if score.passed else (lesson_from(read_question(task.question).spots[0], task.target).text,)
        text = "\n".join(lessons) or "Right."
        return Reflection(task.id, task.id, task.id, text, lessons, votes, score.passed, task.labels)


def ask_local(name: str, labels: Sequence[str]) -> tuple[Completing, Callable[[], Awaitable[None]]]:
    """Return a local model (`local/...`) that completes prompts with one of the labels, and what closes it.

    Raises:
        UsageError: No weights, or the extra `local` is not installed.
    """
    from combee.model.local import LocalServer, weights_of

    server = LocalServer(weights_of(name), slots=1, context=1024)
    grammar = "root ::= " + " | ".join(f'" {label}"' for label in labels)

    async def complete(prompt: str) -> str:
        return await server.complete(prompt, max_tokens=_TOKENS, grammar=grammar)

    return complete, server.aclose


def ask_endpoint(model: ChatModel, labels: Sequence[str]) -> Completing:
    """Return a model at an endpoint; the labels stand before each prompt, in the same words for all arms."""
    head = f"Name the desk that the last ticket goes to, and nothing else. Desks: {', '.join(labels)}."

    async def complete(prompt: str) -> str:
        asked = (Message("system", head), Message("user", prompt))
        request = Request(asked, max_tokens=_TOKENS * 16, role="generator", accept_cut=True)
        return (await model.complete(request)).text

    return complete


def asked_once(complete: Completing, scope: Scope) -> Completing:
    """Return a model that is asked each prompt once, in whichever arm it comes first; its replies are kept."""

    async def kept(prompt: str) -> str:
        async def work() -> JSON:
            return await complete(prompt)

        return str(await scope.once("generator", hash_json(prompt)[:16], prompt, work))

    return kept


@dataclass(frozen=True, slots=True)
class Arm:
    """What one way of learning scored on the held-out tasks.

    `first` and `in_three` are shares of all held-out tasks for which the nearest bullet, or one of the three nearest,
    names the right answer; `lessons` and `kept` count what went into aggregation and what is in the book.
    """

    name: str
    evaluation: Evaluation
    seconds: float
    lessons: int = 0
    kept: int = 0
    first: float | None = None
    in_three: float | None = None


WAYS = ("sequential", "naive", "paper", "combee")
FORGET = 40.0


async def arms(
    tasks: TaskSet,
    complete: Completing,
    *,
    batch: int,
    count: int = 1,
    choose: Choosing = nearest,
    concurrency: int = 1,
    seed: int = 0,
) -> AsyncGenerator[Arm]:
    """Yield no playbook, each way to aggregate, and the control: combee's book with a view drawn by chance.

    Args:
        tasks: Training and held-out tasks with a closed list of answers.
        complete: The model; the same for all arms.
        batch: Samples a step (sequential: one).
        count: Bullets in view.
        choose: Chooses the bullets, except for the control.
        concurrency: Calls in flight.
        seed: Decides shuffles and what is forgotten.
    """
    labels, runner = tasks.choices or (), LocalRunner(concurrency)
    generator = ViewGenerator(complete, labels, count, choose)
    begun = time.perf_counter()
    none = await evaluate(generator, tasks.test, tasks.scorer, Playbook(), runner=runner)
    yield Arm("no playbook", none, time.perf_counter() - begun)
    agent = (generator, LessonFromFailure())
    setup = Setup(tasks.train, tasks.test, tasks.scorer, batch=batch, forget=FORGET, seed=seed, agent=agent)
    book = Playbook()
    for way in WAYS:
        begun = time.perf_counter()
        learned = await compare(setup, way)
        book = learned.result.last
        first, in_three = _retrieved(book, tasks.test, choose)
        took = time.perf_counter() - begun
        yield Arm(way, learned.evaluation, took, learned.lessons, learned.kept, first, in_three)
    begun = time.perf_counter()
    chance = ViewGenerator(complete, labels, count, randomly)
    control = await evaluate(chance, tasks.test, tasks.scorer, book, runner=runner)
    yield Arm("random view", control, time.perf_counter() - begun)


def _retrieved(book: Playbook, tasks: Sequence[Task], choose: Choosing) -> tuple[float, float]:
    """Return the shares of tasks with a bullet of the right label first, and among the first three."""
    ranks = []
    for task in tasks:
        read = [read_lesson(bullet.text) for bullet in choose(book, task, 3)]
        ranks.append([lesson is not None and lesson.label == task.target for lesson in read])
    total = max(1, len(tasks))
    return sum(any(rank[:1]) for rank in ranks) / total, sum(map(any, ranks)) / total
