"""`combee swarm learn`: rounds of tasks, a playbook learned from them, views of it back to the agents, and controls."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import click

from combee.cli.agents import Agent, agent_of
from combee.cli.config import read_config
from combee.cli.display import Display, make_display
from combee.cli.main import INTERRUPTED
from combee.cli.model_options import tables_of
from combee.cli.spec import RunSpec, held_out, judge_of
from combee.errors import CombeeError, UsageError
from combee.journal import JSON, Journal, Scope
from combee.learn import Evaluation, FinishReason, Judge, LearnConfig, LearnResult, TraceReflector, learn
from combee.mining import MiningCurator, MiningReflector
from combee.playbook import Playbook, save, tokens
from combee.report import write_report
from combee.runner import run_sync
from combee.swarm import Swarm
from combee.swarm.config import LEARNED, SwarmFile
from combee.swarm.crew import Crew, addressed
from combee.swarm.learning import HeldOutTasks, SwarmTasks
from combee.swarm.lessons import Lessons
from combee.tasks import Fields, TaskSet, load

__all__ = ["Control", "Told", "learn_in_rounds", "print_told", "tasks_of"]


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
class Told:
    """What a learning run gave and what its controls gave; `full` are the agents that take no more questions."""

    folder: Path
    result: LearnResult
    start: Evaluation | None
    controls: tuple[Control, ...]
    full: tuple[str, ...]
    reused: int
    bought: int


def tasks_of(described: SwarmFile, seed: int) -> TaskSet:
    """Return the tasks of a description."""
    table = described.learn
    if not table:
        raise UsageError(
            "the file has no [learn]", hint='Add [learn] with tasks = "tasks.jsonl"; see docs/swarm-learning.md.'
        )
    fields = Fields(table.get("question"), table.get("answer"), table.get("id"))
    found = load(
        str(described.folder / table["tasks"]),
        seed=seed,
        fields=None if fields == Fields() else fields,
        scorer=table.get("scorer"),
    )
    names = {agent["name"] for agent in described.agents}
    for task in found:
        to, _ = addressed(task.question, table.get("to", ""))
        if to not in names:
            hint = "Set `to` in [learn], or begin the question with @name."
            raise UsageError(f"the task {task.id} is for {to!r}, who is not described", hint=hint)
    if not found.train:
        raise UsageError("there are no training tasks", hint="Give more rows.")
    return found


@dataclass(frozen=True, slots=True)
class _Parts:
    """What one run needs; made before anything is written."""

    described: SwarmFile
    tasks: TaskSet
    config: LearnConfig
    judge: Judge
    agent: Agent | None

    @property
    def to(self) -> str:
        return str(self.described.learn.get("to", ""))

    def exam(self, swarm: Swarm, tasks: TaskSet, split: str) -> HeldOutTasks:
        return HeldOutTasks(swarm, getattr(tasks, split), tasks.scorer, self.to, self.config.attempts)


def _parts(described: SwarmFile, options: Mapping[str, Any]) -> _Parts:
    config = read_config(None)
    tables = tables_of(options, config.model)
    kind = tables["agent"].pop("kind") or config.agent.get("kind", "lexical")
    spec = RunSpec.of(
        config, agent=tables["agent"] | {"kind": kind}, model=tables["model"], budget=tables["budget"],
        prices=tables["prices"], learn={"seed": options["seed"]},
    )  # fmt: skip
    tasks = tasks_of(described, options["seed"] or 0)
    size = int(described.learn.get("batch", len(tasks.train)))
    rounds = options["rounds"] or int(described.learn.get("rounds", 3))
    learning = {**spec.learn, "epochs": rounds, "batch": size, "eval_every": size, "quorum": 1.0}
    settled = LearnConfig.from_json(learning)
    judge = judge_of(spec, settled, held_out(tasks))
    agent = None
    if kind == "ace":
        agent = agent_of(spec.agent, model=spec.model, budget=spec.budget, prices=spec.prices, learn=learning)
    return _Parts(described, tasks, settled, judge, agent)


def learn_in_rounds(described: SwarmFile, swarm: Swarm, options: Mapping[str, Any]) -> Told:
    """Learn in the folder beside the file, or go on there; the playbook of the last round is what agents go by then."""
    parts = _parts(described, options)
    folder = described.folder / LEARNED
    quiet = bool(options["quiet"] or options["as_json"])
    with Journal.open(folder) as journal, make_display(quiet=quiet) as display:
        _same_run(journal, parts)
        try:
            told = run_sync(_learn(parts, swarm, journal, display, controls=bool(options["controls"])))
        except KeyboardInterrupt as stop:
            click.echo("Stopped; nothing is lost. The same command goes on.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from stop
    save(told.result.last, folder / "playbook.json")
    save(told.result.last, folder / "playbook.md")
    try:
        write_report(folder)
    except CombeeError as error:
        click.echo(f"The report was not written: {error}", err=True)
    return told


def _same_run(journal: Journal, parts: _Parts) -> None:
    """A run goes on only as it began: with other tasks or settings its replay would be another run."""
    view = parts.described.lessons(Playbook()).tokens
    settings: dict[str, JSON] = {"tasks": parts.tasks.digest(), "learn": parts.config.to_json(), "view_tokens": view}
    known = journal.meta("swarm")
    if known is None:
        journal.set_meta("swarm", dict(settings))
        journal.set_meta("swarm-run", f"learn-{secrets.token_hex(4)}")
        return
    if not isinstance(known, dict):
        raise UsageError("this folder holds another kind of run", hint="Take it away, or move the file elsewhere.")
    changed = [key for key, value in settings.items() if known.get(key) != value]
    if changed:
        raise UsageError(
            f"{' and '.join(changed)} changed since this swarm began to learn",
            hint=f"Put it back, or take the folder {LEARNED} away to begin anew.",
        )


async def _learn(parts: _Parts, swarm: Swarm, journal: Journal, display: Display, *, controls: bool) -> Told:
    described, tasks = parts.described, parts.tasks
    lessons = described.lessons(Playbook())
    crew = Crew(swarm, to=parts.to, lessons=lessons)
    reflector = cast("TraceReflector", parts.agent.reflector) if parts.agent else MiningReflector()
    curator = parts.agent.curator if parts.agent else MiningCurator()
    if parts.agent is not None:
        parts.agent.attach(journal)
    exam = parts.exam(swarm, tasks, "val")

    async def validate(book: Playbook, scope: Scope) -> Evaluation:
        return (await exam.score(book, scope, lessons)).evaluation

    if parts.config.guard_validate:
        parts.judge.validate = validate
    samples = SwarmTasks(crew, reflector, tasks.scorer, str(journal.meta("swarm-run")))
    place = journal.scope(seed=parts.config.seed, epoch=0, step=0, run="swarm")
    try:
        await swarm.run()  # what is to be read first
        start = await validate(Playbook(), place.sub("start")) if tasks.val else None
        result = await learn(
            tasks.train, samples, curator, config=parts.config, validate=validate if tasks.val else None,
            judge=parts.judge, journal=journal, observe=display.observe,
        )  # fmt: skip
        wanted = controls and tasks.test and result.reason is FinishReason.COMPLETED
        found = [one async for one in _controls(parts, swarm, result.last, place)] if wanted else []
    finally:
        await crew.aclose()
        await swarm.aclose()
        if parts.agent is not None:
            await parts.agent.aclose()
    stats = journal.stats()
    full = tuple(agent.name for agent in swarm.world.agents() if agent.state == "full")
    return Told(journal.path.parent, result, start, tuple(found), full, stats.reused, stats.bought)


async def _controls(parts: _Parts, swarm: Swarm, book: Playbook, scope: Scope) -> AsyncIterator[Control]:
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
    for number, (way, (shown, windows)) in enumerate(ways.items()):
        found = await exam.score(shown.book, scope.sub(f"control{number}"), shown, windows)
        scored = found.evaluation
        each = found.tokens / max(1, len(scored.scores))
        yield Control(way, scored.hits, scored.total, len(scored.errors), round(each, 1), found.full)


def print_told(told: Told, *, as_json: bool) -> None:
    """Say what each round and each control gave."""
    rows = list(_rounds(told))
    if as_json:
        data: dict[str, Any] = {
            "run": str(told.folder),
            "reason": told.result.reason.value,
            "start": _score(told.start),
            "rounds": rows,
            "bullets": len(told.result.last),
            "tokens": tokens(told.result.last),
            "calls": {"bought": told.bought, "reused": told.reused},
            "controls": [asdict(one) for one in told.controls],
            "full": list(told.full),
        }
        click.echo(json.dumps(data, ensure_ascii=False))
        return
    click.echo(f"{told.result.reason.value}: {told.result.detail}")
    click.echo("round  training  held out  bullets  tokens")
    if told.start is not None:
        click.echo(f"{'-':>5}  {'':>8}  {_share(_score(told.start)):>8}")
    for row in rows:
        click.echo(
            f"{row['round']:>5}  {_share(row['training']):>8}  {_share(row['held_out']):>8}"
            f"  {row['bullets']:>7}  {row['tokens']:>6}"
        )
    click.echo("training: before learning from the round; held out: after it, in a copy of the world")
    if told.controls:
        click.echo("\ntest tasks, last playbook      right  tokens a question")
    for one in told.controls:
        note = f"  {one.full} of its agents were full" if one.full else ""
        click.echo(f"{one.way:<42} {one.hits}/{one.total}  {one.tokens:>8,.0f}{note}")
    if told.full:
        click.echo(f"full       {', '.join(told.full)}: their windows hold no more; larger ones, or fewer view_tokens")
    click.echo(f"work       {told.bought} results made, {told.reused} taken from the journal")
    click.echo(f"playbook   {told.folder / 'playbook.md'}")


def _rounds(told: Told) -> Iterator[dict[str, Any]]:
    held = {one.step: one for one in told.result.validations}
    for step in told.result.steps:
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
