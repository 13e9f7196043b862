"""What one run is: file and options folded into one value, kept in the journal so that a resume needs neither.

`prepare` turns it into the parts the loop wants. Nothing is written and nothing is paid before everything was checked.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from combee.cli.agents import Agent, agent_of
from combee.cli.config import ProjectConfig
from combee.cli.rundir import refuse_device
from combee.errors import UsageError
from combee.files import real_path
from combee.kernel.guard import GuardLimits, HeldOut, LeakIndex, Policy, notify
from combee.kernel.journal import JSON, Scope
from combee.kernel.learn import Evaluation, Judge, LearnConfig, LiveTasks, SampleMap, Task, Tell, evaluate
from combee.kernel.playbook import Playbook
from combee.kernel.runner import LocalRunner
from combee.redaction import find_secrets
from combee.tasks import DATA_VARIABLE, NAMES, Fields, TaskSet, load
from combee.traces.mining import StoredTrace, TraceFile

__all__ = ["Agent", "Prepared", "RunSpec", "held_out", "judge_of", "load_tasks", "make_agent", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec(ProjectConfig):
    """The settings of one run: the tables of the file with the options of the command line over them."""

    start: str | None = None

    @classmethod
    def of(cls, config: ProjectConfig, **tables: Mapping[str, Any] | str | None) -> RunSpec:
        """Return the file's values with those of the command line (None: not given) over them."""
        merged: dict[str, Any] = {}
        for item in dataclasses.fields(config):
            given = cast("Mapping[str, Any]", tables.get(item.name) or {})
            merged[item.name] = dict(getattr(config, item.name)) | {k: v for k, v in given.items() if v is not None}
        merged["tasks"] = _settled(merged["tasks"])
        return cls(**merged, start=cast("str | None", tables.get("start")))

    def to_json(self) -> dict[str, JSON]:
        """Return the settings as JSON. They hold names of variables, never keys."""
        return cast(
            "dict[str, JSON]", {item.name: _plain(getattr(self, item.name)) for item in dataclasses.fields(self)}
        )

    @classmethod
    def from_json(cls, value: JSON) -> RunSpec:
        """Read what `to_json` wrote."""
        return cls(**cast("dict[str, Any]", value))

    def learn_config(self) -> LearnConfig:
        """Return the checked settings of the loop."""
        return LearnConfig.from_json(self.learn)


def _settled(tasks: dict[str, Any]) -> dict[str, Any]:
    """Return the task settings with what this folder and environment add, so that a resume finds the same data."""
    source = tasks.get("source")
    if isinstance(source, str):
        refuse_device(Path(source))
    if isinstance(source, str) and Path(source).exists() and source not in NAMES:
        tasks["source"] = str(real_path(Path(source)))
    if source in NAMES and "data_dir" not in tasks and os.environ.get(DATA_VARIABLE):
        tasks["data_dir"] = str(real_path(Path(os.environ[DATA_VARIABLE])))
    return tasks


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything the loop needs."""

    spec: RunSpec
    tasks: TaskSet
    agent: Agent
    config: LearnConfig
    sample_map: SampleMap[Any]
    judge: Judge
    traces: TraceFile | None = None
    """The recorded runs to learn from, in place of tasks."""

    @property
    def samples(self) -> Sequence[Task | StoredTrace]:
        """What is learned from."""
        return self.tasks.train if self.traces is None else self.traces.samples

    def digest(self) -> str:
        """Return the hash of the data: a run goes on only with the data it began with."""
        return self.tasks.digest() if self.traces is None else self.traces.digest

    async def validate(self, book: Playbook, scope: Scope) -> Evaluation:
        """Score a book on the validation tasks."""
        return await self.score(self.tasks.val, book, scope)

    async def score(self, tasks: tuple[Task, ...], book: Playbook, scope: Scope | None = None) -> Evaluation:
        """Score a book on any tasks of the set."""
        return await evaluate(
            self.agent.generator,
            tasks,
            self.tasks.scorer,
            book,
            scope=scope,
            runner=LocalRunner(self.config.concurrency),
            attempts=self.config.attempts,
            view_tokens=self.config.view_tokens,
        )


def load_tasks(spec: RunSpec) -> TaskSet:
    """Load the task set that a run names."""
    tasks = spec.tasks
    sizes = (tasks.get("train"), tasks.get("val"), tasks.get("test"))
    fields = Fields(tasks.get("question"), tasks.get("answer"), tasks.get("id"))
    return load(
        tasks.get("source", "tags"),
        data_dir=tasks.get("data_dir"),
        sizes=sizes if any(size is not None for size in sizes) else None,
        seed=tasks.get("seed", 0),
        fields=None if fields == Fields() else fields,
        scorer=tasks.get("scorer"),
    )


def make_agent(spec: RunSpec) -> Agent:
    """Make the agent that a run names."""
    return agent_of(spec.agent, model=spec.model, budget=spec.budget, prices=spec.prices, learn=spec.learn)


def prepare(spec: RunSpec, folder: Path | None = None) -> Prepared:
    """Load, check and connect all parts of a run. Raises `UsageError` for anything that cannot be used.

    A run that learns from recorded traces keeps them in its `folder`.
    """
    if spec.tasks.get("from") is not None:
        from combee.cli.from_traces import prepare_traces

        return prepare_traces(spec, folder)
    config = spec.learn_config()
    tasks = load_tasks(spec)
    if not tasks.train:
        raise UsageError(f"{tasks.name} has no training tasks.", hint="Give more rows, or another split.")
    agent = make_agent(spec)
    sample_map = LiveTasks(agent.generator, agent.reflector, tasks.scorer, config.view_tokens)
    judge = judge_of(spec, config, held_out(tasks))
    prepared = Prepared(spec, tasks, agent, config, sample_map, judge)
    if config.guard_validate:
        if not tasks.val:
            raise UsageError("guard_validate needs validation tasks.", hint="Give --val, or a folder with a val file.")
        judge.validate = prepared.validate
    return prepared


def judge_of(spec: RunSpec, config: LearnConfig, held_out: LeakIndex | None) -> Judge:
    """Return the guard of a run, without validation."""
    return Judge(
        enabled=config.guard,
        policy=_policy(spec.guard),
        limits=GuardLimits(allow_leaks=config.keep_leaks, find_secrets=find_secrets),
        held_out=held_out,
        tell=_alert_command(spec.guard),
    )


def held_out(tasks: TaskSet) -> LeakIndex:
    """Return what must not turn up in a lesson: answers of validation and test that are not known from training."""
    unseen = [
        HeldOut(task.id, task.target, task.question) for task in (*tasks.val, *tasks.test) if task.target is not None
    ]
    known = {task.target for task in tasks.train if task.target is not None} | set(tasks.choices or ())
    return LeakIndex(unseen, known, seen=(task.question for task in tasks.train))


def _alert_command(guard: Mapping[str, Any]) -> Tell | None:
    command, seconds = guard.get("alert_command"), guard.get("alert_timeout", 10)
    if command is None:
        return None
    words = command if isinstance(command, str) else None
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        words = " ".join(map(shlex.quote, command))
    if not words or not words.strip():
        raise UsageError(
            f"[guard] alert_command is {command!r}.",
            hint='Write a command as text, such as "notify-send combee", or a list of words.',
        )
    if not isinstance(seconds, int | float) or not seconds > 0:
        raise UsageError(f"[guard] alert_timeout is {seconds!r}.", hint="Give seconds, more than 0.")
    return partial(notify, words, timeout=float(seconds))


def _policy(guard: Mapping[str, Any]) -> Policy:
    tenants = guard.get("tenants")
    return Policy(tenants=None if tenants is None else frozenset(tenants), clearance=guard.get("clearance"))
