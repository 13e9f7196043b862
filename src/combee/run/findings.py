"""What the owner of a run must see at its end: what it took, alerts of the guard, and what of replies was not used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from combee.kernel.journal import JSON, Journal
from combee.model.ledger import LOST
from combee.run.words import counted

if TYPE_CHECKING:
    from combee.model import Models

_PLACE = re.compile(r"^operation \d+:? ")
_NUMBER = re.compile(r"^\d+(?= operations? named no source)")


@dataclass(frozen=True, slots=True)
class Alert:
    """A step that the guard did not simply accept. Later attempts at it may have healed that."""

    step: int
    attempt: int
    verdict: str
    reasons: tuple[str, ...]

    def to_json(self) -> JSON:
        """Return it as JSON."""
        return {"step": self.step, "attempt": self.attempt, "verdict": self.verdict, "reasons": list(self.reasons)}


@dataclass(frozen=True, slots=True)
class Findings:
    """`unused` counts parts of replies by what was wrong with them; `refused` operations that the playbook refused."""

    alerts: tuple[Alert, ...] = ()
    unused: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0

    def to_json(self) -> dict[str, JSON]:
        """Return them as keys of a summary."""
        unused: dict[str, JSON] = {"operations_refused": self.refused, "problems": dict(self.unused)}
        return {"alerts": [one.to_json() for one in self.alerts], "unused": unused}

    def lines(self, most: int = 5) -> list[str]:
        """Return them in lines for a person, the `most` frequent or latest of each; none where there is nothing."""
        lines = []
        for one in self.alerts[-most:]:
            attempt = f", attempt {one.attempt + 1}" if one.attempt else ""
            reasons = "; ".join(one.reasons) or "no reason given"
            verdict = "" if one.verdict == "alert" else f"{one.verdict.replace('_', ' ')}: "
            lines.append(f"alert      step {one.step}{attempt}: {verdict}{reasons}")
        if len(self.alerts) > most:
            lines.append(f"alert      and {len(self.alerts) - most} earlier ones (in the report)")
        if self.refused:
            lines.append(f"unused     {counted(self.refused, 'operation')} refused by the playbook")
        found = sorted(self.unused.items(), key=lambda one: (-one[1], one[0]))
        lines += [f"unused     {count:,} × {what}" for what, count in found[:most]]
        if len(found) > most:
            lines.append(f"unused     and {counted(len(found) - most, 'other kind')} (in the report)")
        return lines


def findings_of(journal: Journal) -> Findings:
    """Return what a run's journal holds; of what is damaged, what can be read."""
    alerts = []
    for event in journal.events("GuardJudged"):
        data = cast("dict[str, JSON]", event.data)
        reasons = tuple(map(str, cast("list[JSON]", data.get("reasons") or [])))
        if data.get("verdict") != "accept" or reasons:  # an accepted step may have left operations out
            step, attempt = (cast("int", data.get(key) or 0) for key in ("step", "attempt"))
            alerts.append(Alert(step, attempt, str(data.get("verdict")), reasons))
    steps = (cast("dict[str, JSON]", event.data) for event in journal.events("StepFinished"))
    refused = sum(cast("int", step.get("refused") or 0) for step in steps)
    return Findings(tuple(alerts), unused_of(journal), refused)


def unused_of(journal: Journal) -> dict[str, int]:
    """Return how often each thing was wrong with a reply, whatever operation of it that was."""
    found: Counter[str] = Counter()
    for _, name, value in journal.decisions():
        if name.startswith("problems/") and isinstance(value, list):
            for problem in map(str, value):
                number = _NUMBER.match(problem)
                if number:
                    found["operations named no source"] += int(number[0])
                else:
                    found[_PLACE.sub("", problem)] += 1
    return dict(found)


_CANCELLED = "cancelled"
_IN_WORDS = {"rate_limit": "rate limits (429)", "server": "server errors (5xx)", "connection": "broken connections"}


def spent(models: Models | None) -> dict[str, JSON] | None:
    """Return what models were asked and charged in this process; None where none is called."""
    if models is None:
        return None
    total = models.ledger.total
    cost = None if total.unpriced else total.cost
    return {"calls": total.calls, "tokens": total.tokens, "cost": cost, "failed": dict(faults_of(models))}


def faults_of(models: Models | None) -> Mapping[str, int]:
    """Return the attempts that gave nothing, by kind, most first; without those that were broken off here."""
    outcomes = {} if models is None else models.ledger.total.outcomes
    found = [(kind, count) for kind, count in outcomes.items() if kind not in {"ok", _CANCELLED, LOST}]
    return dict(sorted(found, key=lambda one: (-one[1], one[0])))


def spent_lines(models: Models | None) -> list[str]:
    """Return the lines of a summary; none where no model is called."""
    if models is None:
        return []
    total = models.ledger.total
    cost = "at an unknown price" if total.unpriced else f"${total.cost:.4f}"
    lines = [f"model      {counted(total.calls, 'call')} this time, {counted(total.tokens, 'token')}, {cost}"]
    faults = faults_of(models)
    if faults:
        kinds = ", ".join(f"{count:,} {_IN_WORDS.get(kind, kind.replace('_', ' '))}" for kind, count in faults.items())
        lines.append(f"failed     {sum(faults.values()):,} of these gave nothing to use: {kinds}")
    if lost := total.outcomes.get(LOST, 0):
        lines.append(f"lost       {counted(lost, 'call')} of these went with a kill, and may have been paid for")
    return lines


def taken_so_far(models: Models | None) -> str:
    """Return what models took of money or tokens, and how many calls gave nothing, for a line of progress."""
    if models is None:
        return ""
    total, failed = models.ledger.total, sum(faults_of(models).values())
    spend = f"${total.cost:.4f}" if total.cost and not total.unpriced else counted(total.tokens, "token")
    return f"{spend} · {counted(failed, 'call')} gave nothing" if failed else spend


def in_flight(models: Models | None) -> int:
    """Return how many calls were broken off here while the endpoint was at work on them: it may charge for them."""
    return 0 if models is None else models.ledger.total.outcomes.get(_CANCELLED, 0)


def maybe_paid(models: Models | None) -> str:
    """Return a sentence on the calls that were broken off, with a space before it; nothing where there were none."""
    number = in_flight(models)
    calls = f"{counted(number, 'call')} {'was' if number == 1 else 'were'} in flight"
    return f" {calls}: they may be paid, and are asked again." if number else ""
