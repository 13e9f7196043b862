"""Ways of learning: the kernel's loop, and what other packages add under the entry point group `combee.methods`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import ClassVar, Protocol, cast

from combee.errors import CombeeError, UsageError, did_you_mean
from combee.kernel.aggregate import UNUSED
from combee.kernel.journal import Journal
from combee.kernel.learn import Event, LearnResult, learn
from combee.kernel.learn.roles import Trace
from combee.kernel.playbook import Playbook
from combee.kernel.runner import run_sync
from combee.run.calibrate import with_calibration
from combee.run.environments import environment_of
from combee.run.estimates import Forecast, check_budget, forecast_run, work_on
from combee.run.folders import JOURNAL
from combee.run.plugins import METHODS, WORKERS, load, offered
from combee.run.settings import Settings
from combee.run.settings_tables import WorkersTable
from combee.run.spec import Prepared, connect, load_tasks

Say = Callable[[str], None]
"""Takes a sentence for whoever waits."""

RECORDED = "recorded"
"""The method for settings that name recorded runs (`tasks.traces`) in place of tasks."""


class RunDisplay(Protocol):
    """Shows a run while it is at work."""

    def observe(self, event: Event) -> None:
        """Take one event."""

    def shorten(self, error: CombeeError) -> None:
        """Take out of an error that ends the run what was shown right before it."""

    def close(self) -> None:
        """Leave the screen tidy."""


class LearningMethod:
    """A way of learning. This one is the kernel's loop over tasks: answer, reflect, aggregate, curate.

    Others are subclasses that packages offer under the entry point group `combee.methods`; each is made without
    arguments, and changes what it does otherwise.
    """

    least_items: ClassVar[int] = 1
    """Fewest reflections that one of its calls must take to get anywhere."""

    def unused(self, spec: Settings) -> dict[str, str]:
        """Return settings that do nothing in such a run, as TABLE.KEY, each with why: "with aggregate naive"."""
        config, found = spec.learn_config(), {"agent.metric_calls": "with the method ace"}
        set_so = spec.agent.kind == "lexical" and spec.model_name is not None
        without_model = 'with kind = "lexical" in [agent]' if set_so else "without a model (--model NAME)"
        if spec.calls_models:
            found |= dict.fromkeys(("agent.forget", "agent.output_limit"), "with a model")
        else:
            tables = ("model",) if spec.pays else ("model", "budget")
            keys = (f"{table}.{key}" for table in tables for key in spec.given().get(table, {}))
            found |= dict.fromkeys((*keys, "agent.prompts", "agent.reflection_rounds"), without_model)
        for key in sorted(UNUSED[config.aggregate]):
            found[f"learn.{key}"] = f"with aggregate {config.aggregate}"
        if config.batch != "auto":
            found |= dict.fromkeys(("learn.candidates", "learn.max_batch"), "without batch auto")
        if not config.guard:
            keys_of_guard = ("guard.alert_command", "guard.min_entries", "learn.guard_validate")
            found |= dict.fromkeys(keys_of_guard, "without the guard")
        environment = environment_of(spec)
        if environment is not None:
            found |= dict.fromkeys(("agent.forget", "agent.function", "workers.kind"), "with an environment")
        used = frozenset({"kind"}) if environment is None else environment.keys
        idle = [key for key in spec.given().get("environment", {}) if key not in used]
        if spec.tasks.traces is None:  # recorded runs may be learned from in a folder whose tasks are scored later
            why = "without environment.kind" if environment is None else f"with the environment {spec.environment.kind}"
            found |= dict.fromkeys((f"environment.{key}" for key in idle), why)
        if spec.tasks.traces is None:
            found |= dict.fromkeys(
                ("tasks.format", "tasks.patterns", "tasks.redact", "tasks.users"), "without traces (--from)"
            )
        return found

    def forecast(self, spec: Settings) -> Forecast:
        """Return what the run would take; nothing is called. Raises `UsageError` for what cannot be used."""
        return forecast_run(spec, work_on(spec, load_tasks(spec)))

    def prepare(self, spec: Settings, folder: Path, say: Say) -> Prepared:
        """Load, check and connect all parts of a run; nothing is paid, and nothing written but into its folder.

        Args:
            spec: The settings.
            folder: Where the run lies: a new one holds no journal yet (`is_new`).
            say: Takes sentences for whoever waits.

        Raises:
            UsageError: Something cannot be used.
        """
        prepared = prepare_tasks(spec)
        if is_new(folder):
            check_budget(spec, work_on(spec, prepared.tasks))
            introduce(prepared, say)
        return prepared

    def learn(self, prepared: Prepared, start: Playbook | None, journal: Journal, display: RunDisplay) -> LearnResult:
        """Learn; with a journal that holds a part of the run, go on with it.

        Args:
            prepared: What `prepare` gave.
            start: The playbook to begin with.
            journal: Every result that was paid for goes there.
            display: Shown each event.

        Raises:
            RunError: Nothing could be worked on, or going on is pointless; what was learned is kept.
        """
        return run_sync(run_loop(prepared, start, journal, display))

    async def alearn(
        self, prepared: Prepared, start: Playbook | None, journal: Journal, display: RunDisplay
    ) -> LearnResult:
        """Learn in the event loop that runs; see `learn`. Where only that is a method's own, it runs in a thread."""
        if type(self).learn is not LearningMethod.learn:
            return await asyncio.to_thread(self.learn, prepared, start, journal, display)
        return await run_loop(prepared, start, journal, display)

    def recorded(self, folder: Path, names: Collection[str]) -> Mapping[str, Trace]:
        """Return those of the named recorded runs that a run keeps in its folder; one on tasks keeps none."""
        return {}


def prepare_tasks(spec: Settings) -> Prepared:
    """Load the tasks of a run, make its agent and its guard. Raises `UsageError` for what cannot be used."""
    tasks = load_tasks(spec)
    if not tasks.train:
        raise UsageError(f"{tasks.name} has no training tasks.", hint="Give more rows, or another split.")
    prepared = connect(spec, tasks)
    if prepared.config.guard_validate:
        if not tasks.val:
            raise UsageError("guard_validate needs validation tasks.", hint="Ask for some: val, or a val file.")
        prepared.judge.validate = prepared.validate
    return prepared


async def run_loop(prepared: Prepared, start: Playbook | None, journal: Journal, display: RunDisplay) -> LearnResult:
    """Run the kernel's loop over what was prepared. Raises what `combee.kernel.learn.learn` raises."""
    try:
        async with carried(prepared, journal.path.parent) as working:
            return await learn(
                working.samples,
                working.sample_map,
                working.agent.curator,
                config=working.config,
                start=start,
                validate=working.validate if working.tasks.val else None,
                judge=working.judge,
                journal=journal,
                observe=display.observe,
            )
    finally:
        await prepared.agent.aclose()


@asynccontextmanager
async def carried(prepared: Prepared, folder: Path) -> AsyncGenerator[Prepared]:
    """Yield a run whose tasks are done where its settings say; workers end after it.

    Raises:
        UsageError: There are no such workers, or they cannot begin.
    """
    kind = worker_kind(prepared.spec)
    if kind is None:
        yield prepared
        return
    async with kind.carried(prepared, folder) as working:
        if prepared.judge.validate is not None:
            prepared.judge.validate = working.validate
        yield working


class WorkerKind(Protocol):
    """A kind of workers, offered under the entry point group `combee.workers`."""

    def look(self, workers: WorkersTable) -> str:
        """Return in a line what is there, for `combee doctor`. Raises `UsageError` where nothing is."""
        ...

    def carried(self, prepared: Prepared, folder: Path) -> AbstractAsyncContextManager[Prepared]:
        """Return the run, its tasks done elsewhere, as a context manager. Raises `UsageError` on entry."""
        ...


def worker_kind(spec: Settings) -> WorkerKind | None:
    """Return the kind of workers that the settings name; None: this process. Raises `UsageError` for an unknown one."""
    kind, offers = spec.workers.kind, offered(WORKERS)
    if kind == "local":
        return None
    if kind not in offers:
        raise UsageError(f"There is no kind of workers {kind!r}.", hint=did_you_mean(kind, ["local", *offers]))
    return cast("type[WorkerKind]", load(offers[kind]))()


def methods() -> list[str]:
    """Return the names that `--method` takes."""
    return ["ace", *(name for name in offered(METHODS) if name != RECORDED)]


def method_of(spec: Settings) -> LearningMethod:
    """Return the method that the settings name.

    Raises:
        UsageError: Nobody installed one of that name, or it does not use a setting that was given.
    """
    name = spec.agent.method if spec.tasks.traces is None else RECORDED
    offers = offered(METHODS)
    if name != "ace" and name not in offers:
        raise UsageError(f"There is no method {name!r}.", hint=did_you_mean(name, methods()))
    return LearningMethod() if name == "ace" else cast("LearningMethod", load(offers[name], make=True))


def _refuse_unused(spec: Settings, method: LearningMethod, say: Say) -> None:
    """Refuse a setting that was given for this run and does nothing in it; of one that a file holds, say so."""
    for key, why in method.unused(spec).items():
        place = tuple(key.split("."))
        layer = spec.layer_of(*place)
        if layer is None or not layer.origin or layer.origin.startswith("$"):
            continue
        # A baseline that is tried by an option leaves the file as it is; a file that says both is a mistake.
        both = layer is spec.layer_of("learn", "aggregate") and place[0] == "learn"
        if layer.text is None or (both and place[1] in UNUSED[spec.learn_config().aggregate]):
            typed = layer.origin.startswith("--")
            name = layer.origin if typed else f"{key} ({spec.origin(*place)})"
            reason = why if typed else why.partition(" (--")[0]  # a program or a file gives no options
            raise UsageError(f"{name} does nothing {reason}.", hint="Leave it out, or change the other setting.")
        # A file may describe a model that this run does without; one that it forgets to name is said.
        if place[0] not in {"model", "budget"} or (place[0] == "model" and spec.agent.kind is None):
            say(f"note: {key} ({spec.origin(*place)}) does nothing {why}")


def forecast(spec: Settings, say: Say = lambda sentence: None) -> Forecast:
    """Return what a run would take, by its method. Raises `UsageError` for what cannot be used."""
    method = method_of(spec)
    _refuse_unused(spec, method, say)
    return method.forecast(with_calibration(spec, method.least_items)[0])


def prepare(spec: Settings, folder: Path, say: Say = lambda sentence: None) -> Prepared:
    """Load, check and connect all parts of a run, by its method. See `LearningMethod.prepare`.

    A new run takes `max_items` from the calibration in this folder, unless it was given.

    Raises:
        UsageError: Something cannot be used, or a setting that was given for this run does nothing in it.
    """
    method = method_of(spec)
    if is_new(folder):
        _refuse_unused(spec, method, say)
        spec, notes = with_calibration(spec, method.least_items)
        for note in notes:
            say(f"note: {note}")
    return method.prepare(spec, folder, say)


def is_new(folder: Path) -> bool:
    """Say whether a run is to begin in that folder: it holds no journal yet."""
    return not (folder / JOURNAL).exists()


def introduce(prepared: Prepared, say: Say) -> None:
    """Say what is learned from, and what of it was left out or changed."""
    if prepared.spec.tasks.source is None:
        say("note: nothing was named to learn from: built-in practice tasks are used (your own: `combee learn FILE`)")
    for note in (prepared.tasks.about, *prepared.tasks.notes):
        say(f"note: {note}")
    if prepared.agent.name == "lexical" and not prepared.tasks.labelled:
        say(
            "warning: the answers of this file are numbers or texts of their own. The embedded agent only gives labels "
            "that come again, so expect it to learn nothing; a language model can: --model NAME."
        )
