"""`TaskAdapter`: any Combee tasks, scorer and model as a `GEPAAdapter`, with real concurrency and the journal.

A task that failed for an outside reason is tried again and then an error: it is never scored 0, as gepa's contract for
adapters would have it, since a candidate would be rejected for an endpoint's fault.

How a candidate works on a task: the agent protocol, and one prompt to a model, which is enough for most tasks.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from gepa.core.adapter import EvaluationBatch

from combee.errors import RunError
from combee.gepa.background import Background, Closing
from combee.gepa.language import FunctionModel, LanguageModel, as_model
from combee.kernel.journal import JSON, MemoryScope, Scope, hash_json
from combee.kernel.learn.roles import Rollout, Score, Scorer, Task
from combee.kernel.runner import LocalRunner
from combee.model import ChatModel, Message, Request
from combee.model.answer_text import strip_thinking, why_refused
from combee.model.asking import model_print

__all__ = ["CandidateAgent", "PromptAgent", "TaskAdapter", "Trajectory", "read_answer"]

Candidate = Mapping[str, str]
Feedback = Callable[[Task, Rollout, Score], str]
Shown = Callable[[Task, Rollout], tuple[str, str]]
Reflect = Callable[["Trajectory", Candidate, Scope], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What a candidate did on one task."""

    task: Task
    rollout: Rollout
    score: Score


class HasScorer(Protocol):
    """A task set, for what is needed of it here."""

    @property
    def scorer(self) -> Scorer:
        """How answers are scored."""
        ...


class TaskAdapter(Closing):
    """Evaluates candidates on Combee tasks; pass `list(tasks.train)` and `list(tasks.val)` to `gepa.optimize`.

    Args:
        tasks: A task set, or a scorer.
        agent: Who does the tasks: a Combee model, a function from prompt to text, or a name that gepa knows; where one
            prompt is not enough, an `CandidateAgent`.
        scope: Where in a journal rollouts are kept. None: in memory.
        background: The loop to run on; share it with a `CombeeReflection` on the same model.
        concurrency: Rollouts at once.
        attempts: Times a task is tried when it fails for a reason outside the task.
        feedback: What the reflection is told of a rollout; default: right, or wrong and what the right answer is.
        shown: What it is shown of a task, and of a rollout; default: the question; the reasoning, or else the answer.
        reflect: Finds out by calls what it is told of a rollout that was not right; else, or where one fails, that is
            `feedback`.
        again: Do a task anew when a candidate meets it again (for agents that answer by chance). Else one rollout of a
            candidate on a task is enough, however often gepa asks.
    """

    propose_new_texts = None

    def __init__(
        self,
        tasks: HasScorer | Scorer,
        agent: CandidateAgent | LanguageModel,
        *,
        scope: Scope | None = None,
        background: Background | None = None,
        concurrency: int = 64,
        attempts: int = 3,
        feedback: Feedback | None = None,
        shown: Shown | None = None,
        reflect: Reflect | None = None,
        again: bool = False,
    ) -> None:
        self._scorer = cast("Scorer", getattr(tasks, "scorer", tasks))
        self._model = None if isinstance(agent, CandidateAgent) else as_model(agent, concurrency=concurrency)
        self._agent = agent if isinstance(agent, CandidateAgent) else PromptAgent(cast("ChatModel", self._model))
        self._scope = scope or MemoryScope()
        self._own = background is None
        self.background = background or Background()
        self._runner = LocalRunner(concurrency)
        self._attempts = attempts
        self._feedback = feedback or tell_outcome
        self._reflect = reflect
        self._shown = shown or (lambda task, rollout: (task.question, rollout.reasoning or rollout.answer))
        self._again = again
        self._times: dict[tuple[str, str], int] = {}
        self._scores: dict[tuple[str, str], Score] = {}

    def evaluate(
        self, batch: Sequence[Task], candidate: Candidate, capture_traces: bool = False
    ) -> EvaluationBatch[Trajectory, str]:
        """Return answers and scores of one candidate.

        Raises:
            RunError: A task failed for an outside reason, each time it was tried.
            BudgetError, StoppedError: Nothing further can be bought.
        """
        return self.batch_evaluate([(candidate, batch)], capture_traces=capture_traces)[0]

    def batch_evaluate(
        self, items: Sequence[tuple[Candidate, Sequence[Task]]], *, capture_traces: bool = True
    ) -> list[EvaluationBatch[Trajectory, str]]:
        """Return the same for many candidates at once; all rollouts run at the same time. Raises as `evaluate`."""
        works = [self._work(candidate, task) for candidate, batch in items for task in batch]
        done = iter(self.background.run(self._all(works)))
        batches = []
        for _, batch in items:
            runs = [next(done) for _ in batch]
            batches.append(
                EvaluationBatch(
                    outputs=[run.rollout.answer for run in runs],
                    scores=[share(run.score) for run in runs],
                    trajectories=runs if capture_traces else None,
                )
            )
        return batches

    def scores_of(self, candidate: Candidate, tasks: Sequence[Task]) -> list[Score]:
        """Return the scores of the last rollouts of a candidate, in parts; nothing is run or scored for it.

        Raises:
            KeyError: The candidate was not evaluated on one of the tasks, by this adapter.
        """
        name = _name_of(candidate)
        return [self._scores[name, task.id] for task in tasks]

    def make_reflective_dataset(
        self, candidate: Candidate, eval_batch: EvaluationBatch[Trajectory, str], components_to_update: Sequence[str]
    ) -> dict[str, list[dict[str, Any]]]:
        """Return one record a rollout: the question, what was answered, and what was right or wrong about it."""
        runs = eval_batch.trajectories or ()
        records = [
            {
                **dict(zip(("Task", "Generated"), self._shown(run.task, run.rollout), strict=True)),
                "Feedback": told or self._feedback(run.task, run.rollout, run.score),
                "Score": round(share(run.score), 4),
            }
            for run, told in zip(runs, self._told(candidate, runs), strict=True)
        ]
        return {component: [dict(record) for record in records] for component in components_to_update}

    def _told(self, candidate: Candidate, runs: Sequence[Trajectory]) -> list[str]:
        """Return what calls find out of each rollout; empty where none was made, or nothing came of it."""
        if self._reflect is None:
            return [""] * len(runs)
        reflect, scope = self._reflect, self._scope.sub(f"candidate/{_name_of(candidate)}")

        async def one(run: Trajectory) -> str:
            async def work() -> JSON:
                return await reflect(run, candidate, scope)

            inputs: JSON = [run.rollout.answer, run.rollout.reasoning]
            return "" if run.score.passed else str(await scope.once("reflect", run.task.id, inputs, work))

        return [done.value or "" for done in self.background.run(self._runner.run(one, runs))]

    def get_adapter_state(self) -> dict[str, Any]:
        """Return what gepa keeps in its checkpoints (see `keep_state` for reflection and sampler)."""
        return {"times": [[name, task, count] for (name, task), count in self._times.items()]}

    def set_adapter_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `get_adapter_state` returned."""
        self._times = {(name, task): count for name, task, count in state.get("times", [])}

    def close(self) -> None:
        """End the thread, unless it is shared. May be called again."""
        if isinstance(self._model, FunctionModel):
            self._model.close()
        if self._own:
            self.background.close()

    def _work(self, candidate: Candidate, task: Task) -> _Rollout:
        name = _name_of(candidate)
        turn = 0
        if self._again:
            turn = self._times.get((name, task.id), 0)
            self._times[name, task.id] = turn + 1
        return _Rollout(candidate, name, task, turn)

    async def _all(self, works: Sequence[_Rollout]) -> list[Trajectory]:
        found: dict[int, Trajectory] = {}
        waiting = list(range(len(works)))
        errors: dict[int, str] = {}
        for _ in range(self._attempts):
            done = await self._runner.run(self._one, [works[place] for place in waiting])
            for place, one in zip(waiting, done, strict=True):
                if one.value is not None:
                    found[place] = one.value
                else:
                    errors[place] = one.error.message if one.error is not None else "nothing came back"
            waiting = [place for place in waiting if place not in found]
            if not waiting:
                break
        if waiting:
            named = "; ".join(f"{works[place].task.id}: {errors[place]}" for place in waiting[:3])
            raise RunError(
                f"{len(waiting)} of {len(works)} rollouts failed {self._attempts} times for outside reasons ({named})",
                hint="They are not scored. Nothing paid is lost: with a journal, run it again to go on from here.",
            )
        self._scores.update(
            {(works[place].candidate_name, works[place].task.id): run.score for place, run in found.items()}
        )
        return [found[place] for place in range(len(works))]

    async def _one(self, work: _Rollout) -> Trajectory:
        scope = self._scope.sub(f"candidate/{work.candidate_name}")

        async def do() -> JSON:
            made = await self._agent.run(work.task, work.candidate, scope)
            return {"answer": made.answer, "used": list(made.used), "reasoning": made.reasoning}

        inputs: JSON = [self._agent.fingerprint, work.task.question, work.turn]
        kept = cast("dict[str, Any]", await scope.once("rollout", work.task.id, inputs, do))
        rollout = Rollout(work.task.id, kept["answer"], tuple(kept["used"]), kept["reasoning"])
        return Trajectory(work.task, rollout, self._scorer(work.task, rollout.answer))


@dataclass(frozen=True, slots=True)
class _Rollout:
    """One candidate on one task, for the `turn`-th time."""

    candidate: Candidate
    candidate_name: str
    task: Task
    turn: int


def _name_of(candidate: Candidate) -> str:
    return hash_json(dict(candidate))[:16]


def share(score: Score) -> float:
    """Return a score as gepa wants it: 0 to 1."""
    return score.hits / score.total if score.total else 0.0


def tell_outcome(task: Task, rollout: Rollout, score: Score) -> str:
    """Return in words how a rollout came out."""
    if score.passed:
        return "Right."
    part = f" ({score.hits} of {score.total} parts are right)" if score.total > 1 else ""
    detail = f" {score.detail}." if score.detail else ""
    right = "" if task.target is None else f" The right answer is {task.target}"
    return f"Wrong{part}.{detail}{right}"


_ANSWER = re.compile(r"^\W{0,4}(?:final )?answer\W{0,3}:\W{0,3}(.+)$", re.IGNORECASE | re.MULTILINE)


@runtime_checkable
class CandidateAgent(Protocol):
    """Works on one task with the texts of a candidate. Raises `CallError` for reasons outside the task."""

    @property
    def fingerprint(self) -> str:
        """Hash of what besides candidate and task decides an answer."""
        ...

    async def run(self, task: Task, candidate: Mapping[str, str], scope: Scope) -> Rollout:
        """Do the task. The target is not to be read."""
        ...


@dataclass(frozen=True, slots=True)
class PromptAgent:
    """One call a task: the candidate's texts are the system prompt, the question is the user's.

    A candidate of one component is sent as it stands; several stand under their names. The answer is what follows the
    last line `Answer:`, or else the whole reply.
    """

    model: ChatModel
    max_tokens: int = 4096
    temperature: float = 0.0
    seed: int | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of what besides candidate and task decides an answer."""
        return hash_json(["prompt", *model_print(self.model), self.max_tokens, self.temperature, self.seed])

    async def run(self, task: Task, candidate: Mapping[str, str], scope: Scope) -> Rollout:
        """Do the task."""
        texts = {name: text for name, text in candidate.items() if text.strip()}
        whole = len(candidate) == 1
        system = "\n\n".join(text if whole else f"# {name}\n{text}" for name, text in texts.items())
        messages = (Message("system", system),) if system else ()
        request = Request(
            (*messages, Message("user", task.question)),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            seed=self.seed,
            role="rollout",
            item=task.id,
        )
        said = strip_thinking((await self.model.complete(request)).text).strip()
        answer = read_answer(said)
        bad = why_refused(answer)
        if bad is not None:
            raise bad
        return Rollout(task.id, answer, reasoning=said)


def read_answer(text: str) -> str:
    """Return the answer in a reply."""
    found = _ANSWER.findall(text)
    return str(found[-1]).strip().strip("*` ") if found else text.strip()
