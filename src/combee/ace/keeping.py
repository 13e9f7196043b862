"""What a run's journal knows of its models: each call, what was spent before, and what endpoints were found to take.

So limits hold for the whole run, over all its resumes, and a resumed run asks no endpoint for what it has refused.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast

from combee.ace.clients import place_of
from combee.ace.role_model import RoleModel
from combee.journal import JSON, Journal
from combee.model import Capabilities
from combee.model.local import is_local

if TYPE_CHECKING:
    from combee.model import OpenAIModel

__all__ = ["Keeper", "Spent"]

ENDPOINTS = "endpoints"
BEGUN = "begun"  # when each process of the run began, Unix seconds
_SUMS = ("cost", "calls", "tokens")


@dataclass(slots=True)
class Spent:
    """What earlier parts of a run took: `Budget.spent_before` takes `all` and what belongs to one role."""

    all: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    by_role: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row of the ledger."""
        usage = row.get("usage") or {}
        tokens = int(usage.get("prompt", 0)) + int(usage.get("completion", 0))
        took = (float(row.get("cost") or 0.0), int(row.get("paid") != "no"), tokens)
        role = str(row.get("role", "")).partition("/")[0]
        for sums in (self.all, self.by_role.setdefault(role, dict.fromkeys(_SUMS, 0))):
            for name, amount in zip(_SUMS, took, strict=True):
                sums[name] += amount


class Keeper:
    """Where rows of the ledger go: nowhere until a journal is attached."""

    def __init__(self) -> None:
        self._journal: Journal | None = None
        self._known: dict[str, JSON] = {}
        self._watched: list[tuple[str, OpenAIModel]] = []
        self._seen: list[Capabilities] = []

    def attach(self, journal: Journal, models: Iterable[RoleModel]) -> None:
        """Write to this journal from now on; give the models what it says of their endpoints."""
        self._journal = journal
        self._known = dict(cast("dict[str, JSON]", journal.meta(ENDPOINTS) or {}))
        renewed: dict[int, OpenAIModel] = {}
        for model in models:
            if is_local(model.name):
                continue
            old = cast("OpenAIModel", model.inner)
            where = f"{old.name} at {place_of(old)}"
            if id(old) not in renewed:
                can = self._known.get(where)
                found = old.capabilities if can is None else _read(cast("dict[str, Any]", can))
                renewed[id(old)] = old.sibling(capabilities=found)
                self._watched.append((where, renewed[id(old)]))
                self._seen.append(found)
            model.inner = renewed[id(old)]

    def book(self, row: dict[str, Any]) -> None:
        """Keep a row of the ledger, and what its call showed of an endpoint."""
        if self._journal is None:
            return
        self._journal.record_call(row)
        for number, (where, model) in enumerate(self._watched):
            can = model.capabilities
            if can is not self._seen[number]:
                self._seen[number] = can
                self._known[where] = cast("JSON", asdict(can))
                self._journal.set_meta(ENDPOINTS, self._known)

    def spent_before(self) -> Spent:
        """Return what earlier processes of the run took, and note that another one begins.

        A process worked from its beginning to its last call: the time between two of them is nobody's.
        """
        journal = cast("Journal", self._journal)
        begun = cast("list[float]", journal.meta(BEGUN) or [])
        ended = list(begun)
        spent = Spent()
        for row in cast("Iterator[dict[str, Any]]", journal.calls()):
            spent.add(row)
            process = bisect_right(begun, row.get("at", 0.0)) - 1
            if process >= 0:
                ended[process] = max(ended[process], row["at"])
        minutes = sum(end - start for start, end in zip(begun, ended, strict=True)) / 60
        for sums in (spent.all, *spent.by_role.values()):
            sums["minutes"] = minutes
        journal.set_meta(BEGUN, [*begun, time.time()])
        return spent


def _read(kept: Mapping[str, Any]) -> Capabilities:
    return Capabilities(**{part.name: kept[part.name] for part in fields(Capabilities) if part.name in kept})
