"""What a run's journal knows of its models: each call, what was spent before, and what endpoints were found to take.

So limits hold for the whole run, over all its resumes, and a resumed run asks no endpoint for what it has refused.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from combee.kernel.journal import JSON, Journal
from combee.model.dialect import Capabilities

if TYPE_CHECKING:
    from combee.model.openai import OpenAIModel

ENDPOINTS = "endpoints"
STARTS = "starts"  # of each process of the run: when it began, Unix seconds, and how many calls were booked by then
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
        for sums in (self.all, self.by_role.setdefault(_role_of(row), dict.fromkeys(_SUMS, 0))):
            for name, amount in zip(_SUMS, took, strict=True):
                sums[name] += amount


class CallLog:
    """Writes the ledger's rows, and what endpoints were found to take, to the run's journal once one is attached."""

    def __init__(self) -> None:
        self.elsewhere: Callable[[Mapping[str, Any]], object] | None = None
        """Takes the rows where there is no journal."""
        self._journal: Journal | None = None
        self._known: dict[str, JSON] = {}
        self._watched: list[tuple[str, OpenAIModel]] = []
        self._seen: list[Capabilities] = []

    def attach(self, journal: Journal) -> None:
        """Write to this journal from now on."""
        self._journal = journal
        self._known = dict(cast("dict[str, JSON]", journal.meta(ENDPOINTS) or {}))

    @property
    def folder(self) -> Path | None:
        """The folder of the journal, once one is attached."""
        return None if self._journal is None else self._journal.path.parent

    def follow(self, model: OpenAIModel) -> OpenAIModel:
        """Return the model with what the journal says of its endpoint; what it finds out from now on is written."""
        where = f"{model.name} at {model.endpoint.base_url}"
        can = self._known.get(where)
        found = model.capabilities if can is None else _read(cast("dict[str, Any]", can))
        followed = model.sibling(capabilities=found)
        self._watched.append((where, followed))
        self._seen.append(found)
        return followed

    def book(self, row: dict[str, Any]) -> None:
        """Keep a row of the ledger, and what its call showed of an endpoint."""
        if self._journal is None:
            if self.elsewhere is not None:
                self.elsewhere(row)
            return
        self._journal.record_call(row)
        for number, (where, model) in enumerate(self._watched):
            can, seen = model.capabilities, self._seen[number]
            if can is not seen:
                self._seen[number] = can
                # Only what is new: roles with budgets of their own ask one endpoint through clients of their own.
                new = {name: value for name, value in asdict(can).items() if value != getattr(seen, name)}
                self._known[where] = {**cast("dict[str, JSON]", self._known.get(where, {})), **new}
                self._journal.set_meta(ENDPOINTS, self._known)

    def spent_before(self) -> Spent:
        """Return what earlier processes of the run took, and note that another one begins.

        A process worked from its beginning to its last call: the time between two of them is nobody's. A role's
        minutes are those worked since its first call. Which process made a call is told by the order of booking, not
        by the clock, which may have been put right between two of them; a clock that goes back adds nothing.
        """
        journal = cast("Journal", self._journal)
        starts = cast("list[tuple[float, int]]", journal.meta(STARTS) or [])
        coming = deque(starts)
        spent, booked = Spent(), 0
        worked, clock = 0.0, math.inf
        since: dict[str, float] = {}
        for row in cast("Iterator[dict[str, Any]]", journal.calls()):
            while coming and coming[0][1] <= booked:
                clock = coming.popleft()[0]
            booked += 1
            spent.add(row)
            now = float(row.get("at", clock))
            worked += max(0.0, now - clock)
            clock = now
            since.setdefault(_role_of(row), max(0.0, worked - float(row.get("wire", 0.0))))
        spent.all["minutes"] = worked / 60
        for role, sums in spent.by_role.items():
            sums["minutes"] = (worked - since[role]) / 60
        journal.set_meta(STARTS, [*starts, [time.time(), booked]])
        return spent


def _role_of(row: Mapping[str, Any]) -> str:
    return str(row.get("role", "")).partition("/")[0]


def _read(kept: Mapping[str, Any]) -> Capabilities:
    known = {part.name: kept[part.name] for part in fields(Capabilities) if part.name in kept}
    return Capabilities(**{**known, "without": tuple(known.get("without", ()))})
