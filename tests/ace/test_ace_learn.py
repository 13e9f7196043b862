"""The whole way over HTTP, against a mock endpoint that answers as a student."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from combee.ace import AceCurator, AceGenerator, AceReflector
from combee.errors import RunError
from combee.kernel.journal import Journal
from combee.kernel.learn import LearnConfig, LearnResult, LiveTasks, Task, evaluate, learn
from combee.kernel.playbook import Playbook, from_text, to_json
from combee.mock import FAULTS, MockConfig, MockServer, parse_latency
from combee.mock.student import Student, lesson_of
from combee.model import Engine, Ledger, Limiter, OpenAIModel, RetryPolicy, Timeouts

from .conftest import scorer


def model_at(server: MockServer, ledger: Ledger | None = None) -> OpenAIModel:
    engine = Engine(
        limiter=Limiter(16), ledger=ledger, retry=RetryPolicy(backoff=0.01, stop_after=10_000, spare=10_000)
    )
    return OpenAIModel(server.url, "student", None, engine=engine, timeouts=Timeouts(read=2))


async def run(
    server: MockServer,
    tasks: Sequence[Task],
    *,
    config: LearnConfig | None = None,
    start: Playbook | None = None,
    ledger: Ledger | None = None,
    journal: Journal | None = None,
) -> tuple[LearnResult, float | None]:
    async with model_at(server, ledger) as model:
        generator = AceGenerator(model)
        result = await learn(
            tasks,
            LiveTasks(generator, AceReflector(model), scorer),
            AceCurator(model),
            config=config or LearnConfig(batch=6, guard=False),
            start=start,
            journal=journal,
        )
        scored = await evaluate(generator, tasks, scorer, result.last)
    return result, scored.accuracy


async def test_ten_tasks_are_learned_over_http(tasks: Sequence[Task], student: Student) -> None:
    async with MockServer(reply=student) as server:
        result, accuracy = await run(server, tasks[:10])
    assert result.reason.value == "completed"
    assert len(result.last) == 10
    assert accuracy == 1.0
    assert sum(step.total for step in result.steps) == 10
    assert all(bullet.sources for bullet in result.last)


@pytest.mark.parametrize("mode", ["json_mode", "words", "thinking"])
async def test_endpoints_without_schemas_and_models_that_think_aloud_work_too(
    tasks: Sequence[Task], student: Student, mode: str
) -> None:
    config = {
        "json_mode": MockConfig(schema="refuse"),
        "words": MockConfig(schema="refuse", json_mode="refuse", usage=False),
        "thinking": MockConfig(thinking="tag"),
    }[mode]
    async with MockServer(config, student) as server:
        _, accuracy = await run(server, tasks[:4])
    assert accuracy == 1.0


async def test_a_playbook_of_the_ace_reference_is_read_and_continued(tasks: Sequence[Task], student: Student) -> None:
    text = "## STRATEGIES & INSIGHTS\n[sai-00007] helpful=4 harmful=1 :: Read the gauge twice\n\n## OTHERS\n"
    async with MockServer(reply=student) as server:
        result, accuracy = await run(server, tasks[:3], start=from_text(text).playbook)
    kept = result.last.get("sai-00007")
    assert kept is not None
    assert (kept.helpful, kept.harmful) == (4, 1)
    assert sorted(bullet.id for bullet in result.last) == ["calc-00008", "calc-00009", "calc-00010", "sai-00007"]
    assert accuracy == 1.0


async def test_used_bullets_get_their_votes(tasks: Sequence[Task], student: Student) -> None:
    async with MockServer(reply=student) as server:
        result, _ = await run(server, tasks[:4], config=LearnConfig(batch=4, epochs=3, guard=False))
    assert [bullet.helpful for bullet in result.last] == [2, 2, 2, 2]


async def test_with_faults_of_every_kind_nothing_is_lost_and_the_books_agree(tmp_path: Path) -> None:
    tasks = [Task(f"t{n}", f"What is the reading of gauge G-{n:03d}?", str(100 + n)) for n in range(80)]
    student = Student(tasks, {task.id: lesson_of(task) for task in tasks}, m0=None)
    faults = dict.fromkeys(FAULTS, 0.3 / len(FAULTS))
    ledger = Ledger()
    config = LearnConfig(batch=20, attempts=8, guard=False, second_chances=3)
    async with MockServer(MockConfig(faults=faults, hang=60, retry_after="none", seed=5), student) as server:
        with Journal.open(tmp_path) as journal:
            result, _ = await run(server, tasks, config=config, ledger=ledger, journal=journal)
        stats = server.stats
    assert result.reason.value == "completed"
    worked = sum(step.total for step in result.steps)
    assert worked + len(result.unlearned) == len(tasks)
    lessons = sum(step.reflections for step in result.steps)
    assert len(result.last) + sum(step.uncovered for step in result.steps) == lessons
    assert len(FAULTS.keys() & stats.by_outcome.keys()) >= len(FAULTS) - 2
    # Both sides counted the same calls, and the same tokens of those that came home.
    assert ledger.total.calls == stats.requests
    known = [row.usage for row in ledger if row.usage is not None and not row.usage.estimated]
    assert sum(usage.prompt for usage in known) == stats.delivered_prompt
    assert sum(usage.completion for usage in known) == stats.delivered_completion
    assert sum(row.paid == "no" for row in ledger) <= stats.requests - stats.paid


async def test_the_same_run_gives_the_same_bytes_whatever_order_calls_finish_in(
    tasks: Sequence[Task], student: Student
) -> None:
    books = set()
    for seed in range(3):
        async with MockServer(MockConfig(latency=parse_latency("lognormal:0.005:0.9"), seed=seed), student) as server:
            result, _ = await run(server, tasks)
        books.add(to_json(result.last))
    assert len(books) == 1


async def test_a_model_that_never_answers_in_form_ends_the_run_with_a_reason(
    tasks: Sequence[Task], student: Student
) -> None:
    async with MockServer(MockConfig(schema="ignore", json_mode="ignore"), student) as server:
        with pytest.raises(RunError, match="None of the 2 samples"):
            await run(server, tasks[:2])


async def test_a_window_too_small_for_a_group_splits_it(tasks: Sequence[Task], student: Student) -> None:
    async with MockServer(MockConfig(context=1_150), student) as server:
        result, accuracy = await run(server, tasks, config=LearnConfig(batch=12, guard=False))
    assert accuracy is not None
    assert len(result.last) + sum(step.uncovered for step in result.steps) == len(tasks)
