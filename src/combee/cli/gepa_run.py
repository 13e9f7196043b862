"""`combee learn --method gepa`: gepa's search over playbooks, with our roles, journal, budget and report.

The stock gepa package runs the search; nothing of its `run_dir` is used. A resume replays it: rollouts, reflections and
batch sizes come from the journal, so the path is the same up to where it stopped.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from combee.cli.gepa_told import COMPONENT, GepaRun
from combee.errors import BudgetError, CombeeError, UsageError
from combee.kernel.guard import Policy
from combee.kernel.journal import Journal, Scope, hash_json
from combee.kernel.learn import (
    FinishReason,
    Judge,
    LearnConfig,
    LearnResult,
    Rollout,
    RunFinished,
    RunStarted,
    SampleRefused,
    Task,
)
from combee.kernel.playbook import Playbook, from_text, to_text
from combee.run.methods import Display, prepare_tasks
from combee.run.spec import Prepared, RunSpec, load_tasks
from combee.run.words import counted

if TYPE_CHECKING:
    from combee.gepa import CombeeSampler, ReflectionOptions

__all__ = ["METHOD", "GepaMethod", "print_worst_case"]

METHOD = "gepa"
_ASSUMED_BATCH = 40
_LOG = logging.getLogger("combee.gepa")


@dataclass
class _Log:
    """Where gepa's own words go: the log, for whoever looks at it."""

    def log(self, message: str) -> None:
        _LOG.debug("%s", message)


@dataclass
class _RoleAgent:
    """The run's generator, with a candidate's playbook before it."""

    prepared: Prepared
    _books: dict[str, Playbook] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        agent = self.prepared.agent
        models = agent.models
        name = "" if models is None else models.by_role["generator"].name
        return hash_json([agent.name, agent.prompts, name])

    async def run(self, task: Task, candidate: Mapping[str, str], scope: Scope) -> Rollout:
        text = candidate[COMPONENT]
        if text not in self._books:
            self._books = {text: from_text(text).playbook, **dict(list(self._books.items())[:3])}
        return await self.prepared.agent.generator.generate(task, self._books[text], scope)


class GepaMethod:
    """gepa's search over playbooks, in place of the kernel's loop."""

    def prepare(self, spec: RunSpec, folder: Path | None) -> Prepared:
        """Prepare the tasks. Raises `UsageError` for a setting without a meaning here."""
        prepared = prepare_tasks(spec)
        if folder is not None:
            check_gepa(prepared)
        return prepared

    def learn(self, prepared: Prepared, start: Playbook | None, journal: Journal, display: Display) -> LearnResult:
        """Search. Raises what `learn_by_gepa` raises."""
        return learn_by_gepa(prepared, start, journal, display)


def learn_by_gepa(prepared: Prepared, start: Playbook | None, journal: Journal, display: Display) -> LearnResult:
    """Search for a playbook from the training tasks, judged on the validation tasks (without any: on the former).

    Raises:
        UsageError: No model is named, gepa is not installed, or a setting or a label has no meaning here.
        RunError: Rollouts or reflections failed for outside reasons; a resume goes on from there.
    """
    options = _options(prepared)
    from combee.gepa import Background, CombeeReflection, GepaRecorder, TaskAdapter

    config, models = prepared.config, prepared.agent.models
    if models is None:
        raise UsageError("--method gepa needs a model.")
    scope = journal.scope(seed=config.seed, epoch=0, step=0, run=METHOD)
    prepared, refused = _admitted(prepared)
    train, val = prepared.tasks.train, prepared.tasks.val or prepared.tasks.train
    judge = _judge(prepared, journal)
    with Background() as background:
        reflection = CombeeReflection(
            models.by_role["curator"],
            options=options,
            scope=scope,
            ledger=models.ledger,
            background=background,
            tell=lambda one: run.learned(one),  # noqa: PLW0108 - it comes into being below
            judge=judge,
        )
        sampler = _sampler(config, scope, journal)
        recorder = GepaRecorder(journal, train=_names(train), val=_names(val), book_of=reflection.book_of)
        adapter = TaskAdapter(
            prepared.tasks.scorer,
            _RoleAgent(prepared),
            scope=scope,
            background=background,
            concurrency=config.concurrency,
            attempts=config.attempts,
        )
        run = GepaRun(journal, display, recorder, reflection, judge, adapter, val)
        run.alert = lambda verdict, evidence, place: background.run(
            judge.alert(verdict, evidence, scope.sub(place), "")
        )
        begun = time.monotonic()
        run.tell(RunStarted(len(train) * config.epochs, config.epochs, replayed=bool(journal.labels())), None)
        for event in refused:
            run.tell(event, f"gepa/not admitted/{event.sample}")
        try:
            reason, detail = _search(prepared, to_text(start or Playbook()), adapter, run, sampler)
            return _result(run, reason, detail + run.guarded(), time.monotonic() - begun, sampler)
        except KeyboardInterrupt:
            _ended(run, FinishReason.INTERRUPTED, "stopped by the user", time.monotonic() - begun)
            raise
        except CombeeError as error:
            _ended(run, FinishReason.FAILED, error.message, time.monotonic() - begun)
            raise
        finally:
            background.run(prepared.agent.aclose())


def _sampler(config: LearnConfig, scope: Scope, journal: Journal) -> CombeeSampler:
    from combee.gepa import CombeeSampler

    return CombeeSampler(
        config.batch,
        candidates=config.candidates or None,
        maximum=config.max_batch,
        seed=config.seed,
        scope=scope,
        reused=lambda: journal.stats().reused,
    )


def _admitted(prepared: Prepared) -> tuple[Prepared, list[SampleRefused]]:
    """Leave out tasks that may not be learned from: what every record and thus every lesson of the run rests on."""
    tasks = prepared.tasks
    refusals = [(task, prepared.judge.refusal(task.labels)) for task in tasks.train]
    admitted = tuple(task for task, reason in refusals if reason is None)
    if not admitted:
        raise UsageError("The labels of no sample allow it to reach this playbook.")
    events = [SampleRefused(task.id, reason) for task, reason in refusals if reason is not None]
    return replace(prepared, tasks=replace(tasks, train=admitted)), events


def _judge(prepared: Prepared, journal: Journal) -> Judge:
    """Return the guard of the run. Records name no task, so who may be learned from is decided before (`_admitted`)."""
    tell, name = prepared.judge.tell, journal.path.parent.name
    named = None if tell is None else lambda payload: tell({**payload, "run": name})
    return replace(prepared.judge, policy=Policy(), tell=named)


def _search(
    prepared: Prepared, seed_text: str, adapter: Any, run: GepaRun, sampler: CombeeSampler
) -> tuple[FinishReason, str]:
    """Let gepa work; return how it ended."""
    from gepa.api import optimize

    config, tasks = prepared.config, prepared.tasks
    goal = config.epochs * len(tasks.train)

    def enough(gepa_state: Any) -> bool:
        return sampler.drawn >= goal or run.recorder.error is not None

    listeners: list[Any] = [run.recorder, run, sampler]  # gepa calls of each what it has
    try:
        optimize(
            seed_candidate={COMPONENT: seed_text},
            trainset=list(tasks.train),
            valset=list(tasks.val or tasks.train),
            adapter=adapter,
            reflection_strategy=run.reflection,
            batch_sampler=sampler,
            max_metric_calls=prepared.spec.agent.get("metric_calls"),
            stop_callbacks=[enough],
            callbacks=listeners,
            logger=_Log(),
            track_best_outputs=False,
            seed=config.seed,
        )
    except BudgetError as error:
        return FinishReason.BUDGET, error.message
    if run.recorder.error is not None:
        raise run.recorder.error
    proposals = len(run.steps)
    if sampler.drawn >= goal:
        return FinishReason.COMPLETED, f"{counted(proposals, 'iteration')} over {counted(sampler.drawn, 'sample')}"
    return FinishReason.BUDGET, f"the metric calls are used up after {counted(proposals, 'iteration')}"


def _result(run: GepaRun, reason: FinishReason, detail: str, seconds: float, sampler: CombeeSampler) -> LearnResult:
    best = _ended(run, reason, detail, seconds)
    last = run.reflection.book_of(run.last) if run.last else Playbook()
    return LearnResult(best, last, reason, detail, tuple(run.steps), tuple(run.validations), (), choice=sampler.choice)


def _ended(run: GepaRun, reason: FinishReason, detail: str, seconds: float) -> Playbook:
    """Tell how the run ended; return its best book."""
    best = run.reflection.book_of(run.best[2]) if run.best is not None else Playbook()
    version = run.recorder.version(run.best[2]) if run.best is not None else ""
    run.tell(RunFinished(reason, detail, version, len(best), seconds), None)
    return best


def _names(tasks: tuple[Task, ...]) -> list[str]:
    return [task.id for task in tasks]


def _options(prepared: Prepared) -> ReflectionOptions:
    """Return the settings of the loop as options of the reflection."""
    from combee.gepa import ReflectionOptions

    config, models = prepared.config, prepared.agent.models
    ways: dict[str, dict[str, Any]] = {
        "combee": {"max_items": config.max_items, "max_tokens": config.max_tokens or 32_000},
        "paper": {"preset": "paper"},
        "naive": {"max_items": max(2, len(prepared.tasks.train)), "max_tokens": None, "second_chances": 0},
    }
    if config.aggregate not in ways:
        raise UsageError(
            f"--aggregate {config.aggregate} has no meaning with --method gepa.", hint=f"Known: {', '.join(ways)}."
        )
    settings = None if models is None else models.settings["curator"]
    model = {} if settings is None else {"output_tokens": settings.max_output_tokens}
    chances = {} if config.aggregate != "combee" else {"second_chances": config.second_chances}
    return ReflectionOptions(
        seed=config.seed,
        copies=config.copies,
        playbooks=(COMPONENT,),
        token_budget=config.token_budget,
        near=config.near,
        temperature=0.0 if settings is None else settings.temperature,
        **{**chances, **model, **ways[config.aggregate]},
    )


def check_gepa(prepared: Prepared) -> None:
    """Refuse what cannot be run, before anything is written.

    Raises:
        UsageError: No model is named, gepa is not installed, or a setting has no meaning here.
    """
    if prepared.agent.models is None:
        raise UsageError("--method gepa needs a model.", hint="Give --model NAME and, if needed, --base-url.")
    _options(prepared)


def print_worst_case(spec: RunSpec, *, as_json: bool) -> None:
    """Print the most that a run takes: every proposal accepted, every reflection read twice. Calls nothing."""
    from combee.kernel.aggregate import plan

    config, tasks = spec.learn_config(), load_tasks(spec)
    train = len(tasks.train)
    val = len(tasks.val) or train
    batch = min(train, _ASSUMED_BATCH if config.batch == "auto" else config.batch)
    iterations = -(-train * config.epochs // max(1, batch))
    found = {
        "iterations": iterations,
        "rollouts": val + iterations * (2 * batch + val),
        "reflection_calls": 2 * plan(batch, max_items=config.max_items).calls * iterations,
    }
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo("At most: " + ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in found.items()) + ".")
    click.echo(f"A rollout of a candidate on a task is made once; {batch} samples an iteration, {val} for validation.")
