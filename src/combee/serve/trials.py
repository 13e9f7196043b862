"""Trials of new versions: outcomes in, verdicts out. The label `canary` says which version is on trial.

An outcome counts for the arm that its unit is in, from the first time on that the unit was served during the trial,
whichever of the two versions it names: so both arms are cut alike, and runs that began before the trial favour none.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from combee.serve.books import CANARY, STABLE
from combee.serve.canary import ArmEvidence
from combee.serve.service import Service

__all__ = ["Trials"]

_FEW, _FAR = 50, 4.0  # alert on missing outcomes from so many served units an arm, so many standard errors apart
_LATE = 3600.0  # seconds after which an outcome that did not come is missing


@dataclass
class _Trial:
    """A trial that is open. `seq`: the last outcome that was counted; `units`: those that counted."""

    version: str
    baseline: str
    started: float
    evidence: ArmEvidence
    held: bool
    seq: int = 0
    units: set[str] = field(default_factory=set)
    missing_told: bool = False


class Trials:
    """Judges the trials of all tenants."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._running: dict[str, _Trial] = {}

    async def step(self) -> None:
        """Bring every trial up to date and act on its verdict."""
        for tenant in self.service.tenants():
            labels = await self.service.labels(tenant)
            running = await self._open(tenant)
            if running is not None and (running.version != labels[CANARY] or labels[CANARY] == labels[STABLE]):
                await self._close(tenant, running, "promoted" if labels[STABLE] == running.version else "rolled back")
                running = None
            if labels[CANARY] != labels[STABLE]:
                await self._judge(tenant, running or await self._begin(tenant, labels))

    async def _open(self, tenant: str) -> _Trial | None:
        if tenant not in self._running:
            row = await self.service.store.one(
                "SELECT version, baseline, started, share, state FROM trials WHERE tenant = ? AND ended IS NULL"
                " ORDER BY started DESC LIMIT 1",
                tenant,
            )
            if row is None:
                return None
            self._running[tenant] = _Trial(row[0], row[1], row[2], ArmEvidence(row[3]), held=row[4] == "held")
            self.service.shares[tenant] = row[3]
        return self._running[tenant]

    async def _begin(self, tenant: str, labels: dict[str, str]) -> _Trial:
        share, now = self.service.settings.share or 0.2, time.time()
        values = (tenant, labels[CANARY], labels[STABLE], share, now)
        sql = "INSERT INTO trials VALUES (?, ?, ?, ?, ?, NULL, 'running', NULL)"
        await self.service.store.write(lambda db: db.execute(sql, values).rowcount)
        opened = await self._open(tenant)
        if opened is None:
            raise AssertionError("it was just begun")
        return opened

    async def _judge(self, tenant: str, running: _Trial) -> None:
        rows = await self.service.store.rows(
            "SELECT o.seq, o.unit, o.failed, s.on_trial FROM outcomes o JOIN served s ON s.tenant = o.tenant"
            " AND s.unit = o.unit AND s.version = ?2 WHERE o.tenant = ?1 AND o.seq > ?3 AND o.received >= s.at"
            " AND s.at >= ?5 AND o.version IN (?2, ?4) ORDER BY o.seq LIMIT 5000",
            tenant,
            running.version,
            running.seq,
            running.baseline,
            running.started - 5,  # the label moves a little before the trial is noted
        )
        for seq, unit, failed, on_trial in rows:
            running.seq = seq
            if unit not in running.units and running.evidence.verdict() is None:
                running.units.add(unit)
                running.evidence.add(on_trial=bool(on_trial), failed=bool(failed))
        verdict = running.evidence.verdict()
        if rows:
            await self._note(tenant, running)
        short = running.version[:12]
        if verdict == "worse":
            await self.service.rollback(tenant, f"canary: e = {running.evidence.worse:.0f} that it fails more often")
            await self._close(tenant, running, "rolled back")
            await self.service.alert(tenant, "canary", f"version {short} fails more often: rolled back")
        elif verdict == "good":
            await self.service.promote(tenant, running.version, f"canary: e = {running.evidence.good:.0f}")
            await self._close(tenant, running, "promoted")
            await self.service.alert(tenant, "canary", f"version {short} does not fail more often: promoted")
        elif not running.held and running.evidence.units >= self.service.settings.max_outcomes:
            running.held = True
            await self._note(tenant, running)
            text = f"version {short} is undecided after {running.evidence.units} outcomes: promote it or roll it back"
            await self.service.alert(tenant, "canary", text)
        elif not running.missing_told:
            await self._watch_missing(tenant, running)

    async def _note(self, tenant: str, running: _Trial) -> None:
        values = (
            "held" if running.held else "running",
            json.dumps(evidence_to_json(running.evidence)),
            tenant,
            running.started,
        )
        sql = "UPDATE trials SET state = ?, evidence = ? WHERE tenant = ? AND started = ?"
        await self.service.store.write(lambda db: db.execute(sql, values).rowcount)

    async def _close(self, tenant: str, running: _Trial, state: str) -> None:
        self._running.pop(tenant, None)
        self.service.shares.pop(tenant, None)
        values = (time.time(), state, tenant, running.started)
        sql = "UPDATE trials SET ended = ?, state = ? WHERE tenant = ? AND started = ?"

        def change(db: Any) -> None:
            db.execute(sql, values)
            db.execute("DELETE FROM served WHERE tenant = ? AND version = ?", (tenant, running.version))

        await self.service.store.write(change)

    async def _watch_missing(self, tenant: str, running: _Trial) -> None:
        """Alert once where outcomes of one arm are missing more often: what breaks an agent may break its report."""
        rows = await self.service.store.rows(
            "SELECT s.on_trial, count(*), sum(NOT EXISTS (SELECT 1 FROM outcomes o WHERE o.tenant = s.tenant"
            " AND o.unit = s.unit AND o.received >= s.at)) FROM served s WHERE s.tenant = ? AND s.version = ?"
            " AND s.at < ? GROUP BY s.on_trial",
            tenant,
            running.version,
            time.time() - _LATE,
        )
        arms = {bool(arm): (served, missing) for arm, served, missing in rows}
        if len(arms) < 2 or min(served for served, _ in arms.values()) < _FEW:
            return
        (n0, m0), (n1, m1) = arms[False], arms[True]
        both = (m0 + m1) / (n0 + n1)
        error = (both * (1 - both) * (1 / n0 + 1 / n1)) ** 0.5
        if error and abs(m1 / n1 - m0 / n0) / error > _FAR:
            running.missing_told = True
            text = f"outcomes are missing for {m1 / n1:.0%} of the units on trial and {m0 / n0:.0%} of the others"
            await self.service.alert(tenant, "canary", text)


def evidence_to_json(evidence: ArmEvidence) -> dict[str, Any]:
    """Return the evidence of a trial so far as plain data."""
    counts = evidence.counts
    return {
        "worse": round(evidence.worse, 4),
        "good": round(evidence.good, 4),
        "on_trial": {"failed": counts[True, True], "passed": counts[True, False]},
        "others": {"failed": counts[False, True], "passed": counts[False, False]},
    }
