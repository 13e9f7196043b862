"""Reflections of one minibatch become one update of the book, judged before it counts.

When the guard asks for smaller groups the same reflections are aggregated again: no rollout is paid twice. When not one
group could be read, the reflections wait for the next step.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from combee.errors import NothingReadError, RunError
from combee.kernel.aggregate import (
    ONE_CALL,
    Absent,
    Method,
    Paper,
    Plan,
    Scan,
    aggregate,
    input_room,
    output_limit,
    plan,
    scan_stream,
)
from combee.kernel.guard import Evidence, Verdict
from combee.kernel.journal import Scope
from combee.kernel.learn.collect import Collected
from combee.kernel.learn.config import LearnConfig
from combee.kernel.learn.events import Event, ReduceFailed
from combee.kernel.learn.judge import Judge, guard_event
from combee.kernel.learn.roles import Curator, Reflection
from combee.kernel.playbook import Applied, Delta, Playbook, Revision, revise, tokens
from combee.kernel.runner import Runner


@dataclass(frozen=True, slots=True)
class Reduced:
    """What one step did to the book and how it came about.

    `revision` was applied to `base`; `scans` has one entry an attempt; `carried` are reflections that wait for the next
    step.
    """

    base: Playbook
    revision: Revision
    applied: Applied
    scans: tuple[Scan[Delta], ...] = ()
    verdict: Verdict | None = None
    carried: tuple[Reflection, ...] = ()

    @property
    def book(self) -> Playbook:
        """The book after the step."""
        return self.applied.playbook


@dataclass(frozen=True, slots=True)
class _Work:
    """The input of one step: the book, the reflections to aggregate, and the revision that has no operations yet."""

    book: Playbook
    items: tuple[Reflection, ...]
    votes_only: Revision
    scope: Scope

    def revised(self, base: Playbook, delta: Delta) -> Reduced:
        """Return what this step does to a book with these operations."""
        revision = replace(self.votes_only, delta=delta)
        return Reduced(base, revision, revise(base, revision))


@dataclass(slots=True)
class Reducer:
    """Aggregates, judges and applies under the settings of one run."""

    curator: Curator
    config: LearnConfig
    judge: Judge
    runner: Runner
    run: str = ""
    failures: int = field(default=0, init=False)
    """Steps in a row whose aggregation failed as a whole."""

    @property
    def leafwise(self) -> bool:
        """Whether calls are capped by leaves, whatever the minibatch."""
        return self.config.aggregate == "combee"

    async def read_early(
        self,
        source: AsyncIterator[Reflection | Absent],
        names: Sequence[str],
        book: Playbook,
        scope: Scope,
        *,
        quorum: float,
    ) -> Scan[Delta] | NothingReadError | None:
        """Start leaves as the reflections of their blocks come in; None where none can come.

        Args:
            source: Reflections, or `Absent` for a name that will not come.
            names: All that may come.
            book: The book that the step starts from.
            scope: The step's place in the journal.
            quorum: Share of the names to wait for.
        """
        if not names:
            return None
        method = self.curator.method(book, scope)
        try:
            return await scan_stream(
                source,
                names,
                method,
                self._shape(len(names), self._leaf_size(), None, method),
                scope=scope,
                runner=self.runner,
                seed=self.config.seed,
                quorum=quorum,
                limit=self.config.concurrency,
            )
        except NothingReadError as error:
            return error

    async def reduce(
        self,
        collected: Collected[Any],
        book: Playbook,
        first: Scan[Delta] | NothingReadError | None,
        *,
        scope: Scope,
        step: int,
    ) -> AsyncGenerator[Event | Reduced, None]:
        """Yield what happens on the way and, last, the book after the lessons and votes of this step.

        Where nothing could be read the reflections are kept, or the run ends after too many such steps.

        Raises:
            RunError: The aggregation failed in too many steps in a row.
        """
        config = self.config
        votes_only = Revision(
            Delta(), collected.votes, collected.used, step, config.token_budget, config.near, config.on_full
        )
        work = _Work(book, collected.to_aggregate, votes_only, scope)
        if not work.items:
            yield work.revised(book, Delta())
            return
        for again in count():
            try:
                if isinstance(first, NothingReadError):
                    raise first
                async with aclosing(self._judged(work, first)) as attempts:
                    async for outcome in attempts:
                        yield outcome
            except NothingReadError as error:
                gave_up = f"gave up/{again}"
                # A run that is resumed after it gave up tries this step anew, at a place that no failure is noted for.
                if self.failures + 1 < self.config.give_up_after or work.scope.peek(gave_up) is None:
                    self.failures += 1
                    yield ReduceFailed(step, len(work.items), self.failures, error.message)
                    if self.failures < self.config.give_up_after:
                        yield replace(work.revised(book, Delta()), carried=work.items)
                        return
                    work.scope.decide(gave_up, error.message)
                    raise RunError(
                        f"the aggregation failed in {self.failures} steps in a row: {error.message}",
                        hint="Nothing that was paid is lost: mend the cause, then go on with `combee resume`.",
                    ) from error
                first, work = None, replace(work, scope=work.scope.sub(f"again{again}"))
            else:
                self.failures = 0
                return

    async def _judged(self, work: _Work, first: Scan[Delta] | None) -> AsyncGenerator[Event | Reduced, None]:
        """Aggregate, apply and judge; once more in smaller groups as long as the guard asks for it."""
        scans: list[Scan[Delta]] = []
        healed: list[Verdict] = []
        size = self._leaf_size() if self.leafwise else self.config.max_items
        while True:
            inner = work.scope if not scans else work.scope.sub(f"retry{len(scans)}")
            if first is None or scans:
                scans.append(await self._scan(work, inner, size, retry=bool(scans)))
            else:
                scans.append(first)
            reduced = work.revised(work.book, scans[-1].delta)
            evidence = self._evidence(work, scans, size, reduced.book)
            verdict = self.judge.on_evidence(evidence)
            if verdict.delta != evidence.delta:
                reduced = work.revised(work.book, verdict.delta)
            if verdict.applies:
                verdict = self.judge.on_book(verdict, reduced.book)
            if verdict.applies and self.judge.scores:
                verdict = await self.judge.on_scores(evidence, reduced.book, work.book, inner)
            if verdict.applies:
                verdict = self.judge.on_loss(evidence, verdict, reduced.book)
            yield guard_event(evidence.step, evidence, verdict)
            if verdict.action != "retry_smaller" or verdict.max_items is None:
                break
            size = verdict.max_items
            healed.append(verdict)
        alerted = await self.judge.alert(verdict, evidence, work.scope, self.run, healed=healed)
        if alerted is not None:
            yield alerted
        self.judge.remember(evidence, verdict, reduced.book, leafwise=self.leafwise)
        if not verdict.applies:
            # Votes are facts about the old bullets: they stand even when the new lessons do not.
            reduced = work.revised(self.judge.stable if verdict.rollback else work.book, Delta())
        yield replace(reduced, scans=tuple(scans), verdict=verdict)

    def _evidence(self, work: _Work, scans: Sequence[Scan[Delta]], size: int, after: Playbook) -> Evidence:
        one_call = self.config.aggregate in ONE_CALL and len(scans) == 1
        return Evidence(
            step=work.votes_only.step,
            items={item.id: item.text for item in work.items},
            delta=scans[-1].delta,
            covered=scans[-1].covered,
            max_items=len(work.items) if one_call else min(size, len(work.items)),
            attempt=len(scans) - 1,
            tokens=tokens(after),
            tokens_before=tokens(work.book),
            token_budget=self.config.token_budget,
            window=scans[-1].window,
            before=work.book,
            votes=work.votes_only.votes,
        )

    def _leaf_size(self) -> int:
        ceiling = self.judge.ceiling
        return self.config.max_items if ceiling is None else min(ceiling, self.config.max_items)

    def _shape(self, n: int, size: int, weights: list[int] | None, method: Method[Reflection, Delta]) -> Plan:
        config = self.config
        made = plan(
            n,
            weights=weights,
            copies=config.copies,
            max_items=size,
            max_tokens=min(filter(None, (config.max_tokens, input_room(method))), default=None),
            max_output=output_limit(method),
            second_chances=config.second_chances,
            combine_calls_model=method.combine_calls_model,
        )
        return made if config.shuffle_groups else replace(made, paper=Paper(shuffle=False))

    async def _scan(self, work: _Work, scope: Scope, size: int, *, retry: bool) -> Scan[Delta]:
        method = self.curator.method(work.book, scope)
        capped = self.config.max_tokens is not None or input_room(method) is not None
        weights = [method.weight(item) for item in work.items] if capped else None
        return await aggregate(
            work.items,
            method,
            how="combee" if retry else self.config.aggregate,
            scope=scope,
            runner=self.runner,
            seed=self.config.seed,
            shape=self._shape(len(work.items), size, weights, method),
            paper=Paper(group_size=self.config.group_size, shuffle=self.config.shuffle_groups),
            copies=self.config.copies,
        )
