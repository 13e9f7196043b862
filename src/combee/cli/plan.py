"""`combee plan`: the shape of an aggregation, and why."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click

from combee.errors import UsageError
from combee.kernel.aggregate import CallCost, Retention, expected
from combee.kernel.aggregate import plan as make_plan
from combee.terminal.options import Number

__all__ = ["command"]


@click.command(name="plan")
@click.argument("n", type=click.IntRange(1))
@click.option("--max-items", type=click.IntRange(1), default=16, show_default=True, help="Reflections a call may take.")
@click.option("--max-tokens", type=click.IntRange(1), help="Tokens of reflections a call may take.")
@click.option("--tokens-each", type=click.IntRange(1), default=250, show_default=True, help="Tokens of a reflection.")
@click.option("--copies", type=click.IntRange(1), help="Times each reflection is read in the first round.")
@click.option("--second-chances", type=click.IntRange(0), help="Further rounds for what no lesson covers.")
@click.option("--preset", type=click.Choice(["paper"]), help="The paper's shape.")
@click.option("--combine-by-model", is_flag=True, help="Deltas are combined by model calls (prompts), not merged.")
@click.option("--alpha", type=Number(0), help="Seconds of a call, whatever is in it.")
@click.option("--beta", type=Number(0), help="Seconds for each reflection in a call.")
@click.option("--concurrency", type=click.IntRange(1), help="Calls at once.")
@click.option("--m0", type=Number(0, min_open=True), help="Reflections in a call at which 1/e is kept.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(n: int, as_json: bool, **given: Any) -> None:
    """Say how N reflections would be aggregated, and why. Nothing is run."""
    if (given["alpha"] is None) != (given["beta"] is None):
        raise UsageError("A time model needs both --alpha and --beta.")
    if given["concurrency"] is not None and given["alpha"] is None:
        raise UsageError("--concurrency belongs to a time model.", hint="Give --alpha and --beta too.")
    cost = None if given["alpha"] is None else CallCost(given["alpha"], given["beta"], given["concurrency"])
    retention = None if given["m0"] is None else Retention(0.0, given["m0"])
    made = make_plan(
        n,
        weights=None if given["max_tokens"] is None else [given["tokens_each"]] * n,
        copies=given["copies"],
        max_items=given["max_items"],
        max_tokens=given["max_tokens"],
        preset=given["preset"],
        second_chances=given["second_chances"],
        cost=cost,
        retention=retention,
        combine_calls_model=given["combine_by_model"],
    )
    if as_json:
        names = ("n", "copies", "max_items", "max_tokens", "preset", "second_chances", "groups", "calls", "reads")
        data = {name: getattr(made, name) for name in (*names, "seconds", "fan_ins", "notes")}
        if retention is not None:
            data["expected"] = dataclasses.asdict(expected(made, retention))
        click.echo(json.dumps(data, ensure_ascii=False))
    else:
        click.echo(made.explain())
