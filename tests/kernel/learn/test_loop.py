"""The loop keeps its promises: order-free bytes, nothing scored that did not happen, replays that buy nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from combee.errors import BudgetError, CallError, CallErrorKind, RunError, StorageError, UsageError
from combee.kernel.guard import Policy
from combee.kernel.journal import JSON, Journal, Scope
from combee.kernel.learn import (
    Event,
    FinishReason,
    Judge,
    LearnConfig,
    LearnResult,
    LiveTasks,
    Reflection,
    Rollout,
    Score,
    Task,
    Validated,
    evaluate,
    learn,
)
from combee.kernel.learn.codec import revision_from_json
from combee.kernel.playbook import Playbook, digest, replay, tokens
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.tasks import TaskSet, load


@pytest.fixture(scope="module")
def tags() -> TaskSet:
    return load("tags", sizes=(60, 20, 20))


class Fickle(LexicalGenerator):
    """The embedded agent behind an unreliable line: waits at random, and fails for named (task, attempt) pairs."""

    def __init__(self, failing: Sequence[str] = (), *, always: bool = False, seed: int | None = None) -> None:
        super().__init__()
        self.failing = set(failing)
        self.always = always
        self.random = None if seed is None else random.Random(seed)
        self.calls: list[str] = []

    async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
        self.calls.append(task.id)
        if self.random is not None:
            await asyncio.sleep(self.random.random() / 100)
        if task.id in self.failing:
            if not self.always:
                self.failing.discard(task.id)
            raise CallError("the line is down", kind=CallErrorKind.CONNECTION)
        return await super().generate(task, playbook, scope)


async def run(
    tags: TaskSet,
    generator: LexicalGenerator | None = None,
    *,
    config: LearnConfig | None = None,
    journal: Journal | None = None,
    events: list[Event] | None = None,
    validate: bool = False,
) -> LearnResult:
    agent = generator or LexicalGenerator()

    async def score(book: Playbook, scope: Scope) -> object:
        return await evaluate(agent, tags.val, tags.scorer, book, scope=scope)

    return await learn(
        tags.train,
        LiveTasks(agent, LexicalReflector(), tags.scorer),
        LexicalCurator(),
        config=config or LearnConfig(batch=20, guard=False),
        journal=journal,
        validate=score if validate else None,  # type: ignore[arg-type]  # an Evaluation comes back
        observe=None if events is None else events.append,
    )


async def test_the_order_in_which_samples_finish_does_not_change_a_byte(tags: TaskSet) -> None:
    books = [digest((await run(tags, Fickle(seed=seed))).last) for seed in range(4)]
    assert len(set(books)) == 1


async def test_a_sample_that_fails_for_an_outside_reason_is_tried_again_and_learned_from(tags: TaskSet) -> None:
    failing = [tags.train[1].id, tags.train[25].id]
    generator = Fickle(failing)
    result = await run(tags, generator)
    assert result.unlearned == ()
    assert all(generator.calls.count(name) == 2 for name in failing)
    assert sum(step.failed for step in result.steps) == 2
    assert sum(step.total for step in result.steps) == len(tags.train)


async def test_a_sample_that_always_fails_is_named_and_never_scored(tags: TaskSet) -> None:
    broken = tags.train[3].id
    result = await run(tags, Fickle([broken], always=True), config=LearnConfig(batch=20, attempts=3, guard=False))
    assert result.unlearned == (broken,)
    assert sum(step.total for step in result.steps) == len(tags.train) - 1
    assert not any(broken in source for bullet in result.last for source in bullet.sources)


async def test_a_run_in_which_nothing_works_fails_with_the_reason(tags: TaskSet) -> None:
    everything = [task.id for task in tags.train]
    events: list[Event] = []
    with pytest.raises(RunError, match="None of the 60 samples"):
        await run(tags, Fickle(everything, always=True), events=events)
    assert getattr(events[-1], "reason", None) is FinishReason.FAILED


@pytest.mark.parametrize(
    ("batch", "every", "samples", "expected"),
    [
        (48, 100, 450, [144, 240, 336, 432, 450]),
        (10, 20, 60, [20, 40, 60]),
        (60, 20, 60, [60]),
        (7, 1000, 30, [30]),
        (25, 10, 50, [25, 50]),
    ],
)
async def test_each_crossing_of_a_multiple_is_validated_once_and_so_is_the_end(
    batch: int, every: int, samples: int, expected: list[int]
) -> None:
    tags = load("tags", sizes=(samples, 5, 5))
    result = await run(tags, config=LearnConfig(batch=batch, eval_every=every, guard=False), validate=True)
    assert [validation.seen for validation in result.validations] == expected


async def test_tasks_that_raise_in_evaluation_are_shown_and_their_score_accepts_nothing(tags: TaskSet) -> None:
    tasks = tags.val[:4]
    found = await evaluate(Fickle([task.id for task in tasks[1:]], always=True), tasks, tags.scorer, Playbook())
    assert len(found.scores) == 1
    assert set(found.errors.values()) == {"the line is down"}
    assert len(found.errors) == 3
    assert not found.complete


async def test_an_incomplete_validation_is_never_the_best(tags: TaskSet) -> None:
    events: list[Event] = []
    await run(tags, Fickle([tags.val[0].id], always=True), events=events, validate=True)
    validated = [event for event in events if isinstance(event, Validated)]
    assert validated
    assert all(event.errors == 1 and not event.best for event in validated)


async def test_a_replay_takes_the_same_path_and_buys_nothing(tags: TaskSet, tmp_path: Path) -> None:
    first = Fickle([tags.train[2].id], seed=1)
    with Journal.open(tmp_path) as journal:
        one = await run(tags, first, journal=journal, validate=True)
    again = Fickle(seed=2)
    with Journal.open(tmp_path) as journal:
        two = await run(tags, again, journal=journal, validate=True)
        assert journal.stats().bought == 0
    assert digest(one.last) == digest(two.last)
    assert again.calls == []
    assert [step.batch for step in one.steps] == [step.batch for step in two.steps]


async def test_a_budget_that_runs_out_ends_the_run_with_its_reason_and_keeps_the_book(tags: TaskSet) -> None:
    class Poor(LexicalGenerator):
        calls = 0

        async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
            self.calls += 1
            if self.calls > 30:
                raise BudgetError("30 calls are used up")
            return await super().generate(task, playbook, scope)

    result = await run(tags, Poor())
    assert result.reason is FinishReason.BUDGET
    assert len(result.steps) == 1
    assert len(result.last) > 0


async def test_labels_decide_what_is_learned_from(tags: TaskSet) -> None:
    samples = [Task(task.id, task.question, task.target, {"tenant": "ab"[n % 2]}) for n, task in enumerate(tags.train)]
    events: list[Event] = []
    result = await learn(
        samples,
        LiveTasks(LexicalGenerator(), LexicalReflector(), tags.scorer),
        LexicalCurator(),
        config=LearnConfig(batch=20),
        judge=Judge(policy=Policy(tenants=frozenset({"a"}))),
        observe=events.append,
    )
    refused = {sample.id for sample in samples if sample.labels["tenant"] == "b"}
    assert not any(source.split("~")[0] in refused for bullet in result.last for source in bullet.sources)
    assert sum(type(event).__name__ == "SampleRefused" for event in events) == len(refused)


async def test_a_display_that_breaks_does_not_break_the_run(tags: TaskSet) -> None:
    def explode(event: Event) -> None:
        raise ValueError(event)

    result = await learn(
        tags.train,
        LiveTasks(LexicalGenerator(), LexicalReflector(), tags.scorer),
        LexicalCurator(),
        config=LearnConfig(batch=30),
        observe=explode,
    )
    assert result.reason is FinishReason.COMPLETED


async def test_a_collapsing_aggregation_is_tried_again_in_smaller_groups_without_new_rollouts(tags: TaskSet) -> None:
    generator = Fickle()
    result = await learn(
        tags.train,
        LiveTasks(generator, LexicalReflector(), tags.scorer),
        LexicalCurator(forget=8),
        config=LearnConfig(batch=60, aggregate="naive", guard=True),
    )
    assert len(generator.calls) == len(tags.train)
    assert result.steps[0].depth > 1
    naive = await learn(
        tags.train,
        LiveTasks(LexicalGenerator(), LexicalReflector(), tags.scorer),
        LexicalCurator(forget=8),
        config=LearnConfig(batch=60, aggregate="naive", guard=False),
    )
    assert len(result.last) > 3 * len(naive.last)


async def test_epochs_see_every_sample_again_and_shuffles_are_seeded(tags: TaskSet) -> None:
    config = LearnConfig(batch=30, epochs=2, shuffle=True, seed=3, guard=False)
    one, two = await run(tags, config=config), await run(tags, config=config)
    assert digest(one.last) == digest(two.last)
    assert sum(step.total for step in one.steps) == 2 * len(tags.train)


async def test_online_scores_are_taken_before_learning(tags: TaskSet) -> None:
    result = await run(tags, config=LearnConfig(batch=60, guard=False))
    empty = await evaluate(LexicalGenerator(), tags.train, tags.scorer, Playbook())
    assert result.steps[0].hits == empty.hits


@pytest.mark.parametrize(
    "setting",
    [
        {"batch": 0},
        {"batch": -3},
        {"epochs": 0},
        {"aggregate": "navie"},
        {"near": 2.0},
        {"second_chances": -1},
        {"candidates": (0, 4)},
        {"concurrency": 0},
    ],
)
def test_settings_that_cannot_be_used_are_refused(setting: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        LearnConfig(**setting)  # type: ignore[arg-type]  # wrong on purpose


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="epochs"):
        LearnConfig.from_json({"epoch": 2})


async def test_no_samples_and_equal_ids_are_refused(tags: TaskSet) -> None:
    live = LiveTasks(LexicalGenerator(), LexicalReflector(), tags.scorer)
    with pytest.raises(UsageError, match="no samples"):
        await learn([], live, LexicalCurator(), config=LearnConfig())
    with pytest.raises(UsageError, match="same id"):
        await learn([tags.train[0]] * 2, live, LexicalCurator(), config=LearnConfig())


def test_a_batch_larger_than_the_data_is_one_step(tags: TaskSet) -> None:
    result = asyncio.run(run(tags, config=LearnConfig(batch=10_000, guard=False)))
    assert [step.batch for step in result.steps] == [len(tags.train)]


async def test_in_a_full_playbook_new_lessons_are_refused_or_old_ones_give_way_and_history_knows(
    tags: TaskSet, tmp_path: Path
) -> None:
    room = 700
    books = {}
    for rule in ("refuse", "evict"):
        config = LearnConfig.from_json({"batch": 20, "guard": False, "token_budget": room, "on_full": rule})
        with Journal.open(tmp_path / rule) as journal:
            books[rule] = (await run(tags, config=config, journal=journal)).last
            kept = [cast("dict[str, JSON]", version.data)["revision"] for version in journal.versions()[1:]]
        assert tokens(books[rule]) <= room
        assert digest(replay(Playbook(), map(revision_from_json, kept)).playbook) == digest(books[rule])
    steps = {rule: max(bullet.created for bullet in book) for rule, book in books.items()}
    assert steps["evict"] > steps["refuse"]


async def test_votes_from_every_reflection_are_counted_once(tags: TaskSet) -> None:
    score = Score(1, 1)
    assert score.passed
    result = await run(tags, config=LearnConfig(batch=20, guard=False, epochs=2))
    votes = sum(bullet.helpful + bullet.harmful for bullet in result.last)
    assert votes > 0
    copied = await run(tags, config=LearnConfig(batch=20, guard=False, epochs=2, copies=2))
    assert sum(bullet.helpful + bullet.harmful for bullet in copied.last) == votes


def test_reflections_survive_the_journal_unchanged() -> None:
    from combee.kernel.learn import reflection_from_json, reflection_to_json
    from combee.kernel.playbook import Vote, VoteKind

    before = Reflection(
        id="r", trace="t", task="q", text="x", lessons=("a",), votes=(Vote("r", "b", VoteKind.HARMFUL),), passed=False
    )
    assert reflection_from_json(reflection_to_json(before), {}) == before


@pytest.mark.parametrize("error", [BudgetError("used up"), StorageError("disk full")])
@pytest.mark.parametrize("first", [0, 20, 25])
async def test_an_end_before_a_step_has_a_reflection_ends_the_run(tags: TaskSet, error: RunError, first: int) -> None:
    class Ends(LexicalGenerator):
        calls = 0

        async def generate(self, task: Task, playbook: Playbook, scope: Scope) -> Rollout:
            self.calls += 1
            if self.calls > first:
                raise error
            return await super().generate(task, playbook, scope)

    if isinstance(error, BudgetError):
        assert (await run(tags, Ends())).reason is FinishReason.BUDGET
    else:
        with pytest.raises(StorageError):
            await run(tags, Ends())


def _leaves(journal: Journal) -> list[list[str]]:
    (scan,) = [cast("dict[str, JSON]", event.data) for event in journal.events("Scan")]
    nodes = cast("list[dict[str, list[str]]]", scan["nodes"])
    return [node["inputs"] for node in nodes if cast("int", node["level"]) == 0]


async def test_groups_have_the_size_that_is_asked_for_and_the_order_of_the_samples_without_the_shuffle(
    tags: TaskSet, tmp_path: Path
) -> None:
    config = LearnConfig(batch=60, guard=False, aggregate="paper", copies=1, group_size=8, shuffle_groups=False)
    with Journal.open(tmp_path / "paper") as journal:
        await run(tags, config=config, journal=journal)
        leaves = _leaves(journal)
        names = [name for leaf in leaves for name in leaf]
        assert names == sorted(names)
        assert {len(leaf) for leaf in leaves} <= {7, 8}
    with Journal.open(tmp_path / "combee") as journal:
        await run(tags, config=LearnConfig(batch=60, guard=False, shuffle_groups=False), journal=journal)
        first = [name for leaf in _leaves(journal) for name in leaf][: len(names)]
        assert first == sorted(first)
    with Journal.open(tmp_path / "shuffled") as journal:
        await run(tags, config=LearnConfig(batch=60, guard=False), journal=journal)
        mixed = [name for leaf in _leaves(journal) for name in leaf][: len(names)]
        assert mixed != sorted(mixed)


@pytest.mark.parametrize("samples", [1, 5, 9, 12])
async def test_a_last_small_step_of_the_paper_has_fewer_copies_and_no_error(samples: int, tmp_path: Path) -> None:
    few = load("tags", sizes=(samples, 0, 0))
    result = await run(few, config=LearnConfig(batch=20, guard=False, aggregate="paper", copies=4))
    assert len(result.last) > 0
