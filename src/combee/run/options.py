"""Options over the settings: of a new run, and of one that goes on, where only what changes no answer may be mended.

Answers are kept by the model's name and what it was asked, so another place, key, pace or price leaves those that are
paid for in use. Another model is another run as soon as one of them is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from combee.errors import CallErrorKind, RunError, UsageError
from combee.model.local import is_local
from combee.model.prices import parse_price, price_elsewhere
from combee.model.settings import ROLES
from combee.run.settings import Settings, read_settings
from combee.run.settings_sources import Layer, layer_of_option
from combee.run.words import typed

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
    for role in ROLES if spec.calls_models else ():
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


# How fast a model is called, and with whose key: an answer does not depend on it.
_FILES = {"ca_file", "client_cert"}
_RATES = {"max_in_flight", "requests_per_minute", "tokens_per_minute", "timeout"}
PACE = frozenset({*_FILES, *_RATES, "api_key_env", "api_key_header"})
_MENDABLE = PACE | {"base_url", "name"}


def mended(spec: Settings, options: Mapping[str, Any]) -> Settings:
    """Return the settings of a run with what the options, and before them a settings file, put right.

    Raises:
        UsageError: An option would not reach a role that has a setting of its own.
    """
    path: Path | None = options.get("config_path")
    if path is not None:
        file = read_settings(path).given()
        tables = {name: file.get(name, {}) for name in ("prices", "budget", "workers")}
        own = spec.given().get("model")
        spec = spec.over({**tables, "model": _mendable(own, file.get("model", {})) if own else {}})
    idle = [name for name in options if name.startswith(("model__", "budget__")) and options[name] is not None]
    if idle and not (spec.calls_models or (spec.pays and idle[0].startswith("budget__"))):
        raise UsageError(f"{option_of(idle[0])} does nothing here: no model is called.")
    for name in idle:
        owners = [role for role in ROLES if name[7:] in spec.given().get("model", {}).get(role, {})]
        if owners and name.startswith("model__"):
            raise UsageError(
                f"{option_of(name)} does not reach the {owners[0]}, which has its own.",
                hint=f"Put it right under [model.{owners[0]}] in combee.toml, and give --config combee.toml.",
            )
    free = [name for name in options if name.startswith("workers__")]  # where it is worked on changes no result
    return over_options(spec, {name: options[name] for name in (*idle, *free, "price") if name in options})


def _mendable(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a table [model] what may be put right in an old one, each role by itself."""
    own = {key: value for key, value in new.items() if key in _MENDABLE}
    return own | {role: _mendable(old.get(role, {}), new[role]) for role in ROLES if role in new}


def how_to_resume(spec: Settings, folder: Path, *, in_python: bool) -> str:
    """Return the command, or the call of a program, that goes on with a run."""
    if not in_python:
        return typed("resume", folder)
    own = {"agent": spec.agent.function, "scorer": spec.tasks.scorer}
    given = [f"{name}=..." for name, function in own.items() if spec.function(function) is not None]
    return f"combee.resume({', '.join([repr(str(folder)), *given])})"


def how_to_go_on(error: RunError, spec: Settings, folder: Path, *, kept: bool, in_python: bool = False) -> str:
    """Return what to type after a failure, with the option that puts right what it names; `kept`: there are results."""
    if in_python:
        done, call = "What is done is kept. " if kept else "", how_to_resume(spec, folder, in_python=True)
        return f"{done}Once that is mended: {call}, or the same combee.learn(...) with folder={str(folder)!r}."
    kind = getattr(error, "kind", None)
    plain = typed("resume", folder)
    anew = "" if kept else "\n  Nothing was bought yet: the command that began it may also be given anew, put right."
    url = spec.given().get("model", {}).get("base_url")
    if kind is CallErrorKind.AUTH:
        return f"Go on with: {plain} once the key is right; --api-key-env VARIABLE names another one.{anew}"
    if kind is CallErrorKind.BAD_REQUEST and url is not None and not urlsplit(url).path.strip("/"):
        return f"Go on with: {typed('resume', folder, '--base-url', url.rstrip('/') + '/v1')}{anew}"
    if kind in {CallErrorKind.BAD_REQUEST, CallErrorKind.CONNECTION, CallErrorKind.NOT_JSON}:
        return f"Go on with: {plain} once that is mended; --base-url URL names another place.{anew}"
    if kind is CallErrorKind.NO_SUCH_MODEL and not kept:
        return f"Go on with: {plain} --model NAME.{anew}"
    done = "What is done is kept. " if kept else ""
    return f"{done}Once that is mended, go on with: {plain}{anew}"


def refuse_another_model(old: Settings, new: Settings, kept: int) -> None:
    """Refuse another model for a run that keeps answers: it would take those of one for those of the other.

    Raises:
        UsageError: A role has another model now, and `kept` is not 0.
    """
    if not old.calls_models or not kept:
        return
    for role in ROLES:
        was, now = old.model_of(role).name, new.model_of(role).name
        if was != now:
            raise UsageError(
                f"This run keeps {kept:,} results that were made with {was}: with {now} it would be another run.",
                hint="Begin another one: `combee learn` with --model and a --name of its own.",
            )


def for_scoring(kept: Settings, options: Mapping[str, Any]) -> Settings:
    """Return a run's settings for a command that pays apart from it: its limits are of this folder and the options."""
    file = read_settings(options.get("config_path")).given()
    prices = {**file.get("prices", {}), **kept.given().get("prices", {})}
    return mended(kept.instead(budget=file.get("budget", {}), prices=prices), options)
