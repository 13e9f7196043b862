"""The guard in the loop: who may be learned from, and whether a new version is accepted (design: section 6).

Holds what the guard remembers over a run. All of it follows from journalled results, so a replay judges alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from combee.guard import (
    Evidence,
    GuardState,
    LeakIndex,
    Limits,
    Policy,
    Rows,
    Trial,
    Verdict,
    admit,
    after,
    judge,
)
from combee.journal import Scope
from combee.learn.evaluate import Evaluation
from combee.playbook import Playbook, digest

__all__ = ["Judge", "Validate"]

Validate = Callable[[Playbook, Scope], Awaitable[Evaluation]]


@dataclass
class Judge:
    """Decides for one run. Without `validate` no scores are compared; not `enabled`, it refuses secrets only."""

    enabled: bool = True
    policy: Policy = field(default_factory=Policy)
    limits: Limits = field(default_factory=Limits)
    held_out: LeakIndex | None = None
    validate: Validate | None = None
    stable: Playbook = field(default_factory=Playbook)
    state: GuardState = field(default_factory=GuardState)
    ceiling: int | None = None
    """The largest minibatch the guard allows after a retry; None when it never had to."""
    _rows: dict[str, Rows] = field(default_factory=dict)

    def refusal(self, labels: Mapping[str, str]) -> str | None:
        """Return why a sample with these labels may not be learned from, or None."""
        answer = admit(labels, self.policy)
        return None if answer.ok else answer.reason

    def on_evidence(self, evidence: Evidence) -> Verdict:
        """Judge an update by what went in and came out."""
        if not self.enabled:
            return self._screened(evidence)
        return judge(evidence, self.state, self.limits, index=self.held_out)

    async def on_scores(self, evidence: Evidence, new: Playbook, old: Playbook, scope: Scope) -> Verdict:
        """Judge an update again, with the scores of the new book against the old one and the last stable one."""
        if self.validate is None:
            return self.on_evidence(evidence)
        rows = await self._score(new, scope)
        trials = [Trial("old", rows, await self._score(old, scope))]
        if digest(self.stable) != digest(old):
            trials.append(Trial("stable", rows, await self._score(self.stable, scope)))
        return judge(evidence, self.state, self.limits, index=self.held_out, trials=trials)

    def settle(self, evidence: Evidence, verdict: Verdict, new: Playbook) -> None:
        """Remember a final verdict."""
        self.state = after(self.state, evidence, verdict)
        self.ceiling = None
        if verdict.promote:
            self.stable = new

    def _screened(self, evidence: Evidence) -> Verdict:
        found = judge(evidence, GuardState(), self.limits, index=None)
        refused = {operation for operation, _ in found.refused}
        kept = tuple(operation for operation in evidence.delta if operation not in refused)
        return Verdict("accept", type(evidence.delta)(kept), refused=found.refused)

    async def _score(self, book: Playbook, scope: Scope) -> Rows:
        name = digest(book)
        if name not in self._rows and self.validate is not None:
            found = await self.validate(book, scope.sub("guard"))
            self._rows[name] = {task: (score.hits, score.total) for task, score in found.scores.items()}
        return self._rows[name]
