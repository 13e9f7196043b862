"""What a run would take, before anything is paid: calls, tokens, money, time by phase (for `--dry-run`).

The number of calls follows from the plan. Tokens rest on assumptions, which are returned in words beside the figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from combee.errors import BudgetError
from combee.kernel.aggregate import Paper, plan
from combee.kernel.learn.config import LearnConfig
from combee.model.budget import Budget
from combee.model.prices import Price, price_hint
from combee.model.settings import LIMITS, ModelSettings

ANSWER, REFLECTION, LESSON, ENTRY = 300, 450, 90, 50
SECONDS = 10.0
SECOND_CHANCE = 1 / 3
AUTO_BATCH = 40
ASSUMED = (
    f"Assumed: an answer of {ANSWER} tokens, a reflection of {REFLECTION}, {LESSON} for each lesson that a curator "
    f"writes, {ENTRY} tokens a playbook entry, half of the samples give one, a third of the reflections is read a "
    f"second time, {SECONDS:g} s a call. No retries, no cached prompts."
)


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


def estimate_phases(
    phases: Sequence[Phase], *, steps: int = 1, concurrency: int = 64, budget: Budget | None = None
) -> Estimate:
    """Return what `steps` steps would take.

    Raises:
        BudgetError: The budget does not reach for one step; the message says which limit and what one step takes.
    """
    if budget is not None:
        _refuse_beyond(Estimate(1, tuple(_phase(phase, 1, concurrency) for phase in phases)), budget)
    return Estimate(steps, tuple(_phase(phase, steps, concurrency) for phase in phases))


def _refuse_beyond(step: Estimate, budget: Budget) -> None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a run is to do. Tokens are those of the questions (a mean) and of the playbook at the start."""

    samples: int
    validation: int
    question_tokens: int
    book_tokens: int
    rounds: int = 1

    def average_book(self, config: LearnConfig) -> int:
        """Return the tokens of the playbook halfway through the run."""
        grown = self.book_tokens + self.samples * ENTRY // 4
        shown = min(grown, config.token_budget)
        return shown if config.view_tokens is None else min(shown, config.view_tokens)


@dataclass(frozen=True, slots=True)
class _Leaves:
    """Calls of the aggregation of one step and what one reads."""

    calls: int
    items: int
    tops: int
    inputs: int


def _leaves(config: LearnConfig, batch: int) -> _Leaves:
    if config.aggregate in {"naive", "naive_long"}:
        return _Leaves(1, batch, 0, 0)
    if config.aggregate == "top_k":
        return _Leaves(1, max(1, math.isqrt(batch)), 0, 0)
    if config.aggregate in {"paper", "summarize"}:
        paper = Paper(group_size=config.group_size)
        shape = plan(batch, preset=paper, copies=None if config.aggregate == "paper" else 1)
        return _Leaves(shape.groups, -(-shape.reads // shape.groups), int(shape.groups > 1), shape.groups)
    shape = plan(batch, copies=config.copies, max_items=config.max_items, second_chances=config.second_chances)
    again = math.ceil(shape.groups * SECOND_CHANCE) if config.second_chances and shape.groups > 0 else 0
    return _Leaves(shape.groups + again, -(-shape.reads // shape.groups), 0, 0)


def estimate_learning(
    work: Workload,
    config: LearnConfig,
    settings: Mapping[str, ModelSettings],
    *,
    budget: Budget | None = None,
    prompt_tokens: Mapping[str, int],
) -> Estimate:
    """Return what the run would take.

    Raises:
        BudgetError: The budget does not reach for one step, or is in money and a price is not known.
    """
    book = work.average_book(config)
    batch = min(work.samples, AUTO_BATCH if config.batch == "auto" else config.batch)
    phases = _phases(work, config, settings, batch=batch, book=book, fixed=prompt_tokens)
    steps = math.ceil(work.samples / batch) * config.epochs
    found = estimate_phases(phases, steps=steps, concurrency=config.concurrency, budget=budget)
    if not work.validation:
        return found
    times = max(1, math.ceil(work.samples * config.epochs / config.eval_every))
    generator = phases[0]
    scoring = Phase(
        "validation",
        work.validation,
        generator.prompt,
        generator.completion,
        generator.seconds,
        price=generator.price,
    )
    more = estimate_phases([scoring], steps=times, concurrency=config.concurrency)
    return Estimate(steps, (*found.phases, *more.phases))


def _phases(
    work: Workload,
    config: LearnConfig,
    settings: Mapping[str, ModelSettings],
    *,
    batch: int,
    book: int,
    fixed: Mapping[str, int],
) -> list[Phase]:
    price = {role: one.known_price() for role, one in settings.items()}
    leaves = _leaves(config, batch)
    phases = [
        Phase(
            "rollout", batch, fixed["generator"] + book + work.question_tokens, ANSWER, SECONDS,
            price=price["generator"],
        ),
        Phase(
            "reflection", batch * work.rounds, fixed["reflector"] + work.question_tokens + ANSWER, REFLECTION,
            SECONDS * work.rounds, price=price["reflector"],
        ),
        Phase(
            "aggregation", leaves.calls, fixed["curator"] + book + leaves.items * REFLECTION // 2,
            leaves.items * LESSON, SECONDS, price=price["curator"],
        ),
    ]  # fmt: skip
    if leaves.tops:
        read = leaves.inputs * leaves.items * LESSON
        phases.append(Phase("top call", 1, fixed["combine"] + book + read, read, SECONDS, price=price["curator"]))
    return phases


def refuse_too_small(work: Workload, config: LearnConfig, limits: Mapping[str, Any]) -> None:
    """Refuse a run whose budget cannot reach for its first step, counting only what is certain.

    That is one call for each rollout and each round of reflection. Tokens, money and time depend on the replies.

    Raises:
        UsageError: A limit is zero or less.
        BudgetError: `max_calls` is below one step's calls.
    """
    whole = Budget(**{name: limits.get(name) for name in LIMITS})
    batch = min(work.samples, 1 if config.batch == "auto" else config.batch)
    sure = Phase("a step", batch * (1 + work.rounds), 0, 0, 0.0)
    if whole.max_calls is not None:
        estimate_phases([sure], budget=Budget(max_calls=whole.max_calls))
