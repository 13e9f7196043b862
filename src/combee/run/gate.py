"""The gate of a release or a CI job: one run's figures against a baseline's, pass or fail, with reasons.

It fails closed: what cannot be compared does not pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from combee.errors import UsageError
from combee.kernel.guard import Rows, Trial, compare


@dataclass(frozen=True, slots=True)
class Metrics:
    """What is known of one run or label. None where it was not measured.

    `rows` are the scores per question (best: they allow a paired test), `score` a share for where only that is known,
    `errors` questions that ended in an error, `coverage` the verified share, `violations` bullets that a check refuses
    (leaks, secrets, isolation).
    """

    rows: Rows = field(default_factory=dict)
    score: float | None = None
    errors: int = 0
    coverage: float | None = None
    entries: int | None = None
    tokens: int | None = None
    violations: int = 0

    @property
    def accuracy(self) -> float | None:
        """The score over all parts of `rows`, or the given one."""
        parts = sum(total for _, total in self.rows.values())
        return sum(hits for hits, _ in self.rows.values()) / parts if parts else self.score


@dataclass(frozen=True, slots=True)
class GateLimits:
    """What a run may lose against its baseline and still pass."""

    alpha: float = 0.05
    """One-sided level of the paired test; a gate is one look."""
    max_drop: float = 0.05
    """Largest drop of the score, as a share, even where the test calls it chance."""
    max_coverage_drop: float = 0.2
    max_missing: float = 0.1
    token_budget: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1 or not self.max_drop >= 0 or not self.max_coverage_drop >= 0:
            raise UsageError(f"these limits cannot be held: {self}", hint="alpha in (0, 1), drops not negative.")


@dataclass(frozen=True, slots=True)
class Gate:
    """Pass or fail; `reasons` say why it failed, `notes` what else was seen."""

    passed: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()


def gate(run: Metrics, baseline: Metrics, limits: GateLimits | None = None) -> Gate:
    """Compare a run with a baseline.

    Raises:
        UsageError: rows of the two sides are not scores of the same questions in the same parts.
    """
    limits = limits or GateLimits()
    reasons, notes = _score(run, baseline, limits)
    total = len(run.rows) + run.errors
    if run.errors and (not run.rows or run.errors > limits.max_missing * total):
        reasons.append(f"{run.errors} of {total} questions ended in an error: the score does not stand for the run")
    if run.violations:
        reasons.append(f"{run.violations} bullets hold a leak, a secret or a source that is not allowed")
    if run.coverage is not None and baseline.coverage is not None:
        lost = baseline.coverage - run.coverage
        if not lost <= limits.max_coverage_drop:
            reasons.append(f"verified coverage fell from {baseline.coverage:.0%} to {run.coverage:.0%}")
    if limits.token_budget is not None and run.tokens is not None and run.tokens > limits.token_budget:
        reasons.append(f"the book has {run.tokens} tokens, over the budget of {limits.token_budget}")
    if run.entries == 0 and baseline.entries:
        reasons.append(f"the book is empty; the baseline has {baseline.entries} bullets")
    return Gate(not reasons, tuple(reasons), tuple(notes))


def _score(run: Metrics, baseline: Metrics, limits: GateLimits) -> tuple[list[str], list[str]]:
    reasons: list[str] = []
    notes: list[str] = []
    new, old = run.accuracy, baseline.accuracy
    if new is None or old is None or not (math.isfinite(new) and math.isfinite(old)):
        side = "run" if new is None or not math.isfinite(new) else "baseline"
        return [f"the {side} has no score, so there is nothing to compare"], notes
    if run.rows and baseline.rows:
        result = compare(Trial("the baseline", run.rows, baseline.rows), limits.alpha, max_missing=limits.max_missing)
        notes.append(result.explain())
        if not result.comparable:
            return [f"{result.missing} questions have no score on both sides, so the runs cannot be compared"], notes
        new, old = result.new_score, result.old_score
        if result.worse:
            reasons.append(f"the score fell from {old:.3f} to {new:.3f}, beyond chance (p = {result.p_worse:.2g})")
            return reasons, notes
    else:
        notes.append("no scores per question on both sides: chance cannot be told from loss")
    if old - new > limits.max_drop + 1e-12:
        reasons.append(f"the score fell from {old:.3f} to {new:.3f}, more than the {limits.max_drop:.3f} allowed")
    return reasons, notes
