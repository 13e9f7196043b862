"""A run on disk goes on only as it began: with other samples, settings or parts its replay would be another run.

What was begun with is kept in the journal, and a call that differs is refused with the difference. What changes no
result may change: how much works at once, how long a failing aggregation is tried, and more epochs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from combee.errors import UsageError
from combee.kernel.guard import FindSecrets, no_secrets
from combee.kernel.journal import JSON, Journal, hash_json
from combee.kernel.learn.config import LearnConfig
from combee.kernel.learn.roles import Curator, Task
from combee.kernel.learn.sampling import LiveTasks, RecordedTraces, Sample
from combee.kernel.playbook import Playbook, digest

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
        differences = list(
            _differences(cast("dict[str, Any]", known), now, bought=any(True for _ in journal.results()))
        )
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
