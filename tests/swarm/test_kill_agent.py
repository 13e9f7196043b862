"""`kill`: what the agent thinks at the moment is cancelled and booked; what it had not answered goes on to others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from combee.swarm import USER, Reply, Summarise, Swarm, View, World, publish, use
from combee.swarm.context import Entry
from combee.swarm.mail import Mail


class Hangs:
    """Thinks for ever as ann, at once as anyone else; tells when a reply begins and ends."""

    slow = True

    def __init__(self) -> None:
        self.thinking = asyncio.Event()
        self.cancelled = 0

    async def reply(self, view: View) -> Reply:
        if view.mail.kind == "tell":
            return Reply("read") if view.results() else Reply(calls=(use("read", path=view.mail.body),))
        if (view.agent.origin) != "ann":
            return Reply(f"answer of {view.agent.origin}")
        self.thinking.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError


def outcome(swarm: Swarm, number: int) -> Mail:
    found = swarm.answer(number)
    assert found is not None
    return found


@pytest.mark.parametrize("mode", ["fork", "serial"])
def test_a_thought_in_flight_is_cancelled_booked_and_its_question_goes_on(world: World, mode: str) -> None:
    model = Hangs()
    swarm = Swarm(world, {"": model})
    publish(world, "doc/a", "text", "x")
    for name in ("ann", "bob"):
        world.spawn(name, mode=mode)  # type: ignore[arg-type]  # one of the two
        swarm.tell(name, "doc/a")

    async def scene() -> tuple[int, int]:
        await swarm.run()
        first = swarm.ask(USER, "what?", to="ann", subject="doc/a")
        second = swarm.ask(USER, "and?", to="ann", subject="doc/a")
        running = asyncio.create_task(swarm.run())
        await model.thinking.wait()
        swarm.kill("ann")
        await running  # and it ends: nothing waits for the dead
        return first, second

    for number in asyncio.run(scene()):
        assert outcome(swarm, number).body == "answer of bob"
    assert model.cancelled == (2 if mode == "fork" else 1)
    booked = world.rows("SELECT prompt, completion, estimated FROM spend WHERE purpose = 'cancelled'")
    assert len(booked) == model.cancelled
    assert all(prompt > 0 and completion == 0 and estimated for prompt, completion, estimated in booked)
    assert [agent.name for agent in world.agents(forks=True) if agent.state == "live"] == ["user", "bob"]


def test_a_question_that_waits_for_others_is_reported_when_its_agent_is_killed(world: World) -> None:
    model = Hangs()

    class Asks(Hangs):
        async def reply(self, view: View) -> Reply:
            if view.agent.name != "wes":
                return await model.reply(view)
            return Reply("waiting") if view.results() else Reply(calls=(use("ask", to="ann", question="?"),))

    swarm = Swarm(world, {"": Asks()})
    world.spawn("wes", mode="serial")
    world.spawn("ann")

    async def scene() -> int:
        number = swarm.ask(USER, "do it", to="wes")
        running = asyncio.create_task(swarm.run())
        await model.thinking.wait()
        swarm.kill("wes")
        assert outcome(swarm, number).body == "No answer: wes is dead."
        swarm.kill("ann")
        await running
        return number

    asyncio.run(scene())
    assert world.rows("SELECT 1 FROM mail WHERE state IN ('queued', 'delivered')") == []


def test_a_summary_being_written_is_cancelled_and_booked_too(world: World) -> None:
    started = asyncio.Event()

    async def write(entries: Sequence[Entry], tokens: int) -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    class Says:
        slow = True

        async def reply(self, view: View) -> Reply:
            return Reply("x" * 300)

    swarm = Swarm(world, {"": Says()}, compactions={"": Summarise(write, 20)})
    world.spawn("ann", mode="serial", window=100)

    async def scene() -> None:
        for _ in range(3):
            swarm.tell("ann", "news")
        running = asyncio.create_task(swarm.run())
        await started.wait()
        swarm.kill("ann")
        await running

    asyncio.run(scene())
    assert len(world.rows("SELECT 1 FROM spend WHERE purpose = 'cancelled'")) == 1


def test_a_run_that_is_stopped_books_what_was_in_flight_and_goes_on_later(world: World) -> None:
    model = Hangs()
    swarm = Swarm(world, {"": model}, max_steps=2)
    world.spawn("ann", mode="serial")
    number = swarm.ask(USER, "what?", to="ann")

    async def stopped() -> None:
        running = asyncio.create_task(swarm.run())
        await model.thinking.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    for _ in range(3):  # more often than it may think
        model.thinking = asyncio.Event()
        asyncio.run(stopped())
    assert len(world.rows("SELECT 1 FROM spend WHERE purpose = 'cancelled'")) == 3

    class Answers:
        slow = True

        async def reply(self, view: View) -> Reply:
            return Reply("later")

    again = Swarm(world, {"": Answers()}, max_steps=2)
    asyncio.run(again.run())
    assert outcome(again, number).body == "later"
