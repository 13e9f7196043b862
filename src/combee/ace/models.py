"""The models of a run, one a role, from plain settings: endpoints, weights and limiters shared where they are the same.

One ledger books the calls of all roles; one budget holds for the run and, where asked for, one for a role. Rows go to
the run's journal from `attach` on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from combee.ace.asking import CallOptions
from combee.ace.budgets import ROLES, RoleBudget, budget_of, limits_of
from combee.ace.clients import Clients
from combee.ace.keeping import Keeper
from combee.ace.role_model import Busy, RoleModel
from combee.errors import UsageError, did_you_mean
from combee.kernel.journal import Journal
from combee.model import Budget, Engine, Ledger, Limiter, Price, find_price
from combee.model.local import FREE, SLOTS, is_local
from combee.redaction import find_secrets

__all__ = [
    "ModelSettings",
    "Models",
    "RoleModel",
    "budget_of",
    "open_models",
    "price_of",
    "settings_of",
]

LOCAL_OUTPUT = 512  # tokens of a reply where nothing is set: a small model rarely ends by itself, and is slow here


_SECRET_QUERY = re.compile(r"[?&][^=&]*(key|token|secret|sig|password)[^=&]*=", re.IGNORECASE)
_ALLOWED = {"email", "home_path"}  # private in a lesson, harmless in a setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """One model: keys of the tables [model] and [model.ROLE]. A `local/...` runs in this process: no URL, no key."""

    name: str
    base_url: str | None = None
    """None: from OPENAI_BASE_URL."""
    api_key_env: str = "OPENAI_API_KEY"
    """The NAME of the variable that holds the key."""
    max_in_flight: int | None = None
    """Calls in flight at most; None: found by slow start, for a local model 2."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float | None = None
    """Seconds of one call at most; not for a local model."""
    temperature: float = 0.0
    max_output_tokens: int = 4096
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the request body."""

    def options(self, seed: int | None) -> CallOptions:
        """Return how a role calls this model."""
        return CallOptions(max_tokens=self.max_output_tokens, temperature=self.temperature, seed=seed)


def settings_of(table: Mapping[str, Any], role: str | None = None) -> ModelSettings:
    """Return the settings of one role: its own table over that of all roles.

    Raises:
        UsageError: No model is named, or a value has the wrong type.
    """
    own = table.get(role, {}) if role is not None else {}
    merged = {key: value for key, value in {**table, **own}.items() if key not in ROLES}
    names = {
        "name": str, "base_url": str, "api_key_env": str, "extra": Mapping,
        "max_in_flight": int, "max_output_tokens": int,
        "requests_per_minute": int | float, "tokens_per_minute": int | float, "timeout": int | float,
        "temperature": int | float,
    }  # fmt: skip
    if not merged.get("name"):
        raise UsageError("No model is named.", hint="Give --model NAME, or name = ... under [model] in combee.toml.")
    for key, value in merged.items():
        if key not in names:
            raise UsageError(f"A model has no setting {key!r}.", hint=did_you_mean(key, names))
        if not isinstance(value, names[key]) or isinstance(value, bool):
            raise UsageError(f"{key} of a model cannot be {value!r}.")
        if isinstance(value, int | float) and (value < 0 or (value == 0 and key != "temperature")):
            raise UsageError(f"{key} of a model is {value}.", hint="Give a number above zero.")
    _no_secrets(merged)
    if is_local(merged["name"]):
        merged.setdefault("max_output_tokens", LOCAL_OUTPUT)
    return ModelSettings(**merged)


def _no_secrets(settings: Mapping[str, Any]) -> None:
    """Settings are kept in the run's journal, so none may hold a secret; errors name the setting, never its value."""
    variable = settings.get("api_key_env", "KEY")
    if not variable.isascii() or not variable.isidentifier() or find_secrets(variable):
        raise UsageError(
            "api_key_env of a model is not the name of an environment variable.",
            hint="Put the key into a variable and give the variable's NAME, such as DEEPSEEK_API_KEY.",
        )
    for key, value in settings.items():
        query = _SECRET_QUERY.search(value) if key == "base_url" else None
        if query or set(find_secrets(value if isinstance(value, str) else repr(value))) - _ALLOWED:
            raise UsageError(
                f"{key} of a model holds a key or a password, and settings are kept with the run.",
                hint="Put a key into the variable that api_key_env names; a URL with a login into OPENAI_BASE_URL.",
            )


def price_of(name: str, base_url: str | None, prices: Mapping[str, Any]) -> Price | None:
    """Return the price that the settings give a model, else the list price, else None; a local model is free."""
    if name not in prices:
        return FREE if is_local(name) else find_price(name, base_url or "")
    given = prices[name]
    try:
        cached = given.get("cached")
        return Price(float(given["input"]), float(given["output"]), None if cached is None else float(cached))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UsageError(
            f"The price of {name} cannot be read.", hint=f'Write "{name}" = {{ input = 0.28, output = 0.42 }}.'
        ) from None


@dataclass
class Models:
    """The models of one run by role. Close them in the event loop that used them."""

    by_role: Mapping[str, RoleModel]
    settings: Mapping[str, ModelSettings]
    ledger: Ledger
    budget: Budget
    role_budgets: Mapping[str, Budget]
    keeper: Keeper

    def attach(self, journal: Journal, *, goes_on: bool = True) -> None:
        """Book into this journal, and ask no endpoint for what it is known to refuse.

        Where the run `goes_on`, what the journal says was spent before counts against the budgets.
        """
        self.keeper.attach(journal, self.by_role.values())
        spent = self.keeper.spent_before()
        if not goes_on:
            return
        self.budget.spent_before(**spent.all)
        for role, budget in self.role_budgets.items():
            budget.spent_before(**spent.by_role.get(role, {}))

    async def aclose(self) -> None:
        """Close all connections."""
        for model in self.by_role.values():
            await model.inner.aclose()


def open_models(
    table: Mapping[str, Any],
    *,
    budget: Mapping[str, Any] | None = None,
    prices: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Models:
    """Make the models of all roles.

    Args:
        table: The settings under [model], with a table for each role that differs.
        budget: Limits of the run, with a table for each role that has limits of its own.
        prices: US dollars per million tokens by model: {"input": ..., "output": ..., "cached": ...}.
        seed: Decides the jitter of waits.

    Raises:
        UsageError: A setting cannot be used, or a key or weights are missing.
        BudgetError: A budget in money meets a model without a price.
    """
    keeper, busy = Keeper(), Busy()
    ledger, whole = Ledger(keeper.book, keep_rows=False), budget_of(budget or {})
    settings = {role: settings_of(table, role) for role in ROLES}
    clients = Clients(settings.values())
    limiters: dict[tuple[Any, ...], Limiter] = {}
    engines: dict[tuple[Any, ...], Engine] = {}
    role_budgets: dict[str, Budget] = {}
    by_role: dict[str, RoleModel] = {}
    for role, one in settings.items():
        own = (budget or {}).get(role)
        if own:
            role_budgets[role] = RoleBudget(whole, **limits_of(own))
        limits = (clients.place(one), one.max_in_flight, one.requests_per_minute, one.tokens_per_minute)
        if limits not in limiters:
            most = one.max_in_flight or (SLOTS if is_local(one.name) else None)
            limiters[limits] = Limiter(most, rpm=one.requests_per_minute, tpm=one.tokens_per_minute)
        shared = (limits, role if own else "")
        if shared not in engines:
            held = role_budgets.get(role, whole)
            engines[shared] = Engine(limiter=limiters[limits], ledger=ledger, budget=held, seed=seed)
        given = price_of(one.name, one.base_url, prices) if prices and one.name in prices else None
        by_role[role] = RoleModel(clients.make(one, engines[shared], given), busy)
    return Models(by_role, settings, ledger, whole, role_budgets, keeper)
