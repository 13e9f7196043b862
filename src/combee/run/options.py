"""Options of a command over the settings, and what is to be said of a model whose price is not known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from combee.errors import UsageError
from combee.model.local import is_local
from combee.model.prices import parse_price, price_elsewhere
from combee.model.settings import ROLES
from combee.run.settings import Settings
from combee.run.settings_sources import Layer, layer_of_option

_OPTIONS = {"model__name": "--model", "tasks__traces": "--from", "agent__kind": "--agent"}


def option_of(name: str) -> str:
    """Return how a person types the option for a setting: `learn__max_items` is --max-items."""
    return _OPTIONS.get(name) or f"--{name.rpartition('__')[2].replace('_', '-')}"


def over_options(spec: Settings, options: Mapping[str, Any]) -> Settings:
    """Return settings with the options of a command over them.

    Args:
        spec: The settings.
        options: Of these, those named TABLE__KEY, each over that setting (None: not given), then `price`, `patterns`
            and `sets`.

    Raises:
        UsageError: A value cannot be used, a price is none or of no model, or an option does nothing with a local
            model.
    """
    layers = []
    name = options.get("model__name")
    if name is not None:
        idle = [key for key in ("model__base_url", "model__api_key_env") if options.get(key) is not None]
        if is_local(name) and idle:
            raise UsageError(f"{option_of(idle[0])} does nothing with {name}, which runs in this process.")
        layers.append(Layer("--model", {"agent": {"kind": "ace"}}))
    for key, value in options.items():
        table, is_setting, inner = key.partition("__")
        if is_setting and value is not None:
            text = str(value) if isinstance(value, Path) else value
            layers.append(layer_of_option(option_of(key), (table, inner), text, Settings))
    if options.get("price") is not None:
        priced = name or spec.model_name
        if not priced:
            raise UsageError("--price is given, but no model is named.", hint="Give --model NAME too.")
        price = parse_price(options["price"])
        values = {"input": price.prompt, "output": price.completion, "cached": price.cached}
        given = {key: value for key, value in values.items() if value is not None}
        layers.append(Layer("--price", {"prices": {priced: given}}))
    if options.get("patterns"):
        layers.append(Layer("--redact", {"tasks": {"patterns": options["patterns"]}}))
    return spec.with_layers(*layers).with_set(options.get("sets") or ())


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
        'Give it in dollars per million tokens: --price 0.27/1.10 (in Python price="0.27/1.10"), or in combee.toml '
        f"below [prices]: {line}; 0/0 for a model that costs nothing."
    )
