"""What became of a delta that was applied: every operation and vote is accounted for."""

from __future__ import annotations

from dataclasses import dataclass, field

from combee.kernel.playbook.model import Operation, Playbook, Vote

__all__ = ["Applied", "Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operation that was not done, and why. It changed nothing and used up no id."""

    operation: Operation
    reason: str


@dataclass(frozen=True, slots=True)
class Applied:
    """The new book and what became of everything that was asked."""

    playbook: Playbook
    added: dict[Operation, str] = field(default_factory=dict)
    """ADD operations that became a bullet, with its id."""
    folded: dict[Operation, str] = field(default_factory=dict)
    """ADD operations that said what a bullet already said: that bullet got their sources."""
    changed: tuple[str, ...] = ()
    """Ids that were there before and are there now, with anything different."""
    removed: tuple[str, ...] = ()
    merged: dict[str, str] = field(default_factory=dict)
    """Ids that are gone into another bullet, which has their counters and sources."""
    refused: tuple[Refusal, ...] = ()
    evicted: tuple[str, ...] = ()
    unknown_votes: tuple[Vote, ...] = ()
    """Votes on bullets that the book did not hold."""
