"""Views of the playbook come with questions: metered, whole, each agent its own, again after compaction or a kill."""

from __future__ import annotations

import asyncio

import pytest

from combee.kernel.playbook import Add, Playbook, apply, count_tokens, delta_of
from combee.swarm import USER, Lessons, PolicyModel, Reply, Summarise, Swarm, View, World, totals, tree, use
from combee.swarm.briefing import LESSONS, cited
from combee.swarm.context import history, load


def book_of(*texts: str) -> Playbook:
    return apply(Playbook(), delta_of(Add("", text, ("r",)) for text in texts)).playbook


BOOK = book_of(*(f"The {thing} lies in folder f{number:02d}." for number, thing in enumerate(
    ("anchor", "barrel", "candle", "dynamo", "engine", "funnel", "gasket", "hammer"))))  # fmt: skip


def told(world: World, agent: str) -> list[str]:
    row = world.agent(agent)
    assert row is not None
    return [entry.text for entry in history(world, row) if entry.kind == LESSONS]


def echo(view: View) -> Reply | str:
    return "\n".join(entry.text for entry in view.entries if entry.kind == LESSONS) or "nothing"


def ask(swarm: Swarm, question: str, to: str) -> str:
    number = swarm.ask(USER, question, to=to)
    asyncio.run(swarm.run())
    found = swarm.answer(number)
    assert found is not None
    return found.body


def test_each_question_comes_with_the_lessons_that_fit_it_within_the_budget(world: World) -> None:
    swarm = Swarm(world, {"": PolicyModel(echo)}, lessons=Lessons(BOOK, 40))
    world.spawn("ann")
    shown = ask(swarm, "Where is the dynamo?", "ann")
    assert "dynamo" in shown
    assert "gasket" not in shown
    assert count_tokens(shown) <= 40 + 20  # the line above it
    lines = [f"[{bullet.id}] {bullet.text}" for bullet in BOOK if bullet.id in cited([shown], BOOK)]
    assert sorted(lines) == sorted(shown.split("\n")[1:])  # whole bullets
    assert "gasket" in ask(swarm, "Where is the gasket?", "ann")
    swarm.lessons = Lessons(BOOK, None)
    assert ask(swarm, "Where is the gasket?", "ann").count("lies in folder") == len(BOOK)
    swarm.lessons = Lessons(BOOK, 40, targeted=False)
    assert ask(swarm, "Where is the gasket?", "ann") == ask(swarm, "Where is the dynamo?", "ann")
    swarm.lessons = None
    assert ask(swarm, "Where is the gasket?", "ann") == "nothing"


def test_a_view_is_metered_and_no_copy_leaves_it_with_its_origin(world: World) -> None:
    swarm = Swarm(world, {"": PolicyModel(lambda view: "ok")})
    ann = world.spawn("ann", returns="full")
    ask(swarm, "Where is the dynamo?", "ann")
    without = totals(world).prompt
    swarm.lessons = Lessons(BOOK, 40)
    ask(swarm, "Where is the dynamo?", "ann")
    assert totals(world).prompt - without > without + 20
    # What came back is the same as without a view.
    without_view, with_view = [entry.text for entry in load(world, ann).entries if entry.kind == "digest"]
    assert with_view.partition(": ")[2] == without_view.partition(": ")[2]


def test_who_hands_a_question_on_gets_no_view_and_the_asked_gets_its_own(world: World) -> None:
    swarm = Swarm(world, {"": PolicyModel(echo)}, lessons=Lessons(BOOK, 40))
    for name in ("root", "left", "right"):
        world.spawn(name, mode="serial")
    swarm.structure = tree(["root", "left", "right"], 2)
    number = swarm.ask("left", "Where is the dynamo?", to="right")
    asyncio.run(swarm.run())
    found = swarm.answer(number)
    assert found is not None
    assert "dynamo" in found.body
    assert told(world, "root") == []
    assert len(told(world, "right")) == 1


def test_a_serial_agent_is_not_told_the_same_twice(world: World) -> None:
    swarm = Swarm(world, {"": PolicyModel(lambda view: "ok")}, lessons=Lessons(BOOK, 40))
    world.spawn("ann", mode="serial")
    for question in ("the dynamo?", "the dynamo?", "the gasket?"):
        ask(swarm, question, "ann")
    assert len(told(world, "ann")) == 2


@pytest.mark.parametrize("mode", ["fork", "serial"])
def test_after_compaction_the_view_and_the_question_are_there_again(world: World, mode: str) -> None:
    async def forget(entries: object, tokens: int) -> str:
        return "I remember nothing"

    seen: list[str] = []

    def policy(view: View) -> Reply | str:
        seen.append(view.text())
        calls = sum(entry.role == "assistant" for entry in view.entries)
        return Reply("x" * 400, (use("find", subject="q"),)) if len(seen) < 9 and calls < 9 else "done"

    swarm = Swarm(world, {"": PolicyModel(policy)}, compactions={"": Summarise(forget, 20)}, lessons=Lessons(BOOK, 40))
    world.spawn("ann", mode=mode, window=500)  # type: ignore[arg-type]  # one of the two
    assert ask(swarm, "Where is the dynamo?", "ann") == "done"
    assert world.events("compacted")
    assert "I remember nothing" in seen[-1]
    assert "dynamo lies" in seen[-1]
    assert "asked you: Where is the dynamo?" in seen[-1]


def test_a_view_that_does_not_fit_is_refused_with_its_question_and_not_cut(world: World) -> None:
    swarm = Swarm(world, {"": PolicyModel(lambda view: "ok")}, lessons=Lessons(BOOK, None))
    world.spawn("ann", window=50)
    assert "too long for ann, who has 50" in ask(swarm, "Where is the dynamo?", "ann")
    assert [agent.state for agent in world.agents() if agent.name == "ann"] == ["live"]
    assert [entry for entry in history(world, world.agents()[1]) if entry.kind == LESSONS] == []
