"""Merging by code, by code with a model on conflicts, by the paper's model call; calibration; the guard in the loop.

SIMULATED FORGETTING throughout: a call over m inputs keeps each lesson with probability exp(-m/40); in the paper's top
call m counts updates (an assumption). Run: python -m benchmarks.bench_quality
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from combee.aggregate import Scan, aggregate, calibrate, plan
from combee.guard import count_specific
from combee.journal import MemoryScope, Scope
from combee.learn import BatchChosen, Event, GuardSpoke, LearnConfig, LiveTasks, Reflection, learn
from combee.learn.calibration import planted
from combee.learn.conflicts import settle_conflicts
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.lexical.curator import LexicalMethod
from combee.lexical.loss import remembered
from combee.model import Message, OpenAIModel, Request
from combee.model.mock import MockConfig, MockServer, parse_latency
from combee.playbook import Add, Delta, Operation, Playbook, apply, count_tokens, delta_of, distinct_terms
from combee.runner import LocalRunner
from combee.tasks import load

SEEDS = range(5)
M0 = 40.0
TWINS = 0.2


@dataclass(frozen=True)
class Resolving(LexicalMethod):
    """The forgetting curator that also settles conflict clusters: one text for lessons that say nearly the same."""

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
        return delta_of(kept.values())


def reflections(n: int, seed: int) -> list[Reflection]:
    """One fact a reflection; a fifth of the facts are said twice, in nearly the same words."""
    rng = random.Random(seed)
    facts = [planted(number) for number in rng.sample(range(100_000), n)]
    for index in range(int(n * TWINS)):
        lesson = facts[index].lessons[0].replace("When a", "Whenever any")
        twin = facts[n - 1 - index]
        facts[n - 1 - index] = replace(twin, lessons=(lesson,), text=f"The answer was wrong again. {lesson}")
    return facts


def spent(scan: Scan[Delta], items: Sequence[Reflection]) -> float:
    """Return tokens that calls read: reflections in leaves, and operations in combining calls."""
    weight = {item.id: count_tokens(item.text) for item in items}
    lesson = fmean(count_tokens(item.lessons[0]) for item in items)
    leaves = sum(weight[key] for node in scan.nodes if node.level == 0 for key in node.inputs)
    above = sum(node.entries_in * lesson for node in scan.nodes if node.level > 0)
    return leaves + above


async def merged(n: int, seed: int, way: str) -> tuple[float, float, float, float, float]:
    """Return share of facts kept, entries, specific share of the entries, tokens read and calls."""
    items = reflections(n, seed)
    curator = LexicalCurator(forget=M0, seed=seed)
    method: LexicalMethod = curator.method(Playbook(), MemoryScope(seed=seed))
    if way == "code + model on conflicts":
        method = Resolving(curator, method.place)
    chances = {"code, no second chance": 0, "code, 1 second chance": 1}.get(way, 3)
    how = "paper" if way.startswith("paper") else "combee"
    found = await aggregate(items, method, how=how, seed=seed, shape=plan(n, second_chances=chances))
    read = spent(found, items) if how == "paper" else sum(count_tokens(item.text) for item in items) * found.reads / n
    before = found.calls
    if isinstance(method, Resolving):
        found = await settle_conflicts(
            found, method, items, scope=MemoryScope(seed=seed), runner=LocalRunner(), max_items=16
        )
        read += (found.calls - before) * 2 * fmean(count_tokens(item.lessons[0]) for item in items)
    book = apply(Playbook(), found.delta, near=None).playbook
    covered = sum(method.covered(item, found.delta) for item in items)
    specific = count_specific(found.delta, {item.id: item.text for item in items})
    return covered / n, len(book), specific / max(1, len(found.delta)), read, found.calls


def merging() -> None:
    print(f"Merging {TWINS:.0%} twins; SIMULATED FORGETTING m0 = {M0:.0f}; means over {len(SEEDS)} seeds")
    print(f"{'n':>6}  {'way':<28}{'kept':>7}{'entries':>9}{'specific':>10}{'tokens read':>13}{'calls':>7}")
    ways = (
        "paper: model merge",
        "code, no second chance",
        "code, 1 second chance",
        "code, 3 second chances",
        "code + model on conflicts",
    )
    for n in (125, 500, 2000):
        for way in ways:
            rows = [asyncio.run(merged(n, seed, way)) for seed in SEEDS]
            kept, entries, specific, read, calls = (fmean(row[place] for row in rows) for place in range(5))
            print(f"{n:>6}  {way:<28}{kept:>7.3f}{entries:>9.0f}{specific:>10.2f}{read:>13,.0f}{calls:>7.0f}")


def calibration() -> None:
    print("\nCalibration of the forgetting curator (truth: m0 = 40); 10 calls a size, 1 to 128")
    for seed in SEEDS:
        method = LexicalCurator(forget=M0, seed=seed).method(Playbook(), MemoryScope(seed=seed))
        found = asyncio.run(calibrate(planted, method))
        low, high = found.m0_range
        print(f"  seed {seed}: m0 = {found.m0:.1f} ({low:.1f} to {high:.1f}), max_items = {found.max_items}")


@dataclass(frozen=True)
class Collapsing(LexicalMethod):
    """Writes one lesson a call at one step while a call reads more than 4 reflections."""

    at: str = ""

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        """Write, and collapse at the step."""
        found = await super().leaf(items, node)
        return Delta(found.operations[:1]) if self.at in self.place and len(items) > 4 else found


@dataclass(frozen=True)
class CollapsingCurator:
    """Makes the collapsing method."""

    step: int

    def method(self, playbook: Playbook, scope: Scope) -> Collapsing:
        """Return the method."""
        return Collapsing(LexicalCurator(), f"{scope.address}/", at=f"step {self.step}/")


def guard() -> None:
    print("\nThe guard in the loop: an aggregator that collapses at step k (tags, 8 steps of 40; guard on and off)")
    print(
        f"{'k':>3}{'caught at k':>13}{'retries':>9}{'other alarms':>14}{'extra rollouts':>16}"
        f"{'entries on/off/clean':>24}"
    )
    tasks = load("tags", sizes=(320, 5, 5))

    class Counting(LexicalGenerator):
        calls = 0

        async def generate(self, *arguments: object) -> object:  # type: ignore[override]  # counts and hands on
            self.calls += 1
            return await super().generate(*arguments)  # type: ignore[arg-type]  # likewise

    def once(step: int, *, on: bool) -> tuple[list[GuardSpoke], int, int]:
        events: list[Event] = []
        agent = Counting()
        result = asyncio.run(
            learn(
                tasks.train,
                LiveTasks(agent, LexicalReflector(), tasks.scorer),  # type: ignore[arg-type]  # a generator
                CollapsingCurator(step),
                config=LearnConfig(batch=40, guard=on),
                observe=events.append,
            )
        )
        return [event for event in events if isinstance(event, GuardSpoke)], agent.calls, len(result.last)

    clean = once(99, on=True)[2]
    for step in range(8):
        spoken, calls, entries = once(step, on=True)
        retries = [event for event in spoken if event.verdict == "retry_smaller"]
        others = sum(event.verdict != "accept" for event in spoken if event.step != step)
        off = once(step, on=False)[2]
        caught = any(event.step == step for event in retries)
        sizes = f"{entries} / {off} / {clean}"
        print(
            f"{step:>3}{caught!s:>13}{len(retries):>9}{others:>14}{calls - len(tasks.train):>16}{sizes:>24}", flush=True
        )


@dataclass(frozen=True)
class Asking(LexicalMethod):
    """Asks an endpoint before it writes, one line a reflection."""

    model: OpenAIModel | None = None

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        """Ask, then write."""
        assert self.model is not None
        await self.model.complete(Request((Message("user", "\n".join(f"- {item.id}" for item in items)),)))
        return await super().leaf(items, node)


@dataclass(frozen=True)
class AskingCurator:
    """Makes the asking method."""

    model: OpenAIModel

    def method(self, playbook: Playbook, scope: Scope) -> Asking:
        """Return the method."""
        return Asking(LexicalCurator(), scope.address, model=self.model)


async def _against_mock(alpha: float) -> BatchChosen:
    tasks = load("tags", sizes=(400, 5, 5))
    chosen: list[BatchChosen] = []

    def observe(event: Event) -> None:
        if isinstance(event, BatchChosen):
            chosen.append(event)

    async with MockServer(MockConfig(latency=parse_latency(f"power:0:0.1:{1 - alpha:.2f}/items"))) as server:
        model = OpenAIModel(server.url, "mock")
        live = LiveTasks(LexicalGenerator(), LexicalReflector(thin_margin=2.0), tasks.scorer)
        config = LearnConfig(batch="auto", candidates=(2, 4, 8, 16, 32), aggregate="naive", guard=False)
        await learn(tasks.train, live, AskingCurator(model), config=config, observe=observe)
        await model.aclose()
    return chosen[0]


def pace() -> None:
    print("\nPace end to end against the mock endpoint: latency 0.1 s * b^(1 - alpha), candidates 2, 4, 8, 16, 32")
    for alpha in (0.5, 0.7, 0.9):
        found = asyncio.run(_against_mock(alpha))
        exact = 2 * 62.5 ** (1 / (1 + alpha))
        fitted = "none" if found.alpha is None else f"{found.alpha:.3f}"
        print(f"  alpha {alpha}: fitted {fitted}, batch {found.batch}, analytic {exact:.1f}", flush=True)


def main() -> None:
    """Print the tables."""
    merging()
    calibration()
    guard()
    pace()


if __name__ == "__main__":
    main()
