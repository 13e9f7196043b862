"""Roles and edges as versions: proposals take effect only when they measure better. And the git repository."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.swarm_lab.structure import proposals, propose, settle
from combee.errors import UsageError
from combee.run.git import git
from combee.swarm import USER, PolicyModel, Reply, Repository, Structure, Swarm, View, World, adopt, tree, use
from combee.swarm.knowledge import credit, read
from combee.swarm.mail import get_mail
from combee.swarm.structure import current


@given(size=st.integers(2, 40), fan=st.integers(1, 6), pair=st.tuples(st.integers(0, 39), st.integers(0, 39)))
def test_every_message_in_a_tree_arrives_and_never_turns_back(size: int, fan: int, pair: tuple[int, int]) -> None:
    names = [f"n{number}" for number in range(size)]
    structure = tree(names, fan)
    assert Structure.from_json(structure.to_json()) == structure
    at, goal = names[pair[0] % size], names[pair[1] % size]
    seen = [at]
    while at != goal:
        hop = structure.next_hop(at, goal)
        assert hop is not None
        at = hop
        assert at not in seen
        seen.append(at)


def test_an_edit_stays_when_it_measures_better_and_is_undone_when_not(world: World) -> None:
    adopt(world, tree(["a", "b", "c", "d"], 1), author="person", why="start")
    propose(world, '{"add": [["a", "d"]]}', author="d", why="shorter")
    propose(world, '{"remove": [["a", "b"]]}', author="b", why="less noise")

    async def measure(structure: Structure) -> float:
        return float(len(structure.edges))

    settled = asyncio.run(settle(world, measure))
    assert [(one.state, one.score) for one in settled] == [("kept", 4.0), ("undone", None)]
    now = current(world)
    assert now is not None
    assert now.allows("d", "a")
    propose(world, '{"remove": [["a", "d"]]}', author="a", why="?")
    assert [one.state for one in asyncio.run(settle(world, measure))] == ["undone"]
    assert len(proposals(world)) == 4


def test_a_role_that_is_kept_is_the_agents_role(world: World) -> None:
    world.spawn("ann", role="reader")
    propose(world, '{"roles": {"ann": "editor"}}', author="ann", why="I edit")

    async def measure(structure: Structure) -> float:
        return float(len(structure.roles))

    asyncio.run(settle(world, measure))
    found = world.agent("ann")
    assert found is not None
    assert found.role == "editor"


def answered(swarm: Swarm, number: int) -> tuple[str, str]:
    asyncio.run(swarm.run())
    found = swarm.answer(number)
    assert found is not None
    return found.kind, found.body


def test_nobody_asks_where_the_structure_has_no_way(world: World) -> None:
    swarm = Swarm(world, {"": PolicyModel(lambda view: f"{view.agent.origin} answers")})
    for name in ("a", "b", "c", "d"):
        world.spawn(name)
        credit(world, name, 1, "doc/0001", "1")
    swarm.structure = Structure(frozenset({("a", "b"), ("c", "d")}))
    assert swarm.ask("a", "?", to="c") == 0
    assert [(event.agent, event.data["why"]) for event in world.events("refused")] == [("c", "no way")]
    number = swarm.ask("a", "?", to="c", subject="doc/0001")  # the next who knows, whom a way leads to
    assert answered(swarm, number) == ("answer", "b answers")
    with world.copy(world.path.with_name("copy.sqlite")) as copied:
        assert swarm.on(copied).ask("a", "?", to="c") == 0


def test_a_question_that_is_sent_again_elsewhere_goes_along_the_structure_too(world: World) -> None:
    swarm = Swarm(world, {"": PolicyModel(lambda view: f"{view.agent.origin} answers")})
    for name in ("a", "b", "c", "d"):
        world.spawn(name)
    for name in ("b", "d"):
        credit(world, name, 1, "doc/0001", "1")
    swarm.structure = Structure(frozenset({("a", "b"), ("a", "c"), ("c", "d")}))
    number = swarm.ask("a", "?", to="b", subject="doc/0001")
    swarm.kill("b")
    assert answered(swarm, number) == ("answer", "d answers")
    assert [mail.recipient for one in (2, 3) if (mail := get_mail(world, one))] == ["c", "d"]


def test_an_answer_comes_back_over_a_way_longer_than_the_usual_limit(world: World) -> None:
    swarm = Swarm(world, {"": PolicyModel(lambda view: "here")}, hop_limit=40)
    names = [f"n{number:02d}" for number in range(25)]
    for name in names:
        world.spawn(name)
    swarm.structure = tree(names, 1)
    assert answered(swarm, swarm.ask(names[0], "?", to=names[-1])) == ("answer", "here")


@pytest.mark.parametrize("edit", ["x", "[]", '{"more": 1}', '{"add": [["a"]]}', '{"add": [["a", "a"]]}'])
def test_what_is_no_edit_is_refused(world: World, edit: str) -> None:
    with pytest.raises(UsageError):
        propose(world, edit, author="a", why="")
    assert proposals(world, "proposed") == []


def test_the_repository_keeps_who_wrote_what_and_lets_nobody_out(tmp_path: Path) -> None:
    repository = Repository.open(tmp_path / "repo")
    assert repository.read("a/b.txt") is None
    first = repository.write("a/b.txt", "one\n", agent="ann")
    second = repository.write("a/b.txt", "two\n", agent="bob")
    assert repository.write("a/b.txt", "two\n", agent="eve") == second
    assert repository.read("a/b.txt", first) == "one\n"
    assert repository.read("a/b.txt") == "two\n"
    assert git(repository.root, "log", "--format=%(trailers:key=Combee-Agent,valueonly,separator=)").split() == [
        "bob",
        "ann",
    ]
    odd = "one\r\ntwo\rthree"
    repository.write("*.txt", odd, agent="ann")
    assert repository.read("*.txt") == odd
    for path in ("../x", "/x", ".git/config", ""):
        with pytest.raises(UsageError):
            repository.write(path, "", agent="eve")
    with pytest.raises(UsageError):
        repository.read("a/b.txt", "--output=x")


def test_agents_read_and_write_files_of_the_repository(tmp_path: Path) -> None:
    def policy(view: View) -> Reply | str:
        done = view.results()
        return done[0].text if done else Reply(calls=(use("write", path="n.txt", text="new"),))

    repository = Repository.open(tmp_path / "repo")
    with World.open(tmp_path / "w.sqlite") as world:
        swarm = Swarm(world, {"": PolicyModel(policy)}, repository=repository)
        world.spawn("ann", mode="serial")
        number = swarm.ask(USER, "write", to="ann")
        asyncio.run(swarm.run())
        found = swarm.answer(number)
        assert found is not None
        assert found.body == "Written as version 1."
        with world.copy(tmp_path / "copy.sqlite") as copied:
            there = swarm.on(copied)
            assert there.write("n.txt", "only there", "ann") == 2
            assert [there.document(path) for path in ("n.txt", "none.txt")] == [read(copied, "n.txt", 2), None]
        repository.write("n.txt", "changed outside", agent="person")
        document = swarm.document("n.txt")
        assert document is not None
        assert (document.version, document.body) == (2, "changed outside")
