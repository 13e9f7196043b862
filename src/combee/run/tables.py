"""Options as tables of the settings, and what is to be said of a model whose price is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from combee.errors import UsageError
from combee.files import real_path
from combee.model.local import is_local

__all__ = ["price_advice", "refuse_unknown_prices", "tables_of"]


def tables_of(options: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables [model], [budget], [prices] and [agent] that the options fill; `model` is that of the file."""
    name = options.get("model_name")
    idle = [option for option in ("base_url", "api_key_env") if options.get(option) is not None]
    if name is not None and is_local(name) and idle:
        raise UsageError(f"--{idle[0].replace('_', '-')} does nothing with {name}, which runs in this process.")
    prompts = options.get("prompts")
    tables: dict[str, dict[str, Any]] = {
        "model": {
            "name": name,
            "base_url": options.get("base_url"),
            "api_key_env": options.get("api_key_env"),
            "max_in_flight": options.get("max_in_flight"),
        },
        "budget": {key: options.get(key) for key in ("max_cost", "max_calls", "max_tokens", "max_minutes")},
        "prices": {},
        "agent": {
            "kind": "ace" if name is not None else None,
            "prompts": None if prompts is None else str(real_path(prompts)),
        },
    }
    if options.get("price") is not None:
        tables["prices"] = _prices(options["price"], name or model.get("name"))
    return tables


def _prices(text: str, name: object) -> dict[str, Any]:
    from combee.model import parse_price

    if not name:
        raise UsageError("--price is given, but no model is named.", hint="Give --model NAME too.")
    price = parse_price(text)
    return {str(name): {"input": price.prompt, "output": price.completion, "cached": price.cached}}


def refuse_unknown_prices(model: Mapping[str, Any], budget: Mapping[str, Any], prices: Mapping[str, Any]) -> None:
    """Refuse a budget in money for a model without a price, before anything is made.

    Raises:
        UsageError: A role's model has none, and the run or the role has a `max_cost`.
    """
    from combee.model.prices import price_elsewhere
    from combee.model.settings import ROLES, price_of, settings_of

    for role in ROLES:
        limits = (budget.get("max_cost"), budget.get(role, {}).get("max_cost"))
        if all(limit is None for limit in limits):
            continue
        one = settings_of(model, role)
        if price_of(one.name, one.base_url, prices) is None:
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
