"""What learning with a model would take, from the settings alone: calls by phase, tokens, money, time.

The number of calls follows from the plan. Tokens rest on assumptions, which are returned in words beside the figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from combee.ace.models import ModelSettings, budget_of, price_of
from combee.ace.prompts import Prompts
from combee.kernel.aggregate import plan
from combee.kernel.learn.config import LearnConfig
from combee.kernel.playbook import count_tokens
from combee.model import Budget, Estimate, Phase, estimate

__all__ = ["ASSUMED", "Workload", "estimate_learning", "refuse_too_small"]

ANSWER, REFLECTION, LESSON, ENTRY = 300, 450, 90, 50
SECONDS = 10.0
SECOND_CHANCE = 1 / 3
AUTO_BATCH = 40
ASSUMED = (
    f"Assumed: an answer of {ANSWER} tokens, a reflection of {REFLECTION}, {LESSON} for each lesson that a curator "
    f"writes, {ENTRY} tokens a playbook entry, half of the samples give one, a third of the reflections is read a "
    f"second time, {SECONDS:g} s a call. No retries, no cached prompts."
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
        shape = plan(batch, preset="paper", copies=None if config.aggregate == "paper" else 1)
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
    prices: Mapping[str, Any] | None = None,
    prompts: Prompts | None = None,
) -> Estimate:
    """Return what the run would take.

    Raises:
        BudgetError: The budget does not reach for one step, or is in money and a price is not known.
    """
    prompts = prompts or Prompts.load()
    book = work.average_book(config)
    batch = min(work.samples, AUTO_BATCH if config.batch == "auto" else config.batch)
    phases = _phases(work, config, settings, batch=batch, book=book, prices=prices or {}, prompts=prompts)
    steps = math.ceil(work.samples / batch) * config.epochs
    found = estimate(phases, steps=steps, concurrency=config.concurrency, budget=budget)
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
    more = estimate([scoring], steps=times, concurrency=config.concurrency)
    return Estimate(steps, (*found.phases, *more.phases))


def _phases(
    work: Workload,
    config: LearnConfig,
    settings: Mapping[str, ModelSettings],
    *,
    batch: int,
    book: int,
    prices: Mapping[str, Any],
    prompts: Prompts,
) -> list[Phase]:
    price = {role: price_of(one.name, one.base_url, prices) for role, one in settings.items()}
    fixed = {name: count_tokens(prompt.system + prompt.user) for name, prompt in prompts.by_name.items()}
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
    whole = budget_of(limits)
    batch = min(work.samples, 1 if config.batch == "auto" else config.batch)
    sure = Phase("a step", batch * (1 + work.rounds), 0, 0, 0.0)
    if whole.max_calls is not None:
        estimate([sure], budget=Budget(max_calls=whole.max_calls))
