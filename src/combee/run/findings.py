"""What the owner of a run must see at its end: alerts of the guard, and what of replies was not used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from combee.kernel.journal import JSON, Journal
from combee.run.words import counted

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
