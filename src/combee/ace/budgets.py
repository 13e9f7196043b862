"""Budgets from plain settings: that of the run, and that of one role inside it, where a call must fit into both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from combee.errors import UsageError, did_you_mean
from combee.model import Budget, Usage
from combee.model.budget import Reservation

__all__ = ["LIMITS", "ROLES", "RoleBudget", "budget_of", "limits_of"]

ROLES = ("generator", "reflector", "curator")
LIMITS = ("max_cost", "max_calls", "max_tokens", "max_minutes")


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


class RoleBudget(Budget):
    """Limits of one role; see `Budget` for their names. `parent` is the budget of the run.

    Raises:
        UsageError: A limit is zero or less.
    """

    def __init__(self, parent: Budget, **limits: Any) -> None:
        super().__init__(**limits)
        self._parent = parent

    def refuse_unknown_price(self, model: str, hint: str) -> None:
        """Raise where a budget in money, its own or the run's, meets a model without a price."""
        super().refuse_unknown_price(model, hint)
        self._parent.refuse_unknown_price(model, hint)

    async def reserve(self, expected: Usage, cost: float | None) -> Reservation:
        """Hold what a call may take, here and in the run.

        Raises:
            BudgetError: A limit of either is used up.
        """
        held = await super().reserve(expected, cost)
        try:
            await self._parent.reserve(expected, cost)
        except BaseException:
            super().settle(held, None, None, counted=False)
            raise
        return held

    def settle(self, held: Reservation, usage: Usage | None, cost: float | None, *, counted: bool = True) -> None:
        """Turn a reservation into what was really spent, here and in the run."""
        super().settle(held, usage, cost, counted=counted)
        self._parent.settle(held, usage, cost, counted=counted)
