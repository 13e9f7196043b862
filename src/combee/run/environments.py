"""Where an agent acts and is judged: a kind of environment does the tasks of a run in place of a model's answer alone.

Packages offer kinds under the entry point group `combee.environments`: Harbor, AppWorld and
teams of coding agents come with Combee.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from combee.errors import UsageError, did_you_mean
from combee.kernel.learn import Evaluation, Rollout, Task
from combee.run.plugins import ENVIRONMENTS, load, offered
from combee.run.settings import Settings
from combee.tasks import TaskSet

if TYPE_CHECKING:
    from combee.run.spec import Agent


@dataclass(frozen=True, slots=True)
class Looked:
    """One thing that `combee doctor` looked at; `ok` is None where it does no harm that it is missing."""

    name: str
    ok: bool | None
    found: str
    fix: str = ""


class Environment(Protocol):
    """A kind of environment; made without arguments."""

    keys: frozenset[str]
    """The keys of [environment] that it uses."""

    def tasks(self, spec: Settings, *, whole: bool) -> TaskSet:
        """Return the tasks of a run; `whole`: all as test tasks. Raises `UsageError` where they cannot be had."""
        ...

    def agent(self, spec: Settings, agent: Agent) -> Agent:
        """Return an agent that acts there, and whose reflector reads what it did.

        Args:
            spec: The settings.
            agent: What the run has without an environment: its models, its reflector and its curator.

        Raises:
            UsageError: A setting cannot be used.
        """
        ...

    def summary(self, tasks: Sequence[Task], found: Evaluation) -> list[str]:
        """Return lines on a score besides its share of passed tasks; often none."""
        ...

    def look(self, spec: Settings) -> list[Looked]:
        """Return what is there and what is missing."""
        ...


@runtime_checkable
class RecordReader(Protocol):
    """The reflector of an agent that acts: a rollout names the place of its record, which only this reads."""

    def done(self, rollout: Rollout) -> tuple[str, str]:
        """Return the task and what was done, without secrets. Raises `StorageError` where the record is gone."""
        ...

    def ended(self, rollout: Rollout) -> str:
        """Return how it ended, without secrets. Raises `StorageError` where the record is gone."""
        ...


def environment_of(spec: Settings) -> Environment | None:
    """Return the kind of environment that the settings name; None: tasks are questions. Recorded runs need none.

    Raises:
        UsageError: There is no such kind.
    """
    if spec.environment.kind is None or spec.tasks.traces is not None:
        return None
    return environment_named(spec.environment.kind)


def environment_named(kind: str) -> Environment:
    """Return the environment of that kind. Raises `UsageError` where there is none."""
    offers = offered(ENVIRONMENTS)
    if kind not in offers:
        raise UsageError(f"There is no kind of environment {kind!r}.", hint=did_you_mean(kind, offers))
    return cast("Environment", load(offers[kind], make=True))


def trials_expected(spec: Settings, trials: int) -> tuple[list[str], dict[str, Any]]:
    """Return in lines and as data what so many trials take, besides the calls of models.

    Time and money are what the settings say of one trial: nobody can know them before.
    """
    table = spec.environment
    at_once = len(table.url) or table.in_flight
    minutes = table.minutes * -(-trials // at_once)
    cost = None if table.dollars is None else table.dollars * trials
    money = "money unknown (set environment.dollars)" if cost is None else f"${cost:,.2f} at most"
    line = (
        f"{trials:,} trials in {table.kind}, {at_once} at once: about {minutes:,.0f} minutes at "
        f"{table.minutes:g} each, {money}."
    )
    return [line], {"trials": trials, "trial_minutes": minutes, "trial_cost": cost}
