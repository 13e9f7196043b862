"""The plain driver and pydantic-ai: the same script leaves the same ledger; other models fail in the same words."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from combee.swarm import USER, AgentModel, Lessons, PolicyModel, Reply, Swarm, View, World, edges, publish, totals, use
from combee.swarm.agents import Policy
from combee.swarm.context import Call

from .conftest import office
from .test_lessons import BOOK

pytest.importorskip("pydantic_ai", reason="needs the extra combee-learn[swarm]")


def busy(view: View) -> Reply | str:
    """The office, with more to do: several tools in a reply, wrong ones among them, text beside calls, a lesson."""
    if view.mail.kind == "ask" and view.agent.role == "reader" and not view.results():
        wrong = Call("c1", "read", '{"file": "x"}')
        return Reply("Let me see.", (use("find", subject="doc/0001"), wrong, use("remember", 2, text="é ☃")))
    said = office(view)
    if isinstance(said, str) and view.mail.kind == "ask":
        told = [entry.text for entry in view.entries if entry.kind == "lessons"]
        return f"{said}{' (as told)' if told else ''}"
    return said


def run(path: Path, model: AgentModel) -> Swarm:
    world = World.open(path)
    swarm = Swarm(world, {"": model}, concurrency=4, lessons=Lessons(BOOK, 60))
    with world.step():
        for number in range(30):
            publish(world, f"doc/{number:04d}", f"k{number:04d}=v{number * 7:04d} {'x' * 50}", "author")
        for number in range(3):
            world.spawn(f"reader{number}", role="reader", returns="none", window=260)
            world.spawn(f"worker{number}", role="worker", mode="serial")
            swarm.tell(f"reader{number}", f"doc/{number * 10:04d}..{number * 10 + 9:04d}")
    asyncio.run(swarm.run())
    for number in range(12):
        swarm.ask(USER, f"find {number * 2:04d}", to=f"worker{number % 3}")
    asyncio.run(swarm.run())
    return swarm


@pytest.mark.parametrize("policy", [office, busy])
def test_the_same_script_leaves_the_same_ledger_in_both_drivers(tmp_path: Path, policy: Policy) -> None:
    from benchmarks.swarm_lab.drivers import policy_behind_pydantic

    plain = run(tmp_path / "plain.sqlite", PolicyModel(policy))
    model = run(tmp_path / "model.sqlite", policy_behind_pydantic(policy))
    assert (totals(plain.world).compactions > 0) == (policy is busy)
    assert totals(plain.world).replies > 30
    assert totals(plain.world) == totals(model.world)
    assert sorted(edges(plain.world), key=str) == sorted(edges(model.world), key=str)
    rows = "SELECT body FROM mail WHERE kind = 'answer' AND recipient = 'user' ORDER BY key"
    assert plain.world.rows(rows) == model.world.rows(rows)
    # Numbers of messages differ, since agents on a model think at the same time; all else is the same.
    context = (
        "SELECT role, kind, text, tokens, calls, answers FROM context WHERE role != 'user' AND text NOT LIKE 'Asked%'"
    )
    assert sorted(map(str, plain.world.rows(context))) == sorted(map(str, model.world.rows(context)))
    spend = "SELECT purpose, prompt, fresh, completion FROM spend ORDER BY 1, 2, 3, 4"
    assert plain.world.rows(spend) == model.world.rows(spend)
    plain.world.close()
    model.world.close()


def test_what_a_model_that_is_down_did_not_answer_is_answered_by_the_next_run(tmp_path: Path) -> None:
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    from combee.swarm import PydanticModel

    up = False

    async def down(*_: object) -> object:
        if up:
            return ModelResponse(parts=[TextPart("yes")])
        raise ModelHTTPError(status_code=503, model_name="m")

    with World.open(tmp_path / "w.sqlite") as world:
        swarm = Swarm(world, {"": PydanticModel(FunctionModel(down))})  # type: ignore[arg-type]  # always so
        world.spawn("a")
        number = swarm.ask(USER, "?", to="a")
        asyncio.run(swarm.run())
        assert swarm.answer(number) is None
        assert ["503" in one.why for one in swarm.waiting.values()] == [True]
        up = True
        asyncio.run(swarm.run())
        found = swarm.answer(number)
        assert found is not None
        assert (found.kind, found.body) == ("answer", "yes")


def test_slow_agents_think_at_the_same_time_and_each_alone(tmp_path: Path) -> None:
    running: set[str] = set()
    most = 0

    class Slow:
        slow = True

        async def reply(self, view: View) -> Reply:
            nonlocal most
            assert view.agent.name not in running
            running.add(view.agent.name)
            most = max(most, len(running))
            await asyncio.sleep(0.005)
            running.remove(view.agent.name)
            return Reply("ok")

    with World.open(tmp_path / "w.sqlite") as world:
        swarm = Swarm(world, {"": Slow()}, concurrency=5)
        for number in range(8):
            world.spawn(f"a{number}", mode="serial")
            for _ in range(3):
                swarm.tell(f"a{number}", "hello")
        assert asyncio.run(swarm.run()) == 24
    assert most == 5


def test_the_plain_driver_needs_no_pydantic_ai() -> None:
    code = "import combee.swarm, sys; sys.exit('pydantic_ai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
