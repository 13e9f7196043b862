"""What a command took of its models in this process, in lines and as JSON: calls, tokens, dollars, and what failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from combee.kernel.journal import JSON
from combee.model.ledger import LOST
from combee.run.words import counted

if TYPE_CHECKING:
    from combee.model import Models

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
