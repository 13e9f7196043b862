"""FiNER without a model: what the embedded agent learns from the train file, and what each aggregation keeps.

Settings as shipped (chosen by cross-validation on the train file); accuracy over the 880 tags of the 220 test rows,
interval by bootstrap over rows. A linear SVM on the same features stands beside it: a ceiling that is no playbook.
Needs COMBEE_DATA, the folder that holds finer/. Run: python -m benchmarks.bench_finer (about five minutes).
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sklearn.feature_extraction import DictVectorizer  # type: ignore[import-untyped] # has no types
from sklearn.feature_extraction.text import TfidfTransformer  # type: ignore[import-untyped] # has no types
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped] # has no types
from sklearn.svm import LinearSVC  # type: ignore[import-untyped] # has no types

from combee.kernel.journal import MemoryScope, Scope
from combee.kernel.learn import LearnConfig, Sampled, Task, learn
from combee.kernel.learn.events import Event, StepFinished
from combee.kernel.playbook import Add, Playbook, apply, delta_of, tokens
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector, Lexicon, lesson_from, read_question
from combee.lexical.features import features, name_words
from combee.tasks import TaskSet, load

SEEDS = range(5)
M0 = 40.0
WAYS = ("naive", "naive_long", "summarize", "top_k", "paper", "combee")


@dataclass
class Direct:
    """The map without a journal: what is not paid for need not be kept."""

    tasks: TaskSet
    lexicon: Lexicon = field(default_factory=Lexicon)

    def __post_init__(self) -> None:
        self.generator = LexicalGenerator(self.lexicon)
        self.reflector = LexicalReflector(self.lexicon)

    async def __call__(self, sample: Task, playbook: Playbook, scope: Scope, attempt: int) -> Sampled:
        """Answer, score, reflect."""
        rollout = await self.generator.generate(sample, playbook, scope)
        score = self.tasks.scorer(sample, rollout.answer)
        reflection = await self.reflector.reflect(sample, rollout, score, playbook, scope)
        return Sampled(reflection, score, rollout.used)

    async def hits(self, tasks: Sequence[Task], playbook: Playbook) -> list[int]:
        """Return the right tags of each row."""
        scope = MemoryScope()
        answers = [(task, (await self.generator.generate(task, playbook, scope)).answer) for task in tasks]
        return [self.tasks.scorer(task, answer).hits for task, answer in answers]


@dataclass(frozen=True)
class Result:
    """One run: right tags by test row, the book, and what the steps counted."""

    hits: tuple[int, ...]
    book: Playbook
    lessons: int
    operations: int
    calls: int
    reads: float
    depth: int
    seconds: float


def reordered(tasks: TaskSet, seed: int) -> TaskSet:
    """Return the set with its train rows in an order of this seed."""
    train = list(tasks.train)
    random.Random(seed).shuffle(train)
    return replace(tasks, train=tuple(train))


async def run(tasks: TaskSet, config: LearnConfig, curator: LexicalCurator) -> Result:
    """Learn from train, answer test."""
    steps: list[StepFinished] = []

    def observe(event: Event) -> None:
        if isinstance(event, StepFinished):
            steps.append(event)

    began = time.process_time()
    work = Direct(tasks)
    found = await learn(tasks.train, work, curator, config=config, observe=observe)
    seconds = time.process_time() - began
    reflections = sum(step.reflections for step in steps)
    return Result(
        hits=tuple(await work.hits(tasks.test, found.last)),
        book=found.last,
        lessons=sum(step.lessons for step in steps),
        operations=sum(step.operations for step in steps),
        calls=sum(step.calls for step in steps),
        reads=sum(step.reads for step in steps) / max(1, reflections),
        depth=sum(step.depth for step in steps),
        seconds=seconds,
    )


def accuracy(hits: Sequence[int]) -> float:
    return sum(hits) / (4 * len(hits))


def interval(hits: Sequence[int], rounds: int = 2000) -> tuple[float, float]:
    """Return the middle 95 % of the accuracies of rows drawn anew (a row's four tags stay together)."""
    rng = random.Random(0)
    drawn = sorted(accuracy(rng.choices(hits, k=len(hits))) for _ in range(rounds))
    return drawn[rounds // 40], drawn[-rounds // 40]


def line(name: str, results: Sequence[Result]) -> str:
    """Return a row of the table: means over the seeds; the interval is that of the first seed's rows."""
    rates = [accuracy(result.hits) for result in results]
    mean = sum(rates) / len(rates)
    spread = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / max(1, len(rates) - 1))
    low, high = interval(results[0].hits)

    def average(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    kept = average([result.operations / max(1, result.lessons) for result in results])
    return (
        f"{name:<28} {mean:.3f} ±{spread:.3f}  [{low:.3f}, {high:.3f}]  "
        f"{average([len(result.book) for result in results]):>6.0f} {average([tokens(r.book) for r in results]):>7.0f}"
        f" {kept:>6.0%} {average([r.calls for r in results]):>6.0f} {average([r.reads for r in results]):>6.2f}"
        f" {average([r.depth for r in results]):>6.0f} {average([r.seconds for r in results]):>6.1f}"
    )


HEAD = (
    f"{'':<28} {'accuracy ±sd':<14}{'95 % (bootstrap)':<17}{'entries':>6} {'tokens':>7} {'kept':>6} {'calls':>6}"
    f" {'reads':>6} {'depth':>6} {'CPU s':>6}"
)
Row = tuple[str, LearnConfig, float | None, int | None]
"""Name, settings, m0 of forgetting, output limit."""


def _table(tasks: TaskSet, title: str, rows: Sequence[Row]) -> None:
    print(f"\n{title}\n{HEAD}")
    for name, config, forget, limit in rows:
        results = []
        for seed in SEEDS:
            curator = LexicalCurator(forget=forget, output_limit=limit, seed=seed)
            results.append(asyncio.run(run(reordered(tasks, seed), replace(config, seed=seed), curator)))
        print(line(name, results), flush=True)


def svm(tasks: TaskSet, *, names: bool) -> float:
    """Return the accuracy of a linear SVM on the agent's own features; with `names` also on one row of words a tag."""

    def rows(split: Sequence[Task]) -> tuple[list[dict[str, int]], list[str]]:
        seen, labels = [], []
        for task in split:
            for spot, tag in zip(read_question(task.question).spots, (task.target or "").split(","), strict=True):
                seen.append(features(spot.sentence, spot.start, spot.end)[0])
                labels.append(tag.strip())
        return seen, labels

    train, tags = rows(tasks.train)
    if names:
        offered = read_question(tasks.train[0].question).options
        train += [dict.fromkeys(name_words(tag), 16) for tag in offered]
        tags += list(offered)
    model = make_pipeline(DictVectorizer(), TfidfTransformer(sublinear_tf=True), LinearSVC(C=1.0))
    test, wanted = rows(tasks.test)
    return float(model.fit(train, tags).score(test, wanted))


def speed(tasks: TaskSet) -> str:
    """Return how long a book of a lesson for every train question takes to index, and the test questions to answer."""
    lessons = [
        lesson_from(spot, tag.strip()).text
        for task in tasks.train
        for spot, tag in zip(read_question(task.question).spots, (task.target or "").split(","), strict=True)
    ]
    book = apply(Playbook(), delta_of(Add("CONTEXT CLUES & INDICATORS", text) for text in lessons)).playbook
    lexicon = Lexicon()
    began = time.process_time()
    lexicon.index(book)
    built = time.process_time()
    hits = asyncio.run(Direct(tasks, lexicon).hits(tasks.test, book))
    answered = time.process_time() - built
    return (
        f"{len(book):,} bullets, a lesson of every train question: accuracy {accuracy(hits):.3f}; "
        f"index {built - began:.2f} s, "
        f"{4 * len(hits)} questions {answered:.2f} s CPU ({250 * answered / len(hits):.2f} ms each)"
    )


def main() -> None:
    """Print the tables."""
    tasks = load("finer")
    print(tasks.about)
    base = LearnConfig(guard=False)
    empty = asyncio.run(Direct(tasks).hits(tasks.test, Playbook()))
    low, high = interval(empty)
    print(f"\nempty playbook (names of the tags only): {accuracy(empty):.3f} [{low:.3f}, {high:.3f}]")
    print(f"linear SVM, same features: {svm(tasks, names=False):.3f}; with tag names: {svm(tasks, names=True):.3f}")
    print(speed(tasks))
    shipped = [(f"batch {batch}", replace(base, batch=batch), None, None) for batch in (1, 40, 125)]
    free = replace(base, batch=125, token_budget=1_000_000)
    _table(
        tasks,
        f"Settings as shipped, nothing forgotten; {len(SEEDS)} orders of the train rows",
        [*shipped, ("batch 125, no token budget", free, None, None)],
    )
    for batch in (125, 499):
        rows: list[Row] = [(how, replace(base, batch=batch, aggregate=how), M0, None) for how in WAYS]
        ours = replace(base, batch=batch, second_chances=3)
        rows.append(("combee, 3 second chances", ours, M0, None))
        _table(tasks, f"SIMULATED FORGETTING, m0 = {M0:.0f}, batch {batch}", rows)
    _table(tasks, f"SIMULATED FORGETTING, m0 = {M0:.0f}, sequential", [("batch 1", replace(base, batch=1), M0, None)])
    rows = [(how, replace(base, batch=125, aggregate=how), None, 4096) for how in WAYS]
    _table(tasks, "No simulation: a call writes at most 4,096 tokens (naive_long 32,768), batch 125", rows)


if __name__ == "__main__":
    main()
