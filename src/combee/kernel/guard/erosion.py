"""Erosion: well-voted bullets are not taken out or rewritten without cause, and what becomes of them over a run.

A curator that adds its lessons and drops a part of the old ones at each step passes every check against the step
before. So an operation on a bullet that has proved itself needs a cause: harmful votes, or another text that says what
the bullet said. What goes in spite of that is added up from the first book of the run on: a guard that only watches
lets it go, and merges may thin a text out. A MERGE that keeps something of each member is no loss, its counters add
up; what the policy for a full book evicts is none either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from combee.kernel.guard.evidence import Evidence, GuardFinding, GuardLimits, Level
from combee.kernel.playbook import (
    Add,
    Bullet,
    Delta,
    Merge,
    Operation,
    Playbook,
    Remove,
    Vote,
    VoteKind,
    distinct_terms,
    says,
    split_terms,
)

HELPFUL = 3  # helpful votes from which a bullet has proved itself, and as many for each harmful one
FEW = 8  # bullets from which a share of a book means something
SERIOUS = 0.1  # share of the helpful votes
SHOWN = 5


@dataclass(frozen=True, slots=True)
class VotedBullets:
    """The bullets that a run began with or earned, as texts and helpful votes by id, and what became of them so far."""

    proven: dict[str, tuple[str, int]] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    """Proven ones that are gone without cause, with their helpful votes."""
    pruned: int = 0
    """Other bullets that were taken out without cause."""
    most: int = 0
    """Most bullets that the book had."""


def is_proven(bullet: Bullet) -> bool:
    """Return whether the votes speak for a bullet."""
    return bullet.helpful >= HELPFUL and bullet.helpful >= HELPFUL * bullet.harmful


def _proven(book: Playbook) -> dict[str, tuple[str, int]]:
    """Return text and helpful votes of the bullets that have proved themselves."""
    if book.kept.proven is None:
        proven = [b for b in book.bullets if b.helpful >= HELPFUL and is_proven(b)]
        book.kept.proven = {b.id: (b.text, b.helpful) for b in proven}
    return book.kept.proven


def _targets(operation: Operation) -> tuple[str, ...]:
    return () if isinstance(operation, Add) else getattr(operation, "ids", None) or (getattr(operation, "id", ""),)


def _groundless(evidence: Evidence) -> list[tuple[Operation, Bullet]]:
    """Return the operations that harm a bullet without a cause, each with that bullet and the votes of this step."""
    before = evidence.before
    if before is None:
        return []
    counts = Counter((vote.bullet, vote.kind) for vote in set(evidence.votes))
    touched = {target for operation in evidence.delta for target in _targets(operation) if target in before}
    staying: list[str] | None = None
    groundless: list[tuple[Operation, Bullet]] = []
    for operation in evidence.delta:
        text = getattr(operation, "text", "")
        for old in filter(None, map(before.get, _targets(operation))):
            good, bad = (counts[old.id, kind] for kind in (VoteKind.HELPFUL, VoteKind.HARMFUL))
            bullet = replace(old, helpful=old.helpful + good, harmful=old.harmful + bad)
            against = {Vote(source, old.id, VoteKind.HARMFUL) for source in operation.sources}
            merged = len(_targets(operation)) > 1 and _touches(text, old.text)
            cause = not against.isdisjoint(evidence.votes) or (bullet.harmful > 0 and not is_proven(bullet))
            if cause or merged or says(text, old.text):
                continue
            if staying is None:
                staying = [each.text for each in before if each.id not in touched]
                staying += [each.text for each in evidence.delta if not isinstance(each, Remove)]
            if not any(says(one, bullet.text) for one in staying):
                groundless.append((operation, bullet))
    return groundless


def _touches(text: str, lesson: str) -> bool:
    """Return whether a text holds anything of what is distinct in a lesson."""
    hard, words = split_terms(lesson)
    return text == lesson or not (hard or words) or not distinct_terms(text).isdisjoint(hard | words)


def _holds(text: str, lesson: str) -> bool:
    """Return whether a text still holds half of the numbers and names of a lesson, and a third of its words."""
    hard, words = split_terms(lesson)
    held = distinct_terms(text)
    return text == lesson or (2 * len(hard & held) >= len(hard) and 3 * len(words & held) >= len(words))


def unfounded(evidence: Evidence) -> tuple[tuple[tuple[Operation, str], ...], tuple[GuardFinding, ...]]:
    """Return the operations that take a well-voted bullet out of the book, or its text from it, without cause.

    Each comes with the reason; the findings say what would be lost: an alert from a tenth of the helpful votes on.
    """
    groundless = [(operation, bullet) for operation, bullet in _groundless(evidence) if is_proven(bullet)]
    if not groundless or evidence.before is None:
        return (), ()
    proven = {name: helpful for name, (_, helpful) in _proven(evidence.before).items()}
    hit = {bullet.id: bullet.helpful for _, bullet in groundless}
    share = sum(hit.values()) / max(1, sum(proven.values()))
    many = f"{len(hit)} of {len(proven)} well-voted bullets"
    message = f"{many} would be taken out or rewritten without cause: {_named(hit)}"
    level: Level = "alert" if share >= SERIOUS else "note"
    reasons: dict[Operation, str] = {}
    for operation, bullet in groundless:
        what = "takes out" if isinstance(operation, Remove) else "rewrites"
        about = f"{bullet.id}, {bullet.helpful} helpful and {bullet.harmful} harmful votes"
        reasons.setdefault(operation, f"it {what} a well-voted bullet ({about}) without cause")
    return tuple(reasons.items()), (GuardFinding("erosion", level, message, share, SERIOUS),)


def follow(
    standing: VotedBullets, evidence: Evidence, delta: Delta, after: Playbook, limits: GuardLimits
) -> tuple[VotedBullets, tuple[GuardFinding, ...]]:
    """Return what a run's bullets have come to after a step, and what is to be told of it.

    Args:
        standing: What was known before.
        evidence: The step, with the book before it.
        delta: What was applied of its operations.
        after: The book after it.
        limits: From which share of losses on somebody is told.
    """
    if evidence.before is None:
        return standing, ()
    known = standing.proven | _proven(evidence.before)
    groundless = {bullet.id: bullet for _, bullet in _groundless(evidence) if bullet.id not in after}
    gone = {name: known[name] for name in known.keys() - after.by_id.keys()}
    merged = {name for operation in delta if isinstance(operation, Merge) for name in operation.ids}
    lost = {
        name: helpful
        for name, (text, helpful) in gone.items()
        if name in groundless or (name in merged and not any(_holds(bullet.text, text) for bullet in after))
    }
    pruned = sum(not is_proven(bullet) for bullet in groundless.values())
    left = {name: one for name, one in known.items() if name not in gone}
    left |= _proven(after)
    most = max(standing.most, len(evidence.before), len(after))
    new = VotedBullets(left, standing.lost | lost, standing.pruned + pruned, most)
    findings = []
    gone_votes = sum(new.lost.values())
    share = gone_votes / max(1, gone_votes + sum(helpful for _, helpful in left.values())) if lost else 0.0
    if lost and share > limits.max_eroded:
        message = f"since the run began {len(new.lost)} well-voted bullets are gone without cause: {_named(new.lost)}"
        findings.append(GuardFinding("erosion", "alert", message, share, limits.max_eroded))
    if pruned and new.pruned > limits.max_pruned * most and most >= FEW:
        message = f"since the run began {new.pruned} bullets were taken out without cause; the most it had were {most}"
        findings.append(GuardFinding("erosion", "alert", message, new.pruned / most, limits.max_pruned))
    return new, tuple(findings)


def _named(votes: dict[str, int]) -> str:
    """Return ids with their helpful votes, the most helpful first; texts stay out of alerts."""
    first: Callable[[str], tuple[int, str]] = lambda name: (-votes[name], name)  # noqa: E731
    names = sorted(votes, key=first)
    shown = ", ".join(f"{name} ({votes[name]} helpful)" for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
