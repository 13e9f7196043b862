"""`combee learn --dry-run`: what a run would take, by phase; and the refusal of a budget that reaches for nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click

from combee.cli.model_options import price_advice
from combee.cli.spec import RunSpec, load_tasks
from combee.cli.words import counted
from combee.errors import BudgetError, UsageError
from combee.playbook import count_tokens, load, tokens
from combee.tasks import TaskSet

__all__ = ["check_budget", "print_estimate"]


def _workload(spec: RunSpec, tasks: TaskSet) -> Any:
    from combee.ace import Workload

    asked = [count_tokens(task.question) for task in tasks.train] or [0]
    return Workload(
        samples=len(tasks.train),
        validation=len(tasks.val),
        question_tokens=sum(asked) // len(asked),
        book_tokens=0 if spec.start is None else tokens(load(spec.start)),
        rounds=spec.agent.get("reflection_rounds") or 1,
    )


def check_budget(spec: RunSpec) -> None:
    """Refuse a budget of zero or less, and one that cannot pay for the first step of a run with a model."""
    from combee.ace import budget_of, refuse_too_small

    budget_of(spec.budget)
    if spec.agent.get("kind") == "ace":
        with _as_usage():
            refuse_too_small(_workload(spec, load_tasks(spec)), spec.learn_config(), spec.budget)


@contextmanager
def _as_usage() -> Iterator[None]:
    """A limit that is too low is a wrong option: nothing was done yet that could have failed."""
    try:
        yield
    except BudgetError as error:
        raise UsageError(error.message, hint=error.hint) from error


def print_estimate(spec: RunSpec, *, as_json: bool) -> None:
    """Print what the run would take. Needs no key and calls nothing; what a model costs may be unknown.

    Raises:
        UsageError: The budget does not reach for one step.
    """
    from combee.ace import ASSUMED, Prompts, budget_of, estimate_learning, price_of, settings_of
    from combee.ace.budgets import ROLES

    budget = budget_of(spec.budget)
    if spec.agent.get("kind") != "ace":
        click.echo(json.dumps({"calls": 0}) if as_json else "The embedded agent calls no model: 0 calls, 0 tokens, $0.")
        return
    tasks = load_tasks(spec)
    work = _workload(spec, tasks)
    settings = {role: settings_of(spec.model, role) for role in ROLES}
    with _as_usage():
        found = estimate_learning(
            work,
            spec.learn_config(),
            settings,
            budget=budget,
            prices=spec.prices,
            prompts=Prompts.load(spec.agent.get("prompts")),
        )
    unpriced = sorted({one.name for one in settings.values() if price_of(one.name, one.base_url, spec.prices) is None})
    if as_json:
        phases = [asdict(phase) for phase in found.phases]
        data: dict[str, Any] = {
            "steps": found.steps,
            "calls": found.calls,
            "tokens": found.tokens,
            "cost": found.cost,
        }
        data |= {"minutes": found.minutes, "phases": phases, "unpriced": unpriced, "assumed": ASSUMED}
        click.echo(json.dumps(data))
        return
    click.echo(
        f"{counted(work.samples, 'sample')} in {counted(found.steps, 'step')}, {work.validation} for validation."
    )
    click.echo(found.table())
    click.echo(ASSUMED)
    for name in unpriced:
        click.echo(f"The price of {name} is not known. {price_advice(name)}")
