"""Every attempt that reached an endpoint: what it was for, what it came to, what it took and cost.

Tokens that an endpoint did not report are unknown, not 0: they are estimated from characters and marked so. Rows go to
a sink (the journal) as they are made; sums are kept by role. What a killed process had begun to buy is booked when it
is bought again: at the same tokens and price, as maybe paid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from combee.kernel.journal import Purchase, current_purchase
from combee.kernel.journal.values import Spelled, atom
from combee.kernel.playbook.counting import narrow_length
from combee.model.outcome import Paid
from combee.model.types import Request, Usage

LOST = "lost_at_a_kill"
"""The outcome of a call that was under way when an earlier process was killed."""


def usage_to_json(usage: Usage | None) -> Spelled | None:
    """Return usage as plain JSON data, with its text."""
    if usage is None:
        return None
    prompt, completion, cached, estimated = usage.prompt, usage.completion, usage.cached, usage.estimated
    value = Spelled(prompt=prompt, completion=completion, cached=cached, estimated=estimated)
    value.text = (
        f'{{"cached":{atom(cached)},"completion":{atom(completion)},"estimated":{"true" if estimated else "false"},'
        f'"prompt":{atom(prompt)}}}'
    )
    return value


@dataclass(frozen=True, slots=True)
class CallRow:
    """One attempt. `outcome`: "ok", a kind of `CallError`, "cancelled" or `LOST`. Times are seconds, `cost` US dollars.

    `tries` counts from 0 within the call. `usage` is None where nothing was charged or nothing is known; `paid` says
    whether the endpoint charged for the attempt ("unknown": the connection broke before it said).
    """

    model: str
    role: str
    item: str
    attempt: int
    tries: int
    outcome: str
    paid: Paid
    usage: Usage | None
    cost: float | None
    queued: float
    wire: float
    at: float

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON data, with its text (by hand: this is done for each call)."""
        usage = usage_to_json(self.usage)
        row = Spelled(
            model=self.model,
            role=self.role,
            item=self.item,
            attempt=self.attempt,
            tries=self.tries,
            outcome=self.outcome,
            paid=self.paid,
            usage=usage,
            cost=self.cost,
            queued=self.queued,
            wire=self.wire,
            at=self.at,
        )
        # The clock's seconds, our own counts and our own words need no look.
        row.text = (
            f'{{"at":{self.at!r},"attempt":{atom(self.attempt)},"cost":{atom(self.cost)},"item":{atom(self.item)},'
            f'"model":{atom(self.model)},"outcome":{atom(self.outcome)},"paid":{atom(self.paid)},"queued":{self.queued!r},'
            f'"role":{atom(self.role)},"tries":{self.tries},"usage":{usage.text if usage is not None else "null"},'
            f'"wire":{self.wire!r}}}'
        )
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> CallRow:
        """Read what `to_json` wrote."""
        usage = row["usage"]
        return cls(**{**row, "usage": None if usage is None else Usage(**usage)})


@dataclass(slots=True)
class Totals:
    """Sums over rows. `cost` counts known prices only; `unpriced` rows were paid at an unknown price."""

    calls: int = 0
    ok: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    cost: float = 0.0
    estimated: int = 0
    unpriced: int = 0
    maybe_paid: int = 0
    queued: float = 0.0
    wire: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens."""
        return self.prompt + self.completion

    def add(self, row: CallRow) -> None:
        """Count one row."""
        self.calls += 1
        self.ok += row.outcome == "ok"
        self.maybe_paid += row.paid == "unknown"
        self.outcomes[row.outcome] = self.outcomes.get(row.outcome, 0) + 1
        self.queued += row.queued
        self.wire += row.wire
        usage = row.usage
        if usage is not None:
            self.prompt += usage.prompt
            self.completion += usage.completion
            self.cached += usage.cached
            self.estimated += usage.estimated
        if row.paid != "no":
            if row.cost is None:
                self.unpriced += 1
            else:
                self.cost += row.cost

    def to_json(self) -> dict[str, Any]:
        """Return the sums as plain JSON data."""
        return asdict(self)


def prompt_characters(request: Request) -> int:
    """Return the characters that a request sends as messages, by `narrow_length`."""
    return sum(narrow_length(message.content) + 8 for message in request.messages)


def _lost(row: CallRow) -> CallRow:
    usage = None if row.usage is None else replace(row.usage, estimated=True)
    return replace(row, outcome=LOST, paid="unknown", usage=usage, queued=0.0, wire=0.0)


class Ledger:
    """The book of one run; several models may share it.

    Args:
        sink: Gets each row as JSON data when it is made (the journal's `record_call`).
        keep_rows: Keep the rows in memory too; the sums are always kept.
    """

    def __init__(self, sink: Callable[[dict[str, Any]], None] | None = None, *, keep_rows: bool = True) -> None:
        self._sink = sink
        self._rows: list[CallRow] | None = [] if keep_rows else None
        self.total = Totals()
        self.by_role: dict[str, Totals] = {}
        self._known_tokens = 0.0
        self._known_characters = 0.0
        self._completions: dict[tuple[str, str], tuple[int, int]] = {}

    @property
    def rows(self) -> tuple[CallRow, ...]:
        """All rows so far (empty when they are not kept)."""
        return tuple(self._rows or ())

    def __iter__(self) -> Iterator[CallRow]:
        return iter(self._rows or ())

    def record(self, row: CallRow, characters: int = 0) -> None:
        """Add one row; `characters` are those of its prompt, from which the estimate learns."""
        purchase = current_purchase()
        if purchase is not None and purchase.lost and row.paid != "no" and row.outcome != "cancelled":
            self._book_lost(row, purchase)
        self._add(row)
        usage = row.usage
        if usage is not None and not usage.estimated:
            if characters and usage.prompt:
                self._known_tokens += usage.prompt
                self._known_characters += characters
            key = (row.model, row.role)
            seen, largest = self._completions.get(key, (0, 0))
            self._completions[key] = (seen + 1, max(largest, usage.completion))

    def absorb(self, row: CallRow, *, lost: int = 0) -> None:
        """Add a row that was booked elsewhere; `lost`: how often the same may have been paid for without a row."""
        for _ in range(lost if row.paid != "no" and row.outcome != "cancelled" else 0):
            self._add(_lost(row))
        self._add(row)

    def _book_lost(self, row: CallRow, purchase: Purchase) -> None:
        """Book what killed processes may have paid for the same: their books end before it."""
        lost = _lost(row)
        times, purchase.lost = purchase.lost, 0
        for _ in range(times):
            self._add(lost)

    def _add(self, row: CallRow) -> None:
        if self._rows is not None:
            self._rows.append(row)
        self.total.add(row)
        totals = self.by_role.get(row.role)
        if totals is None:
            totals = self.by_role[row.role] = Totals()
        totals.add(row)
        if self._sink is not None:
            self._sink(row.to_json())

    def tokens_of(self, characters: int) -> int:
        """Return the tokens that so many characters are likely to be (4 to a token until replies told better)."""
        if self._known_characters < 2000:
            return characters // 4 + 1
        return int(characters * self._known_tokens / self._known_characters) + 1

    def longest_reply(self, model: str, role: str) -> int:
        """Return the tokens of the longest reply of a role so far, 0 while there is none."""
        return self._completions.get((model, role), (0, 0))[1]

    def expect(self, model: str, request: Request) -> Usage:
        """Return the most that a call is likely to take: `max_tokens`, or 1.5 times the longest reply of its role.

        The shorter bound counts only after 16 replies; a budget is held against this.
        """
        prompt = self.tokens_of(prompt_characters(request))
        seen, largest = self._completions.get((model, request.role), (0, 0))
        most = max(request.max_tokens, largest)  # thinking may be billed beyond `max_tokens`
        completion = min(most, int(1.5 * largest) + 16) if seen >= 16 else most
        return Usage(prompt, completion, estimated=True)
