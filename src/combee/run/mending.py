"""What of a run's settings may be mended without making it another run: where its models are, with whose key, how fast.

Answers are kept by the model's name and what it was asked, so another place, key, pace or price leaves those that are
paid for in use. Another model is another run as soon as one of them is kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from combee.errors import CallErrorKind, RunError, UsageError
from combee.model.settings import LIMITS, ROLES
from combee.run.config import read_config
from combee.run.spec import RunSpec
from combee.run.tables import tables_of
from combee.run.words import typed

__all__ = ["PACE", "for_scoring", "how_to_go_on", "mended", "refuse_another_model", "with_limits"]

# How fast a model is called, and with whose key: an answer does not depend on it.
PACE = frozenset(
    {"max_in_flight", "requests_per_minute", "tokens_per_minute", "timeout", "api_key_env", "ca_file", "client_cert"}
)
_MENDABLE = PACE | {"base_url", "name"}


def mended(spec: RunSpec, options: Mapping[str, Any]) -> RunSpec:
    """Return the settings of a run with what the options, and before them a settings file, put right.

    Raises:
        UsageError: An option would not reach a role that has a setting of its own.
    """
    path: Path | None = options.get("config_path")
    if path is not None:
        config = read_config(path)
        spec = dataclasses.replace(
            spec,
            model=_over(spec.model, config.model) if spec.model else {},
            prices={**spec.prices, **config.prices},
            budget={**spec.budget, **config.budget},
        )
    tables = tables_of({**options, "model_name": options.get("model_name")}, spec.model)
    given = {key: value for key, value in tables["model"].items() if value is not None}
    idle = [*given, *(name for name in LIMITS[:3] if options.get(name) is not None)]
    if idle and spec.agent.get("kind") != "ace":
        raise UsageError(f"{_option(idle[0])} does nothing here: no model is called.")
    for key in given:
        own = [role for role in ROLES if key in spec.model.get(role, {})]
        if own:
            raise UsageError(
                f"{_option(key)} does not reach the {own[0]}, which has its own.",
                hint=f"Put it right under [model.{own[0]}] in combee.toml, and give --config combee.toml.",
            )
    return dataclasses.replace(
        spec,
        model={**spec.model, **given},
        prices={**spec.prices, **tables["prices"]},
        budget=with_limits(spec.budget, options),
    )


def _option(key: str) -> str:
    return "--model" if key == "name" else f"--{key.replace('_', '-')}"


def _over(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table [model] with what may be mended of another one over it, each role by itself."""
    merged = dict(old) | {key: value for key, value in new.items() if key in _MENDABLE}
    for role in ROLES:
        if role in new and old:
            merged[role] = _over(old.get(role, {}), new[role])
    return merged


def with_limits(budget: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table [budget] with the limits that the options give over its own."""
    return {**budget, **{name: options[name] for name in LIMITS if options.get(name) is not None}}


def how_to_go_on(error: RunError, spec: RunSpec, folder: Path, *, kept: bool) -> str:
    """Return what to type after a failure, with the option that puts right what it names; `kept`: there are results."""
    kind = getattr(error, "kind", None)
    plain = typed("resume", folder)
    anew = "" if kept else "\n  Nothing was bought yet: the command that began it may also be given anew, put right."
    url = spec.model.get("base_url")
    if kind is CallErrorKind.AUTH:
        return f"Go on with: {plain} once the key is right; --api-key-env VARIABLE names another one.{anew}"
    if kind is CallErrorKind.BAD_REQUEST and url is not None and not url.rstrip("/").endswith("/v1"):
        return f"Go on with: {typed('resume', folder, '--base-url', url.rstrip('/') + '/v1')}{anew}"
    if kind in {CallErrorKind.BAD_REQUEST, CallErrorKind.CONNECTION, CallErrorKind.NOT_JSON}:
        return f"Go on with: {plain} once that is mended; --base-url URL names another place.{anew}"
    if kind is CallErrorKind.NO_SUCH_MODEL and not kept:
        return f"Go on with: {plain} --model NAME.{anew}"
    done = "What is done is kept. " if kept else ""
    return f"{done}Once that is mended, go on with: {plain}{anew}"


def refuse_another_model(old: RunSpec, new: RunSpec, kept: int) -> None:
    """Refuse another model for a run that keeps answers: it would take those of one for those of the other.

    Raises:
        UsageError: A role has another model now, and `kept` is not 0.
    """
    from combee.model.settings import settings_of

    if old.agent.get("kind") != "ace" or not kept:
        return
    for role in ROLES:
        was, now = settings_of(old.model, role).name, settings_of(new.model, role).name
        if was != now:
            raise UsageError(
                f"This run keeps {kept:,} results that were made with {was}: with {now} it would be another run.",
                hint="Begin another one: `combee learn` with --model and a --name of its own.",
            )


def for_scoring(kept: RunSpec, options: Mapping[str, Any]) -> RunSpec:
    """Return a run's settings for a command that pays apart from it: its limits are of this folder and the options."""
    config = read_config(options.get("config_path"))
    return mended(dataclasses.replace(kept, budget=config.budget, prices={**config.prices, **kept.prices}), options)
