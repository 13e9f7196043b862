"""`combee learn --dry-run`: what a run would take, by phase; and the refusal of a budget that reaches for nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from combee.cli.spec import RunSpec, load_tasks
from combee.cli.words import counted
from combee.playbook import count_tokens, load, tokens
from combee.tasks import TaskSet

__all__ = ["check_budget", "print_estimate"]

ROLES = ("generator", "reflector", "curator")


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
        refuse_too_small(_workload(spec, load_tasks(spec)), spec.learn_config(), spec.budget)


def _refuse_unknown_prices(spec: RunSpec) -> None:
    """Refuse a budget in money without a price, in the words of the run itself."""
    from combee.ace import price_of, settings_of
    from combee.model import Budget
    from combee.model.prices import price_hint

    for role in ROLES:
        limits = (spec.budget.get("max_cost"), spec.budget.get(role, {}).get("max_cost"))
        one = settings_of(spec.model, role)
        given = [limit for limit in limits if limit is not None]
        if given and price_of(one.name, one.base_url, spec.prices) is None:
            Budget(max_cost=given[0]).refuse_unknown_price(one.name, price_hint(one.name))


def print_estimate(spec: RunSpec, *, as_json: bool) -> None:
    """Print what the run would take. Needs no key and calls nothing.

    Raises:
        BudgetError: The budget does not reach for one step.
    """
    from combee.ace import ASSUMED, Prompts, budget_of, estimate_learning, settings_of

    budget = budget_of(spec.budget)
    if spec.agent.get("kind") == "ace":
        _refuse_unknown_prices(spec)
    else:
        click.echo(json.dumps({"calls": 0}) if as_json else "The embedded agent calls no model: 0 calls, 0 tokens, $0.")
        return
    tasks = load_tasks(spec)
    work = _workload(spec, tasks)
    found = estimate_learning(
        work,
        spec.learn_config(),
        {role: settings_of(spec.model, role) for role in ROLES},
        budget=budget,
        prices=spec.prices,
        prompts=Prompts.load(spec.agent.get("prompts")),
    )
    if as_json:
        phases = [asdict(phase) for phase in found.phases]
        data = {"steps": found.steps, "calls": found.calls, "tokens": found.tokens, "cost": found.cost}
        click.echo(json.dumps(data | {"minutes": found.minutes, "phases": phases, "assumed": ASSUMED}))
        return
    click.echo(
        f"{counted(work.samples, 'sample')} in {counted(found.steps, 'step')}, {work.validation} for validation."
    )
    click.echo(found.table())
    click.echo(ASSUMED)
