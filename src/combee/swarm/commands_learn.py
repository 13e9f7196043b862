"""`combee swarm learn`: rounds of tasks, a playbook learned from them, views of it back to the agents, and controls."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import click

from combee.errors import INTERRUPTED, BudgetError, CombeeError, UsageError
from combee.kernel.journal import JSON, Journal, Scope
from combee.kernel.learn import (
    Evaluation,
    Event,
    FinishReason,
    Judge,
    LearnConfig,
    LearnResult,
    Observer,
    StepFinished,
    TraceReflector,
    Validated,
    learn,
)
from combee.kernel.playbook import Bullet, Playbook, from_json, save, tokens
from combee.kernel.runner import run_sync
from combee.report import write_report
from combee.run.options import option_of, over_options
from combee.run.settings import read_settings
from combee.run.spec import Agent, held_out, judge_of, load_file, make_agent
from combee.run.words import typed
from combee.swarm import Swarm
from combee.swarm.briefing import Lessons, held_back
from combee.swarm.config import SwarmFile
from combee.swarm.learning import HeldOutTasks, SwarmGenerator, SwarmTasks, addressed
from combee.swarm.opening import shown
from combee.tasks import TaskSet
from combee.terminal.display import make_display
from combee.terminal.options import print_json
from combee.traces.mining import MiningCurator, MiningReflector

__all__ = ["Control", "LearningParts", "SwarmLearned", "learn_in_rounds", "parts_of", "print_learned"]

_MODEL_ONLY = ("model__", "budget__", "agent__")


def _tasks_of(described: SwarmFile, seed: int | None) -> TaskSet:
    """Return the tasks of a description."""
    table = described.settings.tasks
    if table.source is None:
        hint = 'Add [tasks] with source = "tasks.jsonl"; see docs/evidence/swarm-learning.md.'
        raise UsageError("the file has no tasks to learn from", hint=hint)
    place = described.folder / table.source
    if not place.exists():
        raise UsageError(f"there are no tasks at {place}", hint="[tasks] names them from the folder of its file.")
    found = load_file(table, str(place), seed=seed)
    names = {agent.name for agent in described.settings.agents}
    for task in found:
        to, _ = addressed(task.question, described.settings.learn.to or "")
        if to not in names:
            hint = "Set `to` in [learn], or begin the question with @name."
            raise UsageError(f"the task {task.id} is for {to!r}, who is not described", hint=hint)
    if not found.train:
        raise UsageError("there are no training tasks", hint="Give more rows.")
    return found


@dataclass(frozen=True, slots=True)
class LearningParts:
    """What one run needs; made before anything is written."""

    described: SwarmFile
    tasks: TaskSet
    config: LearnConfig
    judge: Judge
    agent: Agent | None

    @property
    def to(self) -> str:
        """Who is asked what does not begin with @name."""
        return self.described.settings.learn.to or ""

    def exam(self, swarm: Swarm, tasks: TaskSet, split: str) -> HeldOutTasks:
        """Return the tasks of a split, to be asked in copies of the world."""
        return HeldOutTasks(swarm, getattr(tasks, split), tasks.scorer, self.to, self.config.attempts)


def parts_of(described: SwarmFile, options: Mapping[str, Any]) -> LearningParts:
    """Return what a run needs; raises `UsageError` for what is wrong with its tasks, models or settings."""
    spec = over_options(read_settings(), options).over({"learn": {"seed": options["seed"]}})
    idle = [name for name in options if name.startswith(_MODEL_ONLY) and options[name] is not None]
    if idle and not spec.calls_models:
        hint = "Add --model NAME. What limits the agents stands in the file, below [budget]."
        raise UsageError(f"{option_of(idle[0])} does nothing without a model that reflects.", hint=hint)
    tasks = _tasks_of(described, options["seed"])
    size = min(described.settings.learn.batch or len(tasks.train), len(tasks.train))
    epochs = options["epochs"] or described.settings.learn.epochs
    spec = spec.over({"learn": {"epochs": epochs, "batch": size, "eval_every": size, "quorum": 1.0}})
    settled = spec.learn_config()
    judge = judge_of(spec, settled, held_out(tasks))
    return LearningParts(described, tasks, settled, judge, make_agent(spec) if spec.calls_models else None)


def learn_in_rounds(parts: LearningParts, swarm: Swarm, options: Mapping[str, Any]) -> SwarmLearned:
    """Learn in the folder beside the file, or go on there; the playbook of the last round is what agents go by then."""
    folder = parts.described.learned
    quiet = bool(options["quiet"] or options["as_json"])
    with Journal.open(folder) as journal, make_display(quiet=quiet) as display:
        _same_run(journal, parts)
        seen: list[Event] = []

        def observe(event: Event) -> None:
            seen.append(event)
            display.observe(event)

        try:
            learned = run_sync(_learn(parts, swarm, journal, observe, controls=bool(options["controls"])))
        except KeyboardInterrupt as stop:
            if options["as_json"]:
                print_learned(_stopped(swarm, journal, seen), as_json=True)
            click.echo("Stopped; nothing is lost. The same command goes on.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from stop
    save(learned.result.last, folder / "playbook.json")
    save(learned.result.last, folder / "playbook.md")
    try:
        write_report(folder)
    except CombeeError as error:
        click.echo(f"The report was not written: {error}", err=True)
    return learned


def _same_run(journal: Journal, parts: LearningParts) -> None:
    """A run goes on only as it began: with other tasks or settings its replay would be another run."""
    view = parts.described.lessons(Playbook()).tokens
    settings: dict[str, JSON] = {"tasks": parts.tasks.digest(), "learn": parts.config.to_json(), "view_tokens": view}
    known = journal.meta("swarm")
    if known is None:
        journal.set_meta("swarm-run", f"learn-{secrets.token_hex(4)}")
        journal.set_meta("swarm", dict(settings))  # last: with it the run has begun, whatever is killed when
        return
    if not isinstance(known, dict):
        raise UsageError("this folder holds another kind of run", hint="Take it away, or move the file elsewhere.")
    changed = [key for key, value in settings.items() if known.get(key) != value]
    if "tasks" in changed and _but_sizes(known.get("learn")) == _but_sizes(settings["learn"]):
        changed.remove("learn")  # its batches are as large as there are tasks
    if changed:
        names = [name for key in changed for name in (_differing(known.get(key), settings[key]) or [key])]
        raise UsageError(
            f"{' and '.join(names)} changed since this swarm began to learn",
            hint=f"Put it back, or take the folder {parts.described.learned} away to begin anew.",
        )


def _differing(old: JSON, new: JSON) -> list[str]:
    """Return the settings of [learn] that are not as they were, by the names that users give."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return []
    return [key for key in new if old.get(key) != new[key] and key != "eval_every"]


def _but_sizes(learn: JSON) -> JSON:
    """Return settings without those that come from the number of tasks."""
    return {k: v for k, v in learn.items() if k not in {"batch", "eval_every"}} if isinstance(learn, dict) else learn


def _kept(journal: Journal) -> LearnResult:
    """Return what an earlier command learned here: the last book, and no step of this one."""
    versions = journal.versions()
    book = from_json(journal.text(versions[-1].digest)) if versions else Playbook()
    return LearnResult(book, book, FinishReason.COMPLETED, "", (), (), ())


def _stopped(swarm: Swarm, journal: Journal, seen: Sequence[Event]) -> SwarmLearned:
    """Return what a run came to that the user stopped, with the keys of any other end."""
    steps = tuple(event for event in seen if isinstance(event, StepFinished))
    validations = tuple(event for event in seen if isinstance(event, Validated))
    reason, detail = FinishReason.INTERRUPTED, "stopped by the user"
    result = replace(_kept(journal), reason=reason, detail=detail, steps=steps, validations=validations)
    return _learned(swarm, journal, result)


def _learned(
    swarm: Swarm, journal: Journal, result: LearnResult, start: Evaluation | None = None, found: Sequence[Control] = ()
) -> SwarmLearned:
    stats = journal.stats()
    full = tuple(agent.name for agent in swarm.world.agents() if agent.state == "full")
    return SwarmLearned(journal.path.parent, result, start, tuple(found), full, stats.reused, stats.bought)


async def _learn(
    parts: LearningParts, swarm: Swarm, journal: Journal, observe: Observer, *, controls: bool
) -> SwarmLearned:
    described, tasks = parts.described, parts.tasks
    lessons = described.lessons(Playbook())
    generator = SwarmGenerator(swarm, to=parts.to, lessons=lessons)
    reflector = cast("TraceReflector", parts.agent.reflector) if parts.agent else MiningReflector()
    curator = parts.agent.curator if parts.agent else MiningCurator()
    if parts.agent is not None:
        parts.agent.attach(journal)
    exam = parts.exam(swarm, tasks, "val")

    async def validate(book: Playbook, scope: Scope) -> Evaluation:
        return (await exam.score(book, scope, lessons)).evaluation

    if parts.config.guard_validate:
        parts.judge.validate = validate
    samples = SwarmTasks(generator, reflector, tasks.scorer, str(journal.meta("swarm-run")))
    place = journal.scope(seed=parts.config.seed, epoch=0, step=0, run="swarm")
    start, result, found = None, _kept(journal), list[Control]()
    try:
        await swarm.run()  # what is to be read first
        start = await validate(Playbook(), place.sub("start")) if tasks.val else None
        result = await learn(
            tasks.train, samples, curator, config=parts.config, validate=validate if tasks.val else None,
            judge=parts.judge, journal=journal, observe=observe,
        )  # fmt: skip
        if controls and tasks.test and result.reason is FinishReason.COMPLETED:
            async for one in _controls(parts, swarm, result.last, place):
                found.append(one)
        await generator.aclose()
        swarm.hold_digests = False
        await swarm.run()  # what others asked meanwhile, and what copies brought back
    except BudgetError as error:  # before or after the rounds; during them it is `learn` that ends so
        result = replace(result, reason=FinishReason.BUDGET, detail=error.message)
    finally:
        await generator.aclose()
        await swarm.aclose()
        if parts.agent is not None:
            await parts.agent.aclose()
    return _learned(swarm, journal, result, start, found)


async def _controls(parts: LearningParts, swarm: Swarm, book: Playbook, scope: Scope) -> AsyncIterator[Control]:
    """Yield what the test tasks give with the last book shown in several ways, to the same agents in the same world."""
    lessons = parts.described.lessons(book)
    whole = Lessons(book, None)
    larger = {agent.name: agent.window + tokens(book) for agent in swarm.world.agents() if agent.mode != "outside"}
    ways: dict[str, tuple[Lessons, Mapping[str, int]]] = {
        "no lessons": (Lessons(Playbook()), {}),
        f"view of {lessons.tokens} tokens for role and task": (lessons, {}),
        "same size, not chosen for the task": (replace(lessons, targeted=False), {}),
        "whole playbook, same window": (whole, {}),
        "whole playbook, window larger by its size": (whole, larger),
    }
    exam = parts.exam(swarm, parts.tasks, "test")
    for number, (way, (given, windows)) in enumerate(ways.items()):
        found = await exam.score(given.book, scope.sub(f"control{number}"), given, windows)
        scored = found.evaluation
        each = found.tokens / max(1, len(scored.scores))
        yield Control(way, scored.hits, scored.total, len(scored.errors), round(each, 1), found.full)


@dataclass(frozen=True, slots=True)
class Control:
    """The last book on test tasks, shown in one way; `errors` are tasks that no model could be had for."""

    way: str
    hits: int
    total: int
    errors: int
    tokens: float
    full: int


@dataclass(frozen=True, slots=True)
class SwarmLearned:
    """What a learning run gave and what its controls gave; `full` are the agents that take no more questions."""

    folder: Path
    result: LearnResult
    start: Evaluation | None
    controls: tuple[Control, ...]
    full: tuple[str, ...]
    reused: int
    bought: int


def print_learned(learned: SwarmLearned, *, as_json: bool) -> None:
    """Say what each round and each control gave."""
    rows = list(_rounds(learned))
    if as_json:
        data: dict[str, Any] = {
            "run": str(learned.folder),
            "reason": learned.result.reason.value,
            "start": _score(learned.start),
            "rounds": rows,
            "bullets": len(learned.result.last),
            "tokens": tokens(learned.result.last),
            "calls": {"bought": learned.bought, "reused": learned.reused},
            "controls": [asdict(one) for one in learned.controls],
            "full": list(learned.full),
            "held_back": [_held(bullet, why) for bullet, why in held_back(learned.result.last)],
        }
        print_json(data)
        return
    click.echo(f"{learned.result.reason.value}: {learned.result.detail}")
    click.echo("round  training  held out  bullets  tokens")
    if learned.start is not None:
        click.echo(f"{'-':>5}  {'':>8}  {_share(_score(learned.start)):>8}")
    for row in rows:
        click.echo(
            f"{row['round']:>5}  {_share(row['training']):>8}  {_share(row['held_out']):>8}"
            f"  {row['bullets']:>7}  {row['tokens']:>6}"
        )
    click.echo("training: before learning from the round; held out: after it, in a copy of the world")
    if learned.controls:
        click.echo("\ntest tasks, last playbook      right  tokens a question")
    for one in learned.controls:
        note = f"  {one.full} of its agents had no room" if one.full else ""
        click.echo(f"{one.way:<42} {one.hits}/{one.total}  {one.tokens:>8,.0f}{note}")
    if learned.full:
        click.echo(
            f"full       {', '.join(learned.full)}: their windows hold no more; larger ones, or fewer view_tokens"
        )
    for bullet, why in held_back(learned.result.last):
        click.echo(f"held back  {_held(bullet, why)}")
    click.echo(f"work       {learned.bought} results made, {learned.reused} taken from the journal")
    click.echo(f"playbook   {shown(learned.folder / 'playbook.md')}")
    if learned.result.last:
        click.echo(f"next       {typed('show', shown(learned.folder))}")


def _held(bullet: Bullet, why: Sequence[str]) -> str:
    """Return a lesson that no agent is shown, and why."""
    return f"[{bullet.id}] {', '.join(why)}: {' '.join(bullet.text.split())[:200]}"


def _rounds(learned: SwarmLearned) -> Iterator[dict[str, Any]]:
    held = {one.step: one for one in learned.result.validations}
    for step in learned.result.steps:
        seen = held.get(step.step + 1)
        yield {
            "round": step.epoch + 1,
            "step": step.step,
            "training": [step.hits, step.total],
            "held_out": [seen.hits, seen.total] if seen is not None else None,
            "bullets": step.bullets,
            "tokens": step.tokens,
        }


def _score(found: Evaluation | None) -> list[int] | None:
    return None if found is None else [found.hits, found.total]


def _share(score: list[int] | None) -> str:
    return f"{score[0] / score[1]:.3f}" if score and score[1] else "-"
