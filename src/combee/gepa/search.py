"""The method `gepa`: gepa's search over playbooks, with our roles, journal, budget and report.

The stock gepa package runs the search; nothing of its `run_dir` is used. A resume replays it: rollouts, reflections and
batch sizes come from the journal, so the path is the same up to where it stopped. What the search says of itself is
told as events of the loop, and the guard speaks: of proposals, and of candidates whose validation scores fall below
those of `stable`.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from combee.errors import BudgetError, CombeeError, UsageError
from combee.gepa.adapter import TaskAdapter, Trajectory
from combee.gepa.background import Background
from combee.gepa.component import Learned
from combee.gepa.options import ReflectionOptions
from combee.gepa.recording import GepaRecorder
from combee.gepa.reflection import CombeeReflection
from combee.gepa.sampler import CombeeSampler
from combee.kernel.aggregate import plan
from combee.kernel.guard import Evidence, Policy, Rows, Verdict, judge
from combee.kernel.journal import Journal, Scope, hash_json
from combee.kernel.learn import (
    Alerted,
    Event,
    FinishReason,
    Judge,
    LearnConfig,
    LearnResult,
    Reflector,
    Rollout,
    RunFinished,
    RunStarted,
    SampleRefused,
    Score,
    StepFinished,
    Task,
    Validated,
)
from combee.kernel.learn.judge import guard_event, paired
from combee.kernel.playbook import Delta, Playbook, from_text, to_text, tokens
from combee.run.environments import RecordReader, environment_of
from combee.run.estimates import Forecast, check_smallest_step, with_trials, work_on
from combee.run.methods import LearningMethod, RunDisplay, Say, introduce, is_new, prepare_tasks
from combee.run.settings import Settings
from combee.run.spec import Prepared, load_tasks
from combee.run.words import counted
from combee.tasks import TaskSet

__all__ = ["COMPONENT", "GepaRun", "LearnByGepa"]

COMPONENT = "playbook"


@dataclass
class GepaRun:
    """A listener of gepa. `best` is (score, candidate, text); `seen` counts samples that parents were scored on.

    `val` are the validation tasks in gepa's order; how candidates did on them, part by part, is known to the adapter.
    """

    journal: Journal
    display: RunDisplay
    recorder: GepaRecorder
    reflection: CombeeReflection
    judge: Judge
    adapter: TaskAdapter
    val: Sequence[Task]
    steps: list[StepFinished] = field(default_factory=list)
    validations: list[Validated] = field(default_factory=list)
    best: tuple[float, int, str] | None = None
    last: str = ""
    seen: int = 0
    alert: Callable[[Verdict, Evidence, str], Alerted | None] = lambda verdict, evidence, place: None
    verdicts: Counter[str] = field(default_factory=Counter)
    _stable: Rows | None = None
    _texts: dict[int, str] = field(default_factory=dict)
    _scores: list[float] = field(default_factory=list)
    _learned: list[Learned[Any]] = field(default_factory=list)
    _begun: float = 0.0

    def learned(self, one: Learned[Any]) -> None:
        """Take what a reflection came to, and what the guard said of it."""
        number = len(self._learned)
        self._learned.append(one)
        self.recorder.learned(one)
        for judged in one.judged:
            evidence = judged.evidence
            self.verdicts[judged.verdict.action] += 1
            key = f"gepa/guard/{evidence.step}/{number}/{evidence.attempt}"
            self.tell(guard_event(evidence.step, evidence, judged.verdict), key)
            if judged.alerted is not None:
                self.tell(judged.alerted, f"{key}/alerted")

    def guarded(self) -> str:
        """Return in words what the guard did, or nothing where it accepted all."""
        words = {"retry_smaller": "had made again in smaller groups", "reject": "refused", "alert": "alerted of"}
        found = [f"{said} {self.verdicts[action]}" for action, said in words.items() if self.verdicts[action]]
        return f"; the guard {', '.join(found)}" if found else ""

    def tell(self, event: Event, key: str | None) -> None:
        """Record an event and show it."""
        data = dataclasses.asdict(event)
        self.journal.record_event(type(event).__name__, data, key=key)
        self.display.observe(event)

    def on_iteration_start(self, event: Mapping[str, Any]) -> None:
        """Begin an iteration."""
        self._scores, self._learned, self._begun = [], [], time.monotonic()
        self.reflection.step = int(event["iteration"]) - 1

    def on_evaluation_end(self, event: Mapping[str, Any]) -> None:
        """Keep the scores of a parent on a minibatch."""
        if event["candidate_idx"] is not None:
            self._scores += [float(score) for score in event["scores"]]
            self.seen += len(event["scores"])

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        """Tell how a candidate did on the validation tasks; label the best and the last."""
        index, score = int(event["candidate_idx"]), float(event["average_score"])
        text = self._texts[index] = self.last = event["candidate"][COMPONENT]
        better = self.best is None or score > self.best[0]
        if better:
            self.best = (score, index, text)
        version = self.recorder.version(text)
        self.journal.label("last", version, key=f"gepa/last/{index}")
        if better:
            self.journal.label("best", version, key=f"gepa/best/{index}")
        tasks = [self.val[key] for key in event["scores_by_val_id"]]
        scores = self.adapter.scores_of(event["candidate"], tasks)
        hits, total = sum(score.hits for score in scores), sum(score.total for score in scores)
        told = Validated(max(0, int(event["iteration"]) - 1), self.seen, hits, total, 0, version, better)
        self.validations.append(told)
        self.tell(told, f"gepa/validated/{index}")
        if self.judge.enabled:
            rows = {task.id: (score.hits, max(1, score.total)) for task, score in zip(tasks, scores, strict=True)}
            self._compare(rows, told, index)

    def _compare(self, rows: Rows, told: Validated, index: int) -> None:
        """Compare a candidate with `stable`: the start, or the last one that was better than it beyond chance.

        Not with gepa's best: that has the luckiest score of all, and every later candidate would look like a loss.
        """
        evidence = Evidence(told.step, {}, Delta())
        promoted = self._stable is None
        if self._stable is not None:
            state = self.judge.state
            found = judge(evidence, state, self.judge.limits, trials=[paired("stable", rows, self._stable)])
            # A look is spent. A validation is no step: it has no yield to say what is usual.
            looks = state.spending.looks + len(found.comparisons)
            self.judge.state = replace(state, spending=replace(state.spending, looks=looks))
            promoted = found.promote
            # gepa keeps a candidate for what it alone does right; it never becomes the best by a worse score.
            verdict = replace(found, action="alert" if found.action == "reject" else found.action, rollback=False)
            self.verdicts[verdict.action] += 1
            self.tell(guard_event(told.step, evidence, verdict), f"gepa/guard/validated/{index}")
            alerted = self.alert(verdict, evidence, f"validated/{index}")
            if alerted is not None:
                self.tell(alerted, f"gepa/guard/validated/{index}/alerted")
        if promoted:
            self._stable = rows
            self.journal.label("stable", told.version, key=f"gepa/stable/{index}")

    def on_iteration_end(self, event: Mapping[str, Any]) -> None:
        """Tell what an iteration came to."""
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
            operations=sum(len(one.judged[-1].verdict.delta) for one in self._learned),
            refused=sum(note.startswith("refused") for one in self._learned for note in one.notes),
            uncovered=sum(len(scan.uncovered) for scan in found),
            failed=sum(len(scan.failed) for scan in found),
            calls=sum(one.calls for one in self._learned),
            reads=sum(scan.reads for one in self._learned for scan in one.scans),
            depth=max((sum(scan.depth for scan in one.scans) for one in self._learned), default=0),
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
        name = "" if models is None or not models.by_role else models.by_role["generator"].name
        acts = isinstance(agent.reflector, RecordReader)
        acting = [getattr(agent.generator, "fingerprint", "")] if acts else []
        return hash_json([agent.name, agent.prompts, name, *acting])

    async def run(self, task: Task, candidate: Mapping[str, str], scope: Scope) -> Rollout:
        text = candidate[COMPONENT]
        if text not in self._books:
            self._books = {text: from_text(text).playbook, **dict(list(self._books.items())[:3])}
        return await self.prepared.agent.generator.generate(task, self._books[text], scope)


class LearnByGepa(LearningMethod):
    """gepa's search over playbooks, in place of the kernel's loop."""

    least_items = 2
    """Its texts are combined by calls: a call must take two."""

    def unused(self, spec: Settings) -> dict[str, str]:
        """Return settings that the search does not use."""
        keys = ("eval_every", "give_up_after", "guard_validate", "on_full", "pipeline", "quorum", "shuffle")
        found = super().unused(spec) | {f"learn.{key}": "with the method gepa" for key in (*keys, "view_tokens")}
        found["agent.reflection_rounds"] = "with the method gepa"
        return {key: why for key, why in found.items() if key not in {"agent.metric_calls", "learn.copies"}}

    def forecast(self, spec: Settings) -> Forecast:
        """Return the most that a run takes: every proposal accepted, every reflection read twice."""
        tasks = load_tasks(spec)
        check_smallest_step(spec, work_on(spec, tasks))
        acts = environment_of(spec) is not None
        found = _worst_case(spec.learn_config(), tasks, acts=acts)
        return with_trials(spec, found, found.data["rollouts"]) if acts else found

    def prepare(self, spec: Settings, folder: Path, say: Say) -> Prepared:
        """Prepare the tasks. Raises `UsageError` where no model is named, or a setting has no meaning here."""
        prepared = prepare_tasks(spec)
        if prepared.agent.models is None or "curator" not in prepared.agent.models.by_role:
            raise UsageError("The method gepa needs a model.", hint="Give --model NAME and, if needed, --base-url.")
        _options(prepared)
        if is_new(folder):
            check_smallest_step(spec, work_on(spec, prepared.tasks))
            introduce(prepared, say)
        return prepared

    def learn(self, prepared: Prepared, start: Playbook | None, journal: Journal, display: RunDisplay) -> LearnResult:
        """Search for a playbook from the training tasks, judged on the validation tasks (without any: on the former).

        Raises:
            UsageError: The labels of no sample allow it to be learned from.
            RunError: Rollouts or reflections failed for outside reasons; a resume goes on from there.
        """
        return _learn_by_gepa(prepared, start, journal, display)


def _learn_by_gepa(prepared: Prepared, start: Playbook | None, journal: Journal, display: RunDisplay) -> LearnResult:
    options = _options(prepared)
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
            **_shown(prepared.agent.reflector),
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


def _shown(reflector: Reflector) -> dict[str, Any]:
    """Return how rollouts are told of where agents act: by their records, which the run's own reflector reads first."""
    if not isinstance(reflector, RecordReader):
        return {}
    reader: RecordReader = reflector

    async def reflect(run: Trajectory, candidate: Mapping[str, str], scope: Scope) -> str:
        book = from_text(candidate[COMPONENT]).playbook
        found = await reflector.reflect(run.task, run.rollout, run.score, book, scope)
        return "" if found is None else found.text

    def tell(task: Task, rollout: Rollout, score: Score) -> str:
        return f"{'Right' if score.passed else 'Not right'}: {reader.ended(rollout)}"

    return {"shown": lambda task, rollout: reader.done(rollout), "feedback": tell, "reflect": reflect}


def _sampler(config: LearnConfig, scope: Scope, journal: Journal) -> CombeeSampler:
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
    tell, name = prepared.judge.alert_command, journal.path.parent.name
    named = None if tell is None else lambda payload: tell({**payload, "run": name})
    return replace(prepared.judge, policy=Policy(), alert_command=named)


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
            max_metric_calls=prepared.spec.agent.metric_calls,
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


def _worst_case(config: LearnConfig, tasks: TaskSet, *, acts: bool) -> Forecast:
    train = len(tasks.train)
    val = len(tasks.val) or train
    batch = min(train, _ASSUMED_BATCH if config.batch == "auto" else config.batch)
    iterations = -(-train * config.epochs // max(1, batch))
    found = {
        "iterations": iterations,
        "rollouts": val + iterations * (2 * batch + val),
        "reflection_calls": (2 * plan(batch, max_items=config.max_items).calls + acts * batch) * iterations,
    }
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in found.items())
    each = f"A rollout of a candidate on a task is made once; {batch} samples an iteration, {val} for validation."
    return Forecast((f"At most: {counts}.", each), found)
