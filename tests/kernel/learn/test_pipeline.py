"""Leaves that start early, samples that are late, steps that fail: the same book, and nothing lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from combee.errors import CallError, CallErrorKind, RunError
from combee.kernel.aggregate import Method
from combee.kernel.journal import Journal, Scope
from combee.kernel.learn import (
    Event,
    LearnConfig,
    LearnResult,
    LiveTasks,
    ReduceFailed,
    Reflection,
    Rollout,
    StepFinished,
    Task,
    learn,
)
from combee.kernel.playbook import Delta, Playbook, digest
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.lexical.agent import LexicalMethod
from combee.tasks import TaskSet, load

FORGETFUL = LexicalCurator(forget=20)


@pytest.fixture(scope="module")
def tags() -> TaskSet:
    return load("tags", sizes=(72, 5, 5))


class Slow(LexicalGenerator):
    """The embedded agent with waiting times of its own; the `held` samples wait until the gate is opened."""

    def __init__(self, seed: int, held: Sequence[str] = ()) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.held = set(held)
        self.gate = asyncio.Event()
        self.calls: list[str] = []

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        self.calls.append(task.id)
        if task.id in self.held:
            await self.gate.wait()
        else:
            await asyncio.sleep(self.random.random() / 100)
        return await super().generate(task, playbook, scope)


class WatchedBy:
    def __init__(self, inner: LexicalCurator, gate: asyncio.Event | None = None, failing: int = 0) -> None:
        self.inner = inner
        self.gate = gate
        self.failing = failing

    def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        return _Noted(self, self.inner.method(playbook, scope))


class _Noted(LexicalMethod):
    def __init__(self, outer: WatchedBy, inner: LexicalMethod) -> None:
        super().__init__(inner.curator, inner.place)
        object.__setattr__(self, "outer", outer)

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        outer: WatchedBy = self.outer  # type: ignore[attr-defined]  # set above
        if outer.gate is not None:
            outer.gate.set()
        if outer.failing > 0:
            raise CallError("the endpoint is down", kind=CallErrorKind.SERVER)
        return await super().leaf(items, node)


async def run(
    tags: TaskSet,
    generator: LexicalGenerator,
    config: LearnConfig,
    *,
    curator: LexicalCurator | WatchedBy = FORGETFUL,
    journal: Journal | None = None,
    events: list[Event] | None = None,
) -> LearnResult:
    return await learn(
        tags.train,
        LiveTasks(generator, LexicalReflector(), tags.scorer),
        curator,
        config=config,
        journal=journal,
        observe=None if events is None else events.append,
    )


async def test_pipelining_changes_no_byte_whatever_the_order_of_arrival(tags: TaskSet) -> None:
    books = [
        digest((await run(tags, Slow(seed), LearnConfig(batch=36, max_items=6, pipeline=pipeline))).last)
        for seed, pipeline in ((1, True), (2, True), (3, False))
    ]
    assert len(set(books)) == 1


async def test_leaves_start_before_the_last_sample_is_in(tags: TaskSet) -> None:
    generator = Slow(1, held=[tags.train[0].id])
    async with asyncio.timeout(30):  # a sample waits for the first leaf: with a barrier there would be no end
        found = await run(
            tags,
            generator,
            LearnConfig(batch=72, max_items=6),
            curator=WatchedBy(LexicalCurator(), generator.gate),
        )
    assert found.steps[0].total == len(tags.train)


@pytest.mark.parametrize(("how", "pipeline"), [("combee", True), ("combee", False), ("paper", True)])
async def test_late_samples_join_the_next_step_and_a_replay_repeats_who_was_late(
    tags: TaskSet, tmp_path: Path, how: str, pipeline: bool
) -> None:
    slow = [task.id for task in tags.train[:4]]
    config = LearnConfig(batch=36, quorum=0.85, aggregate=how, pipeline=pipeline, guard=False)
    first = Slow(1, slow)

    class Opens(list[Event]):
        def append(self, event: Event) -> None:
            if isinstance(event, StepFinished):
                first.gate.set()

    async with asyncio.timeout(30):
        with Journal.open(tmp_path) as journal:
            one = await run(tags, first, config, journal=journal, events=Opens())
    assert one.steps[0].late >= len(slow)
    assert sum(step.total for step in one.steps) == len(tags.train)
    assert sorted(first.calls) == sorted(task.id for task in tags.train)
    again = Slow(9)
    with Journal.open(tmp_path) as journal:
        two = await run(tags, again, config, journal=journal)
        assert journal.stats().bought == 0
    assert again.calls == []
    assert digest(one.last) == digest(two.last)
    assert [step.late for step in one.steps] == [step.late for step in two.steps]


async def test_reflections_of_a_step_that_failed_as_a_whole_are_learned_in_the_next(tags: TaskSet) -> None:
    curator = WatchedBy(LexicalCurator(), failing=1)
    events: list[Event] = []

    def observe(event: Event) -> None:
        events.append(event)
        if isinstance(event, ReduceFailed):
            curator.failing = 0

    failed = await learn(
        tags.train,
        LiveTasks(LexicalGenerator(), LexicalReflector(), tags.scorer),
        curator,
        config=LearnConfig(batch=36, guard=False),
        observe=observe,
    )
    assert [type(event) for event in events].count(ReduceFailed) == 1
    sources = {source for bullet in failed.last for source in bullet.sources}
    first = {f"{task.id}~0" for task in tags.train[:36]}
    assert sources & first
    assert failed.steps[1].reflections < len(sources)


@pytest.mark.parametrize("at", [0, 5, 70])
@pytest.mark.parametrize("how", ["combee", "naive"])
async def test_an_error_of_the_map_ends_the_run_and_is_not_taken_for_a_failed_aggregation(
    tags: TaskSet, how: str, at: int
) -> None:
    class Breaks(Slow):
        async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
            if task.id == tags.train[at].id:
                raise RunError("broken for good")
            return await LexicalGenerator.generate(self, task, playbook, scope)

    events: list[Event] = []
    async with asyncio.timeout(30):
        with pytest.raises(RunError, match="broken for good"):
            await run(tags, Breaks(0), LearnConfig(batch=36, aggregate=how, concurrency=1), events=events)
    assert not any(isinstance(event, ReduceFailed) for event in events)


@pytest.mark.parametrize("how", ["combee", "naive"])
async def test_a_run_whose_aggregation_stays_broken_ends_and_goes_on_when_it_is_mended(
    tags: TaskSet, tmp_path: Path, how: str
) -> None:
    curator = WatchedBy(LexicalCurator(), failing=1)
    config = LearnConfig(batch=20, give_up_after=2, aggregate=how, guard=False)
    for _ in range(2):
        with Journal.open(tmp_path) as journal, pytest.raises(RunError, match="2 steps in a row"):
            await run(tags, Slow(0), config, curator=curator, journal=journal)
    curator.failing = 0
    later = Slow(0)
    with Journal.open(tmp_path) as journal:
        mended = await run(tags, later, config, curator=curator, journal=journal)
    assert sorted(later.calls) == sorted(task.id for task in tags.train[40:])
    with Journal.open(tmp_path) as journal:
        again = await run(tags, Slow(0), config, curator=curator, journal=journal)
        assert journal.stats().bought == 0
    assert digest(mended.last) == digest(again.last)
    sources = {source.split("~")[0] for bullet in mended.last for source in bullet.sources}
    assert sources & {task.id for task in tags.train[:20]}


async def test_a_wrong_key_ends_the_run_at_once(tags: TaskSet) -> None:
    class Denied(WatchedBy):
        def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
            raise CallError("wrong key", kind=CallErrorKind.AUTH)

    with pytest.raises(CallError, match="wrong key"):
        await run(tags, LexicalGenerator(), LearnConfig(batch=20), curator=Denied(LexicalCurator()))


async def test_no_task_is_left_running_after_a_run_that_failed(tags: TaskSet) -> None:
    class Breaks(Slow):
        async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
            if task.id == tags.train[5].id:
                raise RunError("broken for good")
            return await super().generate(task, playbook, scope)

    before = len(asyncio.all_tasks())
    with pytest.raises(RunError, match="broken for good"):
        await run(tags, Breaks(0), LearnConfig(batch=36))
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before
