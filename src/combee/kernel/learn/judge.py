"""The guard in the loop: who may be learned from, and whether a new version is accepted (design: section 6).

Holds what the guard remembers over a run. All of it follows from journalled results, so a replay judges alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from combee.kernel.guard import (
    Evidence,
    GuardFinding,
    GuardLimits,
    GuardState,
    LeakIndex,
    Notified,
    Policy,
    Rows,
    Trial,
    Verdict,
    after,
    alert_payload,
    check_book,
    follow,
    from_json,
    isolate,
    judge,
    screen,
    to_json,
    why_refused,
)
from combee.kernel.journal import JSON, Scope
from combee.kernel.journal.scope import BoundScope
from combee.kernel.learn.events import Alerted, GuardJudged
from combee.kernel.learn.sampling import Evaluation
from combee.kernel.playbook import Delta, Playbook, digest
from combee.kernel.playbook import from_json as book_from_json
from combee.kernel.playbook import to_json as book_to_json

Validate = Callable[[Playbook, Scope], Awaitable[Evaluation]]
AlertCommand = Callable[[Mapping[str, object]], Notified]

_LOG = logging.getLogger("combee")
WHOLE = 100  # parts of a row, where answers to one task are scored in different numbers of parts
CALM = 8  # sound steps after which a lowered ceiling doubles


@dataclass
class Judge:
    """Decides for one run. Without `validate` no scores are compared; not `enabled`, it refuses secrets only."""

    enabled: bool = True
    watch: bool = False
    """Tell what is seen, but change nothing: no retry, no refusal but of secrets."""
    policy: Policy = field(default_factory=Policy)
    limits: GuardLimits = field(default_factory=GuardLimits)
    held_out: LeakIndex | None = None
    validate: Validate | None = None
    alert_command: AlertCommand | None = None
    """Runs the user's alert command; blocking."""
    stable: Playbook = field(default_factory=Playbook)
    """The last version that was better beyond chance; a drop against it rolls the book back."""
    state: GuardState = field(default_factory=GuardState)
    ceiling: int | None = None
    """The most reflections in a call (in a minibatch, where one call reads it whole) after a retry; None: no limit."""
    labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels by reflection."""
    scored: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """Where in the journal the scores of each version lie: epoch, step, path."""
    scope_at: Callable[[int, int, str], Scope] | None = None
    """Returns such a place, in a run that goes on from a snapshot."""
    _trusted: frozenset[str] = frozenset()
    _alarm: int = 0
    _calm: int = 0
    _rows: dict[str, Rows] = field(default_factory=dict)

    def begin(self, book: Playbook) -> None:
        """Take the book that the run starts from as stable; whoever chose it answers for what is in it."""
        self.stable = book
        tenant = min(self.policy.tenants or {""})
        own = {"tenant": tenant, "clearance": self.policy.clearance or ""}
        self.labels.update((source, own) for bullet in book for source in bullet.sources)
        self._trusted = frozenset(bullet.id for bullet in book if not bullet.sources)

    def refusal(self, labels: Mapping[str, str]) -> str | None:
        """Return why a sample with these labels may not be learned from, or None."""
        return why_refused(labels, self.policy) or None

    def on_evidence(self, evidence: Evidence) -> Verdict:
        """Judge an update by what went in and came out; operations with a source that is not allowed are left out."""
        if not self.enabled:
            return self._isolated(self._screened(evidence))
        return self._isolated(self._judged(evidence))

    def on_book(self, verdict: Verdict, new: Playbook) -> Verdict:
        """Refuse a book in which a bullet rests on a source that is not allowed, however it came there."""
        violations = check_book(new, self.labels, self.policy, trusted=self._trusted)
        if not violations:
            return verdict
        named = "; ".join(f"{bullet}: {reason}" for bullet, reason in list(violations.items())[:5])
        finding = GuardFinding("isolation", "reject", f"{len(violations)} bullets may not be in this book: {named}")
        return replace(
            verdict,
            action="reject",
            delta=Delta(),
            findings=(*verdict.findings, finding),
            max_items=None,
            promote=False,
        )

    def on_loss(self, evidence: Evidence, verdict: Verdict, new: Playbook) -> Verdict:
        """Follow what the run's bullets come to in a book that is accepted; tell where too much of them is gone."""
        if not self.enabled:
            return verdict
        standing, findings = follow(self.state.standing, evidence, verdict.delta, new, self.limits)
        self.state = replace(self.state, standing=standing)
        if not findings:
            return verdict
        return replace(verdict, action="alert", findings=(*verdict.findings, *findings))

    @property
    def scores(self) -> bool:
        """Whether updates are judged by validation scores too."""
        return self.enabled and self.validate is not None

    async def on_scores(self, evidence: Evidence, new: Playbook, old: Playbook, scope: Scope) -> Verdict:
        """Judge an update again, with the scores of the new book against the old one and the last stable one."""
        rows = await self._score(new, scope)
        before = await self._score(old, scope)
        if digest(self.stable) == digest(old):
            trials = [paired("stable", rows, before)]  # one book: one look, and its name is the one that can promote
        else:
            trials = [paired("old", rows, before), paired("stable", rows, await self._score(self.stable, scope))]
        return self._isolated(self._judged(evidence, trials))

    def remember(self, evidence: Evidence, verdict: Verdict, new: Playbook, *, leafwise: bool) -> None:
        """Remember a final verdict; `leafwise` when calls are capped by leaves, so that the minibatch need not be."""
        self.state = after(self.state, evidence, verdict)
        if verdict.promote:
            self.stable = new
        n = len(evidence.items)
        if evidence.attempt:
            size = evidence.max_items or n
            self.ceiling = size if leafwise else max(1, n >> evidence.attempt)
            self._alarm, self._calm = self.ceiling << evidence.attempt, 0
            return
        self._calm += 1
        if self.ceiling is not None and self._calm >= CALM:
            self.ceiling, self._calm = self.ceiling * 2, 0
            if self.ceiling > self._alarm:
                self.ceiling = None

    def get_state(self) -> dict[str, JSON]:
        """Return as JSON what earlier verdicts left: the history, the error budget, the ceiling, the stable book.

        Labels and validation scores are not in it: they come with the run again.
        """
        return {
            "guard": cast("JSON", to_json(self.state)),
            "ceiling": self.ceiling,
            "alarm": self._alarm,
            "calm": self._calm,
            "stable": book_to_json(self.stable),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `get_state` returned.

        Raises:
            DataError: It is not the state of a guard.
        """
        self.state, self.stable = from_json(state["guard"]), book_from_json(state["stable"])
        self.ceiling, self._alarm, self._calm = state["ceiling"], state["alarm"], state["calm"]

    async def alert(
        self, verdict: Verdict, evidence: Evidence, scope: Scope, run: str, *, healed: Sequence[Verdict] = ()
    ) -> Alerted | None:
        """Log a verdict that somebody should know of, and run the user's command for it, once in the life of a run.

        Args:
            verdict: The final one.
            evidence: What it is of.
            scope: The step's place in the journal.
            run: Its name.
            healed: The verdicts on earlier attempts at the step: a loss that a retry has mended is told too.
        """
        if verdict.action not in {"alert", "reject"} and not verdict.rollback and not healed:
            return None
        answer = cast("dict[str, JSON] | None", scope.peek("alerted"))
        if answer is None:
            action = "healed" if healed and verdict.action == "accept" else verdict.action
            events = [guard_event(evidence.step, evidence, one) for one in (*healed, verdict)]
            reasons = "; ".join(dict.fromkeys(reason for event in events for reason in event.reasons))
            _LOG.warning("guard, step %d: %s: %s", evidence.step, action, reasons)
            answer = {"ok": True, "detail": "", "ran": False}
            if self.alert_command is not None:
                payload = alert_payload(verdict, evidence, run=run, healed=healed)
                ended = await asyncio.to_thread(self.alert_command, payload)
                answer = {"ok": ended.ok, "detail": ended.detail, "ran": True}
            scope.decide("alerted", answer)
        return Alerted(evidence.step, bool(answer["ok"]), str(answer["detail"])) if answer["ran"] else None

    def _judged(self, evidence: Evidence, trials: Sequence[Trial] = ()) -> Verdict:
        if not self.watch:
            return judge(evidence, self.state, self.limits, index=self.held_out, trials=trials)
        seen, raw = judge(evidence, self.state, self.limits, trials=trials), self._screened(evidence)
        action = raw.action if seen.action == "accept" else "alert"
        return replace(seen, action=action, delta=raw.delta, refused=raw.refused, max_items=None, rollback=False)

    def _screened(self, evidence: Evidence) -> Verdict:
        kept, refused = screen(evidence.delta, None, find_secrets=self.limits.find_secrets)
        return Verdict("accept", kept, refused=refused)

    def _isolated(self, verdict: Verdict) -> Verdict:
        delta, refused = isolate(verdict.delta, self.labels, self.policy)
        return replace(verdict, delta=delta, refused=(*verdict.refused, *refused)) if refused else verdict

    async def _score(self, book: Playbook, scope: Scope) -> Rows:
        name = digest(book)
        if name not in self._rows and self.validate is not None:
            at = scope.sub("guard")
            if name in self.scored and self.scope_at is not None:
                at = self.scope_at(*self.scored[name])
            elif isinstance(at, BoundScope):
                self.scored[name] = (at.place.epoch, at.place.step, at.place.path)
            scores = (await self.validate(book, at)).scores
            self._rows[name] = {task: (score.hits, max(1, score.total)) for task, score in scores.items()}
        return self._rows[name]


def paired(against: str, new: Rows, old: Rows) -> Trial:
    """Return two books' rows as one comparison.

    Where a row has another number of parts on the two sides (a rubric may find as many as an answer has), hits are no
    measure: all rows count alike then, in hundredths.
    """
    if any(new[name][1] != old[name][1] for name in new.keys() & old.keys()):
        new, old = (
            {name: (round(WHOLE * hits / parts), WHOLE) for name, (hits, parts) in rows.items()} for rows in (new, old)
        )
    return Trial(against, new, old)


def guard_event(step: int, evidence: Evidence, verdict: Verdict) -> GuardJudged:
    """Return a verdict as an event. Refused operations make one line a kind of reason, whatever their number."""
    reasons = [finding.message for finding in verdict.findings if finding.level != "note" and finding.check != "leaks"]
    left_out = list(_grouped(reason for _, reason in verdict.refused))
    notes = [finding.message for finding in verdict.findings if finding.level == "note"]
    return GuardJudged(
        step=step,
        verdict=verdict.action,
        reasons=(*left_out, *reasons),
        attempt=evidence.attempt,
        notes=tuple(notes),
        max_items=verdict.max_items,
        rollback=verdict.rollback,
        promote=verdict.promote,
    )


def _grouped(reasons: Iterable[str]) -> Iterable[str]:
    """Say equal kinds of reasons once, with their number and the first example."""
    first: dict[str, str] = {}
    count: Counter[str] = Counter()
    for reason in reasons:
        kind = reason.split(" of ")[0].split(" (")[0]
        first.setdefault(kind, reason)
        count[kind] += 1
    for kind, number in count.items():
        if number == 1:
            yield f"one operation was left out: {first[kind]}"
        else:
            yield f"{number} operations were left out: {first[kind]}, and {number - 1} more like it"
