"""The learning loop: minibatch after minibatch, each mapped, reduced, judged, and put into the next version.

Offline it walks over all samples `epochs` times. Online is one epoch of the same loop: each score is taken before its
sample is learned from. With the same journal a run takes the same path to the same bytes: what it has is replayed, from
its first step or from a snapshot between two steps (`snapshot`). Events, versions, labels and the tree of each scan go
to the journal and to the observer; an observer that raises is reported once in the log and not called again, so that a
display cannot break a run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import time
from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Generic, TypeVar

from combee.errors import BudgetError, CombeeError, NothingReadError, UsageError
from combee.kernel.aggregate import Scan
from combee.kernel.journal import JSON, Journal, MemoryScope, Scope
from combee.kernel.learn.codec import revision_to_json
from combee.kernel.learn.collect import Collected, MapStoppedError, SamplesInFlight, StepCollector, reflection_name
from combee.kernel.learn.config import RULES, LearnConfig, refuse_another_run
from combee.kernel.learn.events import (
    Event,
    FinishReason,
    Observer,
    RunFinished,
    RunStarted,
    SampleDone,
    SampleRefused,
    StepFinished,
    StepStarted,
    Validated,
)
from combee.kernel.learn.judge import Judge, Validate
from combee.kernel.learn.pacing import Batching, Clock, announcement
from combee.kernel.learn.reduce import Reduced, Reducer
from combee.kernel.learn.roles import Curator
from combee.kernel.learn.sampling import Sample, SampleMap
from combee.kernel.learn.snapshot import Progress, is_due, keep, names_of, restore
from combee.kernel.pace import Choice
from combee.kernel.playbook import Delta, Playbook, digest, to_json, tokens
from combee.kernel.runner import LocalRunner, Runner

S = TypeVar("S", bound=Sample)


@dataclass(frozen=True, slots=True)
class LearnResult:
    """The books and how they came about. `best` is the one with the best complete validation, else the last."""

    best: Playbook
    last: Playbook
    reason: FinishReason
    detail: str
    steps: tuple[StepFinished, ...]
    validations: tuple[Validated, ...]
    unlearned: tuple[str, ...]
    """Samples that could not be worked on after all attempts."""
    choice: Choice | None = None
    """What the measured delays say about the batch size; None where it was fixed."""


async def learn(
    samples: Sequence[S],
    sample_map: SampleMap[S],
    curator: Curator,
    *,
    config: LearnConfig,
    start: Playbook | None = None,
    validate: Validate | None = None,
    judge: Judge | None = None,
    journal: Journal | None = None,
    runner: Runner | None = None,
    observe: Observer | None = None,
) -> LearnResult:
    """Learn from all samples and return the books.

    Raises:
        UsageError: No samples, two with one id, or a journal of a run that began with others or with other settings.
        RunError: Nothing at all could be worked on, or a fault that makes going on pointless; what was learned is kept.
    """
    if not samples:
        raise UsageError("There are no samples to learn from.")
    if len({sample.id for sample in samples}) != len(samples):
        raise UsageError("Two samples have the same id.", hint="Give every row an id of its own.")
    runner = runner if runner is not None else LocalRunner(config.concurrency)
    book = start if start is not None else Playbook()
    judge = judge if judge is not None else Judge(enabled=bool(config.guard), watch=config.guard == "watch")
    parts, secrets = (sample_map, curator), judge.limits.find_secrets
    rules = refuse_another_run(journal, samples, config, parts, book, find_secrets=secrets)
    if rules < RULES:
        judge.limits = replace(judge.limits, keep_voted=False)
    judge.begin(book)
    recorder = Recorder(journal, observe)
    run = "" if journal is None else journal.path.parent.name
    loop = _Loop(
        samples=samples,
        in_flight=SamplesInFlight(sample_map, runner, limit=config.concurrency, observe=recorder.tell),
        reducer=Reducer(curator, config, judge, runner, run),
        recorder=recorder,
        config=config,
        now=Progress(book),
        validate=validate,
        judge=judge,
    )
    return await loop.run()


@dataclass
class _Loop(Generic[S]):
    samples: Sequence[S]
    in_flight: SamplesInFlight[S]
    reducer: Reducer
    recorder: Recorder
    config: LearnConfig
    now: Progress
    validate: Validate | None
    judge: Judge
    batching: Batching = field(init=False)
    kept: int = 0
    """Samples seen at the last snapshot."""
    names: str = ""
    """The hash of the names of those that may be learned from."""

    async def run(self) -> LearnResult:
        begun = time.perf_counter()
        admitted = self._admit()
        journal, epochs = self.recorder.journal, self.config.epochs
        replayed = journal is not None and bool(journal.labels())
        self.batching = Batching(self.config, len(admitted))
        self.names = names_of(admitted)
        self.now.version = self.recorder.version(self.now.book, None, 0, 0, None)
        if self.config.guard_validate:
            self.recorder.label("stable", self.now.version, "stable/start")
        if replayed:
            self._restore(admitted)
        self.recorder.tell(RunStarted(len(admitted) * epochs, epochs, replayed, done=self.now.worked))
        for step in self.now.steps:
            self.recorder.tell(step)
        reason, detail = FinishReason.COMPLETED, "all samples were seen"
        try:
            await self._all_epochs(admitted)
        except BudgetError as error:
            reason, detail = FinishReason.BUDGET, error.message
        except (asyncio.CancelledError, KeyboardInterrupt):
            self._finish(FinishReason.INTERRUPTED, "stopped by the user", begun)
            raise
        except CombeeError as error:
            self._finish(FinishReason.FAILED, error.message, begun)
            raise
        finally:
            await self.in_flight.close()
        self._finish(reason, detail, begun)
        return LearnResult(
            best=self.now.best if self.now.best is not None else self.now.book,
            last=self.now.book,
            reason=reason,
            detail=detail,
            steps=tuple(self.now.steps),
            validations=tuple(self.now.validations),
            unlearned=tuple(self.now.unlearned),
            choice=self.batching.choice,
        )

    def _admit(self) -> list[S]:
        admitted: list[S] = []
        for sample in self.samples:
            refusal = self.judge.refusal(sample.labels)
            if refusal is None:
                admitted.append(sample)
            else:
                self.recorder.tell(SampleRefused(sample.id, refusal))
        if not admitted:
            raise UsageError("The labels of no sample allow it to reach this playbook.")
        return admitted

    async def _all_epochs(self, samples: Sequence[S]) -> None:
        for epoch in range(self.now.epoch, self.config.epochs):
            self.now.begin_epoch(epoch)
            order = self._order(samples, epoch)
            await self._all_steps(epoch, self._queue(order))
        while not self.now.worked and not self.in_flight.failed_now:
            # Nothing but failures, all from the journal: what was in the way may be mended, so all is tried anew.
            self.now.unlearned.clear()
            await self._all_steps(epoch, deque((sample, 0) for sample in order), anew=True)
        await self._validate_at(self.config.epochs - 1, at_end=True)
        if not self.now.worked:
            raise self.in_flight.nothing_worked(len(samples))

    def _order(self, samples: Sequence[S], epoch: int) -> list[S]:
        order = list(samples)
        if self.config.shuffle:
            random.Random(f"{self.config.seed}/{epoch}").shuffle(order)
        return order

    def _queue(self, order: Sequence[S]) -> deque[tuple[S, int]]:
        """Return what is left of an epoch: all of it, or what a snapshot leaves."""
        again, by_id = self.now.again, {sample.id: sample for sample in order} if self.now.again else {}
        everything = chain(((sample, 0) for sample in order), ((by_id[name], tries) for name, tries in again))
        return deque(islice(everything, self.now.taken, None))

    async def _all_steps(self, epoch: int, queue: deque[tuple[S, int]], *, anew: bool = False) -> None:
        while queue or self.in_flight.pending or self.now.carried:
            again = await self._one_step(epoch, queue)
            queue.extend(again)
            self.now.again += [(sample.id, tries) for sample, tries in again]
            await self._validate_at(epoch)
            if not anew:
                self._keep(at_end=not (queue or self.now.carried))

    def _keep(self, *, at_end: bool) -> None:
        """Keep a snapshot where enough was seen since the last; not while samples are under way."""
        journal, seen = self.recorder.journal, self.now.seen
        if journal is None or not self.now.worked or self.in_flight.pending:
            return
        if is_due(seen, self.kept) or (at_end and seen > self.kept):
            rest: dict[str, JSON] = {"failures": self.reducer.failures, "pace": self.batching.get_state()}
            keep(journal, self.now, self.judge, self.names, rest)
            self.kept = seen

    def _restore(self, samples: Sequence[S]) -> None:
        """Go on from the last snapshot, if there is one."""
        journal = self.recorder.journal
        restored = None if journal is None else restore(journal, self.judge, samples, self.names)
        if restored is None:
            return
        self.now, rest = restored
        self.kept = self.now.seen
        self.judge.scope_at = lambda epoch, step, path: self._scope(epoch, step).sub(path)
        self.reducer.failures = rest["failures"]
        self.batching.set_state(rest["pace"])
        if self.judge.policy.open:
            return
        for epoch in range(self.now.epoch + 1):
            self.judge.labels.update((reflection_name(sample.id, epoch), sample.labels) for sample in samples)

    async def _one_step(self, epoch: int, queue: deque[tuple[S, int]]) -> list[tuple[S, int]]:
        """Take a minibatch from the queue and learn from it; return the samples to try again later."""
        scope = self._scope(epoch)
        size = 0
        if queue:
            size = min(self.batching.next(scope, None if self.reducer.leafwise else self.judge.ceiling), len(queue))
        batch = [queue.popleft() for _ in range(size)]
        self.now.taken += size
        if (choice := self.batching.new_choice()) is not None:
            self.recorder.tell(announcement(self.now.step, choice))
        self.recorder.tell(StepStarted(epoch, self.now.step, len(batch)))
        clock = Clock(scope, self.recorder.journal)
        self.in_flight.start(batch, self.now.book, scope, epoch=epoch, step=self.now.step)
        collector = StepCollector(self.in_flight, scope, self.config.quorum if queue else 1.0, self.now.carried)
        try:
            first = await self._collect(collector, scope)
        except MapStoppedError as stop:
            raise stop.error from stop
        collected = collector.finish()
        reduced = await self._reduce(collected, first, scope)
        self._take_over(reduced, epoch)
        self.now.seen += len(collected.worked)
        self.now.worked += len(collected.worked)
        seconds = clock.seconds()
        if batch:
            self.batching.measured(len(batch), seconds)
        self.now.steps.append(self._finished_step(collected, reduced, epoch, len(batch), seconds))
        self.recorder.tell(self.now.steps[-1])
        self.now.step += 1
        return self._again(collected)

    def _finished_step(
        self, collected: Collected[S], reduced: Reduced, epoch: int, batch: int, seconds: float | None
    ) -> StepFinished:
        """Return what a step came to; `batch` samples began in it."""
        scans = reduced.scans
        return StepFinished(
            epoch=epoch,
            step=self.now.step,
            batch=batch,
            hits=collected.hits,
            total=collected.total,
            reflections=sum(1 for reflection in collected.reflections if reflection.lessons),
            lessons=sum(len(reflection.lessons) for reflection in collected.reflections),
            operations=len(reduced.revision.delta),
            refused=len(reduced.applied.refused),
            uncovered=len(scans[-1].uncovered) if scans else 0,
            failed=len(collected.failed),
            calls=sum(scan.calls for scan in scans),
            reads=sum(scan.reads for scan in scans),
            depth=sum(scan.depth for scan in scans),
            bullets=len(reduced.book),
            tokens=tokens(reduced.book),
            version=self.now.version,
            seconds=seconds,
            late=len(self.in_flight.pending),
        )

    async def _collect(self, collector: StepCollector[S], scope: Scope) -> Scan[Delta] | NothingReadError | None:
        """Take the samples in; where leaves may start early, return what they gave."""
        early = self.reducer.leafwise and self.config.pipeline
        if not early:
            await collector.enough()
        if not self.reducer.leafwise:
            return None
        async with aclosing(collector.stream(early=early)) as source:
            quorum = collector.quorum if early else 1.0
            return await self.reducer.read_early(source, collector.names, self.now.book, scope, quorum=quorum)

    async def _reduce(
        self, collected: Collected[S], first: Scan[Delta] | NothingReadError | None, scope: Scope
    ) -> Reduced:
        """Fold what was collected into the book, telling what happens on the way."""
        if not self.judge.policy.open:
            self.judge.labels.update({reflection.id: reflection.labels for reflection in collected.reflections})
        reducing = self.reducer.reduce(collected, self.now.book, first, scope=scope, step=self.now.step)
        async with aclosing(reducing) as outcomes:
            async for outcome in outcomes:
                if isinstance(outcome, Reduced):
                    return outcome
                self.recorder.tell(outcome)
        raise AssertionError("a reduce ends with its result")

    def _take_over(self, reduced: Reduced, epoch: int) -> None:
        """Make the book of a step the present one, and a version."""
        self.now.book, self.now.carried = reduced.book, reduced.carried
        self.now.version = self.recorder.version(self.now.book, self.now.version, epoch, self.now.step, reduced)
        promoted = reduced.verdict is not None and reduced.verdict.promote
        if promoted and self.judge.stable is self.now.book:
            self.recorder.label("stable", self.now.version, f"stable/{self.now.step}")
        self.recorder.scans(reduced.scans, epoch, self.now.step)

    def _again(self, collected: Collected[S]) -> list[tuple[S, int]]:
        waiting: list[tuple[S, int]] = []
        for sample, tries in collected.failed:
            if tries + 1 < self.config.attempts:
                waiting.append((sample, tries + 1))
            else:
                self.now.unlearned.append(sample.id)
                self.now.seen += 1
        return waiting

    async def _validate_at(self, epoch: int, *, at_end: bool = False) -> None:
        """Validate when a multiple of `eval_every` was crossed since the last time, and at the end."""
        if self.validate is None:
            return
        last = self.now.validations[-1].seen if self.now.validations else 0
        crossed = self.now.seen // self.config.eval_every > last // self.config.eval_every
        if not (crossed or (at_end and (not self.now.validations or last != self.now.seen))):
            return
        scored = await self.validate(self.now.book, self._scope(epoch).sub("validate"))
        accuracy = scored.accuracy
        best = scored.complete and accuracy is not None and accuracy > self.now.best_accuracy
        if best and accuracy is not None:
            self.now.best, self.now.best_accuracy = self.now.book, accuracy
            self.recorder.label("best", self.now.version, f"best/{self.now.step}")
        now, errors = self.now, len(scored.errors)
        event = Validated(now.step, now.seen, scored.hits, scored.total, errors, now.version, best)
        self.now.validations.append(event)
        self.recorder.tell(event)

    def _scope(self, epoch: int, step: int | None = None) -> Scope:
        """Return the place of a step, by default the present one."""
        journal, step = self.recorder.journal, self.now.step if step is None else step
        if journal is None:
            return MemoryScope(seed=self.config.seed, epoch=epoch, step=step)
        return journal.scope(seed=self.config.seed, epoch=epoch, step=step)

    def _finish(self, reason: FinishReason, detail: str, begun: float) -> None:
        seconds = round(time.perf_counter() - begun, 3)
        self.recorder.tell(RunFinished(reason, detail, self.now.version, len(self.now.book), seconds))


_LOG = logging.getLogger("combee")


@dataclass
class Recorder:
    """Writes for one run. Without a journal it only tells the observer."""

    journal: Journal | None
    observer: Observer | None

    def tell(self, event: Event) -> None:
        """Send an event to the observer and keep it; single samples are not kept, their results are in the journal."""
        if self.journal is not None and not isinstance(event, SampleDone):
            self.journal.record_event(type(event).__name__, dataclasses.asdict(event), key=_key(event))
        if self.observer is None:
            return
        try:
            self.observer(event)
        except Exception:  # noqa: BLE001 - whatever a display raises, the run goes on
            _LOG.exception("the display failed and is switched off; the run goes on")
            self.observer = None

    def version(self, book: Playbook, parent: str | None, epoch: int, step: int, reduced: Reduced | None) -> str:
        """Keep a version with all that led to it; return its digest."""
        if self.journal is None:
            return digest(book)
        text = to_json(book)
        name = digest(book, text)
        data: JSON = None
        if reduced is not None:
            data = {
                "base": digest(reduced.base),
                "revision": revision_to_json(reduced.revision),
                "verdict": reduced.verdict.action if reduced.verdict else None,
            }
        self.journal.add_version(text, name, parent=parent, epoch=epoch, step=step, data=data)
        self.label("last", name, f"last/{epoch}/{step}/{reduced is None}")
        return name

    def scans(self, scans: tuple[Scan[Delta], ...], epoch: int, step: int) -> None:
        """Keep the trees of a step, for the report."""
        if self.journal is None:
            return
        for attempt, scan in enumerate(scans):
            tree: dict[str, JSON] = {
                "epoch": epoch,
                "step": step,
                "attempt": attempt,
                "nodes": [dataclasses.asdict(node) for node in scan.nodes],
                "uncovered": list(scan.uncovered),
                "failed": list(scan.failed),
                "covered": len(scan.covered),
                "claimed": len(scan.claimed),
            }
            self.journal.record_event("Scan", tree, key=f"scan/{epoch}/{step}/{attempt}")

    def label(self, name: str, version: str, key: str) -> None:
        """Put a label on a version, once for each key."""
        if self.journal is not None:
            self.journal.label(name, version, key=key)


def _key(event: Event) -> str | None:
    """Name an event that a replay repeats; those of one process only (start, end) have no name."""
    step = getattr(event, "step", None)
    if step is None:
        return None
    parts = (type(event).__name__, *(getattr(event, name, "") for name in ("epoch", "step", "attempt", "verdict")))
    return "/".join(map(str, parts))
