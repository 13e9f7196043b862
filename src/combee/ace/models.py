"""The models of a run, one a role, from plain settings: endpoints and limiters shared where they are the same.

One ledger books the calls of all roles; one budget holds for the run and, where asked for, one for a role. Rows go to
the run's journal from `attach` on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from combee.ace.asking import CallOptions
from combee.ace.budgets import RoleBudget
from combee.errors import BudgetError, UsageError, did_you_mean
from combee.journal import JSON, Journal
from combee.model import Budget, Engine, Ledger, Limiter, Price, Request, Response, find_price

if TYPE_CHECKING:
    from combee.model import OpenAIModel

__all__ = [
    "LIMITS",
    "ROLES",
    "ModelSettings",
    "Models",
    "RoleModel",
    "budget_of",
    "open_models",
    "price_of",
    "settings_of",
]

ROLES = ("generator", "reflector", "curator")
LIMITS = ("max_cost", "max_calls", "max_tokens", "max_minutes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """One model: keys of the tables [model] and [model.ROLE]."""

    name: str
    base_url: str | None = None
    """None: from OPENAI_BASE_URL."""
    api_key_env: str = "OPENAI_API_KEY"
    """The NAME of the variable that holds the key."""
    max_in_flight: int | None = None
    """Calls in flight at most; None: found by slow start."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float | None = None
    """Seconds of one call at most."""
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
    return ModelSettings(**merged)


def price_of(name: str, base_url: str | None, prices: Mapping[str, Any]) -> Price | None:
    """Return the price that the settings give a model, else the list price, else None."""
    if name not in prices:
        return find_price(name, base_url or "")
    given = prices[name]
    try:
        cached = given.get("cached")
        return Price(float(given["input"]), float(given["output"]), None if cached is None else float(cached))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UsageError(
            f"The price of {name} cannot be read.", hint=f'Write "{name}" = {{ input = 0.28, output = 0.42 }}.'
        ) from None


class _Busy:
    """How many calls are under way."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: list[asyncio.Future[None]] = []

    def enter(self) -> None:
        self._count += 1

    def leave(self) -> None:
        self._count -= 1
        if self._count == 0:
            for future in self._waiting:
                if not future.done():
                    future.set_result(None)
            self._waiting.clear()

    async def idle(self) -> None:
        """Wait until no call is under way."""
        if self._count:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future


class RoleModel:
    """The model of a role. When the budget is used up it lets the calls in flight come home before it says so.

    Those are paid for already; a run that stopped at once would throw them away.
    """

    def __init__(self, inner: OpenAIModel, busy: _Busy) -> None:
        self.inner = inner
        self._busy = busy

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self.inner.name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Further body parameters: part of what makes a reply what it is."""
        return self.inner.parameters

    async def complete(self, request: Request) -> Response:
        """Return a usable reply; see `Engine.complete` for what it raises."""
        self._busy.enter()
        try:
            return await self.inner.complete(request)
        except BudgetError as error:
            used_up = error
        finally:
            self._busy.leave()
        await self._busy.idle()
        raise used_up


@dataclass
class Models:
    """The models of one run by role. Close them in the event loop that used them."""

    by_role: Mapping[str, RoleModel]
    settings: Mapping[str, ModelSettings]
    ledger: Ledger
    budget: Budget
    role_budgets: Mapping[str, Budget]
    sink: _Sink

    def attach(self, journal: Journal) -> None:
        """Book into this journal, and count what it says was spent before against the budgets."""
        for row in journal.calls():
            spent = _spent(row)
            role = str(cast("dict[str, JSON]", row).get("role", "")).partition("/")[0]
            self.budget.spent_before(**spent)
            if role in self.role_budgets:
                self.role_budgets[role].spent_before(**spent)
        self.sink.journal = journal

    async def aclose(self) -> None:
        """Close all connections."""
        for model in self.by_role.values():
            await model.inner.aclose()


class _Sink:
    """Where rows of the ledger go: nowhere until a journal is there."""

    def __init__(self) -> None:
        self.journal: Journal | None = None

    def __call__(self, row: dict[str, Any]) -> None:
        if self.journal is not None:
            self.journal.record_call(row)


def _spent(row: JSON) -> dict[str, Any]:
    fields = cast("dict[str, Any]", row)
    usage = fields.get("usage") or {}
    return {
        "cost": float(fields.get("cost") or 0.0),
        "calls": int(fields.get("paid") != "no"),
        "tokens": int(usage.get("prompt", 0)) + int(usage.get("completion", 0)),
    }


def budget_of(table: Mapping[str, Any]) -> Budget:
    """Return the budget of the run. Raises `UsageError` for a limit that is zero, negative or no number."""
    return Budget(**_limits(table))


def _limits(table: Mapping[str, Any]) -> dict[str, Any]:
    limits = {key: value for key, value in table.items() if key not in ROLES}
    for key, value in limits.items():
        if key not in LIMITS:
            raise UsageError(f"A budget has no limit {key!r}.", hint=did_you_mean(key, LIMITS))
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UsageError(f"{key} cannot be {value!r}.", hint="Give a number above zero.")
    return limits


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
        UsageError: A setting cannot be used, or a key is missing.
        BudgetError: A budget in money meets a model without a price.
    """
    from combee.model import Endpoint, OpenAIModel, Timeouts

    sink, busy = _Sink(), _Busy()
    ledger, whole = Ledger(sink, keep_rows=False), budget_of(budget or {})
    endpoints: dict[tuple[Any, ...], Endpoint] = {}
    limiters: dict[tuple[Any, ...], Limiter] = {}
    engines: dict[tuple[Any, ...], Engine] = {}
    role_budgets: dict[str, Budget] = {}
    by_role: dict[str, RoleModel] = {}
    settings = {role: settings_of(table, role) for role in ROLES}
    for role, one in settings.items():
        own = (budget or {}).get(role)
        if own:
            role_budgets[role] = RoleBudget(whole, **_limits(own))
        place = (one.base_url, one.api_key_env, one.timeout)
        if place not in endpoints:
            timeouts = Timeouts() if one.timeout is None else Timeouts(read=one.timeout, total=one.timeout)
            endpoints[place] = Endpoint(one.base_url, api_key_env=one.api_key_env, timeouts=timeouts)
        limits = (place, one.max_in_flight, one.requests_per_minute, one.tokens_per_minute)
        if limits not in limiters:
            limiters[limits] = Limiter(one.max_in_flight, rpm=one.requests_per_minute, tpm=one.tokens_per_minute)
        shared = (limits, role if own else "")
        if shared not in engines:
            held = role_budgets.get(role, whole)
            engines[shared] = Engine(limiter=limiters[limits], ledger=ledger, budget=held, seed=seed)
        price = price_of(one.name, endpoints[place].base_url, prices or {})
        inner = OpenAIModel(
            model=one.name, endpoint=endpoints[place], engine=engines[shared], price=price, extra=one.extra
        )
        by_role[role] = RoleModel(inner, busy)
    return Models(by_role, settings, ledger, whole, role_budgets, sink)
