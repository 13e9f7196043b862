"""Merging by code with a model on conflicts, against the paper's model call over all updates, at equal budgets.

SIMULATED FORGETTING: a call over m inputs keeps each lesson with probability exp(-m/40); in the paper's top call m
counts updates (an assumption). Where a budget is given, each side has the best shape that stays inside it, chosen with
seeds of its own: groups and copies for the paper; for ours leaf size, second chances, a model on conflicts or none.
Run: python -m benchmarks.bench_merging
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import fmean

from benchmarks.conflicts import settle_conflicts
from combee.ace.prompts import Prompts
from combee.kernel.aggregate import Plan, Scan, plan, scan
from combee.kernel.guard.checks import count_specific
from combee.kernel.journal import MemoryScope
from combee.kernel.learn import Reflection
from combee.kernel.playbook import Add, Delta, Operation, Playbook, apply, count_tokens, delta_of, distinct_terms
from combee.kernel.runner import LocalRunner
from combee.lexical import LexicalCurator
from combee.lexical.agent import OPERATION_TOKENS, LexicalMethod, remembered
from combee.model import Price, Usage
from combee.run.calibrate import planted

SEEDS = range(100, 105)
CHOOSING = range(2)
M0 = 40.0
TWINS = 0.2
PRICE = Price(1.0, 4.0)
"""Dollars for a million tokens read and written; only the relation matters here."""
LEAF, COMBINE = (
    sum(count_tokens(message.content) for message in Prompts.load()[name].render({})) for name in ("curator", "combine")
)
"""Tokens of instructions that every call reads."""


@dataclass(frozen=True)
class Resolving(LexicalMethod):
    """The forgetting curator that also settles conflict clusters: one text for lessons that say nearly the same."""

    settled: list[tuple[int, int]] = field(default_factory=list)
    """Operations read and written by each call."""

    async def resolve(self, cluster: Sequence[Operation], node: str) -> Delta:
        """Keep of each set of equal terms the first text; each lesson is forgotten as in any call."""
        kept: dict[frozenset[str], Add] = {}
        for op in cluster:
            if not isinstance(op, Add) or not remembered(f"{self.place}/{node}", op.text, len(cluster), M0):
                continue
            terms = distinct_terms(op.text)
            known = kept.get(terms)
            names = op.sources if known is None else tuple(sorted({*known.sources, *op.sources}))
            kept[terms] = replace(known or op, sources=names)
        self.settled.append((len(cluster), len(kept)))
        return delta_of(kept.values())


@dataclass(frozen=True)
class Row:
    """Share of facts kept, entries of the book, specific share of them, tokens read and written, calls."""

    kept: float
    entries: float
    specific: float
    read: float
    written: float
    calls: float

    @property
    def tokens(self) -> float:
        """Tokens read and written."""
        return self.read + self.written

    @property
    def cost(self) -> float:
        """Dollars at `PRICE`."""
        return PRICE.cost(Usage(round(self.read), round(self.written)))


def reflections(n: int, seed: int) -> list[Reflection]:
    """One fact a reflection; a fifth of the facts are said twice, in nearly the same words."""
    rng = random.Random(seed)
    facts = [planted(number) for number in rng.sample(range(100_000), n)]
    for index in range(int(n * TWINS)):
        lesson = facts[index].lessons[0].replace("When a", "Whenever any")
        twin = facts[n - 1 - index]
        facts[n - 1 - index] = replace(twin, lessons=(lesson,), text=f"The answer was wrong again. {lesson}")
    return facts


def spent(found: Scan[Delta], items: Sequence[Reflection], *, by_model: bool) -> tuple[float, float]:
    """Return tokens read and written by the calls of the tree, their instructions included."""
    weight = {item.id: count_tokens(item.text) for item in items}
    operation = OPERATION_TOKENS + fmean(count_tokens(item.lessons[0]) for item in items)
    read = written = 0.0
    for node in found.nodes:
        if node.level == 0:
            read += LEAF + sum(weight[key] for key in node.inputs)
        elif by_model:
            read += COMBINE + node.entries_in * operation
        if node.level == 0 or by_model:
            written += node.entries_out * operation
    return read, written


async def merged(shape: Plan, seed: int, *, conflicts: bool) -> Row:
    """Aggregate once in this shape, with or without a model on conflicts, and return what came of it."""
    items = reflections(shape.n, seed)
    method = Resolving(LexicalCurator(forget=M0, seed=seed), MemoryScope(seed=seed).address)
    by_model = shape.preset == "paper"
    found = await scan(items, method, shape, seed=seed)
    read, written = spent(found, items, by_model=by_model)
    if conflicts and not by_model:
        found = await settle_conflicts(
            found, method, items, scope=MemoryScope(seed=seed), runner=LocalRunner(), max_items=16
        )
        operation = OPERATION_TOKENS + fmean(count_tokens(item.lessons[0]) for item in items)
        read += sum(COMBINE + size * operation for size, _ in method.settled)
        written += sum(size * operation for _, size in method.settled)
    book = apply(Playbook(), found.delta, near=None).playbook
    covered = len(method.coverage(items, found.delta)) / shape.n
    specific = count_specific(found.delta, {item.id: item.text for item in items}) / max(1, len(found.delta))
    return Row(covered, len(book), specific, read, written, found.calls)


def mean(shape: Plan, seeds: Iterable[int], *, conflicts: bool = True) -> Row:
    """Return the means over seeds."""
    rows = [asyncio.run(merged(shape, seed, conflicts=conflicts)) for seed in seeds]
    return Row(*(fmean(getattr(row, name) for row in rows) for name in Row.__dataclass_fields__))


@dataclass(frozen=True)
class Tried:
    """A shape, whether a model settles conflicts, and what came of it with the seeds for choosing."""

    shape: Plan
    conflicts: bool
    row: Row


def papers(n: int) -> list[Tried]:
    """Try shapes of the paper's tree: copies, and groups of a size."""
    shapes = [plan(n, preset="paper")]
    for copies, size in product((1, 2, 3, 4), (3, 4, 6, 8, 12, 16, 24, 32, 48)):
        if size * copies <= n:
            shapes.append(plan(n, preset="paper", copies=copies, group_size=size))
    return [Tried(shape, False, mean(shape, CHOOSING)) for shape in shapes]


def ours(n: int) -> list[Tried]:
    """Try shapes of ours: leaf sizes, second chances, and whether a model settles conflicts."""
    found = []
    for size, times, conflicts in product((8, 16, 24, 32, 48), (0, 1, 3), (True, False)):
        shape = plan(n, max_items=size, second_chances=times)
        found.append(Tried(shape, conflicts, mean(shape, CHOOSING, conflicts=conflicts)))
    return found


def best(tried: Sequence[Tried], *, tokens: float = math.inf, calls: float = math.inf) -> Row | None:
    """Measure the shape that keeps most within a budget, chosen with other seeds; None where none fits."""
    fits = [one for one in tried if one.row.tokens <= tokens and one.row.calls <= calls]
    if not fits:
        return None
    chosen = max(fits, key=lambda one: one.row.kept)
    return mean(chosen.shape, SEEDS, conflicts=chosen.conflicts)


def main() -> None:
    """Print the table."""
    print(f"{TWINS:.0%} twins; SIMULATED FORGETTING m0 = {M0:.0f}; means over {len(SEEDS)} seeds")
    print(f"{'n':>6}  {'way':<46}{'kept':>7}{'entries':>9}{'specific':>10}{'tokens':>11}{'calls':>7}{'cost':>9}")
    for n in (125, 500, 2000):
        own, paper = plan(n, second_chances=3), plan(n, preset="paper")
        mine, theirs = mean(own, SEEDS), mean(paper, SEEDS)
        theirs_tried, ours_tried = papers(n), ours(n)
        rows = {
            "ours: code, model on conflicts": mine,
            "paper, as published": theirs,
            "paper, best within our tokens": best(theirs_tried, tokens=mine.tokens),
            "paper, best within our calls": best(theirs_tried, calls=mine.calls),
            "ours, best within the paper's tokens": best(ours_tried, tokens=theirs.tokens),
            "ours, best within the paper's calls": best(ours_tried, calls=theirs.calls),
        }
        for name, row in rows.items():
            if row is None:
                print(f"{n:>6}  {name:<46} no shape fits")
                continue
            print(
                f"{n:>6}  {name:<46}{row.kept:>7.3f}{row.entries:>9.0f}{row.specific:>10.2f}"
                f"{row.tokens:>11,.0f}{row.calls:>7.0f}{row.cost:>9.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
