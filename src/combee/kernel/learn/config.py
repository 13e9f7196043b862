"""The settings of one run, checked when they are made; stored in the journal so that a resume needs no options."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from combee.errors import UsageError, did_you_mean
from combee.kernel.aggregate import BASELINES, ONE_CALL
from combee.kernel.journal import JSON

# Kinds of numbers, for reading: who takes values from a user (`combee.run.settings`) gives each name its range.
Whole = int
"""Of at most 64 bits."""
Natural = int
"""At least 0."""
Count = int
"""At least 1."""
Share = float
"""Above 0 and up to 1."""
Positive = float
"""Above 0."""
Amount = float
"""At least 0."""

_OTHER = {"None": None, "Literal['auto']": "auto"}  # what a field may be besides a number


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnConfig:
    """How a run learns. Raises `UsageError` for a value that cannot be used."""

    epochs: Count = 1
    """How often all samples are seen."""
    batch: Count | Literal["auto"] = 40
    """Samples a step; `auto` measures delays and picks the size (paper section 3.4)."""
    candidates: tuple[Count, ...] = ()
    """Sizes that `auto` profiles (none: 2, 4, 8 ... 64, up to half the samples); the profile steps learn too."""
    max_batch: Count | None = None
    """The largest size that `auto` may pick."""
    aggregate: str = "combee"
    """combee, paper, naive, naive_long, top_k or summarize."""
    max_items: Count = 16
    """Reflections that one aggregating call may take (`combee calibrate` measures it for a model)."""
    max_tokens: Count | None = None
    """Tokens of reflections that one aggregating call may take."""
    second_chances: Natural = 1
    """Further rounds for reflections that no operation covers."""
    copies: Count | None = None
    """Times each reflection is read in the first round; None leaves it to the method (paper 2, else 1)."""
    near: Share | None = 0.9
    """Similarity from which a new bullet is folded into an old one; None keeps all but exact duplicates."""
    token_budget: Count = 80_000
    """Tokens the playbook may have."""
    on_full: Literal["refuse", "evict"] = "refuse"
    """What a new lesson meets in a full playbook: it is refused, or older bullets make room for it (harmful ones first,
    then unused, then the oldest)."""
    view_tokens: Count | None = None
    """Tokens of the playbook an agent is shown; None shows all of it."""
    eval_every: Count = 100
    """Samples between two validations; each crossing of a multiple counts."""
    pipeline: bool = True
    """Let leaves start while samples are still worked on (combee only); the book is the same without, only later."""
    quorum: Share = 1.0
    """Share of a step's samples to wait for; the others join the next step (who was in is journalled)."""
    give_up_after: Count = 3
    """Steps in a row whose aggregation may fail as a whole before the run ends; their reflections are kept."""
    concurrency: Count = 64
    """Samples worked on at once."""
    attempts: Count = 3
    """Times a sample is tried when it fails for a reason outside the task."""
    guard: bool | Literal["watch"] | None = None
    """Check each update, retry it in smaller groups, or refuse it; "watch" only tells what it sees. [true; of naive,
    naive_long, top_k and summarize "watch", for a baseline shows what it does]"""
    guard_validate: bool = False
    """Let the guard score each new version on the validation samples before it is accepted."""
    keep_leaks: bool = False
    """Learn lessons even where they quote a held-out answer."""
    shuffle: bool = False
    """Shuffle the samples of each epoch (seeded)."""
    seed: Whole = 0
    """Decides which reflections share a call, simulated forgetting, the order of samples with `shuffle`, and the seed
    that is sent to models. Which rows are drawn or cut is the seed of the tasks (`--seed` sets both)."""

    def __post_init__(self) -> None:
        _one_of("aggregate", self.aggregate, BASELINES)
        _one_of("on_full", self.on_full, ("refuse", "evict"))
        object.__setattr__(self, "guard", _guard(self.guard, self.aggregate))
        for item in dataclasses.fields(self):
            kind, _, other = str(item.type).partition(" | ")
            value = getattr(self, item.name)
            if other not in _OTHER or value != _OTHER[other]:
                _check(item.name, kind, value)

    def to_json(self) -> dict[str, JSON]:
        """Return all settings as JSON."""
        values: dict[str, JSON] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            values[item.name] = list(value) if isinstance(value, tuple) else value
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> LearnConfig:
        """Read what `to_json` wrote; an unknown name is a `UsageError`."""
        known = {item.name for item in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise UsageError(f"There is no setting {name!r}.", hint=did_you_mean(name, known))
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        return cls(**plain)  # type: ignore[arg-type]  # checked in __post_init__


def _one_of(name: str, value: object, known: Collection[str]) -> None:
    if str(value) not in known:
        raise UsageError(f"{name}: there is no {value!r}.", hint=did_you_mean(str(value), known))


def _guard(value: object, aggregate: str) -> bool | Literal["watch"]:
    if value is None:
        return "watch" if aggregate in ONE_CALL else True
    if value != "watch" and not isinstance(value, bool):
        raise UsageError(f'guard must be true, false or "watch", not {value!r}.')
    return "watch" if value == "watch" else value


def _check(name: str, kind: str, value: object) -> None:
    """Compare a value with the kind of number that its annotation names."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "Count" | "Natural":
            least = 1 if kind == "Count" else 0
            if not is_whole or cast("int", value) < least:
                raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        case "Whole" if not is_whole or not -(2**63) <= cast("int", value) < 2**63:
            raise UsageError(f"{name} must be a whole number of at most 64 bits, not {value!r}.")
        case "Share" if not (is_whole or isinstance(value, float)) or not 0 < cast("float", value) <= 1:
            raise UsageError(f"{name} must lie above 0 and up to 1, not {value!r}.")
        case "bool" if name != "guard" and not isinstance(value, bool):
            raise UsageError(f"{name} must be true or false, not {value!r}.")
        case "tuple[Count, ...]":
            if not isinstance(value, tuple):
                raise UsageError(f"{name} must be a list of sizes, not {value!r}.")
            for size in value:
                _check(name, "Count", size)
