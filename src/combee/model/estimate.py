"""What a run would take, before anything is paid: calls, tokens, money, time by phase (for `--dry-run`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from combee.errors import BudgetError
from combee.model.budget import Budget
from combee.model.prices import Price, price_hint

__all__ = ["Estimate", "Phase", "PhaseEstimate", "estimate"]


@dataclass(frozen=True, slots=True)
class Phase:
    """Calls of one kind in one step: how many, and what one of them takes.

    `prompt` and `completion` are tokens a call; `seconds` one call's latency; `at_once` how many run together (None: as
    many as the run's concurrency); `price` that of the phase's model (None: unknown).
    """

    name: str
    calls: int
    prompt: int
    completion: int
    seconds: float = 10.0
    at_once: int | None = None
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class PhaseEstimate:
    """One row: a phase over the whole run. `cost` is US dollars or None where the price is unknown."""

    name: str
    calls: int
    prompt: int
    completion: int
    cost: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run of `steps` steps would take."""

    steps: int
    phases: tuple[PhaseEstimate, ...]

    @property
    def calls(self) -> int:
        """Calls in all."""
        return sum(phase.calls for phase in self.phases)

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens in all."""
        return sum(phase.prompt + phase.completion for phase in self.phases)

    @property
    def cost(self) -> float | None:
        """US dollars in all; None where a price is unknown."""
        total = 0.0
        for phase in self.phases:
            if phase.cost is None:
                return None
            total += phase.cost
        return total

    @property
    def minutes(self) -> float:
        """Minutes in all; phases follow one another."""
        return sum(phase.seconds for phase in self.phases) / 60

    def table(self) -> str:
        """Return the estimate as a plain table."""
        rows = [("phase", "calls", "tokens", "cost", "minutes")]
        rows += [
            (p.name, f"{p.calls:,}", f"{p.prompt + p.completion:,}", _money(p.cost), f"{p.seconds / 60:.1f}")
            for p in self.phases
        ]
        rows.append(("all", f"{self.calls:,}", f"{self.tokens:,}", _money(self.cost), f"{self.minutes:.1f}"))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )


def _money(cost: float | None) -> str:
    return "unknown" if cost is None else f"${cost:.4f}" if cost < 1 else f"${cost:.2f}"


def _phase(phase: Phase, steps: int, concurrency: int) -> PhaseEstimate:
    waves = math.ceil(phase.calls / max(1, min(phase.at_once or concurrency, concurrency)))
    calls = phase.calls * steps
    prompt, completion = calls * phase.prompt, calls * phase.completion
    price = phase.price
    cost = None if price is None else (prompt * price.prompt + completion * price.completion) / 1e6
    return PhaseEstimate(phase.name, calls, prompt, completion, cost, waves * phase.seconds * steps)


def estimate(
    phases: Sequence[Phase], *, steps: int = 1, concurrency: int = 64, budget: Budget | None = None
) -> Estimate:
    """Return what `steps` steps would take.

    Raises:
        BudgetError: The budget does not reach for one step; the message says which limit and what one step takes.
    """
    if budget is not None:
        _refuse_too_small(Estimate(1, tuple(_phase(phase, 1, concurrency) for phase in phases)), budget)
    return Estimate(steps, tuple(_phase(phase, steps, concurrency) for phase in phases))


def _refuse_too_small(step: Estimate, budget: Budget) -> None:
    cost = step.cost
    if budget.max_cost is not None and cost is None:
        unknown = ", ".join(phase.name for phase in step.phases if phase.cost is None)
        raise BudgetError(
            f"the price of the model for {unknown} is not known, so a budget in money cannot be held",
            hint=price_hint(),
        )
    limits = (
        ("max_cost", budget.max_cost, cost or 0.0, "${:.4f}"),
        ("max_calls", budget.max_calls, step.calls, "{:,} calls"),
        ("max_tokens", budget.max_tokens, step.tokens, "{:,} tokens"),
        ("max_minutes", budget.max_minutes, step.minutes, "{:.1f} minutes"),
    )
    for name, limit, needed, form in limits:
        if limit is not None and needed > limit:
            raise BudgetError(
                f"one step takes about {form.format(needed)}, more than {name} = {limit:g}",
                hint="Raise the limit, or take a smaller batch; a run that cannot finish a step learns nothing.",
            )
