"""How a run ended, from what the formats say: a score, a verdict of tests, or only the agent's own word."""

from __future__ import annotations

from collections.abc import Mapping

from combee.redaction import Outcome
from combee.traces.readers.values import flag, number, table, text

__all__ = ["claim", "failure_detail", "graded", "recorded", "scored", "submitted"]

_DETAIL = 4000


def scored(score: float | None, *, tests: Mapping[str, bool] | None = None, detail: str = "") -> Outcome:
    """Return the outcome of a score from outside: 1 or more is success, 0 or less is not, between is left open."""
    success = None if score is None or 0 < score < 1 else score >= 1
    return Outcome(success=success, score=score, tests=dict(tests or {}), detail=detail[:_DETAIL])


def graded(scores: Mapping[str, float], chosen: str, detail: str) -> Outcome:
    """Return the outcome of several scores: the chosen one counts, and each that is 0 or 1 is a test."""
    tests = {name: score >= 1 for name, score in scores.items() if score in {0.0, 1.0}} if len(scores) > 1 else {}
    return scored(scores[chosen], tests=tests, detail=detail)


def claim(success: bool | None, detail: str = "") -> Outcome:
    """Return an outcome that only the agent states."""
    return Outcome(success=success, claimed=success is not None, detail=detail[:_DETAIL])


def submitted(status: str) -> Outcome | None:
    """Return the outcome of an exit status: that the agent handed something in is its own claim of success."""
    if not status:
        return None
    return claim(True, status) if status.lower() == "submitted" else Outcome(detail=status)


def failure_detail(value: object) -> str:
    """Return what an error field says: a text, or the message (and type) of an object."""
    if isinstance(value, str):
        return value[:_DETAIL]
    error = table(value)
    kind = text(error.get("type")) or text(error.get("exception_type")) or text(error.get("error_class"))
    said = text(error.get("message")) or text(error.get("exception_message")) or text(error.get("error"))
    return ": ".join(part for part in (kind, said) if part)[:_DETAIL]


def recorded(value: Mapping[str, object]) -> Outcome | None:
    """Return the outcome at the top of a loose record: `resolved`, `reward` or `score`; `success` is a claim."""
    resolved = flag(value.get("resolved"))
    if resolved is None:
        resolved = flag(value.get("is_resolved"))
    for key in ("reward", "score"):
        score = number(value.get(key))
        if score is not None:
            outcome = scored(score)
            return outcome if resolved is None else Outcome(success=resolved, score=score)
    if resolved is not None:
        return Outcome(success=resolved)
    claimed = flag(value.get("success"))
    return None if claimed is None else claim(claimed)
