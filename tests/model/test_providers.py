"""Each provider's ways, played over HTTP: what it refuses is given up once, what it charges is booked, none is lost."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from combee.errors import BudgetError, CallError, CallErrorKind
from combee.mock import PROVIDERS, MockConfig, MockServer, parse_latency
from combee.mock.providers import THOUGHT
from combee.model import (
    Budget,
    Engine,
    Limiter,
    Message,
    OpenAIModel,
    Price,
    Request,
    RetryPolicy,
    StoppedError,
    find_json,
)
from combee.model.doctor import check_endpoint

SCHEMA = {"type": "object", "properties": {"lesson": {"type": "string"}}, "required": ["lesson"]}
SAID = '{"lesson": "G-001 reads 17 bar"}'
TOOK: dict[str, dict[str, Any]] = {
    "openai": {"limit_name": "max_completion_tokens", "without": ("temperature",)},
    "azure": {"limit_name": "max_completion_tokens", "without": ("temperature",)},
    "gemini": {"without": ("seed",)},
    "deepseek": {"structured": "json_object"},
    "groq": {},
    "openrouter": {},
    "mistral": {"without": ("seed",)},
    "xai": {"without": ("stop",)},
    "vllm": {"system": False},
    "sglang": {"system": False},
    "llamacpp": {"system": False},
    "ollama": {},
}


def request(item: int, **more: Any) -> Request:
    messages = (Message("system", "You curate."), Message("user", f"Reflection {item}"))
    return Request(messages, SCHEMA, 256, seed=7, stop=("END",), role="curator", item=str(item), **more)


def model_at(server: MockServer, name: str = "mock", **options: Any) -> OpenAIModel:
    engine = Engine(limiter=Limiter(8), retry=RetryPolicy(backoff=0.01))
    header = "api-key" if "api-version" in server.url else "Authorization"
    return OpenAIModel(server.url, name, api_key="k", engine=engine, price=Price(1, 2), key_header=header, **options)


@pytest.mark.parametrize("like", sorted(PROVIDERS))
async def test_calls_go_through_whatever_a_provider_refuses_and_it_is_said_once(
    like: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with MockServer(MockConfig(like=like), lambda _: SAID) as server, model_at(server) as model:
        with caplog.at_level(logging.WARNING, "combee.model"):
            replies = await asyncio.gather(*(model.complete(request(item)) for item in range(40)))
        first = server.stats.requests
        replies += await asyncio.gather(*(model.complete(request(item)) for item in range(40, 60)))
        total, stats = model.engine.ledger.total, server.stats
        spoilt = sum(stats.by_outcome.get(how, 0) for how in PROVIDERS[like].every.values())
        assert stats.requests - first <= 20 + spoilt  # what was refused is not tried again
        assert (total.prompt, total.completion) == (stats.prompt, stats.completion)  # thinking and failed calls too
        can = model.capabilities
    for reply in replies:
        found = find_json(reply.text, ("lesson",))
        assert found is not None
        assert found.value == {"lesson": "G-001 reads 17 bar"}
        assert THOUGHT not in reply.text
    assert {name: getattr(can, name) for name in TOOK[like]} == TOOK[like]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == sum(len(value) if isinstance(value, tuple) else 1 for value in TOOK[like].values())
    assert all("does not take" in line for line in said)


@pytest.mark.parametrize("like", sorted(PROVIDERS))
async def test_doctor_finds_each_provider_well(like: str) -> None:
    config = MockConfig(like=like)
    async with MockServer(config, lambda _: '{"city": "Bonn", "people": 330000}') as server, model_at(server) as model:
        report = await check_endpoint(model)
    assert report.ok
    assert report.capabilities.usage
    assert report.capabilities.structured == TOOK[like].get("structured", "json_schema")


@pytest.mark.parametrize("like", sorted(PROVIDERS))
@pytest.mark.parametrize("what", ["key", "model"])
async def test_a_wrong_key_and_a_wrong_name_stop_at_once(like: str, what: str) -> None:
    config = MockConfig(
        like=like, key="another" if what == "key" else None, models=("real",) if what == "model" else ()
    )
    async with MockServer(config) as server, model_at(server, "reel") as model:
        with pytest.raises(CallError) as caught:
            await model.complete(request(1))
        assert server.stats.requests == 1
    assert caught.value.kind is (CallErrorKind.AUTH if what == "key" else CallErrorKind.NO_SUCH_MODEL)
    assert caught.value.hint


@pytest.mark.parametrize("like", sorted(PROVIDERS))
async def test_a_limit_is_waited_for_and_nothing_is_lost(like: str) -> None:
    config = MockConfig(like=like, max_in_flight=2, latency=parse_latency("0.05"), retry_after="none")
    async with MockServer(config, lambda _: SAID) as server, model_at(server) as model:
        await asyncio.gather(*(model.complete(request(item)) for item in range(24)))
        assert server.stats.by_outcome["limited"] >= 1
    assert model.engine.stopped is None


@pytest.mark.parametrize(
    "like", ["openai", "azure", "deepseek", "groq", "mistral", "vllm", "gemini", "xai", "llamacpp"]
)
async def test_a_prompt_beyond_the_window_is_told_apart(like: str) -> None:
    async with MockServer(MockConfig(like=like, context=1_000)) as server, model_at(server) as model:
        with pytest.raises(CallError) as caught:
            await model.complete(Request((Message("user", "word " * 2_000),), max_tokens=64))
    assert caught.value.kind is CallErrorKind.CONTEXT_TOO_LONG


async def test_the_room_for_a_reply_is_made_smaller_where_the_prompt_fits_and_both_do_not() -> None:
    asked: list[int] = []

    def reply(body: Any) -> str:
        asked.append(body["max_tokens"])
        return SAID

    async with MockServer(MockConfig(like="vllm", context=4_096), reply) as server, model_at(server) as model:
        await model.complete(Request((Message("user", "word " * 1_600),), SCHEMA, 4_096))
        await model.complete(Request((Message("user", "short"),), SCHEMA, 1_000))
        assert server.stats.requests == 3
    assert 2_000 < asked[0] < 2_100
    assert asked[1] == 1_000  # for the one call alone


async def test_one_reply_out_of_form_is_asked_for_again_and_the_schema_stays_on_for_the_others() -> None:
    formed: list[bool] = []

    def reply(body: Any) -> str:
        formed.append("response_format" in body)
        return SAID

    async with MockServer(MockConfig(like="groq"), reply) as server, model_at(server) as model:
        for item in range(20):
            assert find_json((await model.complete(request(item))).text, ("lesson",)) is not None
        assert server.stats.by_outcome["unfit"] == 3
        assert model.capabilities.structured == "json_schema"
    assert formed.count(False) == 3


async def test_a_prompt_that_is_cut_without_a_word_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with MockServer(MockConfig(like="ollama")) as server, model_at(server) as model:
        with caplog.at_level(logging.WARNING, "combee.model"):
            for size in (100, 2_000, 10_000, 10_000):
                await model.complete(Request((Message("user", "word " * size),), max_tokens=64))
    assert ["cuts long prompts" in record.getMessage() for record in caplog.records] == [True]
    assert "2,050" in caplog.text


@pytest.mark.parametrize("like", ["azure", "openai"])
async def test_doctor_finds_the_header_that_takes_the_key(like: str) -> None:
    config = MockConfig(like=like, key="k")
    async with MockServer(config) as server:
        wrong = "Authorization" if like == "azure" else "api-key"
        model = OpenAIModel(server.url, "mock", api_key="k", engine=Engine(), price=Price(1, 2), key_header=wrong)
        async with model:
            report = await check_endpoint(model)
    reachable = report.checks[0]
    assert reachable.ok is False
    hint = reachable.hint or ""
    assert ('api_key_header = "api-key"' in hint) == (like == "azure")


@pytest.mark.parametrize("tail", ["", "/chat/completions"])
async def test_an_azure_url_may_be_given_with_its_last_part(tail: str) -> None:
    async with MockServer(MockConfig(like="azure", key="k"), lambda _: SAID) as server:
        base, _, query = server.url.partition("?")
        url = f"{base}{tail}?{query}"
        async with OpenAIModel(url, "mock", api_key="k", engine=Engine(), key_header="api-key") as model:
            assert (await model.complete(request(1))).text == SAID
        async with OpenAIModel(base, "mock", api_key="k", engine=Engine(), key_header="api-key") as model:
            with pytest.raises(CallError, match="no chat endpoint"):
                await model.complete(request(1))


@pytest.mark.parametrize("asked", ["18180", "99999999", "99999999999999"])
async def test_doctor_says_a_long_wait_at_once_and_does_not_wait(asked: str, serve: Any) -> None:
    said = b'{"error": {"message": "slow down"}}'
    head = f"HTTP/1.1 429 No\r\nRetry-After: {asked}\r\nContent-Length: {len(said)}\r\n\r\n".encode()
    server = await serve(lambda _: [head + said])
    async with OpenAIModel(f"http://127.0.0.1:{server.port}/v1", "m", engine=Engine(), api_key_env=None) as model:
        report = await asyncio.wait_for(check_endpoint(model), 20)
    reachable = report.checks[0]
    assert reachable.ok is False
    length = {"18180": "5 h 3 min", "99999999": "1,157 days", "99999999999999": "11,574 days"}[asked]
    assert f"asks to come back in {length}" in reachable.detail


@pytest.mark.parametrize("waiting", [1, 30])
async def test_a_wait_beyond_the_minutes_that_are_left_ends_the_calls_at_once(waiting: int, serve: Any) -> None:
    said = b'{"error": {"message": "slow down"}}'
    head = f"HTTP/1.1 429 No\r\nRetry-After: 18180\r\nContent-Length: {len(said)}\r\n\r\n".encode()
    server = await serve(lambda _: [head + said])
    engine = Engine(budget=Budget(max_minutes=0.2), limiter=Limiter(4))
    async with OpenAIModel(f"http://127.0.0.1:{server.port}/v1", "m", engine=engine, api_key_env=None) as model:
        calls = (model.complete(request(item)) for item in range(waiting))
        ended = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
    assert all(isinstance(error, BudgetError) and "5 h 3 min" in str(error) for error in ended)
    assert len(server.requests) <= 8


async def test_a_wait_of_years_stops_the_run_at_once(serve: Any) -> None:
    said = b'{"error": {"message": "slow down"}}'
    head = f"HTTP/1.1 429 No\r\nRetry-After: 99999999\r\nContent-Length: {len(said)}\r\n\r\n".encode()
    server = await serve(lambda _: [head + said])
    engine = Engine(limiter=Limiter(4))
    async with OpenAIModel(f"http://127.0.0.1:{server.port}/v1", "m", None, engine=engine) as model:
        calls = (model.complete(request(item)) for item in range(30))
        ended = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
    assert all(isinstance(error, StoppedError) and "1,157 days" in str(error) for error in ended)
    assert len(server.requests) <= 8


async def test_a_long_wait_is_said_once_when_it_begins(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    said = b'{"error": {"message": "slow down"}}'
    head = f"HTTP/1.1 429 No\r\nRetry-After: 120\r\nContent-Length: {len(said)}\r\n\r\n".encode()
    server = await serve(lambda _: [head + said])
    async with OpenAIModel(f"http://127.0.0.1:{server.port}/v1", "m", engine=Engine(), api_key_env=None) as model:
        calls = [asyncio.ensure_future(model.complete(request(item))) for item in range(3)]
        async with asyncio.timeout(20):
            while not caplog.records:  # noqa: ASYNC110 - a record sets no event
                await asyncio.sleep(0.01)
        await asyncio.wait(calls, timeout=0.2)  # the others hear of it too, and say nothing
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    assert [record.getMessage().count("waiting 2 min") for record in caplog.records] == [1]


async def test_a_limit_in_money_holds_where_thinking_is_billed_beside_what_was_asked_for(serve: Any) -> None:
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 21_100}
    body = {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}], "usage": usage}
    raw = json.dumps(body).encode()
    server = await serve(lambda _: [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(raw), raw)])
    engine = Engine(limiter=Limiter(2), budget=Budget(max_cost=0.1))
    url = f"http://127.0.0.1:{server.port}/v1"
    async with OpenAIModel(url, "m", None, engine=engine, price=Price(0, 1)) as model:
        calls = (model.complete(Request((Message("user", "hi"),), max_tokens=256)) for _ in range(30))
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(error, BudgetError) for error in ended) >= 25
    assert engine.ledger.total.completion == 20_100 * len(server.requests)
    assert engine.budget.cost <= 0.1
