"""Calibration of the forgetting curator, the guard in the loop, and pace against an endpoint.

SIMULATED FORGETTING: a call over m inputs keeps each lesson with probability exp(-m/40).
Run: python -m benchmarks.bench_quality
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from combee.kernel.journal import MemoryScope, Scope
from combee.kernel.learn import BatchChosen, Event, GuardJudged, LearnConfig, LiveTasks, Reflection, learn
from combee.kernel.playbook import Delta, Playbook
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.lexical.agent import LexicalMethod
from combee.mock import MockConfig, MockServer, parse_latency
from combee.model import Message, OpenAIModel, Request
from combee.run.calibrate import calibrate, planted
from combee.tasks import load

SEEDS = range(5)


def calibration() -> None:
    print("\nCalibration of the forgetting curator (truth: m0 = 40); 10 calls a size, 1 to 128")
    for seed in SEEDS:
        method = LexicalCurator(forget=40.0, seed=seed).method(Playbook(), MemoryScope(seed=seed))
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

    def once(step: int, *, on: bool) -> tuple[list[GuardJudged], int, int]:
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
        return [event for event in events if isinstance(event, GuardJudged)], agent.calls, len(result.last)

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
    calibration()
    guard()
    pace()


if __name__ == "__main__":
    main()
