"""The guard's judgement of one step: accept, aggregate again in smaller groups, reject, or accept and alert.

Pure: `judge` maps evidence and the run's state to a verdict, `after` gives the next state. Both are plain data, so the
loop journals the verdict and a resumed run repeats it. Call `judge` after the reduce, and again with trials once the
new book is scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, cast

from combee.errors import DataError
from combee.kernel.guard.checks import Yield, check, yield_of
from combee.kernel.guard.erosion import VotedBullets, unfounded
from combee.kernel.guard.evidence import Evidence, GuardFinding, GuardLimits
from combee.kernel.guard.leaks import LeakIndex, screen
from combee.kernel.guard.regression import Comparison, Spending, Trial, compare
from combee.kernel.playbook import Add, Delta, Operation

Action = Literal["accept", "retry_smaller", "reject", "alert"]
KEEP = 64  # accepted steps remembered


@dataclass(frozen=True, slots=True)
class GuardState:
    """What the guard remembers of a run: yields of accepted steps, oldest first, the error budget, its bullets."""

    usual: tuple[Yield, ...] = ()
    spending: Spending = field(default_factory=Spending)
    standing: VotedBullets = field(default_factory=VotedBullets)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with one step.

    `accept` and `alert` apply `delta`, which holds no refused operation; `alert` also tells somebody. `retry_smaller`
    aggregates the same reflections again with `max_items` a leaf. `reject` keeps the old book; with `rollback` the book
    goes back to the last `stable`. `promote` says that the new book is better than `stable` beyond chance.
    """

    action: Action
    delta: Delta
    findings: tuple[GuardFinding, ...] = ()
    max_items: int | None = None
    rollback: bool = False
    promote: bool = False
    comparisons: tuple[Comparison, ...] = ()
    refused: tuple[tuple[Operation, str], ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """What led to it, in words: the findings that are more than notes."""
        return tuple(finding.message for finding in self.findings if finding.level != "note")

    @property
    def applies(self) -> bool:
        """Whether the delta is to be applied."""
        return self.action in {"accept", "alert"}


@dataclass(frozen=True, slots=True)
class Notified:
    """What became of the user's alert command: `code` is None when it did not start or did not end in time."""

    ok: bool
    code: int | None
    detail: str


def judge(
    evidence: Evidence,
    state: GuardState,
    limits: GuardLimits | None = None,
    *,
    index: LeakIndex | None = None,
    trials: Sequence[Trial] = (),
) -> Verdict:
    """Return the verdict on one reduce.

    Args:
        evidence: what went in and came out.
        state: the run so far.
        limits: what is allowed; the defaults where None.
        index: held-out answers to look for.
        trials: scores of the new book against `old` and, where it is another book, against `stable`.

    Raises:
        UsageError: a trial's rows do not fit each other.
    """
    limits = limits or GuardLimits()
    delta, refused = screen(evidence.delta, index, allow_leaks=limits.allow_leaks, find_secrets=limits.find_secrets)
    findings = [GuardFinding("leaks", "alert", f"one operation was left out: {reason}") for _, reason in refused]
    if limits.keep_voted:
        groundless, eroding = unfounded(evidence)
        left_out = {operation for operation, _ in groundless}
        delta = Delta(tuple(operation for operation in delta if operation not in left_out)) if groundless else delta
        refused, findings = (*refused, *groundless), [*findings, *eroding]
    findings += check(evidence, state.usual, limits)
    comparisons = tuple(
        compare(trial, state.spending.alpha(look), max_missing=limits.max_missing) for look, trial in enumerate(trials)
    )
    findings += map(_finding, comparisons)
    action, max_items = _action(evidence, findings, limits)
    against_stable = [each for each in comparisons if each.against != "old"]
    return Verdict(
        action,
        delta if action in {"accept", "alert"} else Delta(),
        tuple(findings),
        max_items,
        rollback=any(each.worse for each in against_stable),
        promote=action == "accept" and any(each.better for each in against_stable),
        comparisons=comparisons,
        refused=refused,
    )


def _finding(result: Comparison) -> GuardFinding:
    check_name = f"score against {result.against}"
    if not result.comparable:
        return GuardFinding(check_name, "alert", result.explain(), None, None)
    level: Literal["reject", "note"] = "reject" if result.worse else "note"
    message = f"worse than {result.against} beyond chance: {result.explain()}" if result.worse else result.explain()
    return GuardFinding(check_name, level, message, result.new_score, result.old_score)


def _action(evidence: Evidence, findings: Sequence[GuardFinding], limits: GuardLimits) -> tuple[Action, int | None]:
    levels = {finding.level for finding in findings}
    if "reject" in levels:
        return "reject", None
    if "retry" in levels:
        size = min(evidence.max_items or len(evidence.items), len(evidence.items))
        if evidence.attempt < limits.retries and size > 1:
            return "retry_smaller", max(1, size // 2)
        # No smaller group helped. Lessons that are few are still lessons; platitudes and half a text are not, and a
        # collapsed aggregation must not rewrite or remove what the book has.
        empty = any(each.level == "retry" and each.check in {"specificity", "tokens"} for each in findings)
        rewrites = any(not isinstance(operation, Add) for operation in evidence.delta)
        return ("reject" if empty or rewrites else "alert"), None
    return ("alert" if "alert" in levels else "accept"), None


def after(state: GuardState, evidence: Evidence, verdict: Verdict) -> GuardState:
    """Return the state after this verdict: its looks are spent, and an accepted sound step joins the usual."""
    spending = replace(state.spending, looks=state.spending.looks + len(verdict.comparisons))
    sound = verdict.applies and all(finding.level != "retry" for finding in verdict.findings)
    usual = (*state.usual, yield_of(evidence))[-KEEP:] if sound else state.usual
    return replace(state, usual=usual, spending=spending)


def alert_payload(
    verdict: Verdict, evidence: Evidence, *, run: str = "", healed: Sequence[Verdict] = ()
) -> dict[str, object]:
    """Return what an alert says, as JSON data: no lesson, answer or secret is in it.

    `healed` are the verdicts on earlier attempts; where the last one accepts, the verdict reads "healed".
    """
    return {
        "run": run,
        "step": evidence.step,
        "attempt": evidence.attempt,
        "verdict": "healed" if healed and verdict.action == "accept" else verdict.action,
        "reasons": list(dict.fromkeys(reason for one in (*healed, verdict) for reason in one.reasons)),
        "reflections": len(evidence.items),
        "operations": len(evidence.delta),
        "max_items": verdict.max_items,
        "rollback": verdict.rollback,
        "findings": [
            asdict(finding) for one in (*healed, verdict) for finding in one.findings if finding.level != "note"
        ],
    }


def to_json(state: GuardState) -> dict[str, object]:
    """Return plain JSON data; `from_json` gives the equal state back."""
    standing = state.standing
    return {
        "usual": [asdict(each) for each in state.usual],
        "spending": asdict(state.spending),
        "standing": {
            "proven": {name: list(kept) for name, kept in standing.proven.items()},
            "lost": dict(standing.lost),
            "pruned": standing.pruned,
            "most": standing.most,
        },
    }


def from_json(data: Mapping[str, object]) -> GuardState:
    """Return the state that `to_json` wrote.

    Raises:
        DataError: the data is not a guard state.
    """
    try:
        usual = tuple(Yield(**each) for each in cast("list[dict[str, int]]", data["usual"]))
        standing = VotedBullets(**cast("dict[str, int]", data.get("standing", {})))  # type: ignore[arg-type]  # JSON of ours
        proven = {name: (str(text), int(votes)) for name, (text, votes) in standing.proven.items()}
        spending = Spending(**cast("dict[str, int]", data["spending"]))
        return GuardState(usual, spending, replace(standing, proven=proven))
    except (KeyError, TypeError) as error:
        raise DataError(f"this is not the state of a guard: {error}") from error
