"""The agents that a run can name: the embedded one, and ACE on the models of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from combee.cli.model_options import refuse_unknown_prices
from combee.errors import UsageError, did_you_mean
from combee.kernel.journal import Journal
from combee.kernel.learn import Curator, Generator, Reflector
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector

if TYPE_CHECKING:
    from combee.model import Models

__all__ = ["AGENTS", "Agent", "agent_of"]

AGENTS = ("lexical", "ace")


@dataclass(frozen=True, slots=True)
class Agent:
    """The three roles, and a name for reports. `models` are the models behind them; `prompts` the digest of theirs."""

    name: str
    generator: Generator
    reflector: Reflector
    curator: Curator
    models: Models | None = None
    prompts: str | None = None

    def attach(self, journal: Journal) -> None:
        """Book into the run's journal. Raises `UsageError` where the run began with other prompts."""
        if self.models is None:
            return
        began_with = journal.meta("prompts")
        if began_with is None:
            journal.set_meta("prompts", self.prompts)
        elif began_with != self.prompts:
            raise UsageError(
                "The prompts have changed since this run began.", hint="Put the old ones back, or start a new run."
            )
        self.models.attach(journal)

    async def aclose(self) -> None:
        """Close all connections; to be called in the event loop that used them."""
        if self.models is not None:
            await self.models.aclose()


def agent_of(
    agent: Mapping[str, Any],
    *,
    model: Mapping[str, Any],
    budget: Mapping[str, Any],
    prices: Mapping[str, Any],
    learn: Mapping[str, Any],
) -> Agent:
    """Make the agent that the settings name; without a word on it the embedded one.

    Raises:
        UsageError: There is no such agent, a setting of it cannot be used, or a budget in money meets a model without
            a price.
    """
    kind = agent.get("kind") or "lexical"
    if kind not in AGENTS:
        raise UsageError(f"There is no agent {kind!r}.", hint=did_you_mean(str(kind), AGENTS))
    if kind == "ace":
        return _ace(agent, model=model, budget=budget, prices=prices, learn=learn)
    curator = LexicalCurator(
        forget=agent.get("forget"), output_limit=agent.get("output_limit"), seed=learn.get("seed", 0)
    )
    return Agent("lexical", LexicalGenerator(), LexicalReflector(), curator)


def _ace(
    agent: Mapping[str, Any],
    *,
    model: Mapping[str, Any],
    budget: Mapping[str, Any],
    prices: Mapping[str, Any],
    learn: Mapping[str, Any],
) -> Agent:
    from combee.ace import AceCurator, AceGenerator, AceReflector, Prompts
    from combee.model import open_models

    seed = learn.get("seed", 0)
    prompts = Prompts.load(agent.get("prompts"))
    refuse_unknown_prices(model, budget, prices)
    models = open_models(model, budget=budget, prices=prices, seed=seed)
    options = {role: settings.options(seed) for role, settings in models.settings.items()}
    by_role = models.by_role
    return Agent(
        "ace",
        AceGenerator(by_role["generator"], prompts=prompts, options=options["generator"]),
        AceReflector(
            by_role["reflector"],
            prompts=prompts,
            options=options["reflector"],
            rounds=agent.get("reflection_rounds") or 1,
        ),
        AceCurator(
            by_role["curator"],
            prompts=prompts,
            options=options["curator"],
            token_budget=learn.get("token_budget", 80_000),
        ),
        models,
        prompts.digest,
    )
