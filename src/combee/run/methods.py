"""Ways of learning: the kernel's loop, and what other packages add under the entry point group `combee.methods`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Protocol, cast

from combee.errors import CombeeError, UsageError, did_you_mean
from combee.kernel.aggregate import UNUSED
from combee.kernel.journal import Journal
from combee.kernel.learn import Event, LearnResult, LiveTasks, learn
from combee.kernel.learn.trace import Trace
from combee.kernel.playbook import Playbook
from combee.kernel.runner import run_sync
from combee.run.calibrated import with_calibration
from combee.run.estimates import Forecast, check_budget, forecast_run, work_on
from combee.run.folders import JOURNAL
from combee.run.plugins import METHODS, load, offered
from combee.run.settings import Settings
from combee.run.spec import Prepared, held_out, judge_of, load_tasks, make_agent

__all__ = [
    "METHOD_SETTINGS",
    "RECORDED",
    "Display",
    "Method",
    "Say",
    "forecast",
    "introduce",
    "is_new",
    "method_of",
    "prepare",
    "prepare_tasks",
    "refuse_idle",
    "run_loop",
]

Say = Callable[[str], None]
"""Takes a sentence for whoever waits."""

METHOD_SETTINGS = frozenset({"metric_calls", "reflection_rounds"})
"""Settings under [agent] that belong to how is learned; each method says which of them it uses."""

RECORDED = "recorded"
"""The method for settings that name recorded runs (`tasks.traces`) in place of tasks."""


class Display(Protocol):
    """Shows a run while it is at work."""

    def observe(self, event: Event) -> None:
        """Take one event."""

    def shorten(self, error: CombeeError) -> None:
        """Take out of an error that ends the run what was shown right before it."""

    def close(self) -> None:
        """Leave the screen tidy."""


class Method:
    """A way of learning. This one is the kernel's loop over tasks: answer, reflect, aggregate, curate.

    Others are subclasses that packages offer under the entry point group `combee.methods`; each is made without
    arguments, and changes what it does otherwise.
    """

    settings: ClassVar[frozenset[str]] = frozenset({"reflection_rounds"})
    """Which of the settings under [agent] that not every method uses this one does (`METHOD_SETTINGS`)."""
    least_items: ClassVar[int] = 1
    """Fewest reflections that one of its calls must take to get anywhere."""

    def forecast(self, spec: Settings) -> Forecast:
        """Return what the run would take; nothing is called. Raises `UsageError` for what cannot be used."""
        return forecast_run(spec, work_on(spec, load_tasks(spec)))

    def prepare(self, spec: Settings, folder: Path | None, say: Say) -> Prepared:
        """Load, check and connect all parts of a run; nothing is paid, and nothing written but into its folder.

        Args:
            spec: The settings.
            folder: Where the run lies: a new one holds no journal yet (`is_new`). None: its tasks are only scored.
            say: Takes sentences for whoever waits.

        Raises:
            UsageError: Something cannot be used.
        """
        prepared = prepare_tasks(spec)
        if is_new(folder):
            check_budget(spec, work_on(spec, prepared.tasks))
            introduce(prepared, say)
        return prepared

    def learn(self, prepared: Prepared, start: Playbook | None, journal: Journal, display: Display) -> LearnResult:
        """Learn; with a journal that holds a part of the run, go on with it.

        Args:
            prepared: What `prepare` gave.
            start: The playbook to begin with.
            journal: Every result that was paid for goes there.
            display: Shown each event.

        Raises:
            RunError: Nothing could be worked on, or going on is pointless; what was learned is kept.
        """
        return run_loop(prepared, start, journal, display)

    def recorded(self, folder: Path, names: Collection[str]) -> Mapping[str, Trace]:
        """Return those of the named recorded runs that a run keeps in its folder; one on tasks keeps none."""
        return {}


def prepare_tasks(spec: Settings) -> Prepared:
    """Load the tasks of a run, make its agent and its guard. Raises `UsageError` for what cannot be used."""
    config = spec.learn_config()
    tasks = load_tasks(spec)
    if not tasks.train:
        raise UsageError(f"{tasks.name} has no training tasks.", hint="Give more rows, or another split.")
    agent = make_agent(spec)
    sample_map = LiveTasks(agent.generator, agent.reflector, tasks.scorer, config.view_tokens)
    judge = judge_of(spec, config, held_out(tasks))
    prepared = Prepared(spec, tasks, agent, config, sample_map, judge, tasks.train, tasks.digest())
    if config.guard_validate:
        if not tasks.val:
            raise UsageError("guard_validate needs validation tasks.", hint="Give --val, or a folder with a val file.")
        judge.validate = prepared.validate
    return prepared


def run_loop(prepared: Prepared, start: Playbook | None, journal: Journal, display: Display) -> LearnResult:
    """Run the kernel's loop over what was prepared. Raises what `combee.kernel.learn.learn` raises."""

    async def work() -> LearnResult:
        try:
            return await learn(
                prepared.samples,
                prepared.sample_map,
                prepared.agent.curator,
                config=prepared.config,
                start=start,
                validate=prepared.validate if prepared.tasks.val else None,
                judge=prepared.judge,
                journal=journal,
                observe=display.observe,
            )
        finally:
            await prepared.agent.aclose()

    return run_sync(work())


def method_of(spec: Settings) -> Method:
    """Return the method that the settings name.

    Raises:
        UsageError: Nobody installed one of that name, or it does not use a setting that was given.
    """
    name = spec.agent.method if spec.tasks.traces is None else RECORDED
    offers = offered(METHODS)
    if name != "ace" and name not in offers:
        raise UsageError(f"There is no method {name!r}.", hint=did_you_mean(name, ["ace", *offers]))
    method = Method() if name == "ace" else cast("type[Method]", load(offers[name]))()
    idle = sorted((METHOD_SETTINGS - method.settings) & spec.agent.given().keys())
    if idle:
        raise UsageError(f"agent.{idle[0]} does nothing with the method {name}.", hint="Leave it out.")
    return method


def _idle(spec: Settings) -> Iterator[tuple[tuple[str, str], tuple[str, str], str]]:
    """Yield what would do nothing if it were set: its table and key, those of the setting that makes it so, and why."""
    learn = spec.learn_config()
    for name in sorted(UNUSED[learn.aggregate]):
        yield ("learn", name), ("learn", "aggregate"), f"aggregate = {learn.aggregate}"
    if learn.batch != "auto":
        for name in ("candidates", "max_batch"):
            yield ("learn", name), ("learn", "batch"), f"batch = {learn.batch}"
    if not learn.guard:
        idle = [("guard", "min_entries"), ("guard", "alert_command")]
        for place in [*idle, ("learn", "guard_validate")] if learn.guard_validate else idle:
            yield place, ("learn", "guard"), "guard = false"
    if spec.calls_models:
        for name in ("forget", "output_limit"):
            yield ("agent", name), ("agent", "kind"), f"kind = {spec.agent.kind}"


def refuse_idle(spec: Settings, say: Say) -> None:
    """Refuse what was set and would do nothing; say it of what a choice further up has made so, as an option of a file.

    Raises:
        UsageError: A setting does nothing with another one that was made at the same place or below it.
    """
    for place, decider, why in _idle(spec):
        if (layer := spec.layer(*place)) < 0:
            continue
        said = f"{'.'.join(place)} ({spec.origin(*place)}) does nothing with {why}"
        if layer >= spec.layer(*decider):
            raise UsageError(f"{said}.", hint=f"Leave out {place[1]}, or change {decider[1]}.")
        say(f"note: {said}")


def forecast(spec: Settings) -> Forecast:
    """Return what a run would take, by its method. Raises `UsageError` for what cannot be used."""
    method = method_of(spec)
    refuse_idle(spec, lambda sentence: None)
    return method.forecast(with_calibration(spec, method.least_items)[0])


def prepare(spec: Settings, folder: Path | None = None, say: Say = lambda sentence: None) -> Prepared:
    """Load, check and connect all parts of a run, by its method. See `Method.prepare`.

    A new run takes `max_items` from the calibration in this folder, unless it was given.
    """
    method = method_of(spec)
    if is_new(folder):
        refuse_idle(spec, say)
        spec, notes = with_calibration(spec, method.least_items)
        for note in notes:
            say(f"note: {note}")
    return method.prepare(spec, folder, say)


def is_new(folder: Path | None) -> bool:
    """Say whether a run is to begin in that folder: it holds no journal yet."""
    return folder is not None and not (folder / JOURNAL).exists()


def introduce(prepared: Prepared, say: Say) -> None:
    """Say what is learned from, and what of it was left out or changed."""
    if prepared.spec.tasks.source is None:
        say("note: nothing was named to learn from: built-in practice tasks are used (your own: `combee learn FILE`)")
    for note in (prepared.tasks.about, *prepared.tasks.notes):
        say(f"note: {note}")
