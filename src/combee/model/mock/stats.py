"""What a mock endpoint counted: the other side's book, to compare a ledger with."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["MockStats"]


@dataclass(slots=True)
class MockStats:
    """Counts since the start.

    `requests`: chat completions that came in. `by_outcome`: how each was answered ("ok" or the fault's name). `paid`:
    calls that the endpoint charges for, of which `undelivered` broke off before the client saw what they cost; tokens
    are those of paid calls, `delivered_*` those that a client could read.
    """

    requests: int = 0
    paid: int = 0
    undelivered: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    delivered_prompt: int = 0
    delivered_completion: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    by_outcome: dict[str, int] = field(default_factory=dict)

    def count(self, outcome: str) -> None:
        """Count one answered request."""
        self.by_outcome[outcome] = self.by_outcome.get(outcome, 0) + 1

    def charge(self, prompt: int, completion: int, cached: int, *, delivered: bool) -> None:
        """Charge one call."""
        self.paid += 1
        self.prompt += prompt
        self.completion += completion
        self.cached += cached
        if delivered:
            self.delivered_prompt += prompt
            self.delivered_completion += completion
        else:
            self.undelivered += 1

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain JSON data."""
        return asdict(self)
