"""What one run is: file and options folded into one value, kept in the journal so that a resume needs neither.

Its parts, made from it: the tasks, the agent (the embedded one, or ACE roles on the models of the settings), the guard.
Nothing is written and nothing is paid before everything was checked.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from combee.errors import StorageError, UsageError, did_you_mean
from combee.files import real_path
from combee.kernel.guard import GuardLimits, HeldOut, LeakIndex, Policy
from combee.kernel.journal import JSON, Journal, Scope
from combee.kernel.learn import (
    Curator,
    Evaluation,
    Generator,
    Judge,
    LearnConfig,
    Reflector,
    Sample,
    SampleMap,
    Task,
    Tell,
    evaluate,
)
from combee.kernel.playbook import Playbook
from combee.kernel.runner import LocalRunner
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.redaction import find_secrets
from combee.run.config import ProjectConfig
from combee.run.folders import refuse_device
from combee.run.notify import notify
from combee.run.tables import refuse_unknown_prices
from combee.tasks import DATA_VARIABLE, NAMES, Fields, TaskSet, load

if TYPE_CHECKING:
    from combee.model import Models

__all__ = [
    "AGENTS",
    "SPEC_KEY",
    "Agent",
    "Prepared",
    "RunSpec",
    "agent_of",
    "held_out",
    "judge_of",
    "kept_spec",
    "load_tasks",
    "make_agent",
]

AGENTS = ("lexical", "ace")
SPEC_KEY = "spec"
"""Where the journal keeps the settings of its run."""


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

    @property
    def stem(self) -> str:
        """What it learns from, in a word for the name of its folder."""
        if self.tasks.get("from") is not None:
            return "traces"
        source = Path(self.tasks.get("source", "tags"))
        return source.stem if source.is_file() else source.name

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
    samples: Sequence[Sample]
    """What is learned from: the training tasks, or recorded runs."""
    digest: str
    """The hash of the data: a run goes on only with the data it began with."""
    facts: Mapping[str, JSON] = dataclasses.field(default_factory=dict)
    """What a method has to say of the data, for whoever reads the result as JSON."""

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


@dataclass(frozen=True, slots=True)
class Agent:
    """The three roles, and a name for reports. `models` are the models behind them; `prompts` the digest of theirs."""

    name: str
    generator: Generator
    reflector: Reflector
    curator: Curator
    models: Models | None = None
    prompts: str | None = None

    def attach(self, journal: Journal) -> None:
        """Book into the run's journal. Raises `UsageError` where the run began with other prompts."""
        if self.models is None:
            return
        began_with = journal.meta("prompts")
        if began_with is None:
            journal.set_meta("prompts", self.prompts)
        elif began_with != self.prompts:
            raise UsageError(
                "The prompts have changed since this run began.", hint="Put the old ones back, or start a new run."
            )
        self.models.attach(journal)

    async def aclose(self) -> None:
        """Close all connections; to be called in the event loop that used them."""
        if self.models is not None:
            await self.models.aclose()


def agent_of(
    agent: Mapping[str, Any],
    *,
    model: Mapping[str, Any],
    budget: Mapping[str, Any],
    prices: Mapping[str, Any],
    learn: Mapping[str, Any],
) -> Agent:
    """Make the agent that the settings name; without a word on it the embedded one.

    Raises:
        UsageError: There is no such agent, a setting of it cannot be used, or a budget in money meets a model without
            a price.
    """
    kind = agent.get("kind") or "lexical"
    if kind not in AGENTS:
        raise UsageError(f"There is no agent {kind!r}.", hint=did_you_mean(str(kind), AGENTS))
    if kind == "ace":
        return _ace(agent, model=model, budget=budget, prices=prices, learn=learn)
    curator = LexicalCurator(
        forget=agent.get("forget"), output_limit=agent.get("output_limit"), seed=learn.get("seed", 0)
    )
    return Agent("lexical", LexicalGenerator(), LexicalReflector(), curator)


def _ace(
    agent: Mapping[str, Any],
    *,
    model: Mapping[str, Any],
    budget: Mapping[str, Any],
    prices: Mapping[str, Any],
    learn: Mapping[str, Any],
) -> Agent:
    from combee.ace import AceCurator, AceGenerator, AceReflector, Prompts
    from combee.model import open_models

    seed = learn.get("seed", 0)
    prompts = Prompts.load(agent.get("prompts"))
    refuse_unknown_prices(model, budget, prices)
    models = open_models(model, budget=budget, prices=prices, seed=seed)
    options = {role: settings.options(seed) for role, settings in models.settings.items()}
    by_role = models.by_role
    return Agent(
        "ace",
        AceGenerator(by_role["generator"], prompts=prompts, options=options["generator"]),
        AceReflector(
            by_role["reflector"],
            prompts=prompts,
            options=options["reflector"],
            rounds=agent.get("reflection_rounds") or 1,
        ),
        AceCurator(
            by_role["curator"],
            prompts=prompts,
            options=options["curator"],
            token_budget=learn.get("token_budget", 80_000),
        ),
        models,
        prompts.digest,
    )


def kept_spec(journal: Journal, folder: Path) -> RunSpec:
    """Return the settings of the run in `folder`.

    Raises:
        UsageError: It has none: it was stopped before it began, or a program made it without the command line.
        StorageError: They are not what a run writes.
    """
    kept = journal.meta(SPEC_KEY)
    if kept is None and journal.meta("swarm") is not None:
        raise UsageError(f"{folder} is what a swarm learned.", hint="Go on with: `combee swarm learn FILE`")
    if kept is None:
        raise UsageError(
            f"{folder} holds no settings: it was stopped before it began, or was not made by `combee learn`.",
            hint="`combee show` and `combee diff` work without; else start a new run.",
        )
    tables = {item.name for item in dataclasses.fields(RunSpec)} - {"start"}
    if not isinstance(kept, dict) or any(
        name not in tables | {"start"} or (name in tables and not isinstance(value, dict))
        for name, value in kept.items()
    ):
        raise StorageError(f"The settings that {folder} holds cannot be read.", hint="Put back a copy, or start anew.")
    return RunSpec.from_json(kept)
