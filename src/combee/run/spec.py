"""The parts of a run, made from its settings: tasks, agent (the embedded one, or ACE roles on models), guard.

The settings are kept in the run's journal, so that a resume needs neither file nor options. Nothing is written and
nothing is paid before everything was checked.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from combee.errors import CombeeError, StorageError, UsageError
from combee.kernel.guard import GuardLimits, HeldOut, LeakIndex, Policy
from combee.kernel.journal import JSON, Journal, Scope
from combee.kernel.learn import (
    Answering,
    Curator,
    Evaluation,
    Generator,
    Judge,
    LearnConfig,
    LiveTasks,
    Reflector,
    Sample,
    SampleMap,
    Scorer,
    Task,
    evaluate,
)
from combee.kernel.playbook import Playbook
from combee.kernel.runner import LocalRunner
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.redaction import find_secrets
from combee.run.environments import environment_of
from combee.run.functions import FunctionAgent
from combee.run.notify import notify
from combee.run.options import refuse_unknown_prices
from combee.run.settings import Settings
from combee.run.settings_tables import TaskFileTable
from combee.tasks import NAMES, Fields, TaskSet, load
from combee.tasks.rows import read_text
from combee.tasks.scorers import PythonScorer, import_function

if TYPE_CHECKING:
    from combee.model import Models

CONTENT_KEY = "content"
"""Where the journal keeps the hash of the file that was learned from."""

SPEC_KEY = "spec"
"""Where the journal keeps the settings of its run."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything the loop needs."""

    spec: Settings
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
    answering: Answering | None = None
    """Does tasks elsewhere; None: the agent's generator does them here."""

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
            answering=self.answering,
        )


def load_tasks(spec: Settings, *, whole: bool = False) -> TaskSet:
    """Load the task set that a run names; `whole`: a file with all of its rows as test tasks.

    Raises:
        UsageError: It cannot be used, or the run learned from recorded traces, which hold no tasks.
    """
    if (environment := environment_of(spec)) is not None:
        return environment.tasks(spec, whole=whole)
    if spec.tasks.traces is not None:
        raise UsageError(
            "This run learned from traces: there are no tasks to score.",
            hint="`combee eval RUN FILE` scores its playbook on a file of tasks.",
        )
    return load_file(
        spec.tasks, spec.tasks.source or "tags", data_dir=spec.tasks.data_dir, whole=whole, scorer=_scorer(spec)
    )


def load_file(
    table: TaskFileTable,
    source: str,
    *,
    data_dir: str | None = None,
    seed: int | None = None,
    whole: bool = False,
    scorer: Scorer | None = None,
) -> TaskSet:
    """Load tasks as a table [tasks] says; `source` and, where given, `seed` and `scorer` in place of its own."""
    sizes = (table.train, table.val, table.test)
    fields = Fields(table.question, table.answer, table.id)
    return load(
        source,
        data_dir=data_dir,
        sizes=sizes if any(size is not None for size in sizes) else None,
        fractions=(0, 0, 1) if whole else (0.6, 0.2, 0.2),
        seed=table.seed if seed is None else seed,
        fields=None if fields == Fields() else fields,
        scorer=scorer or table.scorer,
        encoding=table.encoding,
    )


def _scorer(spec: Settings) -> Scorer | None:
    """Return the scorer that a program gave as a function."""
    name = spec.tasks.scorer
    function = spec.function(name)
    if function is not None:
        return PythonScorer(str(name), function)
    _refuse_lost(name, "scorer")
    return None


def _refuse_lost(name: str | None, what: str) -> None:
    """Refuse a function of a program that has ended, or that another process cannot import by its name."""
    if name is not None and (name.startswith("__main__:") or "<" in name):
        raise UsageError(
            f"The {what} of this run, {name}, is a function inside a program: it cannot be imported from elsewhere.",
            hint=f"Give it in that program: combee.resume(FOLDER, {what}=...) or combee.evaluate(FOLDER, {what}=...); "
            "a function of a module can be imported.",
        )


def content_of(spec: Settings) -> str | None:
    """Return the hash of the text of a single file of tasks, whatever its name or encoding; None where it is none."""
    source = spec.tasks.source
    if source is None or source in NAMES or not Path(source).is_file():
        return None
    with suppress(CombeeError):  # who reads it for its rows says what is wrong with it
        return hashlib.sha256(read_text(Path(source), spec.tasks.encoding)[0].encode()).hexdigest()
    return None


def content_learned(journal: Journal, spec: Settings) -> str | None:
    """Return the hash of the file that a run learned from; of an older version's run, of the file that lies there."""
    known = journal.meta(CONTENT_KEY)
    return content_of(spec) if known is None else str(known)


def without_sizes(spec: Settings) -> Settings:
    """Return settings without the tasks of a run and the sizes of their splits, for other tasks of the same shape."""
    no_longer = {"train", "val", "test", "traces", "source"}
    return spec.instead(tasks={key: value for key, value in spec.tasks.given().items() if key not in no_longer})


def tasks_to_score(spec: Settings, split: str | None = None, *, seen: str | None = None) -> tuple[TaskSet, str]:
    """Return the tasks to score a playbook on, and which of their splits; "all" for a whole file.

    Args:
        spec: The settings. A single file without sizes is scored whole.
        split: train, val or test, where one was asked for.
        seen: The hash of the file that was learned from (`content_learned`): of that only the test split is new.

    Raises:
        UsageError: The tasks cannot be used, or none of these has an answer.
    """
    sized = any(size is not None for size in (spec.tasks.train, spec.tasks.val, spec.tasks.test))
    whole = split is None and not sized and content_of(spec) not in {None, seen}
    found = load_tasks(spec, whole=whole)
    chosen = split or "test"
    if not any(task.target is not None for task in getattr(found, chosen)):
        raise UsageError(f"{found.name} has no {chosen} tasks with an answer.", hint="Choose another split.")
    return found, "all" if whole else chosen


def connect(spec: Settings, tasks: TaskSet) -> Prepared:
    """Return the parts of a run over tasks that are loaded. Raises `UsageError` for what cannot be used."""
    config, agent = spec.learn_config(), make_agent(spec)
    if agent.name == "lexical" and spec.agent.function is not None and not tasks.labelled:
        raise UsageError(
            f"Nobody can reflect on the answers of {spec.agent.function}: the embedded agent only knows labels "
            "that come again, and too few of these do.",
            hint="Name a model that reflects (in Python model=combee.Model(...), else --model NAME); "
            "the function goes on answering.",
        )
    sample_map = LiveTasks(agent.generator, agent.reflector, tasks.scorer, config.view_tokens)
    judge = judge_of(spec, config, held_out(tasks))
    return Prepared(spec, tasks, agent, config, sample_map, judge, tasks.train, tasks.digest())


def judge_of(spec: Settings, config: LearnConfig, held_out: LeakIndex | None) -> Judge:
    """Return the guard of a run, without validation."""
    guard, command = spec.guard, spec.guard.alert_command
    words = " ".join(map(shlex.quote, command)) if isinstance(command, list) else command
    return Judge(
        enabled=bool(config.guard),
        watch=config.guard == "watch",
        policy=Policy(tenants=None if guard.tenants is None else frozenset(guard.tenants), clearance=guard.clearance),
        limits=GuardLimits(min_entries=guard.min_entries, allow_leaks=config.keep_leaks, find_secrets=find_secrets),
        held_out=held_out,
        alert_command=None if words is None else partial(notify, words, timeout=guard.alert_timeout),
    )


def held_out(tasks: TaskSet) -> LeakIndex:
    """Return what must not turn up in a lesson: answers of validation and test that are not known from training."""
    unseen = [
        HeldOut(task.id, task.target, task.question) for task in (*tasks.val, *tasks.test) if task.target is not None
    ]
    known = {task.target for task in tasks.train if task.target is not None} | set(tasks.choices or ())
    return LeakIndex(unseen, known, seen=(task.question for task in tasks.train))


@runtime_checkable
class ActingGenerator(Protocol):
    """A generator with work under way that ends with the run."""

    async def aclose(self) -> None:
        """Stop what is still under way."""
        ...


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
        if isinstance(self.generator, FunctionAgent):
            self.generator.close()
        elif isinstance(self.generator, ActingGenerator):
            await self.generator.aclose()


def make_agent(spec: Settings) -> Agent:
    """Make the agent that the settings name; without a word on it the embedded one. A function of the user's answers.

    Raises:
        UsageError: A setting of it cannot be used, or a budget in money meets a model without a price.
    """
    agent, name = _ace(spec) if spec.calls_models else _lexical(spec), spec.agent.function
    if (environment := environment_of(spec)) is not None:
        return environment.agent(spec, agent)
    if name is None:
        return agent
    function = spec.function(name)
    if function is None:
        _refuse_lost(name, "agent")
        function = import_function(name, "agent")
    return dataclasses.replace(agent, generator=FunctionAgent(name, function, spec.learn_config().concurrency))


def _lexical(spec: Settings) -> Agent:
    seed = spec.learn_config().seed
    curator = LexicalCurator(forget=spec.agent.forget, output_limit=spec.agent.output_limit, seed=seed)
    return Agent("lexical", LexicalGenerator(), LexicalReflector(), curator)


def _ace(spec: Settings) -> Agent:
    from combee.ace import AceCurator, AceGenerator, AceReflector, Prompts
    from combee.model import open_models

    config, prompts = spec.learn_config(), Prompts.load(spec.agent.prompts)
    refuse_unknown_prices(spec)
    models = open_models(spec.models(), budget=spec.budget.given(), seed=config.seed)
    options = {role: settings.options(config.seed) for role, settings in models.settings.items()}
    generator, reflector, curator = (models.by_role[role] for role in ("generator", "reflector", "curator"))
    return Agent(
        "ace",
        AceGenerator(generator, prompts=prompts, options=options["generator"]),
        AceReflector(reflector, prompts=prompts, options=options["reflector"], rounds=spec.agent.reflection_rounds),
        AceCurator(curator, prompts=prompts, options=options["curator"], token_budget=config.token_budget),
        models,
        prompts.digest,
    )


def kept_spec(journal: Journal, folder: Path) -> Settings:
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
    try:
        spec = Settings.from_json(kept)
        # What was not set is as it was when the run began, also where a later version has another default.
        begun = journal.meta("learn")
        config = begun.get("config") if isinstance(begun, dict) else None
        guard = config.get("guard") if isinstance(config, dict) else None
        if begun is not None and spec.agent.kind is None and spec.calls_models and journal.meta("prompts") is None:
            spec = spec.over({"agent": {"kind": "lexical"}})  # of a version in which a named model was not enough
        return spec if guard in {None, spec.learn_config().guard} else spec.over({"learn": {"guard": guard}})
    except UsageError as error:
        hint = f"{error}\n  Put back a copy, or start anew."
        raise StorageError(f"The settings that {folder} holds cannot be read.", hint=hint) from error
