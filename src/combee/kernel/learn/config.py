"""The settings of one run, and what makes it the same run when it goes on.

Settings are checked when they are made and kept in the journal, so that a resume needs no options. A run on disk goes
on only as it began: with other samples, settings or parts its replay would be another run, and a call that differs is
refused with the difference. What changes no result may change: how much works at once, how long a failing aggregation
is tried, and more epochs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from combee.errors import UsageError, did_you_mean
from combee.kernel.aggregate import BASELINES, ONE_CALL
from combee.kernel.guard import FindSecrets, no_secrets
from combee.kernel.journal import JSON, Journal, hash_json
from combee.kernel.learn.roles import Curator, Task
from combee.kernel.learn.sampling import LiveTasks, RecordedTraces, Sample
from combee.kernel.playbook import Playbook, digest

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
    group_size: Count | None = None
    """Reflections in a call of the paper's first level, in place of ⌊√n⌋ groups (its ablation of k)."""
    shuffle_groups: bool = True
    """Shuffle which reflections share a call (seeded); false keeps them in their order (the paper's ablation)."""
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


KEY = "learn"
RULES = 2
"""What a run is judged by; a run that began under older rules is replayed under those. From 2 on well-voted bullets are
kept where there is no cause to take them out."""
_FREE = {"concurrency", "pipeline", "give_up_after", "epochs"}  # fewer epochs are refused all the same
_SHOWN = 60
_SECRET = re.compile(r"(?i)(?:^|_)(?:key|token|secret|password|credentials?|auth)$")  # names of such fields


def refuse_another_run(
    journal: Journal | None,
    samples: Sequence[Sample],
    config: LearnConfig,
    parts: tuple[object, Curator],
    start: Playbook,
    *,
    find_secrets: FindSecrets = no_secrets,
) -> int:
    """Note in a journal what its run begins with, or compare it with what it began with. `parts`: the map, the curator.

    Returns the number of the rules that the run is judged by.

    Raises:
        UsageError: Something differs that results depend on; the message names it.
    """
    if journal is None:
        return RULES
    now: dict[str, JSON] = {
        "samples": {"count": len(samples), "digest": _digest(samples)},
        "config": config.to_json(),
        "parts": cast("JSON", _parts(*parts, find_secrets)),
        "start": digest(start),
    }
    known = journal.meta(KEY)
    now["rules"] = known.get("rules", 1) if isinstance(known, dict) else RULES
    if isinstance(known, dict):
        differences = list(_differences(cast("dict[str, Any]", known), now, bought=bool(journal.count_results())))
        if differences:
            hint = (
                "Make the call as it was, or give another folder. What may change: concurrency, pipeline, "
                "give_up_after, more epochs, and what models may take."
            )
            raise UsageError(f"the run in {journal.path.parent} began otherwise: {'; '.join(differences)}", hint=hint)
    if known != now:
        journal.set_meta(KEY, now)
    return cast("int", now["rules"])


def named_part(part: object, find_secrets: FindSecrets = no_secrets) -> str:
    """Return what tells a role, a curator or a scorer from another: its class, the model and the prompts behind it.

    A frozen dataclass is known by its plain fields too, but for those that hold a key (the journal and messages hold
    none) or do not count when two are compared; other attributes may be counters, and code is not looked at. A part
    that has a `fingerprint` (a text; a method of that name is none) is known by that alone.
    """
    if isinstance(own := getattr(part, "fingerprint", None), str):
        return own
    name = str(getattr(part, "__qualname__", None) or type(part).__qualname__)
    marks: list[str] = []
    for key, value in _attributes(part).items():
        if _is_frozen(part) and isinstance(value, str | int | float | None):
            marks += [] if _SECRET.search(key) or find_secrets(str(value)) else [f"{key} {value}"]
        elif callable(getattr(value, "complete", None)) and isinstance(model := getattr(value, "name", None), str):
            marks.append(f"model {model}")
        elif isinstance(prompts := getattr(value, "digest", None), str):
            marks.append(f"prompts {prompts[:12]}")
    return f"{name} ({', '.join(marks)})" if marks else name


def _attributes(part: object) -> Mapping[str, object]:
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        return {item.name: getattr(part, item.name) for item in dataclasses.fields(part) if item.compare}
    return getattr(part, "__dict__", {})


def _is_frozen(part: object) -> bool:
    return bool(getattr(getattr(part, "__dataclass_params__", None), "frozen", False))


def _parts(sample_map: object, curator: Curator, find_secrets: FindSecrets) -> dict[str, str]:
    named: dict[str, object]
    sample_map = getattr(sample_map, "inner", sample_map)  # where it is worked on changes no result
    match sample_map:
        case LiveTasks():
            named = {role: getattr(sample_map, role) for role in ("generator", "reflector", "scorer")}
        case RecordedTraces():
            named = {"reflector": sample_map.reflector}
        case _:
            named = {"map": sample_map}
    return {role: named_part(part, find_secrets) for role, part in {**named, "curator": curator}.items()}


def _digest(samples: Sequence[Sample]) -> str:
    """Return the hash of the samples in their order. The id of a recorded run stands for what it holds."""
    hasher = hashlib.sha256()
    for sample in samples:
        parts: list[JSON] = [sample.id, dict(sample.labels)]
        if isinstance(sample, Task):
            parts += [sample.question, sample.target]
        hasher.update(hash_json(parts).encode())
    return hasher.hexdigest()


def _differences(known: Mapping[str, Any], now: Mapping[str, Any], *, bought: bool) -> list[str]:
    differences: list[str] = []
    old, new = known["config"], now["config"]
    differences += [
        f"{name} was {_short(old.get(name))} and is {_short(value)}"
        for name, value in new.items()
        if name in old and old[name] != value and name not in _FREE
    ]
    if new["epochs"] < old["epochs"]:
        differences.append(f"epochs was {old['epochs']} and is {new['epochs']}")
    if known["samples"] != now["samples"]:
        differences.append(f"the samples are others ({known['samples']['count']} then, {now['samples']['count']} now)")
    if known["start"] != now["start"]:
        differences.append("the playbook it starts from is another")
    if bought:  # before, a name that was wrong may be put right
        old, new = known["parts"], now["parts"]
        differences += [
            f"the {role} was {_short(old.get(role))} and is {_short(new.get(role))}"
            for role in sorted({*old, *new})
            if old.get(role) != new.get(role)
        ]
    return differences


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
