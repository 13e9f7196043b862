"""Agents on a model, over HTTP: our own client against `combee mock`, pydantic-ai against a server with tool calls."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from combee.cli.main import run
from combee.errors import BudgetError
from combee.mock import MockConfig, MockServer
from combee.model import Budget, Engine, OpenAIModel, Price, RetryPolicy
from combee.swarm import USER, Swarm, World, totals
from combee.swarm.config import build, populate, put_task, read_swarm_file
from combee.swarm.endpoint import EndpointModel

QUESTION = "What is the retry limit?"


def says(text: str = "", tool: str = "", **arguments: str) -> dict[str, Any]:
    return {"text": text, "calls": [{"tool": tool, "arguments": arguments}] if tool else []}


RULES = [
    {"match": r"says: http\.md\Z", "reply": says(tool="read", path="http.md")},
    {"match": r"asks: What is the retry limit\?\Z", "reply": says(tool="ask", question="And?", subject="http.md")},
    {"match": r"retry limit is (\d+)\..*asks: And\?\Z", "reply": says("It is {1}.")},
    {"match": r"answers: (It is \d+\.)\Z", "reply": says("{1}")},
    {"match": "", "reply": says("Done.")},
]
OFFICE = """
[model]
{model}
[documents]
folder = "docs"
[[agents]]
name = "ann"
role = "reader"
instructions = "You know the client."
reads = ["http.md"]
[[agents]]
name = "wes"
role = "worker"
mode = "serial"
[task]
to = "wes"
question = "What is the retry limit?"
"""


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")


def office(folder: Path, model: str) -> Path:
    (folder / "docs").mkdir()
    (folder / "docs" / "http.md").write_text("The retry limit is 5.\n", encoding="utf-8")
    path = folder / "office.toml"
    path.write_text(OFFICE.format(model=model), encoding="utf-8")
    return path


@contextmanager
def combee_mock(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run `combee mock` as a process; what it counted is in the dictionary afterwards."""
    script = folder / "rules.json"
    script.write_text(json.dumps(RULES), encoding="utf-8")
    command = [sys.executable, "-m", "combee", "mock", "--port", "0", "--script", str(script), "--json"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    counts: dict[str, Any] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"], counts
        finally:
            process.send_signal(signal.SIGINT)
            counts.update(json.loads(process.stdout.readline() or "{}"))


@pytest.mark.usefixtures("key")
def test_agents_on_an_endpoint_read_ask_and_answer_and_what_they_took_is_what_was_charged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with combee_mock(tmp_path) as (url, counts):
        file = office(tmp_path, f'kind = "endpoint"\nname = "m"\nbase_url = "{url}"')
        assert run(["swarm", "run", str(file), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["answer"] == {"kind": "answer", "from": "wes", "body": "It is 5."}
        assert run(["swarm", "ask", "ann", "And?", "--world", str(tmp_path / "office.sqlite")]) == 0
        assert capsys.readouterr().out == "It is 5.\n"
        with World.open(tmp_path / "office.sqlite", read_only=True) as world:
            spent = totals(world)
            estimated = world.rows("SELECT 1 FROM spend WHERE estimated")
    assert (spent.prompt, spent.completion) == (counts["prompt"], counts["completion"])
    assert spent.replies == counts["requests"]
    assert estimated == []


@pytest.mark.usefixtures("key")
def test_a_swarm_on_an_endpoint_learns_with_a_model_that_reflects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents and reflector on one server: what the reflector says stands before the agents in the next round."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"t{n}", "question": f"@ann What is fact {n}?", "answer": f"fact {n} is red"} for n in range(4)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def reply(body: Mapping[str, Any]) -> str:
        text = "\n".join(str(message["content"]) for message in body["messages"])
        form = json.dumps(body.get("response_format", {}))
        if '"calls"' in form:
            number = text.rpartition("fact ")[2][0]
            told = "Every fact is red" in text
            named = text.partition("Every fact is red")[0].rpartition("[")[2].partition("]")[0]
            return json.dumps(says(f"fact {number} is red [{named}]" if told else f"fact {number} is blue"))
        if '"operations"' in form:
            operation = {"type": "ADD", "section": "", "content": "Every fact is red.", "sources": [1]}
            return json.dumps({"reasoning": "", "operations": [operation]})
        return json.dumps({"reasoning": "r", "error_identification": "wrong colour", "root_cause_analysis": "",
                           "correct_approach": "", "key_insight": "Every fact is red.", "lessons":
                           ["Every fact is red."], "bullet_tags": []})  # fmt: skip

    async def scene() -> tuple[int, str]:
        async with MockServer(MockConfig(), reply) as server:
            model = f'kind = "endpoint"\nname = "m"\nbase_url = "{server.url}"'
            file = office(tmp_path, model)
            learn = '[learn]\ntasks = "tasks.jsonl"\nto = "ann"\n'
            file.write_text(file.read_text(encoding="utf-8").partition("[task]")[0] + learn, encoding="utf-8")
            command = ["swarm", "learn", str(file), "--rounds", "2", "--model", "m", "--base-url", server.url, "--json"]
            code = await asyncio.to_thread(run, command)
            return code, capsys.readouterr().out

    code, out = asyncio.run(scene())
    assert code == 0
    told = json.loads(out)
    first, second = (row["training"] for row in told["rounds"])
    assert first[0] == 0
    assert second[0] == second[1] > 0
    assert told["bullets"] == 1


def model(url: str, **options: Any) -> EndpointModel:
    engine = Engine(retry=RetryPolicy(max_tries=1), **options)
    return EndpointModel(OpenAIModel(url, "m", engine=engine, price=Price(1, 1)))


async def to_the_end(swarm: Swarm) -> None:
    try:
        await swarm.run()
    finally:
        await swarm.aclose()


async def asked(swarm: Swarm, question: str = QUESTION) -> str:
    number = swarm.ask(USER, question, to="ann")
    await to_the_end(swarm)
    found = swarm.answer(number)
    return f"{found.kind}: {found.body}" if found else "nothing"


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize(
    ("config", "says_what"),
    [
        (MockConfig(context=20), "maximum context"),
        (MockConfig(schema="ignore", json_mode="ignore"), "JSON"),
    ],
)
def test_what_an_endpoint_refuses_of_a_question_is_reported_to_who_asked(
    world: World, config: MockConfig, says_what: str
) -> None:
    async def scene() -> tuple[str, int]:
        async with MockServer(config, lambda _: json.dumps(says("ok"))) as server:
            told = await asked(Swarm(world, {"": model(server.url)}))
            return told, server.stats.prompt + server.stats.completion

    world.spawn("ann")
    found, charged = asyncio.run(scene())
    spent = totals(world)
    assert spent.prompt + spent.completion == charged  # also what was paid for nothing
    assert found.startswith("report: No answer: ")
    assert says_what in found
    assert all(event.data["outside"] for event in world.events("failed"))


@pytest.mark.parametrize(
    ("config", "says_what"),
    [(MockConfig(key="another"), "HTTP 401"), (MockConfig(faults={"server": 1.0}), "500")],
)
def test_what_an_outage_left_is_done_by_the_next_run(world: World, config: MockConfig, says_what: str) -> None:
    async def scene() -> None:
        async with MockServer(config, lambda _: json.dumps(says("ok"))) as server:
            swarm = Swarm(world, {"": model(server.url)})
            numbers.extend(swarm.ask(USER, f"{number}?", to="ann") for number in range(9))
            await to_the_end(swarm)
            waits.extend(one.why for one in swarm.waiting.values())
            tried.append(server.stats.requests)
        async with MockServer(MockConfig(), lambda _: json.dumps(says("ok"))) as server:
            swarm = Swarm(world, {"": model(server.url)})
            await to_the_end(swarm)
            answers.extend(found.body for number in numbers if (found := swarm.answer(number)) is not None)

    world.spawn("ann")
    numbers, waits, tried, answers = list[int](), list[str](), list[int](), list[str]()
    asyncio.run(scene())
    assert len(waits) == 9
    assert [why for why in waits if says_what not in why] == []
    assert answers == ["ok"] * 9
    assert world.events("failed") == []


@pytest.mark.usefixtures("key")
def test_wrong_calls_are_said_to_the_model_which_goes_on(world: World) -> None:
    replies = iter([
        {"text": "", "calls": [{"tool": "fly", "arguments": {}}, {"tool": "read", "arguments": {"file": "a"}},
                               {"tool": "read", "arguments": "a"}, {"tool": "read", "arguments": {"path": "gone"}}]},
        says(tool="read", path="doc/0003"),
        says("done"),
    ])  # fmt: skip

    async def scene() -> str:
        async with MockServer(MockConfig(), lambda _: json.dumps(next(replies))) as server:
            return await asked(Swarm(world, {"": model(server.url)}))

    world.spawn("ann", mode="serial")
    assert asyncio.run(scene()) == "answer: done"
    results = [row[0] for row in world.rows("SELECT text FROM context WHERE role = 'tool' ORDER BY id")]
    assert results[0] == "error: there is no tool 'fly'"
    assert results[1].startswith("error: unknown arguments ['file']")
    assert results[2] == "error: there is no document gone"
    assert results[3].startswith("k0003=")


@pytest.mark.usefixtures("key")
def test_a_used_up_budget_ends_the_run_and_with_more_it_goes_on(world: World) -> None:
    world.spawn("ann", mode="serial")

    async def scene(url: str, calls: int) -> str:
        return await asked(Swarm(world, {"": model(url, budget=Budget(max_calls=calls))}))

    async def both() -> str:
        replies = [says(tool="read", path="doc/0001"), says(tool="read", path="doc/0002"), says("all read")]
        at = iter(replies)
        async with MockServer(MockConfig(), lambda _: json.dumps(next(at, says("again")))) as server:
            with pytest.raises(BudgetError):
                await scene(server.url, 2)
            assert len(world.rows("SELECT 1 FROM spend")) == 2
            swarm = Swarm(world, {"": model(server.url)})
            await swarm.run()
            await swarm.aclose()
            answers = world.rows("SELECT body FROM mail WHERE kind = 'answer'")
            assert server.stats.requests == 3  # nothing was asked again
            return str(answers[0][0])

    assert asyncio.run(both()) == "all read"


@contextmanager
def native_server(reply: Any) -> Iterator[str]:
    """Serve chat completions with tool calls in a thread of its own; `reply(body)` gives the message."""
    started, ended = threading.Event(), asyncio.Event()
    place: dict[str, Any] = {}

    async def chat(request: web.Request) -> web.Response:
        message = reply(await request.json())
        if isinstance(message, int):
            return web.json_response({"error": {"message": f"status {message}"}}, status=message)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
        return web.json_response(
            {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        )

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        place["url"] = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        place["loop"] = asyncio.get_running_loop()
        started.set()
        await ended.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait()
    try:
        yield place["url"]
    finally:
        place["loop"].call_soon_threadsafe(ended.set)
        thread.join()


def native(text: str = "", **call: str) -> dict[str, Any]:
    if not call:
        return {"content": text}
    name = call.pop("tool")
    function = {"name": name, "arguments": json.dumps(call)}
    return {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


def clerk(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same office as in RULES, with tool calls as OpenAI has them."""
    last = str(body["messages"][-1].get("content") or "")
    text = json.dumps(body["messages"])
    if last.endswith("says: http.md"):
        assert {tool["function"]["name"] for tool in body["tools"]} >= {"read", "ask", "tell"}
        return native(tool="read", path="http.md")
    if last.endswith(QUESTION):
        return native(tool="ask", question="And?", subject="http.md")
    if last.endswith("And?"):
        assert "The retry limit is 5." in text
        return native("It is 5.")
    return native(last.partition("answers: ")[2] or "Done.")


@pytest.mark.usefixtures("key")
def test_pydantic_ai_at_any_endpoint_with_native_tool_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai", reason="pydantic-ai calls endpoints with the package openai")
    with native_server(clerk) as url:
        file = office(tmp_path, f'kind = "pydantic-ai"\nname = "m"\nbase_url = "{url}"')
        assert run(["swarm", "run", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["answer"] == {"kind": "answer", "from": "wes", "body": "It is 5."}
    assert told["totals"]["prompt"] == 11 * told["totals"]["replies"]


@pytest.mark.usefixtures("key")
def test_pydantic_ai_at_an_endpoint_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai", reason="pydantic-ai calls endpoints with the package openai")
    with native_server(lambda _: 401) as url:
        described = read_swarm_file(office(tmp_path, f'kind = "pydantic-ai"\nname = "m"\nbase_url = "{url}"'))
        with World.open(described.world) as world:
            swarm = build(described, world)
            populate(described, swarm)
            number = put_task(described, swarm)
            asyncio.run(to_the_end(swarm))
            found = swarm.answer(number or 0)
            waits = [one.why for one in swarm.waiting.values()]
    assert found is None
    assert waits
    assert all("401" in why for why in waits)


@pytest.mark.usefixtures("key")
def test_the_same_office_in_both_clients_leaves_the_same_mail(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="pydantic-ai calls endpoints with the package openai")
    mails = []
    with combee_mock(tmp_path) as (mock, _), native_server(clerk) as server:
        for name, kind, url in (("a", "endpoint", mock), ("b", "pydantic-ai", server)):
            (tmp_path / name).mkdir()
            file = office(tmp_path / name, f'kind = "{kind}"\nname = "m"\nbase_url = "{url}"')
            assert run(["swarm", "run", str(file), "--json"]) == 0
            with World.open(tmp_path / name / "office.sqlite", read_only=True) as world:
                rows = world.rows("SELECT key, kind, sender, recipient, body FROM mail ORDER BY key")
                mails.append((rows, totals(world).replies))
    assert mails[0] == mails[1]


def test_settings_that_do_nothing_or_lack_something_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = office(tmp_path, 'kind = "lookup"\n[budget]\nmax_calls = 3')
    assert run(["swarm", "run", str(file)]) == 2
    assert "does nothing" in capsys.readouterr().err
    file.write_text(OFFICE.format(model='kind = "endpoint"'), encoding="utf-8")
    assert run(["swarm", "run", str(file)]) == 2
    assert "has no name" in capsys.readouterr().err
    file.write_text(OFFICE.format(model='kind = "endpoint"\nname = "m"\n[budget]\nmax_cost = 1'), encoding="utf-8")
    assert run(["swarm", "run", str(file)]) == 2
    assert 'Write it below [prices], in dollars per million tokens: "m" = {' in capsys.readouterr().err
