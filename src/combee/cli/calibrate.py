"""`combee calibrate`: how many reflections one call of a model can take, measured with planted facts; `combee plan`.

`plan` says what shape an aggregation of a number of reflections would have, and why.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import click

from combee.errors import UsageError
from combee.files import place_for
from combee.kernel.aggregate import CallCost, Retention, expected
from combee.kernel.aggregate import plan as make_plan
from combee.kernel.journal import JSON, Scope
from combee.kernel.playbook import Playbook, count_tokens
from combee.kernel.runner import LocalRunner, run_sync
from combee.run.calibrate import (
    CALIBRATIONS,
    SIZES,
    Calibration,
    CalibrationPrice,
    calibrate,
    calibration_price,
    keep_calibration,
    known_calibrations,
    model_of,
    planted,
)
from combee.run.estimates import refuse_beyond
from combee.run.findings import spent, spent_lines
from combee.run.options import over_options
from combee.run.settings import Settings, read_settings
from combee.run.spec import make_agent
from combee.run.unfinished import kept_until_the_end
from combee.run.words import counted, typed
from combee.terminal.options import (
    NumberType,
    PathType,
    budget_options,
    config_option,
    dry_run_option,
    model_options,
    print_json,
    say_aside,
    setting,
)

FIXED_TOKENS = 1_500  # instructions and schema of a curator call, roughly
REPLY_TOKENS = 60  # what one operation costs in a reply, roughly


@click.command(name="calibrate")
@model_options
@budget_options
@dry_run_option
@setting("--forget", "agent.forget", "The embedded curator with this m0.", metavar="M0")
@click.option("--sizes", default=" ".join(map(str, SIZES)), show_default=True, help="Facts in a call.")
@click.option("--repeats", type=click.IntRange(1), default=10, show_default=True, help="Calls of each size.")
@click.option(
    "--target",
    type=NumberType(0, 1, min_open=True, max_open=True),
    default=0.85,
    show_default=True,
    help="Share to keep after second chances.",
)
@click.option("--second-chances", type=click.IntRange(0), default=1, show_default=True)
@click.option("--concurrency", type=click.IntRange(1), default=16, show_default=True, help="Calls at once.")
@setting("--seed", "learn.seed", "Decides which facts are planted. [0]", metavar="N")
@click.option("--plot", type=PathType(), help="The curve as SVG. [combee-calibration-MODEL.svg]")
@config_option
@click.option("--yes", is_flag=True, help="Do not ask before calls are bought.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; needs --yes where calls cost money.")
def calibrate_command(*, yes: bool, as_json: bool, plot: Path | None, **options: Any) -> None:
    """Measure how much one aggregating call can take, and keep the result for `combee learn` in this folder."""
    spec = _spec(options)
    sizes = _sizes(options["sizes"])
    price = calibration_price(
        count_tokens(planted(0).text), sizes=sizes, repeats=options["repeats"], tokens_per_call=FIXED_TOKENS
    )
    name = model_of(spec)
    drawn = plot or _plot_of(name)
    _check_budget(spec, price)
    if options["dry_run"]:
        _print_dry_run(spec, price if spec.calls_models else None, as_json=as_json)
        return
    earlier = known_calibrations().get(name)  # where the result goes is looked at before it is paid for
    place_for(Path(CALIBRATIONS))
    place_for(drawn)
    agent = make_agent(spec)

    async def measure(scope: Scope) -> Calibration:
        try:
            return await calibrate(
                planted,
                agent.curator.method(Playbook(), scope),
                sizes=sizes,
                repeats=options["repeats"],
                target=options["target"],
                second_chances=options["second_chances"],
                scope=scope,
                runner=LocalRunner(options["concurrency"]),
            )
        finally:
            await agent.aclose()

    with kept_until_the_end("calibrate", agent.models, agent.prompts, say_aside) as answers:
        if agent.models is not None:
            _agree(spec, price, answers.found, yes=yes, as_json=as_json)
        found = run_sync(measure(answers.scope))
        kept = keep_calibration(name, cast("Mapping[str, Any]", found.to_json()))
        _draw(found, name, drawn)
        answers.complete = not any(row.failed for row in found.measured)
    if as_json:
        data: dict[str, JSON] = {"model": name, "result": found.to_json(), "file": str(kept), "plot": str(drawn)}
        data |= {"replaced": cast("JSON", earlier), "model_calls": spent(agent.models)}
        print_json(data)
        return
    click.echo(name + (": simulated forgetting" if options["agent__forget"] is not None else ""))
    _print(name, found, earlier)
    click.echo(f"kept in {kept} (`{typed('learn')}` {_use(found)}), drawn in {drawn}")
    for line in spent_lines(agent.models):
        click.echo(line)


def _print_dry_run(spec: Settings, price: CalibrationPrice | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"calls": price.calls if price else 0, "tokens": price.tokens if price else 0})
    elif price is None:
        click.echo("The embedded curator calls no model: 0 calls, 0 tokens, $0.")
    else:
        click.echo(_wanted(spec, price))


def _print(name: str, found: Calibration, earlier: object) -> None:
    click.echo(found.explain())
    if earlier is not None and earlier != found.to_json():
        click.echo(f"in place of an earlier result for {name}: {_size(earlier)}, now {_size(found.to_json())}")


def _plot_of(name: str) -> Path:
    return Path(f"combee-calibration-{re.sub(r'[^A-Za-z0-9.-]+', '-', name).strip('-')}.svg")


def _use(found: Calibration) -> str:
    return "takes max_items from there" if found.kept_any else "finds no size there and takes its default"


def _size(result: Any) -> str:
    return f"max_items = {result['max_items']}" if "max_items" in result else "nothing was kept"


def _spec(options: Mapping[str, Any]) -> Settings:
    if options["model__name"] is not None and options["agent__forget"] is not None:
        raise UsageError("--forget belongs to the embedded curator, --model to an endpoint.", hint="Give one of them.")
    spec = over_options(read_settings(options["config_path"]), options)
    # an option wins over the file
    return spec if options["agent__forget"] is None else spec.over({"agent": {"kind": "lexical"}})


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise UsageError(f"{text!r} are no sizes.", hint='Give whole numbers, such as "1 2 4 8 16".') from None


def _check_budget(spec: Settings, price: CalibrationPrice) -> None:
    """Refuse limits that do not reach for all calls of a model."""
    from combee.model import Phase

    if not spec.calls_models:
        return
    one = spec.model_of("curator")
    asked, back = price.tokens // price.calls, price.facts * REPLY_TOKENS // price.calls
    phase = Phase("calibration", price.calls, asked, back, price=one.known_price())
    for limits in (spec.limits(), spec.limits("curator")):
        refuse_beyond([phase], limits, one.max_output_tokens, "the calibration")


def _wanted(spec: Settings, price: CalibrationPrice, found: int = 0) -> str:
    """Say what the calls take and cost."""
    settings = spec.model_of("curator")
    known = settings.known_price()
    reply = price.facts * REPLY_TOKENS
    text = f"{price.calls:,} calls, about {price.tokens:,} tokens to {settings.name} and {reply:,} back"
    text += f" ({counted(found, 'call')} of them answered already)" if found else ""
    if known is None:
        return f"This buys {text}; its price is not known."
    cost = (price.tokens * known.prompt + reply * known.completion) / 1e6
    return f"This buys {text}; about ${cost:.2f} ({known.source})." if cost else f"{text}: free ({known.source})."


def _agree(spec: Settings, price: CalibrationPrice, found: int, *, yes: bool, as_json: bool) -> None:
    """Say what the calls take and cost, and ask for leave unless they are free."""
    wanted = _wanted(spec, price, found)
    click.echo(wanted, err=True)
    if not wanted.startswith("This buys"):
        return
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise UsageError("Nothing was bought: nobody could be asked.", hint="Give --yes to buy these calls.")
    if not click.confirm("Go on?", err=True):
        raise click.Abort


def _draw(found: Calibration, name: str, path: Path) -> None:
    from combee.report.svg import Mark, Series, line_plot

    rows = [row for row in found.measured if row.calls]
    spread = []
    for row in rows:
        error = 1.645 * (row.share * (1 - row.share) / row.planted) ** 0.5
        spread.append((max(0.0, row.share - error), min(1.0, row.share + error)))
    shown = [Series("measured (90 % of chance)", [(row.size, row.share) for row in rows], spread=spread)]
    if found.kept_any and math.isfinite(found.m0):
        fitted = [(row.size, found.retention.kept(row.size)) for row in rows]
        shown.append(Series(f"exp(-{found.delta:.2f} - m/{found.m0:.0f})", fitted, dots=False, dashed=True))
    line_plot(
        shown,
        title=f"Facts kept by one call of {name}",
        x="reflections in the call",
        y="share kept",
        marks=[Mark(found.max_items, f"max_items {found.max_items}", axis="x")] if found.kept_any else [],
    ).save(path)


@click.command(name="plan")
@click.argument("n", type=click.IntRange(1))
@click.option("--max-items", type=click.IntRange(1), default=16, show_default=True, help="Reflections a call may take.")
@click.option("--max-tokens", type=click.IntRange(1), help="Tokens of reflections a call may take.")
@click.option("--tokens-each", type=click.IntRange(1), default=250, show_default=True, help="Tokens of a reflection.")
@click.option("--copies", type=click.IntRange(1), help="Times each reflection is read in the first round.")
@click.option("--second-chances", type=click.IntRange(0), help="Further rounds for what no lesson covers.")
@click.option("--preset", type=click.Choice(["paper"]), help="The paper's shape.")
@click.option("--combine-by-model", is_flag=True, help="Deltas are combined by model calls (prompts), not merged.")
@click.option("--alpha", type=NumberType(0), help="Seconds of a call, whatever is in it.")
@click.option("--beta", type=NumberType(0), help="Seconds for each reflection in a call.")
@click.option("--concurrency", type=click.IntRange(1), help="Calls at once.")
@click.option("--m0", type=NumberType(0, min_open=True), help="Reflections in a call at which 1/e is kept.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan_command(n: int, as_json: bool, **given: Any) -> None:
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
        print_json(data)
    else:
        click.echo(made.explain())
