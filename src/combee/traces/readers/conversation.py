"""One conversation out of many model calls that each repeat what was said before.

Every call's input is compared with what is known: only messages beyond the known ones are new, so that a message that
was really said twice stays twice. A tool's result is known by the id of its call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from combee.traces.readers.draft import Draft
from combee.traces.readers.messages import Piece

__all__ = ["Conversation"]


class Conversation:
    """Adds to a draft only what it does not hold yet."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._known: Counter[tuple[str, str]] = Counter()
        self._answered: set[str] = set()
        self._called: set[str] = set()

    def heard(self, found: Iterable[Piece], *, timestamp: str | None, line: int | None) -> None:
        """Add what a model call was given: the conversation so far."""
        here: Counter[tuple[str, str]] = Counter()
        for piece in found:
            key = (piece.role, piece.text.strip())
            here[key] += 1
            if piece.calls and all(call.id in self._called for call in piece.calls):
                continue
            if piece.answers is not None and piece.answers in self._answered:
                continue
            if here[key] > self._known[key] or (piece.calls and not piece.text):
                self._add(piece, timestamp, line)

    def said(self, found: Iterable[Piece], *, timestamp: str | None, line: int | None) -> None:
        """Add what is new for sure: a model's answer, or a tool's call and result."""
        for piece in found:
            if piece.answers is not None and piece.answers in self._answered:
                continue
            if piece.calls and all(call.id in self._called for call in piece.calls) and not piece.text:
                continue
            self._add(piece, timestamp, line)

    def has_call(self, name: str) -> bool:
        """Whether a call of that id is known."""
        return name in self._called

    def has_text(self, said: str) -> bool:
        """Whether the model already said this."""
        return self._known["assistant", said.strip()] > 0

    def _add(self, piece: Piece, timestamp: str | None, line: int | None) -> None:
        self._known[piece.role, piece.text.strip()] += 1
        self._called |= {call.id for call in piece.calls if call.id}
        if piece.answers is not None:
            self._answered.add(piece.answers)
        self.draft.add(piece, timestamp=timestamp, line=line)
