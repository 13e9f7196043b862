"""The guard at a proposal: what the records teach must be in it, and nothing that may not be.

Operations on a playbook are judged as those of the loop are (`Judge`), and made again in smaller groups.
A rewritten text has no operations to count: it is refused where it loses most of the old one, or quotes what is secret
or held out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from combee.kernel.guard import Evidence, Verdict, screen
from combee.kernel.learn import Alerted, Judge
from combee.kernel.learn.judge import guard_event
from combee.kernel.playbook import Add, Delta, count_tokens

__all__ = ["Judged", "judge_text"]


@dataclass(frozen=True, slots=True)
class Judged:
    """What the guard looked at, and what it said. The last of several is final; `alerted`: the user was told of it."""

    evidence: Evidence
    verdict: Verdict
    alerted: Alerted | None = None

    def as_data(self) -> dict[str, Any]:
        """Return verdict and reasons as plain data; no lesson, answer or secret is in it."""
        said = guard_event(self.evidence.step, self.evidence, self.verdict)
        return {"verdict": said.verdict, "reasons": list(said.reasons), "max_items": said.max_items}


def judge_text(judge: Judge, step: int, old: str, new: str) -> Judged:
    """Judge a rewritten text by its size and by its new lines."""
    evidence = Evidence(step, _NOTHING, Delta(), tokens=count_tokens(new), tokens_before=count_tokens(old))
    verdict = judge.on_evidence(evidence)
    known = set(old.split("\n"))
    fresh = Delta(tuple(Add("", line) for line in new.split("\n") if line.strip() and line not in known))
    limits = judge.limits
    index = judge.held_out if judge.enabled else None
    _, refused = screen(fresh, index, allow_leaks=limits.allow_leaks, find_secrets=limits.find_secrets)
    if refused:
        verdict = replace(verdict, action="reject", refused=refused)
    return Judged(evidence, verdict)


_NOTHING: Mapping[str, str] = {}
