"""The batch size from measured delays, end to end against the mock endpoint, and what the journal keeps of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from benchmarks.simulate import simulated_time
from combee.kernel.aggregate import Method
from combee.kernel.journal import Journal, Scope
from combee.kernel.learn import BatchChosen, Event, LearnConfig, LiveTasks, Reflection, learn
from combee.kernel.playbook import Delta, Playbook
from combee.lexical import LexicalCurator, LexicalGenerator, LexicalReflector
from combee.lexical.agent import LexicalMethod
from combee.mock import MockConfig, MockServer, parse_latency
from combee.model import Message, OpenAIModel, Request
from combee.tasks import load

ALPHA = 0.7
CANDIDATES = (2, 4, 8, 16, 32)


class Waiting:
    """The embedded curator, as slow as a model whose time grows with a power of what it reads."""

    def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        return _WaitingMethod(LexicalCurator(), scope.address)


class _WaitingMethod(LexicalMethod):
    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        await asyncio.sleep(8.0 * len(items) ** (1 - ALPHA))
        return await super().leaf(items, node)


class Asking:
    """The embedded curator that first asks an endpoint, one line a reflection."""

    def __init__(self, model: OpenAIModel) -> None:
        self.model = model

    def method(self, playbook: Playbook, scope: Scope) -> Method[Reflection, Delta]:
        return _AskingMethod(LexicalCurator(), scope.address, self.model)


class _AskingMethod(LexicalMethod):
    def __init__(self, curator: LexicalCurator, place: str, model: OpenAIModel) -> None:
        super().__init__(curator, place)
        object.__setattr__(self, "model", model)

    async def leaf(self, items: Sequence[Reflection], node: str) -> Delta:
        model: OpenAIModel = self.model  # type: ignore[attr-defined]  # set above
        text = "\n".join(f"- {item.id}" for item in items)
        await model.complete(Request((Message("user", text),)))
        return await super().leaf(items, node)


class Teaching(LexicalReflector):
    """Every sample gives a lesson, so that a batch of b is a call over b."""

    def __init__(self) -> None:
        super().__init__(thin_margin=2.0)


def test_the_batch_is_the_analytic_optimum_on_a_clock_that_jumps() -> None:
    # One call reads the batch: delay(b) = c·b^(1−α), so a pass takes N·c·b^(−α).
    tags = load("tags", sizes=(400, 5, 5))
    events: list[Event] = []
    config = LearnConfig(batch="auto", candidates=CANDIDATES, aggregate="naive", guard=False)
    live = LiveTasks(LexicalGenerator(), Teaching(), tags.scorer)
    result, _ = simulated_time(learn(tags.train, live, Waiting(), config=config, observe=events.append))
    exact = CANDIDATES[0] * 62.5 ** (1 / (1 + ALPHA))
    chosen = [event for event in events if isinstance(event, BatchChosen)]
    assert chosen
    assert abs(chosen[0].batch - exact) <= 2
    assert [step.batch for step in result.steps[: 2 * len(CANDIDATES)]] == [*CANDIDATES, *CANDIDATES[::-1]]
    assert result.steps[2 * len(CANDIDATES)].batch == chosen[0].batch
    assert {size for size, measured, _ in chosen[0].curve if measured is not None} == set(CANDIDATES)
    assert chosen[0].sensitivity
    assert result.choice is not None


async def test_against_the_mock_endpoint_the_measured_choice_is_kept_and_repeated(
    tmp_path: Path,
) -> None:
    # Real seconds: how near the size comes to the analytic one is measured by `benchmarks.bench_quality`.
    tags = load("tags", sizes=(80, 5, 5))
    config = LearnConfig(batch="auto", candidates=(2, 4, 8), aggregate="naive", guard=False)
    async with MockServer(MockConfig(latency=parse_latency("power:0:0.01:0.3/items"))) as server:
        model = OpenAIModel(server.url, "mock")
        try:
            with Journal.open(tmp_path) as journal:
                live = LiveTasks(LexicalGenerator(), Teaching(), tags.scorer)
                result = await learn(tags.train, live, Asking(model), config=config, journal=journal)
                kept = [event.data for event in journal.events("BatchChosen")]
            with Journal.open(tmp_path) as journal:
                again = await learn(tags.train, live, Asking(model), config=config, journal=journal)
                assert journal.stats().bought == 0
        finally:
            await model.aclose()
    assert kept
    assert [step.batch for step in result.steps[:6]] == [2, 4, 8, 8, 4, 2]
    assert again.steps == result.steps
    assert all(step.seconds is not None and step.seconds > 0 for step in result.steps)
    assert result.choice is not None


async def test_a_fixed_size_makes_no_choice_and_two_sizes_fall_back_with_a_warning() -> None:
    tags = load("tags", sizes=(40, 5, 5))
    live = LiveTasks(LexicalGenerator(), LexicalReflector(), tags.scorer)
    events: list[Event] = []
    fixed = await learn(tags.train, live, LexicalCurator(), config=LearnConfig(batch=20), observe=events.append)
    assert fixed.choice is None
    config = LearnConfig(batch="auto", candidates=(8, 4, 4, 900))
    found = await learn(tags.train, live, LexicalCurator(), config=config, observe=events.append)
    chosen = [event for event in events if isinstance(event, BatchChosen)]
    assert chosen[0].fallback
    assert any("equal candidates" in warning for warning in chosen[0].warnings)
    assert any("900" in warning for warning in chosen[0].warnings)
    assert [step.batch for step in found.steps] == [16, 16, 8]
