"""The stock gepa package with our parts: it learns, stops where it should, resumes, and errors do not vanish."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from gepa.api import optimize

from combee.errors import CallError, CallErrorKind, RunError, UsageError
from combee.gepa import CombeeReflection, CombeeSampler, GepaRecorder, TaskAdapter, keep_state
from combee.kernel.journal import Journal, MemoryScope, Scope
from combee.kernel.learn import Rollout, Task
from combee.kernel.playbook import Playbook, to_text
from combee.mock.student import GepaStudent
from tests.gepa.answers import Asked, exact, fenced


class Quiet:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, message: str) -> None:
        self.lines.append(message)


def run(adapter: Any, reflection: Any, tasks: Sequence[Task], **more: Any) -> Any:
    given: dict[str, Any] = {
        "seed_candidate": {"system": "Do what is asked."},
        "max_metric_calls": 200,
        "logger": Quiet(),
    }
    given |= {} if "batch_sampler" in more else {"reflection_minibatch_size": 12}
    given |= {"trainset": list(tasks), "valset": list(tasks), "adapter": adapter, "reflection_strategy": reflection}
    return optimize(**given | more)


def test_two_lines_learn_everything(tasks: Sequence[Task], student: GepaStudent) -> None:
    with TaskAdapter(exact, student) as adapter, CombeeReflection(student) as reflection:
        result = run(adapter, reflection, tasks)
    assert result.val_aggregate_scores[0] == 0.0
    assert result.val_aggregate_scores[result.best_idx] == 1.0


def test_a_playbook_component_learns_by_operations(tasks: Sequence[Task], student: GepaStudent) -> None:
    with TaskAdapter(exact, student) as adapter, CombeeReflection(student) as reflection:
        result = run(adapter, reflection, tasks, seed_candidate={"playbook": to_text(Playbook())})
        best = result.best_candidate["playbook"]
        assert len(reflection.book_of(best)) == len(tasks)
    assert result.val_aggregate_scores[result.best_idx] == 1.0
    assert set(reflection.ledger.by_role) == {"reflection/delta"}


def test_the_same_seed_takes_the_same_path(tasks: Sequence[Task], lessons: dict[str, str]) -> None:
    paths = []
    for _ in range(2):
        student = GepaStudent(tasks, lessons, m0=10.0)
        with TaskAdapter(exact, student) as adapter, CombeeReflection(student) as reflection:
            result = run(adapter, reflection, tasks, batch_sampler=CombeeSampler(8))
        paths.append((result.candidates, result.parents, result.val_subscores))
    assert paths[0] == paths[1]


def test_all_failing_ends_the_run_with_the_reason(tasks: Sequence[Task], student: GepaStudent) -> None:
    def broken(prompt: str) -> str:
        raise ConnectionError("no route to host")

    adapter, reflection = TaskAdapter(exact, student), CombeeReflection(broken)
    with adapter, reflection, pytest.raises(RunError, match="no route to host"):
        run(adapter, reflection, tasks)


def test_with_gepas_own_switch_errors_are_told_and_the_run_goes_on(tasks: Sequence[Task], student: GepaStudent) -> None:
    class Told:
        errors: list[str] = []  # noqa: RUF012 - one test

        def on_error(self, event: Mapping[str, Any]) -> None:
            self.errors.append(str(event["exception"]))

    told = Told()

    def heals(prompt: str) -> str:
        if not told.errors:
            raise ConnectionError("down")
        return student(prompt)

    with TaskAdapter(exact, student) as adapter, CombeeReflection(heals, copies=1) as reflection:
        result = run(adapter, reflection, tasks, raise_on_exception=False, callbacks=[told])
    assert len(told.errors) == 1
    assert result.val_aggregate_scores[result.best_idx] == 1.0


def test_a_dead_endpoint_is_asked_tens_of_times_not_hundreds(tasks: Sequence[Task], student: GepaStudent) -> None:
    asked = 0

    async def dead(prompt: str) -> str:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.01)
        raise ConnectionError("no route to host")

    many = [Task(f"m{n}", task.question, task.target) for n, task in enumerate([*tasks] * 50)]
    adapter, reflection = TaskAdapter(exact, student), CombeeReflection(dead)
    with adapter, reflection, pytest.raises(RunError, match="no route to host"):
        run(adapter, reflection, many, valset=list(tasks), reflection_minibatch_size=1200, max_metric_calls=10_000)
    assert asked < 100


def test_gepas_own_template_is_used_and_settings_that_reach_no_model_are_refused(
    tasks: Sequence[Task], student: GepaStudent
) -> None:
    asked = Asked(student)
    template = "Mine. The text:\n```\n<curr_param>\n```\nThe cases:\n<side_info>"
    with TaskAdapter(exact, student) as adapter, CombeeReflection(asked) as reflection:
        run(adapter, reflection, tasks, reflection_prompt_template=template, reflection_minibatch_size=8)
    assert asked.prompts
    assert all(prompt.startswith("Mine. The text:") for prompt in asked.prompts)
    adapter, reflection = TaskAdapter(exact, student), CombeeReflection(student)
    with adapter, reflection, pytest.raises(UsageError, match="reflection_lm_kwargs does nothing"):
        run(adapter, reflection, tasks, reflection_lm_kwargs={"temperature": 0.1})


@pytest.mark.parametrize(("name", "known"), [("openai/gpt-4o-mini", True), ("openai/a-model-nobody-sells", False)])
def test_a_limit_in_money_needs_the_price_of_a_named_model(
    name: str, known: bool, tasks: Sequence[Task], student: GepaStudent
) -> None:
    with CombeeReflection(name) as reflection, TaskAdapter(exact, student) as adapter:
        assert reflection.supports_cost_tracking() is known
        if not known:
            with pytest.raises(ValueError, match="total_cost"):
                run(adapter, reflection, tasks, max_reflection_cost=1.5)


def test_a_limit_in_money_is_held_or_refused(tasks: Sequence[Task], student: GepaStudent) -> None:
    class Costly:
        total_cost = 0.0

        def __call__(self, prompt: str) -> str:
            self.total_cost += 1.0
            return student(prompt)

    lm = Costly()
    with TaskAdapter(exact, student) as adapter, CombeeReflection(lm) as reflection:
        run(adapter, reflection, tasks, max_reflection_cost=1.5, max_metric_calls=100_000, skip_perfect_score=False)
    assert 1.5 <= lm.total_cost <= 12
    adapter, reflection = TaskAdapter(exact, student), CombeeReflection(fenced)
    with adapter, reflection, pytest.raises(ValueError, match="total_cost"):
        run(adapter, reflection, tasks, max_reflection_cost=1.5)


def test_state_survives_gepas_own_checkpoint(tasks: Sequence[Task], lessons: dict[str, str], tmp_path: Path) -> None:
    def go(folder: Path, calls: int) -> Any:
        student = GepaStudent(tasks, lessons, m0=6.0)
        sampler, reflection = CombeeSampler(6), CombeeReflection(student)
        adapter = keep_state(TaskAdapter(exact, student), reflection, sampler)
        with adapter, reflection:
            return run(adapter, reflection, tasks, batch_sampler=sampler, run_dir=str(folder), max_metric_calls=calls)

    whole = go(tmp_path / "whole", 400)
    go(tmp_path / "cut", 150)
    cut = go(tmp_path / "cut", 400)
    assert cut.candidates == whole.candidates
    assert cut.parents == whole.parents


class _Flaky:
    """An agent that fails on one task, a number of times."""

    fingerprint = "flaky"

    def __init__(self, task: str, times: int) -> None:
        self.task, self.times = task, times

    async def run(self, task: Task, candidate: Mapping[str, str], scope: Scope) -> Rollout:
        if task.id == self.task and self.times > 0:
            self.times -= 1
            raise CallError("busy", kind=CallErrorKind.SERVER)
        return Rollout(task.id, task.target or "")


def test_a_rollout_that_fails_is_tried_again_and_never_scored_0(tasks: Sequence[Task]) -> None:
    with TaskAdapter(exact, _Flaky("t3", 2)) as adapter:
        assert adapter.evaluate(tasks[:5], {"system": ""}).scores == [1.0] * 5
    with TaskAdapter(exact, _Flaky("t3", 3)) as adapter, pytest.raises(RunError, match="t3: busy"):
        adapter.evaluate(tasks[:5], {"system": ""})


def test_rollouts_run_at_the_same_time_and_a_candidate_does_each_task_once(tasks: Sequence[Task]) -> None:
    def answer(prompt: str) -> str:
        time.sleep(0.02)
        return "Reasoning.\nAnswer: 100"

    lm, scope = Asked(answer), MemoryScope()
    with TaskAdapter(exact, lm, scope=scope) as adapter:
        one, two = adapter.batch_evaluate([({"s": "A"}, tasks), ({"s": "B"}, tasks)])
        adapter.evaluate(tasks[:3], {"s": "A"})
        records = adapter.make_reflective_dataset({"s": "A"}, one, ["s"])["s"]
    assert lm.at_once > 4
    assert len(lm.prompts) == 2 * len(tasks)
    assert one.scores == two.scores == [1.0] + [0.0] * (len(tasks) - 1)
    assert records[0]["Feedback"] == "Right."
    assert records[1]["Feedback"] == "Wrong. The right answer is 101"
    assert adapter.evaluate(tasks[:1], {"s": "A"}).trajectories is None


def test_an_agent_that_answers_by_chance_is_asked_again(tasks: Sequence[Task]) -> None:
    lm = Asked(lambda prompt: "100")
    with TaskAdapter(exact, lm, again=True) as adapter:
        for _ in range(3):
            adapter.evaluate(tasks[:2], {"s": "A"})
    assert len(lm.prompts) == 6


def test_the_journal_has_candidates_proposals_front_and_trees(
    tasks: Sequence[Task], student: GepaStudent, tmp_path: Path
) -> None:
    names = [task.id for task in tasks]
    with Journal.open(tmp_path) as journal:
        reflection = CombeeReflection(student)
        recorder = GepaRecorder(journal, train=names, val=names)
        reflection = CombeeReflection(student, tell=recorder.learned)
        with TaskAdapter(exact, student) as adapter, reflection:
            result = run(adapter, reflection, tasks, callbacks=[recorder])
        events: dict[str, list[Any]] = {}
        for event in journal.events():
            events.setdefault(event.kind, []).append(event.data)
    candidates = events["GepaCandidate"]
    assert [one["score"] for one in candidates] == result.val_aggregate_scores
    assert [one["texts"]["system"]["text"] for one in candidates] == [one["system"] for one in result.candidates]
    accepted = [one for one in events["GepaProposal"] if one["status"] == "accepted"]
    assert [one["candidate"] for one in accepted] == list(range(1, len(candidates)))
    assert all(sum(one["after"]) > sum(one["before"]) for one in accepted)
    assert set(accepted[0]["minibatch"]) <= set(names)
    assert accepted[0]["components"]["system"]["calls"] >= 1
    assert events["GepaFront"][-1]["front"]
    assert events["Scan"][0]["nodes"]
    assert events["GepaFinished"][0]["best"] == result.best_idx
