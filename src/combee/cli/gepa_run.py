"""`combee learn --method gepa`: gepa's search over playbooks, with our roles, journal, budget and report.

The stock gepa package runs the search; nothing of its `run_dir` is used. A resume replays it: rollouts, reflections and
batch sizes come from the journal, so the path is the same up to where it stopped.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from combee.cli.display import Display
from combee.cli.spec import Prepared, RunSpec, load_tasks
from combee.errors import BudgetError, UsageError
from combee.journal import Journal, Scope, hash_json
from combee.learn import FinishReason, LearnResult, Rollout, RunFinished, RunStarted, StepFinished, Task, Validated
from combee.playbook import Playbook, from_text, to_text, tokens

if TYPE_CHECKING:
    from combee.gepa import CombeeReflection, CombeeSampler, Recorder, ReflectionOptions

__all__ = ["COMPONENT", "METHOD", "check_gepa", "learn_by_gepa", "print_worst_case"]

METHOD = "gepa"
COMPONENT = "playbook"
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


@dataclass
class _Run:
    """What the search says of itself, as the loop's events, so that display, `runs` and report show it like any run."""

    journal: Journal
    display: Display
    recorder: Recorder
    reflection: CombeeReflection
    steps: list[StepFinished] = field(default_factory=list)
    validations: list[Validated] = field(default_factory=list)
    best: tuple[float, int, str] | None = None
    last: str = ""
    seen: int = 0
    _texts: dict[int, str] = field(default_factory=dict)
    _scores: list[float] = field(default_factory=list)
    _learned: list[Any] = field(default_factory=list)
    _begun: float = 0.0

    def learned(self, one: Any) -> None:
        self._learned.append(one)
        self.recorder.learned(one)

    def tell(self, event: RunStarted | RunFinished | StepFinished | Validated, key: str | None) -> None:
        data = dataclasses.asdict(event)
        self.journal.record_event(type(event).__name__, data, key=key)
        self.display.observe(event)

    def on_iteration_start(self, event: Mapping[str, Any]) -> None:
        self._scores, self._learned, self._begun = [], [], time.monotonic()

    def on_evaluation_end(self, event: Mapping[str, Any]) -> None:
        if event["candidate_idx"] is not None:
            self._scores += [float(score) for score in event["scores"]]
            self.seen += len(event["scores"])

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        index, score = int(event["candidate_idx"]), float(event["average_score"])
        text = self._texts[index] = self.last = event["candidate"][COMPONENT]
        better = self.best is None or score > self.best[0]
        if better:
            self.best = (score, index, text)
        version = self.recorder.version(text)
        self.journal.label("last", version, key=f"gepa/last/{index}")
        if better:
            self.journal.label("best", version, key=f"gepa/best/{index}")
        hits, total = sum(event["scores_by_val_id"].values()), len(event["scores_by_val_id"])
        told = Validated(max(0, int(event["iteration"]) - 1), self.seen, _whole(hits), total, 0, version, better)
        self.validations.append(told)
        self.tell(told, f"gepa/validated/{index}")

    def on_iteration_end(self, event: Mapping[str, Any]) -> None:
        if not self._scores:
            return
        found = [one.scan for one in self._learned]
        book = self.reflection.book_of(self.best[2] if self.best is not None else "")
        number = int(event["iteration"]) - 1
        told = StepFinished(
            epoch=0,
            step=number,
            batch=len(self._scores),
            hits=_whole(sum(self._scores)),
            total=len(self._scores),
            reflections=sum(one.shape.n for one in self._learned),
            lessons=sum(len(scan.delta) for scan in found),
            operations=sum(len(scan.delta) for scan in found),
            refused=sum(note.startswith("refused") for one in self._learned for note in one.notes),
            uncovered=sum(len(scan.uncovered) for scan in found),
            failed=sum(len(scan.failed) for scan in found),
            calls=sum(scan.calls for scan in found),
            reads=sum(scan.reads for scan in found),
            depth=max((scan.depth for scan in found), default=0),
            bullets=len(book),
            tokens=tokens(book),
            version=self.recorder.version(self.best[2] if self.best is not None else ""),
            seconds=time.monotonic() - self._begun,
        )
        self.steps.append(told)
        self.tell(told, f"gepa/step/{number}")


def _whole(value: float) -> Any:
    """Return whole scores as whole numbers; parts of a score stay as they are."""
    return round(value) if abs(value - round(value)) < 1e-9 else round(value, 6)


def learn_by_gepa(prepared: Prepared, start: Playbook | None, journal: Journal, display: Display) -> LearnResult:
    """Search for a playbook from the training tasks, judged on the validation tasks (without any: on the former).

    Raises:
        UsageError: No model is named, gepa is not installed, or a setting has no meaning here.
        RunError: Rollouts or reflections failed for outside reasons; a resume goes on from there.
    """
    options = _options(prepared)
    from combee.gepa import Background, CombeeReflection, CombeeSampler, Recorder, TaskAdapter

    config, tasks, models = prepared.config, prepared.tasks, prepared.agent.models
    if models is None:
        raise UsageError("--method gepa needs a model.")
    scope = journal.scope(seed=config.seed, epoch=0, step=0, run=METHOD)
    val = tasks.val or tasks.train
    with Background() as background:
        reflection = CombeeReflection(
            models.by_role["curator"],
            options=options,
            scope=scope,
            ledger=models.ledger,
            background=background,
            tell=lambda one: run.learned(one),  # noqa: PLW0108 - it comes into being below
        )
        sampler = CombeeSampler(
            config.batch,
            candidates=config.candidates or None,
            maximum=config.max_batch,
            seed=config.seed,
            scope=scope,
            reused=lambda: journal.stats().reused,
        )
        recorder = Recorder(journal, train=_names(tasks.train), val=_names(val), book_of=reflection.book_of)
        run = _Run(journal, display, recorder, reflection)
        adapter = TaskAdapter(
            tasks,
            agent=_RoleAgent(prepared),
            scope=scope,
            background=background,
            concurrency=config.concurrency,
            attempts=config.attempts,
        )
        begun = time.monotonic()
        run.tell(RunStarted(len(tasks.train) * config.epochs, config.epochs, replayed=bool(journal.labels())), None)
        try:
            reason, detail = _search(prepared, to_text(start or Playbook()), adapter, run, sampler)
        finally:
            background.run(prepared.agent.aclose())
    return _result(run, reason, detail, time.monotonic() - begun, sampler)


def _search(
    prepared: Prepared, seed_text: str, adapter: Any, run: _Run, sampler: CombeeSampler
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
        return FinishReason.COMPLETED, f"{proposals} iterations over {sampler.drawn} samples"
    return FinishReason.BUDGET, f"the metric calls are used up after {proposals} iterations"


def _result(run: _Run, reason: FinishReason, detail: str, seconds: float, sampler: CombeeSampler) -> LearnResult:
    best = run.reflection.book_of(run.best[2]) if run.best is not None else Playbook()
    last = run.reflection.book_of(run.last) if run.last else Playbook()
    version = run.recorder.version(run.best[2]) if run.best is not None else ""
    run.tell(RunFinished(reason, detail, version, len(best), seconds), None)
    return LearnResult(best, last, reason, detail, tuple(run.steps), tuple(run.validations), (), choice=sampler.choice)


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
    from combee.aggregate import plan

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
