"""One component of one candidate and its records: planned, scanned, and turned into a new text with its figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from combee.aggregate import Plan, Scan, plan, scan
from combee.errors import BudgetError, CallError, RunError, StorageError
from combee.gepa.asking import Asker
from combee.gepa.attempts import AttemptScope
from combee.gepa.delta import DeltaMethod
from combee.gepa.options import ReflectionOptions
from combee.gepa.records import Record, prepare, share_of
from combee.gepa.rewrite import RewriteMethod
from combee.journal import canonical_json
from combee.learn.codec import delta_to_json
from combee.model import Model, StoppedError
from combee.playbook import Playbook, apply, distinct_terms, to_text
from combee.runner import LocalRunner

__all__ = ["Learned", "Work", "learn_component"]

D = TypeVar("D")

_CALLS_AT_ONCE = 1024  # models of Combee limit themselves, functions are limited by their threads


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done: a component, its text, the records of runs with it, and a place in the journal.

    `name` stands for component, text and records. `book` is the text as a playbook where it is one. `number` counts
    reflections on the same text and records.
    """

    component: str
    text: str
    name: str
    records: Sequence[Record]
    scope: AttemptScope | None
    number: int = 0
    book: Playbook | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Learned(Generic[D]):
    """What became of it. `coverage` is the mean share of a record's own terms that the new text holds, 0 to 1.

    `mode` is "single" (one call), "tree" (map and combine), or "delta" (operations on a playbook). `book` is the new
    playbook in delta mode. `seconds` is the wall of this component; others ran at the same time.
    """

    component: str
    text: str
    mode: str
    shape: Plan
    scan: Scan[D]
    coverage: float
    seconds: float
    prompt: str
    raw: str
    notes: tuple[str, ...] = ()
    book: Playbook | None = None

    def metadata(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        found = self.scan
        return {
            "mode": self.mode,
            "records": self.shape.n,
            "copies": self.shape.times,
            "groups": self.shape.groups,
            "fan_ins": list(self.shape.fan_ins),
            "calls": found.calls,
            "levels": found.depth,
            "reads": found.reads,
            "coverage": round(self.coverage, 4),
            "covered": len(found.covered),
            "uncovered": len(found.uncovered),
            "failed": list(found.failed),
            "failed_calls": [f"{node.name}: {node.error}" for node in found.nodes if node.error],
            "seconds": round(self.seconds, 4),
            "notes": [*found.notes, *self.notes],
        }


async def learn_component(work: Work, model: Model, options: ReflectionOptions) -> Learned[Any]:
    """Return the new text of one component.

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
            return await _delta(work, work.book, asker, options, begun)
        return await _rewrite(work, asker, options, begun)
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


async def _rewrite(work: Work, asker: Asker, options: ReflectionOptions, begun: float) -> Learned[Any]:
    template = options.template_of(work.component)
    method = RewriteMethod(work.text, asker, template=template, combine_template=options.combine_template)
    n = len(work.records)
    shape = _plan(work, options, copies=options.copies_of(n), chances=options.second_chances or 0, by_model=True)
    found = await scan(
        work.records, method, shape, scope=work.scope, runner=LocalRunner(_CALLS_AT_ONCE), seed=asker.seed
    )
    draft = found.delta
    shares = [share_of(record.terms, draft.terms) for record in work.records]
    root = found.nodes[-1].name if found.nodes else ""
    return Learned(
        component=work.component,
        text=draft.text,
        mode="tree" if shape.groups > 1 else "single",
        shape=shape,
        scan=found,
        coverage=sum(shares) / len(shares),
        seconds=time.monotonic() - begun,
        prompt=method.prompts.get(root) or next(reversed(method.prompts.values()), ""),
        raw=draft.raw,
    )


async def _delta(work: Work, book: Playbook, asker: Asker, options: ReflectionOptions, begun: float) -> Learned[Any]:
    method = DeltaMethod(book, asker)
    chances = 1 if options.second_chances is None else options.second_chances
    shape = _plan(work, options, copies=options.copies, chances=chances, by_model=False)
    found = await scan(
        work.records, method, shape, scope=work.scope, runner=LocalRunner(_CALLS_AT_ONCE), seed=asker.seed
    )
    applied = apply(book, found.delta, budget=options.token_budget, near=options.near)
    text = to_text(applied.playbook)
    refused = [f"refused: {refusal.reason}" for refusal in applied.refused]
    terms = frozenset(term for bullet in applied.playbook for term in distinct_terms(bullet.text))
    shares = [1.0 if record.right else share_of(record.terms, terms) for record in work.records]
    return Learned(
        component=work.component,
        text=text,
        mode="delta",
        shape=shape,
        scan=found,
        coverage=sum(shares) / len(shares),
        seconds=time.monotonic() - begun,
        prompt=next(iter(method.prompts.values()), ""),
        raw=canonical_json(delta_to_json(found.delta)),
        notes=(*method.problems, *refused),
        book=applied.playbook,
    )


def _plan(work: Work, options: ReflectionOptions, *, copies: int | None, chances: int, by_model: bool) -> Plan:
    paper = options.preset == "paper"
    weights = [record.weight for record in sorted(work.records, key=lambda record: record.key)]
    most = options.max_items * max(weights)
    # Where no group can be too heavy, nobody needs to weigh.
    max_tokens = None if paper or options.max_tokens is None or most <= options.max_tokens else options.max_tokens
    return plan(
        len(weights),
        weights=None if max_tokens is None else weights,
        copies=copies,
        max_items=options.max_items,
        max_tokens=max_tokens,
        preset=options.preset,
        second_chances=chances,
        cost=options.cost,
        retention=options.retention,
        combine_calls_model=by_model and not paper,
    )
