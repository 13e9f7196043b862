"""Reflections of one minibatch become one update of the book, judged before it counts.

When the guard asks for smaller groups the same reflections are aggregated again: no rollout is paid twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from combee.aggregate import Scan, aggregate, plan
from combee.guard import Evidence, Verdict
from combee.journal import Scope
from combee.learn.config import LearnConfig
from combee.learn.events import Event, GuardSpoke
from combee.learn.judge import Judge
from combee.learn.roles import Curator, Reflection
from combee.playbook import Applied, Delta, Playbook, Vote, apply
from combee.runner import Runner

__all__ = ["Reduced", "Reducer"]

ONE_CALL = frozenset({"naive", "naive_long", "top_k", "summarize"})


@dataclass(frozen=True, slots=True)
class Reduced:
    """The book after one step and how it came about. `delta` is what was applied; `scans` has one entry an attempt."""

    book: Playbook
    applied: Applied
    delta: Delta
    votes: tuple[Vote, ...] = ()
    used: tuple[str, ...] = ()
    scans: tuple[Scan[Delta], ...] = ()
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class _Input:
    """What one step has to fold into `book`."""

    book: Playbook
    items: tuple[Reflection, ...]
    votes: tuple[Vote, ...]
    used: tuple[str, ...]
    step: int


@dataclass(frozen=True, slots=True)
class Reducer:
    """Aggregates, judges and applies under the settings of one run."""

    curator: Curator
    config: LearnConfig
    judge: Judge
    runner: Runner
    observe: Callable[[Event], None]

    async def __call__(
        self, reflections: Sequence[Reflection], used: frozenset[str], book: Playbook, *, scope: Scope, step: int
    ) -> Reduced:
        """Return the book after the lessons and votes of these reflections."""
        work = _Input(
            book=book,
            items=tuple(reflection for reflection in reflections if reflection.lessons),
            votes=tuple(sorted({vote for reflection in reflections for vote in reflection.votes})),
            used=tuple(sorted(used)),
            step=step,
        )
        if not work.items:
            return self._votes_only(work, book)
        scans: list[Scan[Delta]] = []
        size = self.config.max_items
        while True:
            inner = scope if not scans else scope.sub(f"retry{len(scans)}")
            scans.append(await self._scan(work, inner, size=size, how="combee" if scans else self.config.aggregate))
            evidence = self._evidence(work, scans, size)
            verdict = self.judge.on_evidence(evidence)
            applied = self._apply(work, book, verdict.delta)
            if verdict.applies:
                verdict = await self.judge.on_scores(evidence, applied.playbook, book, inner)
            self.observe(GuardSpoke(step, verdict.action, verdict.reasons))
            if verdict.action != "retry_smaller" or verdict.max_items is None:
                break
            size = verdict.max_items
        self.judge.settle(evidence, verdict, applied.playbook)
        if verdict.applies:
            return Reduced(
                applied.playbook, applied, verdict.delta, work.votes, work.used, scans=tuple(scans), verdict=verdict
            )
        base = self.judge.stable if verdict.rollback else book
        return replace(self._votes_only(work, base), scans=tuple(scans), verdict=verdict)

    def _votes_only(self, work: _Input, base: Playbook) -> Reduced:
        """Votes are facts about the old bullets: they stand even when the new lessons do not."""
        applied = self._apply(work, base, Delta())
        return Reduced(applied.playbook, applied, Delta(), work.votes, work.used)

    def _evidence(self, work: _Input, scans: Sequence[Scan[Delta]], size: int) -> Evidence:
        one_call = self.config.aggregate in ONE_CALL and len(scans) == 1
        return Evidence(
            step=work.step,
            items={item.id: item.text for item in work.items},
            delta=scans[-1].delta,
            covered=scans[-1].covered,
            max_items=len(work.items) if one_call else min(size, len(work.items)),
            attempt=len(scans) - 1,
        )

    async def _scan(self, work: _Input, scope: Scope, *, size: int, how: str) -> Scan[Delta]:
        method = self.curator.method(work.book, scope)
        config = self.config
        shape = plan(
            len(work.items),
            weights=[method.weight(item) for item in work.items] if config.max_tokens is not None else None,
            copies=config.copies,
            max_items=size,
            max_tokens=config.max_tokens,
            second_chances=config.second_chances,
            combine_calls_model=method.combine_calls_model,
        )
        return await aggregate(
            work.items, method, how=how, scope=scope, runner=self.runner, seed=config.seed, shape=shape
        )

    def _apply(self, work: _Input, base: Playbook, delta: Delta) -> Applied:
        return apply(
            base,
            delta,
            votes=work.votes,
            used=work.used,
            step=work.step,
            budget=self.config.token_budget,
            near=self.config.near,
        )
