"""Reflections of one minibatch become one update of the book, judged before it counts.

When the guard asks for smaller groups the same reflections are aggregated again: no rollout is paid twice. When not one
group could be read, the reflections wait for the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import count

from combee.errors import NothingReadError, RunError
from combee.kernel.aggregate import Method, Plan, Scan, aggregate, plan, scan_stream
from combee.kernel.guard import Evidence, Verdict
from combee.kernel.journal import Scope
from combee.kernel.learn.config import LearnConfig
from combee.kernel.learn.events import Event, ReduceFailed
from combee.kernel.learn.incoming import Incoming, after_all, kept
from combee.kernel.learn.judge import Judge, spoken
from combee.kernel.learn.roles import Curator, Reflection
from combee.kernel.playbook import Applied, Delta, Playbook, Vote, apply, tokens
from combee.kernel.runner import Runner

__all__ = ["ONE_CALL", "Reduced", "Reducer"]

ONE_CALL = frozenset({"naive", "naive_long", "top_k", "summarize"})
"""Ways to aggregate in which one call answers for the whole minibatch."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The book after one step and how it came about.

    `base` is the book that `delta`, `votes` and `used` were applied to; `scans` has one entry an attempt; `carried`
    are reflections that wait for the next step.
    """

    book: Playbook
    applied: Applied
    base: Playbook
    delta: Delta
    votes: tuple[Vote, ...] = ()
    used: tuple[str, ...] = ()
    scans: tuple[Scan[Delta], ...] = ()
    verdict: Verdict | None = None
    carried: tuple[Reflection, ...] = ()


@dataclass(frozen=True, slots=True)
class _Work:
    """The input of one step, once it is in."""

    book: Playbook
    items: tuple[Reflection, ...]
    votes: tuple[Vote, ...]
    used: tuple[str, ...]
    step: int
    scope: Scope


@dataclass(slots=True)
class Reducer:
    """Aggregates, judges and applies under the settings of one run."""

    curator: Curator
    config: LearnConfig
    judge: Judge
    runner: Runner
    observe: Callable[[Event], None]
    run: str = ""
    failures: int = field(default=0, init=False)
    """Steps in a row whose aggregation failed as a whole."""

    @property
    def leafwise(self) -> bool:
        """Whether calls are capped by leaves, whatever the minibatch."""
        return self.config.aggregate == "combee"

    async def __call__(self, incoming: Incoming, book: Playbook, *, scope: Scope, step: int) -> Reduced:
        """Return the book after the lessons and votes of these reflections."""
        items: dict[str, Reflection] = {}
        first: Scan[Delta] | NothingReadError | None = None
        if self.leafwise:
            try:
                first = await self._stream(incoming, items, book, scope)
            except NothingReadError as error:
                first = error
        else:
            async for _ in kept(incoming, items, self.judge.labels):
                pass
        votes, used = incoming.facts()
        work = _Work(book, tuple(items[name] for name in sorted(items)), votes, used, step, scope)
        if not work.items:
            return self._votes_only(work, book)
        return await self._until_read(work, first)

    async def _stream(
        self, incoming: Incoming, items: dict[str, Reflection], book: Playbook, scope: Scope
    ) -> Scan[Delta] | None:
        """Read leaves as their reflections come; None where no reflection came."""
        names = [*(item.id for item in incoming.carried), *incoming.names]
        if not names:
            return None
        method = self.curator.method(book, scope)
        shape = self._shape(len(names), self._leaf_size(), None, method)
        try:
            async with aclosing(kept(incoming, items, self.judge.labels)) as source:
                return await scan_stream(
                    source if self.config.pipeline else after_all(source),
                    names,
                    method,
                    shape,
                    scope=scope,
                    runner=self.runner,
                    seed=self.config.seed,
                    quorum=incoming.quorum if self.config.pipeline else 1.0,
                    limit=self.config.concurrency,
                )
        except NothingReadError:
            if items:
                raise
            return None

    async def _until_read(self, work: _Work, first: Scan[Delta] | NothingReadError | None) -> Reduced:
        """Judge the step; where nothing could be read keep the reflections, or give up after too many such steps."""
        for again in count():
            try:
                if isinstance(first, NothingReadError):
                    raise first
                reduced = await self._judged(work, first)
            except NothingReadError as error:
                if self.failures + 1 < self.config.give_up_after:
                    return self._kept_for_later(work, error)
                # A run that is resumed after it gave up tries this step anew, at a place that no failure is noted for.
                if work.scope.peek(f"gave up/{again}") is None:
                    self._kept_for_later(work, error)
                    work.scope.decide(f"gave up/{again}", error.message)
                    raise RunError(
                        f"the aggregation failed in {self.failures} steps in a row: {error.message}",
                        hint="Nothing that was paid is lost: mend the cause, then go on with `combee resume`.",
                    ) from error
                first, work = None, replace(work, scope=work.scope.sub(f"again{again}"))
            else:
                self.failures = 0
                return reduced
        raise AssertionError("count() does not end")

    def _kept_for_later(self, work: _Work, error: NothingReadError) -> Reduced:
        self.failures += 1
        self.observe(ReduceFailed(work.step, len(work.items), self.failures, error.message))
        return replace(self._votes_only(work, work.book), carried=work.items)

    async def _judged(self, work: _Work, first: Scan[Delta] | None) -> Reduced:
        scans: list[Scan[Delta]] = []
        size = self._leaf_size() if self.leafwise else self.config.max_items
        while True:
            inner = work.scope if not scans else work.scope.sub(f"retry{len(scans)}")
            found = first if first is not None and not scans else await self._scan(work, inner, size, retry=bool(scans))
            scans.append(found)
            applied = self._apply(work, work.book, scans[-1].delta)
            evidence = self._evidence(work, scans, size, applied.playbook)
            verdict = self.judge.on_evidence(evidence)
            if verdict.delta != evidence.delta:
                applied = self._apply(work, work.book, verdict.delta)
            if verdict.applies:
                verdict = self.judge.on_book(verdict, applied.playbook)
            if verdict.applies and self.judge.scores:
                verdict = await self.judge.on_scores(evidence, applied.playbook, work.book, inner)
            self.observe(spoken(work.step, evidence, verdict))
            if verdict.action != "retry_smaller" or verdict.max_items is None:
                break
            size = verdict.max_items
        told = await self.judge.alert(verdict, evidence, work.scope, self.run)
        if told is not None:
            self.observe(told)
        self.judge.settle(evidence, verdict, applied.playbook, leafwise=self.leafwise)
        if verdict.applies:
            return Reduced(
                applied.playbook,
                applied,
                work.book,
                verdict.delta,
                work.votes,
                work.used,
                scans=tuple(scans),
                verdict=verdict,
            )
        base = self.judge.stable if verdict.rollback else work.book
        return replace(self._votes_only(work, base), scans=tuple(scans), verdict=verdict)

    def _votes_only(self, work: _Work, base: Playbook) -> Reduced:
        """Votes are facts about the old bullets: they stand even when the new lessons do not."""
        applied = self._apply(work, base, Delta())
        return Reduced(applied.playbook, applied, base, Delta(), work.votes, work.used)

    def _evidence(self, work: _Work, scans: Sequence[Scan[Delta]], size: int, after: Playbook) -> Evidence:
        one_call = self.config.aggregate in ONE_CALL and len(scans) == 1
        return Evidence(
            step=work.step,
            items={item.id: item.text for item in work.items},
            delta=scans[-1].delta,
            covered=scans[-1].covered,
            max_items=len(work.items) if one_call else min(size, len(work.items)),
            attempt=len(scans) - 1,
            tokens=tokens(after),
            tokens_before=tokens(work.book),
            token_budget=self.config.token_budget,
        )

    def _leaf_size(self) -> int:
        ceiling = self.judge.ceiling
        return self.config.max_items if ceiling is None else min(ceiling, self.config.max_items)

    def _shape(self, n: int, size: int, weights: list[int] | None, method: Method[Reflection, Delta]) -> Plan:
        config = self.config
        return plan(
            n,
            weights=weights,
            copies=config.copies,
            max_items=size,
            max_tokens=config.max_tokens,
            second_chances=config.second_chances,
            combine_calls_model=method.combine_calls_model,
        )

    async def _scan(self, work: _Work, scope: Scope, size: int, *, retry: bool) -> Scan[Delta]:
        method = self.curator.method(work.book, scope)
        capped = self.config.max_tokens is not None
        weights = [method.weight(item) for item in work.items] if capped else None
        return await aggregate(
            work.items,
            method,
            how="combee" if retry else self.config.aggregate,
            scope=scope,
            runner=self.runner,
            seed=self.config.seed,
            shape=self._shape(len(work.items), size, weights, method),
        )

    def _apply(self, work: _Work, base: Playbook, delta: Delta) -> Applied:
        return apply(
            base,
            delta,
            votes=work.votes,
            used=work.used,
            step=work.step,
            budget=self.config.token_budget,
            near=self.config.near,
            on_full=self.config.on_full,
        )
