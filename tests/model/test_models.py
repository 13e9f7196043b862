"""The other models: scripted, faulty, any function, journaled; and the doctor."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from benchmarks.journaled_model import JournaledModel
from benchmarks.scripted_models import FaultyModel, ScriptedModel
from combee.errors import BudgetError, CallError, CallErrorKind, UsageError
from combee.kernel.journal import Journal, MemoryScope
from combee.mock import MockConfig, MockServer, Rules, parse_latency, sample
from combee.model import (
    Budget,
    CallableModel,
    ChatModel,
    Endpoint,
    Engine,
    Ledger,
    Limiter,
    Message,
    OpenAIModel,
    Price,
    Request,
    Response,
    RetryPolicy,
    Usage,
    check_endpoint,
)


def ask(text: str = "hello", **options: Any) -> Request:
    return Request((Message("user", text),), **options)


async def test_a_scripted_model_answers_in_order_or_by_a_function() -> None:
    model = ScriptedModel(["a", CallError("no", kind=CallErrorKind.SERVER), Response("c")])
    assert isinstance(model, ChatModel)
    assert (await model.complete(ask())).text == "a"
    with pytest.raises(CallError):
        await model.complete(ask())
    assert (await model.complete(ask())).text == "c"
    with pytest.raises(UsageError, match="3 replies"):
        await model.complete(ask())
    echo = ScriptedModel(lambda request: request.messages[-1].content.upper())
    assert (await echo.complete(ask("up"))).text == "UP"
    again = ScriptedModel(["x", "y"], cycle=True)
    assert [(await again.complete(ask())).text for _ in range(4)] == ["x", "y", "x", "y"]


async def test_a_faulty_model_fails_at_its_rates_and_the_same_way_for_a_seed() -> None:
    async def run() -> list[str]:
        model = FaultyModel(
            ScriptedModel(lambda _: "ok"), {CallErrorKind.SERVER: 0.2, CallErrorKind.EMPTY: 0.1}, seed=5
        )
        found = []
        for _ in range(500):
            try:
                found.append((await model.complete(ask())).text)
            except CallError as error:
                found.append(str(error.kind))
        return found

    first = await run()
    assert first == await run()
    assert 70 <= first.count("server") <= 130
    assert 30 <= first.count("empty") <= 70
    with pytest.raises(UsageError):
        FaultyModel(ScriptedModel([]), {CallErrorKind.SERVER: 1.5})


async def test_any_function_is_a_model_with_retries_ledger_and_budget() -> None:
    tries = 0

    async def other(request: Request) -> str | Response:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise CallError("busy", kind=CallErrorKind.SERVER)
        if tries == 2:
            return ""
        return Response(request.messages[0].content[::-1], Usage(7, 3))

    engine = Engine(retry=RetryPolicy(backoff=0.0), budget=Budget(max_calls=10), ledger=Ledger())
    model = CallableModel(other, name="theirs", engine=engine, price=Price(1, 1))
    assert (await model.complete(ask("abc"))).text == "cba"
    assert engine.ledger.total.outcomes == {"server": 1, "empty": 1, "ok": 1}
    with pytest.raises(BudgetError):
        CallableModel(other, name="theirs", engine=Engine(budget=Budget(max_cost=1)))


async def test_a_journaled_model_pays_once_and_a_changed_prompt_again(tmp_path: Path) -> None:
    async with MockServer() as server, OpenAIModel(server.url, "any", engine=Engine(limiter=Limiter(8))) as inner:
        with Journal.open(tmp_path / "run") as journal:
            scope = journal.scope(seed=1, epoch=0, step=0)
            model = JournaledModel(inner, scope)
            first = await model.complete(ask("one", role="reflector", item="t1"))
            assert await model.complete(ask("one", role="reflector", item="t1")) == first
        with Journal.open(tmp_path / "run") as journal:  # as after a kill
            model = JournaledModel(inner, journal.scope(seed=1, epoch=0, step=0))
            assert await model.complete(ask("one", role="reflector", item="t1")) == first
            assert server.stats.requests == 1
            await model.complete(ask("two", role="reflector", item="t1"))
            await model.complete(ask("one", role="reflector", item="t1", temperature=1.0))
            assert server.stats.requests == 3
    assert first.usage is not None


async def test_a_failure_is_never_journaled() -> None:
    model = ScriptedModel([CallError("no", kind=CallErrorKind.EMPTY), "fine"])
    journaled = JournaledModel(model, MemoryScope())
    with pytest.raises(CallError):
        await journaled.complete(ask())
    assert (await journaled.complete(ask())).text == "fine"
    assert (await journaled.complete(ask())).text == "fine"
    assert len(model.requests) == 2


# --- the doctor -----------------------------------------------------------------------------------------------------


async def examine(server_config: MockConfig, name: str = "real", **options: Any) -> Any:
    async with MockServer(server_config) as server:
        url = options.pop("url", lambda base: base)(server.url)
        async with OpenAIModel(url, name, engine=Engine(limiter=Limiter(4)), **options) as model:
            return await check_endpoint(model)


async def test_the_doctor_tells_what_a_good_endpoint_can_do() -> None:
    report = await examine(MockConfig(models=("real",)), price=Price(1, 2))
    assert report.ok
    assert report.models == ("real",)
    assert report.latency is not None
    assert report.cost is not None
    assert report.capabilities.json_schema is True
    assert {check.name: check.ok for check in report.checks} == {
        "reachable": True, "usage": True, "json_schema": True, "json_object": None, "price": True,
    }  # fmt: skip
    json.dumps(report.to_json())


@pytest.mark.parametrize(("schema", "structured"), [("ignore", "words"), ("refuse", "words")])
async def test_the_doctor_finds_an_endpoint_that_does_not_obey_a_schema(schema: Any, structured: str) -> None:
    report = await examine(MockConfig(schema=schema, json_mode=schema, usage=False))
    assert report.ok
    assert report.capabilities.structured == structured
    found = {check.name: check for check in report.checks}
    assert "refuses" in found["json_schema"].detail or "does not obey" in found["json_schema"].detail
    assert "estimated" in str(found["usage"].hint)
    assert "--price" in str(found["price"].hint)


async def test_the_doctor_says_how_to_mend_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_key = await examine(MockConfig(key="right"), api_key="not-the-key")
    assert "environment variable" in wrong_key.checks[0].hint
    no_key = await examine(MockConfig(key="right"), api_key_env=None)
    assert no_key.checks[0].detail == "HTTP 401: no key was sent"
    assert "--api-key-env" in no_key.checks[0].hint
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    unset = await examine(MockConfig(key="right"), api_key_env="OPENAI_API_KEY")
    assert unset.checks[0].detail == "HTTP 401: no key was sent (OPENAI_API_KEY is not set)"
    wrong_model = await examine(MockConfig(models=("real", "other")), "reall")
    assert "'real'" in wrong_model.checks[0].hint
    monkeypatch.setattr("combee.model.doctor._LONGEST_WAIT", 2.0)
    busy = await examine(MockConfig(faults={"overloaded": 1.0}))
    assert "has refused every call for" in busy.checks[0].detail
    assert "HTTP 529" in busy.checks[0].detail
    assert "busy" in busy.checks[0].hint
    nobody = await examine(MockConfig(), url=lambda _: "http://127.0.0.1:9/v1")
    assert "running" in nobody.checks[0].hint
    no_host = await examine(MockConfig(), url=lambda _: "http://no-such-host.invalid/v1", api_key="k")
    assert not no_host.ok
    for report in (wrong_key, no_key, wrong_model, busy, nobody, no_host):
        assert not report.ok


async def test_a_wrong_path_can_be_rehearsed_with_the_mock() -> None:
    report = await examine(MockConfig(), url=lambda url: url.removesuffix("/v1") + "/nope")
    assert "no chat endpoint at this URL" in report.checks[0].detail
    assert "/v1" in str(report.checks[0].hint)


async def test_a_base_url_without_v1_gets_the_right_one_as_a_hint(serve: Any) -> None:
    def answer(request: bytes) -> list[bytes]:
        good = b" /v1/" in request.split(b"\r\n")[0]
        body = b'{"error":{"message":"bad body"}}' if good else b"<html>not here</html>"
        status = b"400 Bad" if good else b"404 No"
        return [b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)]

    url = f"http://127.0.0.1:{(await serve(answer)).port}"
    async with OpenAIModel(url, "any", engine=Engine(limiter=Limiter(2))) as model:
        report = await check_endpoint(model)
    assert f"{url}/v1" in str(report.checks[0].hint)


async def test_a_wrong_model_at_an_endpoint_that_lists_none_sends_nobody_round_in_a_circle(serve: Any) -> None:
    def answer(request: bytes) -> list[bytes]:
        body = b'{"error":{"message":"The model `any` does not exist","code":"model_not_found"}}'
        return [b"HTTP/1.1 404 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)]

    url = f"http://127.0.0.1:{(await serve(answer)).port}/v1"
    async with OpenAIModel(url, "any", engine=Engine(limiter=Limiter(2))) as model:
        report = await check_endpoint(model)
    assert "lists no models" in str(report.checks[0].hint)


async def test_a_certificate_that_is_not_trusted_is_told_apart(
    serve: Any, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    url = f"https://127.0.0.1:{(await serve(lambda _: [None], context)).port}/v1"
    async with OpenAIModel(url, "any", api_key="k" * 8, engine=Engine(limiter=Limiter(2))) as model:
        report = await check_endpoint(model)
    assert "TLS" in report.checks[0].detail
    assert "SSL_CERT_FILE" in str(report.checks[0].hint)
    trusted = Endpoint(url, api_key="k" * 8, ca_file=certificate[0])
    async with OpenAIModel(model="any", endpoint=trusted, engine=Engine(limiter=Limiter(2))) as model:
        report = await check_endpoint(model)
    assert "TLS" not in report.checks[0].detail  # the handshake worked; then this server hangs up
    with pytest.raises(UsageError, match="cannot be read"):
        Endpoint(url, api_key="k" * 8, ca_file=tmp_path / "none.pem")


async def test_the_proxy_of_the_environment_is_used_and_its_password_hidden(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await serve(lambda _: [b"HTTP/1.1 407 Login\r\nContent-Length: 0\r\n\r\n", None])
    monkeypatch.setenv("http_proxy", f"http://me:proxy-pass-1@127.0.0.1:{proxy.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with OpenAIModel("http://far.example/v1", "any", api_key="k" * 8, engine=Engine(limiter=Limiter(1))) as model:
        with pytest.raises(CallError, match="407"):
            await model.complete(ask())
        assert "proxy-pass-1" not in model.endpoint.scrub("http://me:proxy-pass-1@host")
    seen = proxy.requests[0]
    assert seen.startswith(b"POST http://far.example/v1/chat/completions")
    assert b"Proxy-Authorization: Basic " in seen
    assert b"Authorization: Bearer kkkkkkkk" in seen.replace(b"Proxy-Authorization", b"")
    monkeypatch.setenv("http_proxy", "ftp://127.0.0.1:1")
    with pytest.raises(UsageError, match="ftp"):
        Endpoint("http://far.example/v1", api_key="k" * 8)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:port")
    with pytest.raises(UsageError, match="not a URL"):
        Endpoint("http://far.example/v1", api_key="k" * 8)
    monkeypatch.setenv("no_proxy", "far.example")
    Endpoint("http://far.example/v1", api_key="k" * 8)


# --- the mock's own parts -------------------------------------------------------------------------------------------


def test_rules_answer_by_pattern_and_go_through_their_replies() -> None:
    rules = Rules([{"match": "hi (\\w+)", "replies": ["to {1}", {"n": 2}]}, {"match": "", "reply": "else"}])
    body = {"messages": [{"content": "hi you"}]}
    assert [rules(body) for _ in range(3)] == ["to you", '{"n": 2}', "to you"]
    assert rules({"messages": [{"content": "what"}]}) == "else"


def test_a_sample_fits_its_schema() -> None:
    from jsonschema import validate  # type: ignore[import-untyped]

    schema = {
        "type": "object",
        "properties": {
            "a": {
                "type": "array",
                "items": {"type": "object", "properties": {"t": {"enum": ["x"]}}, "required": ["t"]},
            },
            "b": {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]},
            "c": {"type": ["string", "null"]},
            "d": {"const": 7},
        },
        "required": ["a", "b", "c", "d"],
    }
    validate(sample(schema), schema)


async def test_the_mock_can_be_changed_and_read_while_it_runs() -> None:
    async with MockServer() as server:
        endpoint = Endpoint(server.url.removesuffix("/v1"), api_key_env=None)
        reply = await endpoint.post(b'{"rate": 5, "latency": "lognormal:0.1:0.5"}', "/control")
        assert getattr(reply, "status", 0) == 200
        assert (server.config.rate, server.config.latency.sigma) == (5, 0.5)
        assert getattr(await endpoint.post(b'{"rats": 5}', "/control"), "status", 0) == 400
        stats = await endpoint.get("/stats")
        assert b'"requests": 0' in getattr(stats, "body", b"")
        await endpoint.aclose()


@pytest.mark.parametrize("law", ["nan", "inf", "lognormal:nan:1", "lognormal:0:1", "-1", "linear:1", "power:1:2"])
def test_a_latency_that_no_call_can_have_is_refused(law: str) -> None:
    with pytest.raises(UsageError, match="not a latency"):
        parse_latency(law)


@pytest.mark.parametrize("data", [[], "x", {"context": "a"}, {"max_in_flight": 0}, {"nope": 1}])
def test_settings_of_the_mock_are_checked_when_they_are_read(data: Any) -> None:
    with pytest.raises(UsageError):
        MockConfig.from_json(data)


@pytest.mark.parametrize("name", ["rate", "burst", "hang", "cached"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_mock_without_a_sound_number_is_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=name):
        MockConfig(**{name: value})  # type: ignore[arg-type]  # one name at a time
