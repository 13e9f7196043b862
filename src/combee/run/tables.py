"""Options as tables of the settings, and what is to be said of a model whose price is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from combee.errors import UsageError
from combee.model.local import is_local
from combee.model.prices import parse_price, price_elsewhere
from combee.model.settings import LIMITS, ROLES
from combee.run.settings import Settings

__all__ = ["price_advice", "refuse_unknown_prices", "tables_of"]


def tables_of(options: Mapping[str, Any], spec: Settings) -> dict[str, dict[str, Any]]:
    """Return the tables [model], [budget], [prices] and [agent] that options fill, None where one was not given.

    Raises:
        UsageError: A price is none or of no model, or an option does nothing with a local model.
    """
    name = options.get("model_name")
    idle = [option for option in ("base_url", "api_key_env") if options.get(option) is not None]
    if name is not None and is_local(name) and idle:
        raise UsageError(f"--{idle[0].replace('_', '-')} does nothing with {name}, which runs in this process.")
    prices, text = {}, options.get("price")
    if text is not None:
        priced = name or spec.model_name
        if not priced:
            raise UsageError("--price is given, but no model is named.", hint="Give --model NAME too.")
        price = parse_price(text)
        prices = {priced: {"input": price.prompt, "output": price.completion, "cached": price.cached}}
    prompts = options.get("prompts")
    return {
        "model": {"name": name, **{key: options.get(key) for key in ("base_url", "api_key_env", "max_in_flight")}},
        "budget": {key: options.get(key) for key in LIMITS},
        "prices": prices,
        "agent": {"kind": None if name is None else "ace", "prompts": None if prompts is None else str(prompts)},
    }


def refuse_unknown_prices(spec: Settings) -> None:
    """Refuse a budget in money for a model without a price, before anything is made.

    Raises:
        UsageError: A role's model has none, and the run or the role has a `max_cost`.
    """
    for role in ROLES:
        if "max_cost" not in spec.limits() | spec.limits(role):
            continue
        one = spec.model_of(role)
        if one.known_price() is None:
            instead = f"Or limit calls or tokens instead of money. {price_elsewhere(one.name)}".strip()
            raise UsageError(
                f"The price of {one.name!r} is not known, so a budget in money cannot be held.",
                hint=f"{price_advice(one.name)} {instead}",
            )


def price_advice(name: str) -> str:
    """Say how the price of a model is given."""
    line = f'"{name}" = {{ input = 0.27, output = 1.10 }}'
    return (
        "Give it in dollars per million tokens: --price 0.27/1.10, or in combee.toml below [prices]: "
        f"{line}; 0/0 for a model that costs nothing."
    )
