"""Ways of learning: the loop of this package, and what others add under the entry point group `combee.methods`.

An entry point names a class without arguments. Its `prepare` makes all parts of a run ready, its `learn` learns with
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

from combee.errors import CombeeError, UsageError, did_you_mean
from combee.kernel.journal import Journal
from combee.kernel.learn import Event, LearnResult, LiveTasks, learn
from combee.kernel.playbook import Playbook
from combee.kernel.runner import run_sync
from combee.run.plugins import METHODS, load, offered
from combee.run.spec import Prepared, RunSpec, held_out, judge_of, load_tasks, make_agent

__all__ = ["RECORDED", "Display", "Method", "method_of", "prepare", "prepare_tasks", "run_loop"]

RECORDED = "recorded"
"""The method for settings that name recorded runs (`tasks.from`) in place of tasks."""


class Display(Protocol):
    """Shows a run while it is at work."""

    def observe(self, event: Event) -> None:
        """Take one event."""

    def shorten(self, error: CombeeError) -> None:
        """Take out of an error that ends the run what was shown right before it."""

    def close(self) -> None:
        """Leave the screen tidy."""


class Method(Protocol):
    """A way of learning."""

    def prepare(self, spec: RunSpec, folder: Path | None) -> Prepared:
        """Load, check and connect all parts of a run; nothing is written to the journal and nothing is paid yet.

        Args:
            spec: The settings.
            folder: Where the run lies; None where its tasks are only to be scored.

        Raises:
            UsageError: Something cannot be used.
        """
        ...

    def learn(self, prepared: Prepared, start: Playbook | None, journal: Journal, display: Display) -> LearnResult:
        """Learn; with a journal that holds a part of the run, go on with it.

        Raises:
            RunError: Nothing could be worked on, or going on is pointless; what was learned is kept.
        """
        ...


def prepare_tasks(spec: RunSpec) -> Prepared:
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


class _Loop:
    """The loop of the kernel over tasks: generate, reflect, aggregate, curate."""

    def prepare(self, spec: RunSpec, folder: Path | None) -> Prepared:
        return prepare_tasks(spec)

    def learn(self, prepared: Prepared, start: Playbook | None, journal: Journal, display: Display) -> LearnResult:
        return run_loop(prepared, start, journal, display)


def method_of(spec: RunSpec) -> Method:
    """Return the method that the settings name.

    Raises:
        UsageError: Nobody installed one of that name.
    """
    name = RECORDED if spec.tasks.get("from") is not None else spec.agent.get("method") or "ace"
    if name == "ace":
        return _Loop()
    found = offered(METHODS)
    if name not in found:
        raise UsageError(f"There is no method {name!r}.", hint=did_you_mean(name, ["ace", *found]))
    return cast("type[Method]", load(found[name]))()


def prepare(spec: RunSpec, folder: Path | None = None) -> Prepared:
    """Load, check and connect all parts of a run, by its method. Raises `UsageError` for what cannot be used."""
    return method_of(spec).prepare(spec, folder)
