"""What the guard is told of candidates in gepa's search: the parts that were right, of those that the answers had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gepa.api import optimize

from combee.gepa import CombeeReflection, GepaRecorder, TaskAdapter
from combee.gepa.search import COMPONENT, GepaRun
from combee.kernel.journal import Journal, Scope
from combee.kernel.learn import GuardJudged, Judge, Rollout, Score, Task
from combee.kernel.playbook import Bullet, Playbook, to_text
from combee.mock.student import GepaStudent
from combee.terminal.display import Display
from tests.gepa.answers import exact


class _Rubric:
    """An agent whose answer is as good as the text says, and a scorer that finds as many parts as the answer has."""

    fingerprint = "rubric"

    async def run(self, task: Task, candidate: Mapping[str, str], scope: Scope) -> Rollout:
        return Rollout(task.id, "9/20" if "Be thorough." in candidate[COMPONENT] else "3/10")

    @staticmethod
    def score(task: Task, answer: str) -> Score:
        hits, total = answer.split("/")  # an answer that nobody gave has no parts
        return Score(int(hits), int(total))


def _evaluated(adapter: TaskAdapter, tasks: Sequence[Task], book: Playbook, index: int) -> dict[str, Any]:
    """Return what gepa says after it has evaluated a candidate."""
    candidate = {COMPONENT: to_text(book)}
    scores = adapter.evaluate(tasks, candidate).scores
    mean = sum(scores) / len(scores)
    said = {"candidate_idx": index, "candidate": candidate, "iteration": index + 1, "average_score": mean}
    return {**said, "scores_by_val_id": dict(enumerate(scores))}


def test_answers_that_are_scored_in_different_numbers_of_parts_are_compared_by_their_shares(
    tasks: Sequence[Task], tmp_path: Path
) -> None:
    good = Playbook((Bullet("misc-00001", "OTHERS", "Be thorough."),), 1)
    agent, heard = _Rubric(), []

    class Hears(Display):
        def observe(self, event: object) -> None:
            heard.append(event)

    with Journal.open(tmp_path) as journal, TaskAdapter(agent.score, agent) as adapter:
        reflection, judge = CombeeReflection(lambda prompt: ""), Judge()
        run = GepaRun(journal, Hears(), GepaRecorder(journal), reflection, judge, adapter, tasks)
        for index, book in enumerate((good, Playbook())):
            run.on_valset_evaluated(_evaluated(adapter, tasks, book, index))
    (said,) = [event for event in heard if isinstance(event, GuardJudged)]
    assert said.verdict == "alert"
    assert any("0.300 against 0.450 of stable on 24 rows" in reason for reason in said.reasons)


def test_a_validation_spends_a_look_and_is_no_step_that_says_what_is_usual(
    tasks: Sequence[Task], student: GepaStudent, tmp_path: Path
) -> None:
    judge = Judge()
    adapter, reflection = TaskAdapter(exact, student), CombeeReflection(student, judge=judge)
    with Journal.open(tmp_path) as journal, adapter, reflection:
        run = GepaRun(journal, Display(), GepaRecorder(journal), reflection, judge, adapter, tasks)
        given: dict[str, Any] = {"adapter": adapter, "reflection_strategy": reflection, "callbacks": [run]}
        given |= {"trainset": list(tasks), "valset": list(tasks), "reflection_minibatch_size": 6}
        optimize(seed_candidate={COMPONENT: to_text(Playbook())}, max_metric_calls=150, **given)
    assert judge.state.spending.looks == len(run.validations) - 1 >= 2
    assert judge.state.usual
    assert all(step.items for step in judge.state.usual)
