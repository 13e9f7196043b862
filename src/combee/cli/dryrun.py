"""What a command would take, printed by phase (`--dry-run`)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from combee.kernel.learn import Task
from combee.kernel.playbook import Playbook
from combee.run.estimates import check_budget, check_scoring, estimate_run, role_settings, scoring_phases, work_on_tasks
from combee.run.spec import RunSpec
from combee.run.tables import price_advice
from combee.run.words import counted

if TYPE_CHECKING:
    from combee.model import Estimate, Workload

__all__ = ["print_estimate", "print_scoring"]


def print_estimate(
    spec: RunSpec, *, as_json: bool, work: Workload | None = None, more: Mapping[str, Any] | None = None
) -> None:
    """Print what the run would take. Needs no key and calls nothing; what a model costs may be unknown.

    Args:
        spec: The run.
        as_json: Print one object.
        work: Recorded runs to learn from; None: the tasks of the run.
        more: What else the JSON says.

    Raises:
        UsageError: The budget does not reach for one step, or no model is named.
    """
    from combee.model.estimate import ASSUMED
    from combee.model.settings import budget_of

    budget_of(spec.budget)
    if spec.agent.get("kind") != "ace":
        told = "The embedded agent calls no model: 0 calls, 0 tokens, $0."
        click.echo(json.dumps({"calls": 0, **(more or {})}) if as_json else told)
        return
    done = work or work_on_tasks(spec)
    found = estimate_run(spec, work)
    check_budget(spec, work)
    rest = f", {done.validation} for validation" if work is None else ""
    head = f"{counted(done.samples, 'sample')} in {counted(found.steps, 'step')}{rest}."
    _print(found, spec, head, ASSUMED, as_json=as_json, more={"steps": found.steps, **(more or {})})


def _print(found: Estimate, spec: RunSpec, head: str, assumed: str, *, as_json: bool, more: Mapping[str, Any]) -> None:
    from combee.model.settings import price_of

    known = {one.name: price_of(one.name, one.base_url, spec.prices) for one in role_settings(spec).values()}
    unpriced = sorted(name for name, price in known.items() if price is None)
    prices = {name: price for name, price in sorted(known.items()) if price is not None}
    if as_json:
        phases = [dataclasses.asdict(phase) for phase in found.phases]
        data: dict[str, Any] = {**more, "calls": found.calls, "tokens": found.tokens, "cost": found.cost}
        data |= {"minutes": found.minutes, "phases": phases, "unpriced": unpriced, "assumed": assumed}
        data["prices"] = {name: [price.prompt, price.completion, price.source] for name, price in prices.items()}
        click.echo(json.dumps(data))
        return
    click.echo(head)
    click.echo(found.table())
    click.echo(assumed)
    for name, price in prices.items():
        click.echo(
            f"Price of {name}: {price.prompt:g}/{price.completion:g} dollars per million tokens ({price.source})."
        )
    for name in unpriced:
        click.echo(f"The price of {name} is not known. {price_advice(name)}")


def print_scoring(spec: RunSpec, tasks: Sequence[Task], books: Mapping[str, Playbook], *, as_json: bool) -> None:
    """Print what it would take to score `books`; calls nothing.

    Raises:
        UsageError: The budget does not reach for it.
    """
    from combee.model.estimate import ANSWER, SECONDS, estimate_phases

    if spec.agent.get("kind") != "ace":
        click.echo(json.dumps({"calls": 0}) if as_json else "The embedded agent calls no model: 0 calls, 0 tokens, $0.")
        return
    check_scoring(spec, tasks, books)
    found = estimate_phases(scoring_phases(spec, tasks, books), concurrency=spec.learn_config().concurrency)
    head = f"{counted(found.calls, 'answer')} to score {counted(len(books), 'playbook')}."
    assumed = f"Assumed: an answer of {ANSWER} tokens, {SECONDS:g} s a call. No retries, no cached prompts."
    _print(found, spec, head, assumed, as_json=as_json, more={})
