"""The options of a reflection, each with its reason; checked when they are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from combee.errors import UsageError, did_you_mean
from combee.kernel.aggregate import CallCost, Retention
from combee.model import Price

__all__ = ["PLACEHOLDERS", "ReflectionOptions"]

PLACEHOLDERS = ("<curr_param>", "<side_info>")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionOptions:
    """How records become a new text. Raises `UsageError` for a value that cannot be used."""

    seed: int = 0
    """Decides every shuffle, and the seed of each request where the endpoint takes one."""
    max_items: int = 16
    """Most records of a map call, and most texts of a combining call (`combee calibrate` measures it for a model)."""
    max_tokens: int | None = 32_000
    """Most tokens of records in a map call; None: no limit."""
    copies: int | None = None
    """Times each record is read. None: once below 9 records and in playbooks, twice up to 400 (the paper), else once:
    above that a second reading costs more than the levels that it adds keep."""
    preset: Literal["paper"] | None = None
    """"paper": k = ⌊√n⌋ groups, then one call over all of them, as in arXiv 2604.04247."""
    second_chances: int | None = None
    """Further rounds for records that nothing covers. None: one for playbooks, none for rewritten texts."""
    cost: CallCost | None = None
    """Time of a call, for the solver that chooses the levels."""
    retention: Retention | None = None
    """What a call keeps, for the same solver."""
    playbooks: Literal["auto"] | Collection[str] = "auto"
    """Components that are playbooks and get operations instead of a rewrite; "auto": those in ACE text."""
    token_budget: int = 80_000
    """Tokens that a playbook, or a text of combined ones, may have."""
    near: float | None = 0.9
    """Similarity from which a new bullet is folded into an old one; None: only equal ones."""
    prompt_template: str | Mapping[str, str] | None = None
    """Prompt of a map call, or one for each component, with <curr_param> and <side_info>, as gepa has it."""
    combine_template: str | None = None
    """Prompt of a combining call, with the same two placeholders."""
    output_tokens: int = 4096
    """Most tokens of a reply; twice that where one was cut off."""
    temperature: float = 1.0
    """Of every call. gepa lives on proposals that differ."""
    concurrency: int = 64
    """Calls of a plain function at once, each in a thread. Models of Combee have limiters of their own."""
    price: Price | None = None
    """Price of a function's tokens, so that `max_reflection_cost` can be held."""
    lm_kwargs: Mapping[str, Any] | None = None
    """Settings for gepa's `LM` where the model is a name."""

    def __post_init__(self) -> None:
        for name, least in {
            "max_items": 2,
            "max_tokens": 1,
            "copies": 1,
            "second_chances": 0,
            "token_budget": 1,
            "output_tokens": 1,
            "concurrency": 1,
        }.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise UsageError(f"{name} is {value!r}", hint=f"Give a whole number of at least {least}.")
        if isinstance(self.playbooks, str) and self.playbooks != "auto":
            raise UsageError(f"playbooks is {self.playbooks!r}", hint='Give "auto", or a list of components.')
        given = self.prompt_template
        templates = list(given.values()) if isinstance(given, Mapping) else [given]
        for template in [*templates, self.combine_template]:
            missing = [name for name in PLACEHOLDERS if template is not None and name not in template]
            if missing:
                raise UsageError(f"a template lacks {' and '.join(missing)}", hint="Both placeholders must be in it.")

    def but(self, **changes: Any) -> ReflectionOptions:
        """Return these options with some changed. An unknown name is a `UsageError`."""
        known = {item.name for item in dataclasses.fields(self)}
        for name in changes:
            if name not in known:
                raise UsageError(f"there is no option {name!r}", hint=did_you_mean(name, known))
        return dataclasses.replace(self, **changes)

    def template_of(self, component: str) -> str | None:
        """Return the user's map prompt for a component, or None."""
        given = self.prompt_template
        return given.get(component) if isinstance(given, Mapping) else given

    def copies_of(self, n: int) -> int | None:
        """Return how often each of n records is read by a rewrite; None leaves it to the preset."""
        if self.copies is not None or self.preset is not None:
            return self.copies
        return 2 if 9 <= n <= 400 else 1
