"""The brain that a description's [model] names: scripted, a model of `combee.model`, or one of pydantic-ai."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any, cast

from combee.errors import UsageError, did_you_mean
from combee.model import Budget, Model, parse_price
from combee.swarm.brain import Brain, Policy, ScriptedBrain
from combee.swarm.lookup import first_words, lookup
from combee.swarm.model_brain import ModelBrain, summary_by
from combee.swarm.window import WriteSummary

__all__ = ["BUDGET", "MODEL", "brain_of"]

MODEL = frozenset({"kind", "name", "base_url", "api_key_env", "max_tokens", "price"})
BUDGET = frozenset({"max_cost", "max_calls", "max_tokens", "max_minutes"})
_KINDS = ("endpoint", "lookup", "pydantic-ai", "script")


def brain_of(
    model: Mapping[str, Any], budget: Mapping[str, Any], instructions: Mapping[str, str]
) -> tuple[Brain, WriteSummary]:
    """Return the brain of the tables [model] and [budget], and who writes summaries when a window is full.

    Raises:
        UsageError: There is no such kind, a setting of it is missing or cannot be used, or a limit in money meets a
            model without a price.
    """
    kind, name = model.get("kind", "lookup"), model.get("name", "")
    if budget and kind != "endpoint":
        raise UsageError(f"[budget] does nothing for a model of the kind {kind!r}", hint='It holds for "endpoint".')
    if kind == "lookup":
        return ScriptedBrain(lookup), first_words
    if kind == "script":
        return ScriptedBrain(_policy(name)), first_words
    if kind not in _KINDS:
        raise UsageError(f"a model of the kind {kind!r}", hint=did_you_mean(kind, _KINDS))
    if not name:
        raise UsageError(f"[model] of the kind {kind!r} has no name", hint="Say which model.")
    if kind == "endpoint":
        brain: Brain = ModelBrain(_client(model, budget), instructions, model.get("max_tokens", 2048))
    else:
        from combee.swarm.pydantic_brain import PydanticBrain, at_endpoint, known_name

        known = known_name(name) if "base_url" not in model else at_endpoint(name, model["base_url"], _key(model))
        brain = PydanticBrain(known, instructions, model.get("max_tokens"))
    return brain, summary_by(brain)


def _key(model: Mapping[str, Any]) -> str | None:
    return os.environ.get(model.get("api_key_env", "OPENAI_API_KEY"))


def _client(model: Mapping[str, Any], budget: Mapping[str, Any]) -> Model:
    from combee.model.clients import open_model
    from combee.model.settings import ModelSettings, price_of

    name, url = model["name"], model.get("base_url")
    price = parse_price(model["price"]) if "price" in model else price_of(name, url, {})
    if budget.get("max_cost") is not None and price is None:
        hint = 'Write it below [model], in dollars per million tokens: price = "0.27/1.10"; "0/0" for one that is free.'
        raise UsageError(f"the price of {name!r} is not known, so max_cost cannot be held", hint=hint)
    one = ModelSettings(name=name, base_url=url, api_key_env=model.get("api_key_env", "OPENAI_API_KEY"))
    return open_model(one, budget=Budget(**budget), price=price)


def _policy(name: str) -> Policy:
    module, _, function = name.partition(":")
    hint = 'Give name = "package.module:function".'
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:  # importing runs the user's module: anything may come out of it
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"the script {name!r} cannot be had: {what}", hint=hint) from error
    if not callable(found):
        raise UsageError(f"the script {name!r} is {type(found).__name__}, not a function", hint=hint)
    return cast("Policy", found)
