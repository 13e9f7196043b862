"""Agents: asked through copies, found by what they read, replaced when dead or full, going on after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from benchmarks.swarm_lab.drivers import ToDisk
from combee.redaction import from_jsonl, to_jsonl
from combee.swarm import (
    USER,
    Newest,
    PolicyModel,
    Reply,
    Structure,
    Summarise,
    Swarm,
    View,
    World,
    edges,
    totals,
    traces,
    tree,
    use,
)
from combee.swarm.context import Call, Entry, Refuse, history, load
from combee.swarm.knowledge import note, recall, who_knows
from combee.swarm.mail import Mail, open_asks

from .conftest import office


def make(world: World, **options: object) -> Swarm:
    return Swarm(world, {"": PolicyModel(office)}, **options)  # type: ignore[arg-type]  # options of the test


def reply(swarm: Swarm, number: int) -> Mail:
    asyncio.run(swarm.run())
    found = swarm.answer(number)
    assert found is not None
    return found


def test_a_worker_finds_the_reader_through_the_directory_and_a_copy_answers(world: World) -> None:
    swarm = make(world)
    world.spawn("ann", role="reader")
    world.spawn("wes", role="worker", mode="serial")
    swarm.tell("ann", "doc/0000..0009")
    assert reply(swarm, swarm.ask(USER, "find 0003", to="wes")).body == "v0021"
    copies = [agent for agent in world.agents(forks=True) if agent.fork_of]
    assert [(copy.fork_of, copy.state) for copy in copies] == [("ann", "dead")]
    assert who_knows(world, "doc/0003")[0].agent == "ann"


@pytest.mark.parametrize(("returns", "entries"), [("none", 0), ("digest", 1), ("full", 1)])
def test_what_a_copy_brings_back(world: World, returns: str, entries: int) -> None:
    swarm = make(world, digest_tokens=30)
    ann = world.spawn("ann", role="reader", returns=returns)  # type: ignore[arg-type]  # one of the three
    swarm.tell("ann", "doc/0000..0009")
    asyncio.run(swarm.run())
    before = load(world, ann).used
    reply(swarm, swarm.ask(USER, f"{'long ' * 100} 0003", to="ann"))
    back = [entry for entry in load(world, ann).entries if entry.kind == "digest"]
    assert len(back) == entries
    if returns == "digest":
        assert load(world, ann).used - before <= 30 + 5
    if returns == "full":
        assert "long long" in back[0].text


def test_who_has_answered_with_a_digest_still_knows_the_version_it_read(world: World) -> None:
    swarm = make(world)
    world.spawn("ann", role="reader", returns="digest")
    swarm.tell("ann", "doc/0003")
    asyncio.run(swarm.run())
    before = who_knows(world, "doc/0003")
    reply(swarm, swarm.ask(USER, "value of 0003", subject="doc/0003"))
    after = who_knows(world, "doc/0003")
    assert [(one.agent, one.fresh) for one in before] == [(one.agent, one.fresh) for one in after] == [("ann", True)]
    assert after[0].count == before[0].count + 1


def test_a_copy_changes_nothing(world: World) -> None:
    def policy(view: View) -> Reply | str:
        done = view.results()
        return done[-1].text if done else Reply(calls=(use("write", path="doc/0001", text="mine"),))

    swarm = Swarm(world, {"": PolicyModel(policy)})
    world.spawn("ann")
    assert reply(swarm, swarm.ask(USER, "write", to="ann")).body.startswith("error: a copy")
    document = swarm.document("doc/0001")
    assert document is not None
    assert document.version == 1


def test_a_dead_agents_question_goes_to_the_next_who_knows_and_the_last_is_reported(world: World) -> None:
    swarm = make(world)
    for name in ("ann", "bob"):
        world.spawn(name, role="reader")
        swarm.tell(name, "doc/0000..0004")
    asyncio.run(swarm.run())
    question = swarm.ask(USER, "value of 0002", to="ann", subject="doc/0002")
    swarm.kill("ann")
    found = reply(swarm, question)
    assert (found.kind, found.body) == ("answer", "v0014")
    assert [event.agent for event in world.events("rerouted")] == ["bob"]
    last = swarm.ask(USER, "value of 0002", to="bob", subject="doc/0002")
    swarm.kill("bob")
    report = reply(swarm, last)
    assert (report.kind, report.body) == ("report", "No answer: bob is dead.")
    assert open_asks(world, USER) == []


def test_a_full_agent_is_reported_and_its_question_goes_elsewhere(world: World) -> None:
    swarm = make(world, compactions={"": Refuse()})
    world.spawn("ann", role="reader", window=260)
    world.spawn("bob", role="reader", window=2000)
    swarm.tell("ann", "doc/0000..0004")
    swarm.tell("bob", "doc/0000..0004")
    asyncio.run(swarm.run())
    found = reply(swarm, swarm.ask(USER, f"{'pad ' * 100} 0002", to="ann", subject="doc/0002"))
    assert found.body == "v0014"
    assert [event.agent for event in world.events("full")] == ["ann"]


def test_after_compaction_roster_and_open_asks_come_from_the_world(world: World) -> None:
    async def forget(entries: Sequence[Entry], tokens: int) -> str:
        return "I remember nothing"

    def policy(view: View) -> Reply | str:
        if view.mail.kind == "tell":
            return "noted"
        if view.agent.role == "sink":
            return Reply(calls=(use("ask", to="never", question="and you?"),)) if not view.results() else "waiting"
        if not view.results():
            return Reply(calls=(use("ask", to="sink", question="the open question"),))
        return "waiting"

    swarm = Swarm(world, {"": PolicyModel(policy)}, compactions={"": Summarise(forget, 20)})
    wes = world.spawn("wes", role="worker", mode="serial", window=150)
    world.spawn("sink", role="sink", mode="serial")
    world.spawn("never", mode="outside")
    swarm.ask(USER, "the users question", to="wes")
    for number in range(6):
        swarm.tell("wes", f"{number} {'noise ' * 40}")
    asyncio.run(swarm.run())
    text = "\n".join(entry.text for entry in load(world, wes).entries)
    assert world.events("compacted")
    assert "I remember nothing" in text
    assert "you asked sink: the open question" in text
    assert f"{USER} asked you: the users question" in text
    assert "- sink (sink)" in text


def test_compaction_to_disk_keeps_a_pointer_to_everything(world: World) -> None:
    def keep(agent: str, entry: Entry) -> str:
        return note(world, agent, entry.text)

    swarm = make(world, compactions={"": ToDisk(keep, 40)})
    ann = world.spawn("ann", role="reader", window=400)
    for number in range(20):
        swarm.tell("ann", f"doc/{number:04d}")
    asyncio.run(swarm.run())
    summary = next(entry for entry in load(world, ann).entries if entry.kind == "summary")
    assert all(recall(world, pointer) for pointer in summary.text.split("\n"))
    assert load(world, ann).used <= 400
    assert sum("k0" in row[0] for row in world.rows("SELECT text FROM notes")) >= 15


def test_a_window_is_never_over_its_limit_and_a_result_follows_its_call(world: World) -> None:
    swarm = make(world, compactions={"": Newest(0.3)})
    ann = world.spawn("ann", role="reader", window=300)
    for number in range(0, 40, 4):
        swarm.tell("ann", f"doc/{number:04d}..{number + 3:04d}")
    asyncio.run(swarm.run())
    entries = load(world, ann).entries
    assert sum(entry.tokens for entry in entries) <= 300
    called = {call.id for entry in entries for call in entry.calls}
    assert all(entry.answers in called for entry in entries if entry.role == "tool")
    assert sum(entry.text.startswith("k0") for entry in history(world, ann)) == 10


def test_a_fresh_agent_answers_once_and_is_gone(world: World) -> None:
    def policy(view: View) -> Reply | str:
        if view.mail.kind == "answer":
            return f"sub said {view.mail.body}"
        if view.agent.mode == "once":
            done = view.results()
            return done[-1].text[:11] if done else Reply(calls=(use("read", path="doc/0005"),))
        return "waiting" if view.results() else Reply(calls=(use("delegate", task="read it"),))

    swarm = Swarm(world, {"": PolicyModel(policy)})
    world.spawn("wes", mode="serial")
    assert reply(swarm, swarm.ask(USER, "do", to="wes")).body == "sub said k0005=v0035"
    sub = next(agent for agent in world.agents() if agent.mode == "once")
    assert (sub.state, sub.parent) == ("dead", "wes")


def test_in_a_tree_a_question_passes_through_its_root_and_costs_it_context(world: World) -> None:
    swarm = make(world)
    names = ["root", "l", "r", "ll", "lr", "rl", "rr"]
    for name in names:
        world.spawn(name, role="reader", mode="fork")
    swarm.tell("rr", "doc/0000..0004")
    asyncio.run(swarm.run())
    swarm.structure = tree(names, 2)
    number = swarm.ask("ll", "value of 0002", to="rr")
    asyncio.run(swarm.run())
    found = swarm.answer(number)
    assert found is not None
    assert found.body == "v0014"
    assert (found.sender, found.recipient) == ("l", "ll")
    through = [edge for edge in edges(world) if "root" in {edge.sender, edge.recipient}]
    assert sum(edge.messages for edge in through) == 4
    swarm.structure = Structure()
    before = totals(world).messages
    swarm.ask("ll", "value of 0002", to="rr")
    asyncio.run(swarm.run())
    assert totals(world).messages - before == 3  # question, answer, digest


def test_an_agent_thinks_once_when_all_the_answers_are_in(world: World) -> None:
    def policy(view: View) -> Reply | str:
        if view.agent.name != "lead":
            return view.agent.fork_of or ""
        if view.mail.kind == "ask":
            return (
                "waiting"
                if view.results()
                else Reply(calls=(use("ask", to="a", question="?"), use("ask", 1, to="b", question="?")))
            )
        return " ".join(entry.text for entry in view.entries if entry.kind == "answer")

    swarm = Swarm(world, {"": PolicyModel(policy)})
    for name in ("a", "b"):
        world.spawn(name)
    world.spawn("lead", mode="serial")
    assert reply(swarm, swarm.ask(USER, "?", to="lead")).body == "a answers: a b answers: b"
    assert totals(world).replies == 5


def test_endless_asking_ends_at_the_hop_limit(world: World) -> None:
    def policy(view: View) -> Reply | str:
        if view.mail.kind in {"answer", "report"}:
            return view.mail.body
        if view.results():
            return view.results()[-1].text
        other = "b" if view.agent.fork_of == "a" else "a"
        return Reply(calls=(use("ask", to=other, question="you?"),))

    swarm = Swarm(world, {"": PolicyModel(policy)}, hop_limit=5)
    world.spawn("a", returns="none")
    world.spawn("b", returns="none")
    assert reply(swarm, swarm.ask(USER, "?", to="a")).body == "Nobody can be asked: a: hops."
    assert totals(world).messages == 12


def test_asking_again_at_every_answer_ends_too(world: World) -> None:
    def policy(view: View) -> Reply | str:
        if view.agent.name != "a":
            return "no"
        if view.results():
            return view.results()[-1].text
        return Reply(calls=(use("ask", to="b", question="you?"),))

    swarm = Swarm(world, {"": PolicyModel(policy)}, max_asks=7)
    world.spawn("a", mode="serial")
    world.spawn("b", mode="serial")
    assert (
        reply(swarm, swarm.ask(USER, "?", to="a")).body
        == "Nobody can be asked: 7 questions were asked for the sake of this one."
    )
    assert totals(world).messages == 2 + 2 * 7


def test_a_brain_that_never_ends_is_stopped_and_reported(world: World) -> None:
    swarm = Swarm(world, {"": PolicyModel(lambda _: Reply(calls=(use("find", subject="x"),)))}, max_steps=5)
    world.spawn("a")
    found = reply(swarm, swarm.ask(USER, "?", to="a"))
    assert found.kind == "report"
    assert "no end after 5 replies" in found.body
    assert "max_steps in [options]" in found.body
    assert "the last tool said: Nobody has read it." in found.body


def test_a_brain_that_makes_one_wrong_call_again_and_again_is_stopped_before_its_thoughts_are_used_up(
    world: World,
) -> None:
    swarm = Swarm(world, {"": PolicyModel(lambda _: Reply("hm", calls=(use("ok"),)))})
    world.spawn("a", mode="serial")
    found = reply(swarm, swarm.ask(USER, "?", to="a"))
    assert found.kind == "report"
    assert "the last 5 replies made the same call" in found.body
    assert "there is no tool 'ok'" in found.body
    assert totals(world).replies == 5


def test_a_brain_whose_wrong_calls_differ_may_go_on(world: World) -> None:
    def policy(view: View) -> Reply | str:
        tries = sum(entry.role == "tool" for entry in view.entries)
        return "found it" if tries == 7 else Reply(calls=(use("read", path=f"doc/{tries}"),))

    world.spawn("a", mode="serial")
    swarm = Swarm(world, {"": PolicyModel(policy)})
    assert reply(swarm, swarm.ask(USER, "?", to="a")).body == "found it"


@pytest.mark.parametrize("call", ['{"no json', "[1]", "{}", '{"path": "a", "more": "b"}'])
def test_a_wrong_call_is_said_to_the_agent(world: World, call: str) -> None:
    def policy(view: View) -> Reply | str:
        return view.results()[0].text if view.results() else Reply(calls=(Call("c", "read", call),))

    swarm = Swarm(world, {"": PolicyModel(policy)})
    world.spawn("a", mode="serial")
    assert reply(swarm, swarm.ask(USER, "?", to="a")).body.startswith("error: ")


def test_the_same_run_has_the_same_ledger_and_traces_go_to_disk_and_back(world: World) -> None:
    swarm = make(world)
    world.spawn("ann", role="reader")
    world.spawn("wes", role="worker", mode="serial")
    swarm.tell("ann", "doc/0000..0009")
    for number in range(5):
        swarm.ask(USER, f"find {number:04d}", to="wes")
    asyncio.run(swarm.run())
    found = list(traces(world))
    assert len(found) == 7
    assert {trace.meta.get("copy_of") for trace in found} == {None, "ann"}
    assert list(from_jsonl("".join(to_jsonl(found)).splitlines())) == found
