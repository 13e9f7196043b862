"""A budget of one role inside the budget of the run: a call must fit into both."""

from __future__ import annotations

from typing import Any

from combee.model import Budget, Usage
from combee.model.budget import Reservation

__all__ = ["RoleBudget"]


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
