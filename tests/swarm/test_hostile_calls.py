"""Whatever a model writes into a call is answered or refused in words: no call stops the agents of a world."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from combee.errors import CallError, CallErrorKind
from combee.model import Request, Response, Usage
from combee.swarm import USER, PolicyModel, Reply, Repository, Summarise, Swarm, View, World, publish
from combee.swarm.context import Call, Entry
from combee.swarm.endpoint import EndpointModel

HUGE = "9" * 30


def result_of(world: World, call: Call, repository: Repository | None = None) -> str:
    """Return what an agent is told about a call."""

    def policy(view: View) -> Reply | str:
        return view.results()[0].text if view.results() else Reply(calls=(call,))

    swarm = Swarm(world, {"": PolicyModel(policy)}, repository=repository)
    world.spawn("ann", mode="serial")
    number = swarm.ask(USER, "?", to="ann")
    asyncio.run(swarm.run())
    found = swarm.answer(number)
    assert found is not None
    assert found.kind == "answer"
    return found.body


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("recall", {"query": f"note:{HUGE}"}, "No note matches."),
        ("take", {"issue": HUGE}, "It is taken or closed."),
        ("close", {"issue": "9" * 5000}, "It is not yours: take it first."),
        ("find", {"subject": "\ud800"}, "Nobody has read it."),
        ("read", {"path": "\ud800"}, "error: there is no document \ufffd"),
        ("read", {"path": f"doc/0..{HUGE}"}, f"error: there is no document doc/0..{HUGE}"),
        ("read", {"path": "doc/0..999999999"}, "error: at most 1000 documents are read at once"),
        ("read", {"path": "doc/0000..1000"}, "error: at most 1000 documents are read at once"),
    ],
)
def test_numbers_and_texts_that_no_table_holds(world: World, tool: str, arguments: dict[str, str], says: str) -> None:
    assert result_of(world, Call("c", tool, json.dumps(arguments))) == says


def test_arguments_nested_beyond_reading(world: World) -> None:
    assert result_of(world, Call("c", "read", "[" * 200_000)) == "error: the arguments are not JSON"


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "folder", "file/below", "\ud800/../../out"])
@pytest.mark.parametrize("tool", ["read", "write"])
def test_paths_that_no_repository_has(world: World, tmp_path: Path, path: str, tool: str) -> None:
    repository = Repository.open(tmp_path / "repo")
    repository.write("file", "kept", agent="ann")
    repository.write("folder/file", "kept", agent="ann")
    arguments = {"path": path} | ({"text": "new"} if tool == "write" else {})
    assert result_of(world, Call("c", tool, json.dumps(arguments)), repository).startswith("error: ")
    assert repository.read("file") == repository.read("folder/file") == "kept"


def test_arguments_of_any_name_in_the_reply_of_a_model(world: World) -> None:
    class Odd:
        name = "odd"

        async def complete(self, request: Request) -> Response:
            calls = [{"tool": "read", "arguments": {"name": "x", "number": "1", "path": "doc/0001"}}]
            return Response(json.dumps({"text": "", "calls": calls}), Usage(1, 1))

    view_of = []

    class Watched(EndpointModel):
        async def reply(self, view: View) -> Reply:
            view_of.append(view)
            return await super().reply(view) if len(view_of) == 1 else Reply(view.results()[0].text)

    swarm = Swarm(world, {"": Watched(Odd())})
    world.spawn("ann", mode="serial")
    number = swarm.ask(USER, "?", to="ann")
    asyncio.run(swarm.run())
    found = swarm.answer(number)
    assert found is not None
    assert found.body == "error: unknown arguments ['name', 'number'], missing []"


def test_a_summary_that_cannot_be_had_lets_the_question_wait(world: World) -> None:
    async def down(entries: Sequence[Entry], tokens: int) -> str:
        raise CallError("the endpoint is down", kind=CallErrorKind.SERVER)

    swarm = Swarm(world, {"": PolicyModel(lambda _: "x" * 300)}, compactions={"": Summarise(down, 20)})
    world.spawn("ann", mode="serial", window=100)
    swarm.tell("ann", "news")
    number = swarm.ask(USER, "and?", to="ann")
    asyncio.run(swarm.run())
    assert swarm.answer(number) is None
    assert [(one.mail.id, one.why) for one in swarm.waiting.values()] == [(number, "the endpoint is down")]


def test_a_read_of_many_documents_is_one_read(world: World) -> None:
    publish(world, "doc/0999", "last", "author")
    assert result_of(world, Call("c", "read", '{"path": "doc/0999..0999"}')) == "last"
