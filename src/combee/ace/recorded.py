"""A recorded run as a reflector reads it: cleaned, without secrets, step by step."""

from __future__ import annotations

from combee.redaction import Outcome, Step, Trace, clean, redact

__all__ = ["describe_outcome", "shown_trace"]


def shown_trace(trace: Trace, tokens: int, *, task_only: bool = False) -> str:
    """Return the run (or only its task) in about so many tokens, secrets taken out."""
    cleaned = clean(trace, tokens)
    text = cleaned.task if task_only else "\n".join(_step(step) for step in cleaned.steps)
    return redact(text).text or "(nothing recorded)"


def _step(step: Step) -> str:
    who = step.role if step.agent is None else f"{step.role} ({step.agent})"
    failed = " failed" if step.is_error else ""
    lines = [f"[{step.index}] {who}{failed}: {step.text}".rstrip()]
    lines += [f"    calls {call.name} {call.arguments}" for call in step.tool_calls]
    return "\n".join(lines)


def describe_outcome(outcome: Outcome | None) -> str:
    """Return how a run ended, in words; a success that only the agent states is called a claim."""
    if outcome is None:
        return "not known"
    said = {True: "success", False: "failure", None: "not judged"}[outcome.success]
    parts = [f"{said} (the agent's own claim, not checked)" if outcome.claimed else said]
    if outcome.score is not None:
        parts.append(f"score {outcome.score:g}")
    failed = [name for name, passed in outcome.tests.items() if not passed]
    if outcome.tests:
        parts.append(f"{len(outcome.tests) - len(failed)} of {len(outcome.tests)} tests passed")
    if failed:
        parts.append(f"failed: {', '.join(failed[:20])}")
    if outcome.detail:
        parts.append(outcome.detail)
    return redact("; ".join(parts)).text
