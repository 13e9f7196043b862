"""The model in this process: its weights, its slots, and the ends it sets to what it writes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from combee.errors import CallError, CallErrorKind, CombeeError, UsageError
from combee.kernel.journal import Journal
from combee.model import Message, Request, Response, complete_json
from combee.model.asking import request_hash
from combee.model.doctor import check_local
from combee.model.local import LocalModel, LocalServer, find_weights, weights_of


def ask(text: str = "hello", **options: Any) -> Request:
    return Request((Message("user", text),), **options)


def weights() -> Path:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    try:
        return find_weights()
    except UsageError as error:
        pytest.skip(str(error))


def test_missing_weights_say_where_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COMBEE_GGUF", str(tmp_path / "none.gguf"))
    with pytest.raises(UsageError, match="no model file"):
        find_weights()
    fake = tmp_path / "some.gguf"
    fake.write_bytes(b"GGUF")
    assert find_weights(fake) == fake


def test_a_name_says_which_weights_are_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COMBEE_GGUF", raising=False)
    fake = tmp_path / "some.gguf"
    fake.write_bytes(b"GGUF")
    assert weights_of(f"local/{fake}") == fake
    for name in ("local/", "local/other", "local/none.gguf"):
        with pytest.raises(UsageError):
            weights_of(name)
    monkeypatch.setenv("COMBEE_GGUF", str(fake))
    assert weights_of("local/other") == weights_of("local/smollm2") == fake


async def test_a_file_that_is_no_model_is_one_failed_check(tmp_path: Path) -> None:
    weights()
    fake = tmp_path / "some.gguf"
    fake.write_bytes(b"GGUF and then nothing of use")
    async with LocalModel(LocalServer(fake)) as model:
        with pytest.raises(CallError, match="cannot be loaded") as caught:
            await model.complete(ask())
        report = await check_local(model)
    assert caught.value.kind is CallErrorKind.NO_SUCH_MODEL
    assert [(check.name, check.ok) for check in report.checks] == [("weights", True), ("runs", False), ("price", True)]
    assert not report.ok


def test_weights_are_told_apart_by_what_is_in_them_and_not_by_where_they_lie(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    prints = []
    for name, tuned in (("a", slice(0)), ("b", slice(0)), ("c", slice(4, 40_000)), ("d", slice(500_000, 540_000)),
                        ("e", slice(960_000, 1_000_000))):  # fmt: skip
        content = bytearray(1_000_000)
        content[tuned] = b"x" * len(content[tuned])
        content[:4] = b"GGUF"
        path = tmp_path / name / "model.gguf"
        path.parent.mkdir()
        path.write_bytes(content)
        model = LocalModel(LocalServer(path))
        prints.append(request_hash(ask(), model))
        assert str(tmp_path) not in repr(model.parameters)
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


@pytest.mark.timeout(600)
async def test_calls_that_wait_for_a_slot_when_the_model_closes_fail_and_are_not_cancelled() -> None:
    server = LocalServer(weights(), slots=1, context=512)
    body = {"model": "m", "messages": [{"role": "user", "content": "Count to fifty."}], "max_tokens": 64}
    calls = [asyncio.create_task(server.ask(body)) for _ in range(4)]
    await asyncio.sleep(0)  # all of them are handed to the one slot
    await server.aclose()
    for outcome in await asyncio.gather(*calls):
        # The first one may have been at work, and is finished then.
        assert isinstance(outcome, Response) or (outcome.kind, outcome.paid) == (CallErrorKind.CONNECTION, "no")


@pytest.mark.timeout(600)  # real work on two cores that others may hold
async def test_the_local_model_answers_by_schema_off_the_loop_and_refuses_what_is_too_long() -> None:
    path = weights()
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "size": {"type": "integer", "maximum": 99}},
        "required": ["city", "size"],
    }
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    async with LocalModel(LocalServer(path, slots=2, context=512)) as model:
        ticker = asyncio.ensure_future(tick())
        request = ask("Name a city and its size.", schema=schema, max_tokens=40)
        answers = await asyncio.gather(complete_json(model, request), complete_json(model, request))
        ticker.cancel()
        for answer in answers:
            assert 0 < len(answer["city"]) <= 24
            assert isinstance(answer["size"], int)
        assert ticks > 10
        assert model.engine.ledger.total.prompt > 20
        assert model.engine.ledger.total.estimated == 0
        report = await check_local(model)
        found = {check.name: check.ok for check in report.checks}
        assert found == {"weights": True, "runs": True, "speed": None, "json_schema": True, "price": True}
        assert (report.base_url, report.cost) == ("this process", 0.0)
        with pytest.raises(CallError) as caught:
            await model.complete(ask("word " * 2000))
        assert caught.value.kind is CallErrorKind.CONTEXT_TOO_LONG
    with pytest.raises(CallError, match="closed"):
        await model.complete(ask())


async def test_a_reply_in_parts_is_the_reply_in_one_piece() -> None:
    body = {"messages": [{"role": "user", "content": "Say hello to Anna."}], "max_tokens": 12, "temperature": 0}
    async with LocalModel(LocalServer(weights())) as model:
        found = await model.server.ask(body)
        whole = await asyncio.to_thread(model.server._load().handle_chat_completions, body)
    assert isinstance(found, Response)
    assert found.usage is not None
    assert (found.text, found.finish) == (whole["choices"][0]["message"]["content"], "length")
    assert [found.usage.prompt, found.usage.completion] == [
        whole["usage"][name] for name in ("prompt_tokens", "completion_tokens")
    ]


class Watched:
    """A server of llama.cpp that says when a reply has begun, and counts its parts."""

    def __init__(self, server: Any, begun: Callable[[], object]) -> None:
        self.server = server
        self.begun = begun
        self.parts = 0

    def handle_chat_completions(self, body: dict[str, Any], take: Callable[[dict[str, Any]], bool]) -> Any:
        def counted(part: dict[str, Any]) -> bool:
            self.parts += 1
            if part.get("choices") and part["choices"][0]["delta"].get("content"):
                self.begun()
            return take(part)

        return self.server.handle_chat_completions(body, counted)


async def test_a_call_that_nobody_waits_for_any_more_is_ended() -> None:
    tokens = 3_000  # a minute and more
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with LocalModel(LocalServer(weights()), extra={"ignore_eos": True}) as model:
        watched = Watched(model.server._load(), lambda: loop.call_soon_threadsafe(begun.set))
        model.server._server = watched
        call = asyncio.create_task(model.complete(ask("Tell a long story.", max_tokens=tokens)))
        await begun.wait()
        call.cancel()
    assert 0 < watched.parts < tokens / 2


STUCK = """
import json, time

class CommonParams:
    def __init__(self):
        self.model = self.cpuparams = self.cpuparams_batch = type("Part", (), {})()

class Server:
    def __init__(self, parameters):
        self.calls = 0

    def handle_chat_completions(self, body, take):
        self.calls += 1
        if self.calls > 1:
            time.sleep(3600)  # llama.cpp where it cannot be stopped: it loads, or reads a part of a prompt
        answer = json.dumps({"reasoning": "", "bullet_ids": [], "final_answer": "400"})
        take({"choices": [{"delta": {"content": answer}, "finish_reason": "stop"}]})
        take({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
"""


async def test_ctrl_c_says_that_a_call_is_waited_for_and_a_second_one_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text(STUCK, encoding="utf-8")
    (tmp_path / "stuck.gguf").write_bytes(b"GGUF")
    rows = [{"question": f"Name the code of gate {n}.", "answer": str(400 + n)} for n in range(3)]
    (tmp_path / "gates.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    split = ("--train", "2", "--val", "0", "--test", "1")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "combee", "learn", "gates.jsonl", *split, "--model", "local/stuck.gguf",
        "--max-in-flight", "1", "--name", "r", "--quiet", cwd=tmp_path, stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    assert process.stderr is not None
    while kept(tmp_path / "runs" / "r") == 0:
        assert process.returncode is None, await process.stderr.read()
        await asyncio.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert "Ctrl-C ends at once" in (await process.stderr.readline()).decode()
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 130
    with Journal.open(tmp_path / "runs" / "r", create=False):  # no lock is left
        assert kept(tmp_path / "runs" / "r") == 1


def kept(folder: Path) -> int:
    try:
        with Journal.open(folder, create=False, read_only=True) as journal:
            return sum(1 for _ in journal.results())
    except CombeeError:  # not there yet
        return 0
