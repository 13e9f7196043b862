"""`combee calibrate`: how many reflections one aggregating call of a model can take, measured with planted facts."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import click

from combee.errors import UsageError
from combee.files import place_for
from combee.kernel.aggregate import SIZES, Calibration, CalibrationPrice, calibrate, calibration_price
from combee.kernel.journal import JSON, Scope
from combee.kernel.playbook import Playbook, count_tokens
from combee.kernel.runner import LocalRunner, run_sync
from combee.run.calibrated import model_of
from combee.run.config import read_config
from combee.run.estimates import refuse_beyond
from combee.run.spec import RunSpec, make_agent
from combee.run.spent import spent, spent_lines
from combee.run.tables import tables_of
from combee.run.unfinished import kept_until_the_end
from combee.run.words import counted, typed
from combee.tasks.calibration import CALIBRATIONS, keep_calibration, known_calibrations, planted
from combee.terminal.options import Number, Place, budget_options, model_options, say_aside

__all__ = ["command"]

FIXED_TOKENS = 1_500  # instructions and schema of a curator call, roughly
REPLY_TOKENS = 60  # what one operation costs in a reply, roughly


@click.command(name="calibrate")
@model_options
@budget_options
@click.option("--dry-run", is_flag=True, help="Say what it would take, and call nothing.")
@click.option("--forget", type=Number(0, min_open=True), help="The embedded curator with this m0.")
@click.option("--sizes", default=" ".join(map(str, SIZES)), show_default=True, help="Facts in a call.")
@click.option("--repeats", type=click.IntRange(1), default=10, show_default=True, help="Calls of each size.")
@click.option(
    "--target",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.85,
    show_default=True,
    help="Share to keep after second chances.",
)
@click.option("--second-chances", type=click.IntRange(0), default=1, show_default=True)
@click.option("--concurrency", type=click.IntRange(1), default=16, show_default=True, help="Calls at once.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--plot", type=Place(), help="The curve as SVG. [combee-calibration-MODEL.svg]")
@click.option("--config", "config_path", type=Place(), help="Settings file. [combee.toml if there]")
@click.option("--yes", is_flag=True, help="Do not ask before calls are bought.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; needs --yes where calls cost money.")
def command(*, yes: bool, as_json: bool, plot: Path | None, **options: Any) -> None:
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
        _print_dry_run(spec, price if spec.agent.get("kind") == "ace" else None, as_json=as_json)
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
        click.echo(json.dumps(data, ensure_ascii=False))
        return
    click.echo(name + (": simulated forgetting" if options["forget"] is not None else ""))
    _print(name, found, earlier)
    click.echo(f"kept in {kept} (`{typed('learn')}` {_use(found)}), drawn in {drawn}")
    for line in spent_lines(agent.models):
        click.echo(line)


def _print_dry_run(spec: RunSpec, price: CalibrationPrice | None, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"calls": price.calls if price else 0, "tokens": price.tokens if price else 0}))
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


def _spec(options: Mapping[str, Any]) -> RunSpec:
    if options["model_name"] is not None and options["forget"] is not None:
        raise UsageError("--forget belongs to the embedded curator, --model to an endpoint.", hint="Give one of them.")
    config = read_config(options["config_path"])
    tables = tables_of(options, config.model)
    named = options["model_name"] or config.model
    kind = config.agent.get("kind") or ("ace" if named else "lexical")
    if options["forget"] is not None or options["model_name"] is not None:  # an option wins over the file
        kind = "lexical" if options["model_name"] is None else "ace"
    return RunSpec.of(
        config,
        agent={"prompts": tables["agent"]["prompts"], "kind": kind, "forget": options["forget"]},
        model=tables["model"],
        budget=tables["budget"],
        prices=tables["prices"],
        learn={"seed": options["seed"]},
    )


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise UsageError(f"{text!r} are no sizes.", hint='Give whole numbers, such as "1 2 4 8 16".') from None


def _check_budget(spec: RunSpec, price: CalibrationPrice) -> None:
    """Refuse limits that do not reach for all calls of a model."""
    from combee.model import Phase
    from combee.model.settings import price_of, settings_of

    if spec.agent.get("kind") != "ace":
        return
    one = settings_of(spec.model, "curator")
    asked, back = price.tokens // price.calls, price.facts * REPLY_TOKENS // price.calls
    known = price_of(one.name, one.base_url, spec.prices)
    phase = Phase("calibration", price.calls, asked, back, price=known)
    for limits in (spec.budget, spec.budget.get("curator") or {}):
        refuse_beyond([phase], limits, one.max_output_tokens, "the calibration")


def _wanted(spec: RunSpec, price: CalibrationPrice, found: int = 0) -> str:
    """Say what the calls take and cost."""
    from combee.model.settings import price_of, settings_of

    settings = settings_of(spec.model, "curator")
    known = price_of(settings.name, settings.base_url, spec.prices)
    reply = price.facts * REPLY_TOKENS
    text = f"{price.calls:,} calls, about {price.tokens:,} tokens to {settings.name} and {reply:,} back"
    text += f" ({counted(found, 'call')} of them answered already)" if found else ""
    if known is None:
        return f"This buys {text}; its price is not known."
    cost = (price.tokens * known.prompt + reply * known.completion) / 1e6
    return f"This buys {text}; about ${cost:.2f} ({known.source})." if cost else f"{text}: free ({known.source})."


def _agree(spec: RunSpec, price: CalibrationPrice, found: int, *, yes: bool, as_json: bool) -> None:
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
