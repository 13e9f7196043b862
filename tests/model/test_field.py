"""Replies and errors that users of providers, routers and servers have shown in public, over HTTP to the real client.

The bodies have the shapes of those reports; names and numbers are made up.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from combee.errors import CallError
from combee.model import Engine, Limiter, Message, OpenAIModel, Request, RetryPolicy, check_endpoint
from combee.model.outcome import Fault, find_usage
from combee.model.provider_errors import fault_of
from combee.model.reply import read_reply

ASKED = Request((Message("system", "Be brief."), Message("user", "Two and two?")), max_tokens=70_000)


def said(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def http(status: int, body: object) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw


# What it is, the status, the body (or its raw bytes), and the seconds that it asks to wait.
SHAPES = [json.loads(line) for line in Path(__file__).with_name("field.jsonl").read_text(encoding="utf-8").splitlines()]


async def ask(serve: Any, script: Any, **options: Any) -> str:
    server = await serve(script)
    engine = Engine(limiter=Limiter(1), retry=RetryPolicy(backoff=0.001, **options))
    async with OpenAIModel(f"http://127.0.0.1:{server.port}/v1", "m", None, engine=engine) as model:
        return (await model.complete(ASKED)).text


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_the_field_sends_is_what_it_is(shape: dict[str, Any], serve: Any) -> None:
    kind, status = shape["is"], shape["status"]
    body = shape["raw"].encode("latin-1") if "raw" in shape else shape["body"]

    def script(_: bytes) -> list[bytes]:
        return [http(status, body)]

    if kind == "ok":
        assert (await ask(serve, script)).startswith("four")
        return
    with pytest.raises(CallError) as caught:
        await ask(serve, script, max_tries=1)
    assert caught.value.kind == ("server" if kind == "busy" else kind)
    if status != 200:
        fault = fault_of(status, {}, body if isinstance(body, bytes) else json.dumps(body).encode())
        assert fault.overloaded or kind != "busy"
        assert fault.retry_after == shape.get("wait")


FOUR = {"choices": [{"message": {"content": "four"}, "finish_reason": "stop"}]}
STREAM = b"".join(
    b"data: " + json.dumps(part).encode() + b"\n\n"
    for part in ({"choices": [{"delta": {"content": "fo"}}]}, {"choices": [{"delta": {"content": "ur"}}]},
                 {"choices": [{"delta": {}, "finish_reason": "stop"}]})
)  # fmt: skip


@pytest.mark.parametrize(
    ("message", "field", "value"),
    [
        ("parameter.enable_thinking must be set to false for non-streaming calls", "enable_thinking", False),
        ("This model only support stream mode, please enable the stream parameter to access it.", "stream", True),
        ("enable thinking can not be support when `stream=False`.", "stream", True),
        ("stream must be set to true", "stream", True),
        ("max_tokens: 70000 > 64000, which is the maximum allowed number of output tokens", "max_tokens", 64_000),
        ("maxOutputTokens is 70000 but the supported range is from 1 (inclusive) to 65537 (exclusive).",
         "max_tokens", 65_536),
        ("max_tokens参数非法：取值范围[1, 4095]", "max_tokens", 4_095),
        ("The maximum tokens you requested exceeds the model limit of 8192.", "max_tokens", 8_192),
        ("Please use a valid role: user, model.",
         "messages", [{"role": "user", "content": "Be brief.\n\nTwo and two?"}]),
    ],
)  # fmt: skip
async def test_what_an_endpoint_demands_is_sent(message: str, field: str, value: object, serve: Any) -> None:
    bodies: list[dict[str, Any]] = []

    def script(request: bytes) -> list[bytes]:
        body = json.loads(request.partition(b"\r\n\r\n")[2])
        bodies.append(body)
        if body.get(field) != value:
            return [http(400, said(message))]
        return [http(200, STREAM if body.get("stream") else FOUR)]

    assert await ask(serve, script) == "four"
    assert len(bodies) == 2


async def test_the_words_of_a_validator_are_no_switch(serve: Any) -> None:
    bodies: list[dict[str, Any]] = []

    def script(request: bytes) -> list[bytes]:
        bodies.append(json.loads(request.partition(b"\r\n\r\n")[2]))
        strict = bodies[-1].get("response_format", {}).get("type") == "json_schema"
        return [
            http(400, said("response_format.json_schema.strict: Input should be True")) if strict else http(200, FOUR)
        ]

    server = await serve(script)
    asked = replace(ASKED, schema={"type": "object"})
    async with OpenAIModel(f"http://127.0.0.1:{server.port}/v1", "m", None) as model:
        assert (await model.complete(asked)).text == "four"
    assert [body["response_format"]["type"] for body in bodies] == ["json_schema", "json_object"]
    assert "input" not in bodies[-1]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Usage limit reached for 5 hour. Your limit will reset at {:%Y-%m-%d %H:%M:%S}", 3_600),
        ("Free quota used (30 requests / 5h). Resets at {:%H:%M} UTC. Top up for unlimited access.", 3_600),
        ("You can try again after {:%Y-%m-%dT%H:%M:%SZ}.", 3_600),
    ],
)
@pytest.mark.parametrize("status", [402, 429])
def test_a_moment_at_which_a_limit_ends_is_a_wait(text: str, seconds: float, status: int) -> None:
    fault = fault_of(status, {}, said(text.format(datetime.now(UTC) + timedelta(seconds=seconds))))
    assert fault.kind == "rate_limit"
    assert fault.retry_after == pytest.approx(seconds, abs=61)


@pytest.mark.parametrize(("said", "told"), [("gemma-3-1b:2", True), ("org/Mistral-7B-2024", False)])
async def test_doctor_says_that_another_model_answered(said: str, told: bool, serve: Any) -> None:
    server = await serve(lambda _: [http(200, {**FOUR, "model": said})])
    async with OpenAIModel(f"http://127.0.0.1:{server.port}/v1", "vendor/mistral-7b", None) as model:
        report = await check_endpoint(model)
    assert [check.detail for check in report.checks if check.name == "model"] == (
        ["the reply says that gemma-3-1b:2 made it"] if told else []
    )


async def test_a_limit_that_is_too_low_for_thinking_is_not_renamed(serve: Any) -> None:
    def script(_: bytes) -> list[bytes]:
        return [http(400, said("`max_tokens` must be greater than `thinking.budget_tokens`."))]

    with pytest.raises(CallError, match="must be greater"):
        await ask(serve, script)


COUNTED = {"prompt_tokens": 10, "completion_tokens": 5}


@pytest.mark.parametrize(
    ("body", "counted"),
    [
        ({"result": {"usage": COUNTED}}, (10, 5, 0)),
        ({"choices": [{"usage": {**COUNTED, "cached_tokens": 4}}]}, (10, 5, 4)),
        ({"usage": [COUNTED]}, (10, 5, 0)),
        ({"usage": {"billed_units": {"input_tokens": 8, "output_tokens": 5},
                    "tokens": {"input_tokens": 10, "output_tokens": 5}}}, (10, 5, 0)),
        ({"usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cacheReadInputTokens": 3}}, (10, 5, 3)),
        ({"usage": {**COUNTED, "prompt_tokens_details": {"cached_tokens": 64}}}, (74, 5, 64)),
        ({"usage": {"prompt_tokens": 10, "completion_tokens": None, "total_tokens": 15}}, (10, 5, 0)),
        ({"x_groq": {"usage": COUNTED}}, (10, 5, 0)),
    ],
)  # fmt: skip
def test_usage_is_found_wherever_it_is_counted(body: object, counted: tuple[int, int, int]) -> None:
    usage = find_usage(body)
    assert usage is not None
    assert (usage.prompt, usage.completion, usage.cached) == counted


def test_the_usage_of_a_stream_is_booked() -> None:
    counted = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\ndata: [DONE]\n\n'
    reply = read_reply(STREAM + counted, "m")
    assert not isinstance(reply, Fault)
    assert reply.usage is not None
    assert (reply.usage.prompt, reply.usage.completion) == (3, 2)
