"""One component of one candidate and its records: planned, scanned, judged, and made a new text with its figures.

A scope for work that may fail as a whole and be tried again: results are shared, decisions belong to one attempt. The
engine records which calls failed, so that a replay takes the same path. Where all of them failed, the next attempt must
ask again and not read that record; what was paid is found by every attempt.

The guard at a proposal: what the records teach must be in it, and nothing that may not be. Operations on a playbook are
judged as those of the loop are (`Judge`), and made again in smaller groups. A rewritten text has no operations to
count, and a good rule need not name the cases behind it; what went into it counts: where calls on half of the records
came to nothing it is made again in smaller groups, and what had no room is told. It is refused where it loses most of
the old text, or quotes what is secret or held out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from combee.errors import BudgetError, CallError, RunError, StorageError
from combee.gepa.asking import Asker
from combee.gepa.methods import DeltaMethod, RewriteDraft, RewriteMethod
from combee.gepa.options import ReflectionOptions
from combee.gepa.records import IMAGE, Record, prepare, share_of
from combee.kernel.aggregate import Method, Plan, Scan, plan, scan
from combee.kernel.guard import Evidence, GuardFinding, Verdict, echoed, screen
from combee.kernel.journal import JSON, JSONLike, MemoryScope, Scope, canonical_json
from combee.kernel.learn import Alerted, Judge
from combee.kernel.learn.codec import delta_to_json
from combee.kernel.learn.judge import guard_event
from combee.kernel.playbook import Add, Applied, Delta, Playbook, apply, count_tokens, distinct_terms, to_text, tokens
from combee.kernel.runner import LocalRunner
from combee.model import ChatModel, StoppedError

__all__ = ["AttemptScope", "ComponentWork", "Judged", "Learned", "judge_text", "learn_component"]

D = TypeVar("D")

_CALLS_AT_ONCE = 1024  # models of Combee limit themselves, functions are limited by their threads


@dataclass(frozen=True, slots=True)
class ComponentWork:
    """What is to be done: a component, its text, the records of runs with it, and a place in the journal.

    `name` stands for component, text and records. `book` is the text as a playbook where it is one. `number` counts
    reflections on the same text and records, `step` reflections of the run.
    """

    component: str
    text: str
    name: str
    records: Sequence[Record]
    scope: AttemptScope | None
    number: int = 0
    book: Playbook | None = None
    step: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Learned(Generic[D]):
    """What became of it. `coverage` is the mean share of a record's own terms that the new text holds, 0 to 1.

    `mode` is "single" (one call), "tree" (map and combine), or "delta" (operations on a playbook). `book` is the new
    playbook in delta mode. `seconds` is the wall of this component; others ran at the same time. `scans` has one more
    for each time that the guard had it made again, and `judged` its verdicts.
    """

    component: str
    text: str
    mode: str
    shape: Plan
    scans: tuple[Scan[D], ...]
    coverage: float
    seconds: float
    prompt: str
    raw: str
    notes: tuple[str, ...] = ()
    book: Playbook | None = None
    judged: tuple[Judged, ...] = ()

    @property
    def scan(self) -> Scan[D]:
        """The scan that counts: the last."""
        return self.scans[-1]

    @property
    def calls(self) -> int:
        """Calls of all scans."""
        return sum(found.calls for found in self.scans)

    @property
    def refused(self) -> bool:
        """Whether the guard keeps the old text."""
        return bool(self.judged) and not self.judged[-1].verdict.applies

    def metadata(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        found = self.scan
        return {
            "mode": self.mode,
            "records": self.shape.n,
            "copies": self.shape.times,
            "groups": self.shape.groups,
            "fan_ins": list(self.shape.fan_ins),
            "calls": self.calls,
            "levels": sum(each.depth for each in self.scans),
            "reads": sum(each.reads for each in self.scans),
            "coverage": round(self.coverage, 4),
            "covered": len(found.covered),
            "uncovered": len(found.uncovered),
            "failed": list(found.failed),
            "failed_calls": [f"{node.name}: {node.error}" for node in found.nodes if node.error],
            "seconds": round(self.seconds, 4),
            "notes": [*found.notes, *self.notes],
            "guard": [one.as_data() for one in self.judged],
        }


async def learn_component(
    work: ComponentWork, model: ChatModel, options: ReflectionOptions, judge: Judge
) -> Learned[Any]:
    """Return the new text of one component. Where the guard refuses it, the old text stands in it.

    Raises:
        RunError: Not one group of records could be read; the attempt is given up and recorded so.
        BudgetError, StoppedError: Nothing further can be bought.
    """
    begun = time.monotonic()
    seed = (options.seed * 1_000_003 + work.number) & 0x7FFF_FFFF
    asker = Asker(model, work.scope, options.output_tokens, options.temperature, seed)
    preparing = asyncio.create_task(prepare(work.records))  # it has its turn when the first calls are on their way
    try:
        if work.book is not None:
            found = await _delta(work, work.book, asker, options, judge)
        else:
            found = await _rewrite(work, asker, options, judge)
        final = found.judged[-1]
        healed = [one.verdict for one in found.judged[:-1]]
        told = await judge.alert(final.verdict, final.evidence, work.scope or MemoryScope(), "", healed=healed)
        judged = (*found.judged[:-1], replace(final, alerted=told))
        return replace(found, judged=judged, seconds=time.monotonic() - begun, notes=(*found.notes, *_unseen(work)))
    except (BudgetError, StoppedError, StorageError):
        raise
    except CallError as error:
        raise StoppedError(f"stopped: {error.message}", kind=error.kind, hint=error.hint) from error
    except RunError as error:
        if work.scope is not None:
            work.scope.give_up(error.message)
        message = f"component {work.component!r}: {error.message}"
        raise RunError(message, hint=error.hint) from error
    finally:
        preparing.cancel()


def _unseen(work: ComponentWork) -> list[str]:
    images = sum(record.text.count(IMAGE) for record in work.records)
    return [f"{images} images in the records were not shown to the model"] if images else []


async def _rewrite(work: ComponentWork, asker: Asker, options: ReflectionOptions, judge: Judge) -> Learned[Any]:
    template = options.template_of(work.component)
    method = RewriteMethod(
        work.text,
        asker,
        template=template,
        combine_template=options.combine_template,
        room=None if options.preset == "paper" else options.token_budget,
    )
    copies, chances = options.copies_of(len(work.records)), options.second_chances or 0
    scans: list[Scan[RewriteDraft]] = []
    judged: list[Judged] = []
    size = None
    while not judged or size is not None:
        shape = _plan(work, options, copies=copies, chances=chances, by_model=method.combine_calls_model, size=size)
        scans.append(await _scan(work, method, shape, _retried(work, scans), asker.seed))
        judged.append(judge_text(judge, work, scans[-1].delta, shape, len(scans) - 1))
        size = judged[-1].verdict.max_items
    scans.sort(key=lambda one: (len(one.delta.keys), -one.delta.left_out))  # the last counts
    found, draft = scans[-1], scans[-1].delta
    shares = [share_of(record.terms, draft.terms) for record in work.records]
    root = found.nodes[-1].name if found.nodes else ""
    return Learned(
        component=work.component,
        text=draft.text if judged[-1].verdict.applies else work.text,
        mode="tree" if shape.groups > 1 else "single",
        shape=shape,
        scans=tuple(scans),
        coverage=sum(shares) / len(shares),
        seconds=0.0,
        prompt=method.prompts.get(root) or next(reversed(method.prompts.values()), ""),
        raw=draft.raw,
        notes=_beside(draft, options),
        judged=tuple(judged),
    )


def _retried(work: ComponentWork, scans: Sequence[object]) -> Scope | None:
    return work.scope.sub(f"retry{len(scans)}") if scans and work.scope is not None else work.scope


def _beside(draft: RewriteDraft, options: ReflectionOptions) -> tuple[str, ...]:
    notes = []
    if draft.beside:
        notes.append(f"{draft.beside} lines were put below the text by code: no call wrote them together with the rest")
    if draft.left_out:
        notes.append(f"{draft.left_out} lines were left out: the text has {options.token_budget} tokens (token_budget)")
    return tuple(notes)


async def _delta(
    work: ComponentWork, book: Playbook, asker: Asker, options: ReflectionOptions, judge: Judge
) -> Learned[Any]:
    method = DeltaMethod(book, asker)
    chances = 1 if options.second_chances is None else options.second_chances
    size = judge.ceiling if judge.ceiling is not None and judge.ceiling < options.max_items else None
    before = tokens(_applied(book, Delta(), options).playbook)  # what the budget alone evicts, no delta has removed
    scans: list[Scan[Delta]] = []
    judged: list[Judged] = []
    while True:
        shape = _plan(work, options, copies=options.copies, chances=chances, by_model=False, size=size)
        scans.append(await _scan(work, method, shape, _retried(work, scans), asker.seed))
        applied = _applied(book, scans[-1].delta, options)
        evidence = _evidence(work, before, scans, shape, applied)
        verdict = judge.on_evidence(evidence)
        judged.append(Judged(evidence, verdict))
        if verdict.max_items is None:
            break
        size = verdict.max_items
    applied = _applied(book, verdict.delta, options)
    terms = frozenset(term for bullet in applied.playbook for term in distinct_terms(bullet.text))
    shares = [1.0 if record.right else share_of(record.terms, terms) for record in work.records]
    return Learned(
        component=work.component,
        text=to_text(applied.playbook) if verdict.applies else work.text,
        mode="delta",
        shape=shape,
        scans=tuple(scans),
        coverage=sum(shares) / len(shares),
        seconds=0.0,
        prompt=next(iter(method.prompts.values()), ""),
        raw=canonical_json(delta_to_json(scans[-1].delta)),
        notes=(*method.problems, *(f"refused: {refusal.reason}" for refusal in applied.refused)),
        book=applied.playbook if verdict.applies else None,
        judged=tuple(judged),
    )


def _applied(book: Playbook, delta: Delta, options: ReflectionOptions) -> Applied:
    return apply(book, delta, budget=options.token_budget, near=options.near)


def _evidence(
    work: ComponentWork, before: int, scans: Sequence[Scan[Delta]], shape: Plan, applied: Applied
) -> Evidence:
    """Return what the guard looks at: records that were right, or that the book says already, cannot be lost.

    Feedback may be no more than the answer to one case, which a good lesson does not hold: a record counts where a
    lesson that cites it has any distinctive term of it.
    """
    found = scans[-1]
    known = found.covered - found.claimed
    items = {record.key: record.text for record in work.records if not record.right and record.key not in known}
    return Evidence(
        step=work.step,
        items=items,
        delta=found.delta,
        covered=found.covered | echoed(found.delta, items),
        max_items=-(-shape.n * shape.times // shape.groups),
        attempt=len(scans) - 1,
        tokens=tokens(applied.playbook),
        tokens_before=before,
        window=found.window,
        before=work.book,
    )


async def _scan(work: ComponentWork, method: Method[Record, D], shape: Plan, scope: Scope | None, seed: int) -> Scan[D]:
    return await scan(work.records, method, shape, scope=scope, runner=LocalRunner(_CALLS_AT_ONCE), seed=seed)


def _plan(
    work: ComponentWork,
    options: ReflectionOptions,
    *,
    copies: int | None,
    chances: int,
    by_model: bool,
    size: int | None = None,
) -> Plan:
    """Return the shape of the tree; `size` is what the guard asked for, in the place of what the options say."""
    preset, max_items = (options.preset, options.max_items) if size is None else (None, size)
    paper = preset == "paper"
    weights = [record.weight for record in sorted(work.records, key=lambda record: record.key)]
    most = max_items * max(weights)
    # Where no group can be too heavy, nobody needs to weigh.
    max_tokens = None if paper or options.max_tokens is None or most <= options.max_tokens else options.max_tokens
    return plan(
        len(weights),
        weights=None if max_tokens is None else weights,
        copies=copies,
        max_items=max_items,
        max_tokens=max_tokens,
        preset=preset,
        second_chances=chances,
        cost=options.cost,
        retention=options.retention,
        combine_calls_model=by_model and not paper,
    )


class AttemptScope:
    """The first attempt that was not given up, on top of a scope."""

    def __init__(self, base: Scope, attempt: int | None = None) -> None:
        self._base = base
        self._attempt = self._open() if attempt is None else attempt

    @property
    def address(self) -> str:
        """The scope in words."""
        return self._base.address

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 0."""
        return self._attempt

    async def once(
        self, role: str, item: str, inputs: JSONLike, make: Callable[[], Awaitable[JSONLike]], *, attempt: int = 0
    ) -> JSON:
        """See `Scope.once`; shared by all attempts."""
        return await self._base.once(role, item, inputs, make, attempt=attempt)

    def decide(self, name: str, value: JSONLike) -> JSON:
        """See `Scope.decide`; of this attempt alone."""
        return self._base.decide(f"attempt {self._attempt}/{name}", value)

    def peek(self, name: str) -> JSON:
        """See `Scope.peek`; of this attempt alone."""
        return self._base.peek(f"attempt {self._attempt}/{name}")

    def sub(self, prefix: str) -> Scope:
        """See `Scope.sub`."""
        return AttemptScope(self._base.sub(prefix), self._attempt)

    def give_up(self, reason: str) -> None:
        """Record that nothing came of this attempt."""
        self._base.decide(f"given up/{self._attempt}", reason)

    def _open(self) -> int:
        number = 0
        while self._base.peek(f"given up/{number}") is not None:
            number += 1
        return number


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


def judge_text(judge: Judge, work: ComponentWork, draft: RewriteDraft, shape: Plan, attempt: int) -> Judged:
    """Judge a rewritten text by what went into it, by its size and by its new lines."""
    old, new, limits = work.text, draft.text, judge.limits
    size = min(-(-shape.n * shape.times // shape.groups), len(work.records))
    evidence = Evidence(
        work.step, _NOTHING, Delta(), max_items=size, attempt=attempt,
        tokens=count_tokens(new), tokens_before=count_tokens(old),
    )  # fmt: skip
    verdict = judge.on_evidence(evidence)
    items = {record.key: record.text for record in work.records}
    evidence = replace(evidence, items=items, covered=draft.keys & items.keys())
    share = len(draft.keys & items.keys()) / len(items)
    if judge.enabled and verdict.action == "accept" and share < limits.min_coverage:
        message = f"{len(draft.keys)} of {len(items)} records went into the text, under {limits.min_coverage:.0%}"
        found = GuardFinding("coverage", "retry", message, share, limits.min_coverage)
        again = attempt < limits.retries and size > 2 and not judge.watch
        action: Literal["retry_smaller", "alert"] = "retry_smaller" if again else "alert"
        findings = (*verdict.findings, found)
        verdict = replace(verdict, action=action, findings=findings, max_items=max(2, size // 2) if again else None)
    elif judge.enabled and verdict.action == "accept" and draft.left_out:
        lost = GuardFinding("coverage", "alert", f"the text had no room for {draft.left_out} lines", draft.left_out)
        verdict = replace(verdict, action="alert", findings=(*verdict.findings, lost))
    known = set(old.split("\n"))
    fresh = Delta(tuple(Add("", line) for line in new.split("\n") if line.strip() and line not in known))
    index = judge.held_out if judge.enabled else None
    _, refused = screen(fresh, index, allow_leaks=limits.allow_leaks, find_secrets=limits.find_secrets)
    if refused:
        verdict = replace(verdict, action="reject", refused=refused, max_items=None)
    return Judged(evidence, verdict)


_NOTHING: Mapping[str, str] = {}
