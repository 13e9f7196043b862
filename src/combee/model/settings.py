"""What a model is asked for and what a run may take, as checked plain data: one model for each role, prices, limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from combee.errors import UsageError, did_you_mean
from combee.model.budget import Budget
from combee.model.local import FREE, is_local
from combee.model.prices import Price, find_price
from combee.redaction import find_secrets

__all__ = ["LIMITS", "ROLES", "CallOptions", "ModelSettings", "budget_of", "limits_of", "price_of", "settings_of"]

ROLES = ("generator", "reflector", "curator")
LIMITS = ("max_cost", "max_calls", "max_tokens", "max_minutes")
LOCAL_OUTPUT = 512  # tokens of a reply where nothing is set: a small model rarely ends by itself, and is slow here


_SECRET_QUERY = re.compile(r"[?&][^=&]*(key|token|secret|sig|password)[^=&]*=", re.IGNORECASE)
_ALLOWED = {"email", "home_path"}  # private in a lesson, harmless in a setting


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How a role calls its model."""

    max_tokens: int = 4096
    """Tokens that one reply may take."""
    temperature: float = 0.0
    seed: int | None = None
    """Sent to endpoints that take one."""


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
    ca_file: str | None = None
    """Certificates to trust in place of the system's: a file, or a folder of files."""
    client_cert: str | None = None
    """A PEM file with a certificate and its key, for endpoints that ask who connects."""
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
        "name": str, "base_url": str, "api_key_env": str, "ca_file": str, "client_cert": str, "extra": Mapping,
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


def budget_of(table: Mapping[str, Any]) -> Budget:
    """Return the budget of the run. Raises `UsageError` for a limit that is zero, negative or no number."""
    return Budget(**limits_of(table))


def limits_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of a table without those of single roles. Raises `UsageError` for what is no limit."""
    limits = {key: value for key, value in table.items() if key not in ROLES}
    for key, value in limits.items():
        if key not in LIMITS:
            raise UsageError(f"A budget has no limit {key!r}.", hint=did_you_mean(key, LIMITS))
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UsageError(f"{key} cannot be {value!r}.", hint="Give a number above zero.")
    return limits
