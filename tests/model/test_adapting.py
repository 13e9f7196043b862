"""What an endpoint refuses is given up once, in whatever words it refuses it; what went wrong with one call is not."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from combee.errors import CallError, CallErrorKind
from combee.model import Engine, Limiter, Message, OpenAIModel, Request, RetryPolicy
from combee.model.dialect import Capabilities, adapt, in_another_form, write_body
from combee.model.provider_errors import fault_of

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
ASKED = Request(
    (Message("system", "Be brief."), Message("user", "Hi")), SCHEMA, 4_096, 0.0, seed=7, stop=("END",)
)  # fmt: skip
Takes = Callable[[dict[str, Any]], tuple[int, object] | None]
"""Says what is wrong with a body: a status and an error body; None where it is taken."""


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def answer(takes: Takes, bodies: list[dict[str, Any]]) -> Callable[[bytes], list[bytes]]:
    def script(request: bytes) -> list[bytes]:
        body = json.loads(request.partition(b"\r\n\r\n")[2])
        bodies.append(body)
        refused = takes(body)
        reply: object = {"choices": [{"message": {"content": '{"a": "b"}'}, "finish_reason": "stop"}]}
        status, data = (200, reply) if refused is None else refused
        raw = data.encode() if isinstance(data, str) else json.dumps(data).encode()
        return [f"HTTP/1.1 {status} X\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw]

    return script


async def talk(serve: Any, takes: Takes, *, calls: int = 6, **options: Any) -> tuple[OpenAIModel, list[dict[str, Any]]]:
    """Make some calls at once, then one more; returns the model and the bodies that were sent."""
    bodies: list[dict[str, Any]] = []
    server = await serve(answer(takes, bodies))
    engine = Engine(limiter=Limiter(4), retry=RetryPolicy(backoff=0.01))
    url = f"http://127.0.0.1:{server.port}/v1"
    async with OpenAIModel(url, "m", None, engine=engine, **options) as model:
        replies = await asyncio.gather(*(model.complete(ASKED) for _ in range(calls)))
        before = len(bodies)
        replies.append(await model.complete(ASKED))
    assert {reply.text for reply in replies} == {'{"a": "b"}'}
    assert len(bodies) == before + 1  # it is remembered
    return model, bodies


def refusing(field: str, message: str, status: int = 400) -> Takes:
    return lambda body: (status, message) if field in body else None


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("seed", '[{"error": {"code": 400, "message": "Unknown name \\"seed\\": Cannot find field."}}]'),
        ("seed", '{"error": "json: unknown field \\"seed\\""}'),
        ("seed", '{"detail": [{"loc": ["body", "seed"], "msg": "extra fields not permitted"}]}'),
        ("seed", '{"error": {"message": "`seed` is not available for this deployment"}}'),
        ("seed", '{"error": {"message": "The parameter seed cannot be used with this model."}}'),
        ("seed", '{"error": {"message": "no", "param": "seed"}}'),
        ("stop", '{"code": "x", "error": "Argument not supported on this model: stop"}'),
        ("temperature", '{"error": {"message": "temperature: only 1 is allowed", "param": "temperature"}}'),
        ("temperature", '{"error": {"message": "`temperature` is deprecated for this model."}}'),
    ],
)
async def test_a_field_is_left_out_after_any_refusal_that_names_it(field: str, message: str, serve: Any) -> None:
    model, bodies = await talk(serve, refusing(field, message))
    assert model.capabilities.without == (field,)
    assert field not in bodies[-1]
    assert {"messages", "model", "response_format"} <= bodies[-1].keys()


@pytest.mark.parametrize("status", [400, 422, 500, 501, 200])
async def test_a_refusal_counts_whatever_its_status(status: int, serve: Any) -> None:
    takes = refusing("seed", json.dumps(error("Unsupported parameter: 'seed'")), status)
    model, _ = await talk(serve, takes)
    assert model.capabilities.without == ("seed",)


async def test_several_refusals_in_one_error_are_all_heard(serve: Any) -> None:
    said = 'Unknown name "seed": Cannot find field.\nUnknown name "stop": Cannot find field.'
    model, bodies = await talk(serve, lambda body: (400, [error(said)]) if {"seed", "stop"} & body.keys() else None)
    assert model.capabilities.without == ("seed", "stop")
    assert len(bodies) <= 12 + 1


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "System role not supported"),
        (500, "Jinja Exception: Only user and assistant roles are supported!"),
        (500, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (400, "Only user, assistant and tool roles are supported, got system."),
        (400, "Developer instruction is not enabled for models/gemma"),
        (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
        (422, "messages[0].role: unknown variant `system`, expected `user` or `assistant`"),
        (422, "Input should be 'user' or 'assistant'"),
        (400, "messages: role must be one of user, assistant"),
        (400, "该模型不支持system角色"),
        (200, "This model does not support system prompts."),
    ],
)
async def test_a_template_without_the_system_role_gets_its_text_in_the_first_message(
    status: int, message: str, serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def takes(body: dict[str, Any]) -> tuple[int, object] | None:
        return (status, error(message)) if body["messages"][0]["role"] == "system" else None

    with caplog.at_level(logging.WARNING, "combee.model"):
        model, bodies = await talk(serve, takes)
    assert model.capabilities == Capabilities(usage=False, system=False)
    assert bodies[-1]["messages"] == [{"role": "user", "content": "Be brief.\n\nHi"}]
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("message", "most"),
    [
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 2048]", 2_048),
        ("`max_tokens` must be less than or equal to `2048`, the maximum for this model's `context_window`", 2_048),
        ("max_tokens is too large: 4096. This model supports at most 2048 completion tokens", 2_048),
        ("Invalid 'max_tokens': integer above maximum value. Expected a value <= 2048, but got 4096 instead.", 2_048),
    ],
)
async def test_the_limit_of_a_reply_is_lowered_to_what_is_taken(message: str, most: int, serve: Any) -> None:
    model, bodies = await talk(serve, lambda body: (400, error(message)) if body["max_tokens"] > most else None)
    assert model.capabilities.most_tokens == most
    assert bodies[-1]["max_tokens"] == most


async def test_the_limit_goes_by_its_other_name_and_then_by_none(serve: Any) -> None:
    def takes(body: dict[str, Any]) -> tuple[int, object] | None:
        name = next((one for one in ("max_tokens", "max_completion_tokens") if one in body), None)
        return (400, error(f"Unsupported parameter: '{name}'", param=name)) if name else None

    model, _ = await talk(serve, takes)
    assert model.capabilities.limit_name is None


async def test_a_temperature_of_zero_is_raised_a_little_where_it_must_be_positive(serve: Any) -> None:
    said = error("`temperature` must be strictly positive")
    model, bodies = await talk(serve, lambda body: (422, said) if body["temperature"] <= 0 else None)
    assert model.capabilities.without == ()
    assert 0 < bodies[-1]["temperature"] < 0.05


@pytest.mark.parametrize("message", ["Param Incorrect", "Bad Request", "extra fields not permitted", ""])
async def test_a_refusal_without_a_reason_is_met_with_the_plainest_request(message: str, serve: Any) -> None:
    def takes(body: dict[str, Any]) -> tuple[int, object] | None:
        return (400, error(message)) if body.keys() - {"model", "messages", "max_tokens"} else None

    _, bodies = await talk(serve, takes)
    assert bodies[-1].keys() == {"model", "messages", "max_tokens"}
    assert "JSON schema" in bodies[-1]["messages"][-1]["content"]


async def test_where_the_plainest_request_is_refused_too_nothing_is_given_up(serve: Any) -> None:
    bodies: list[dict[str, Any]] = []
    refused = [True]
    server = await serve(answer(lambda _: (400, error("Bad Request")) if refused[0] else None, bodies))
    async with OpenAIModel(f"http://127.0.0.1:{server.port}/v1", "m", None, engine=Engine()) as model:
        with pytest.raises(CallError, match="refused the request"):
            await model.complete(ASKED)
        assert len(bodies) == 2
        assert model.capabilities == Capabilities()
        refused[0] = False
        await model.complete(ASKED)
    assert {"seed", "stop", "temperature", "response_format"} <= bodies[-1].keys()


async def test_a_refusal_after_calls_that_worked_costs_the_others_nothing(serve: Any) -> None:
    bodies: list[dict[str, Any]] = []
    odd = Request((Message("user", "odd"),), SCHEMA, 64)

    def takes(body: dict[str, Any]) -> tuple[int, object] | None:
        return (400, error("Bad Request")) if body["messages"][-1]["content"].startswith("odd") else None

    server = await serve(answer(takes, bodies))
    async with OpenAIModel(f"http://127.0.0.1:{server.port}/v1", "m", None, engine=Engine()) as model:
        await model.complete(ASKED)
        with pytest.raises(CallError) as caught:
            await model.complete(odd)
        await model.complete(ASKED)
    assert caught.value.kind is CallErrorKind.BAD_REQUEST
    assert len(bodies) == 3
    assert "response_format" in bodies[-1]


async def test_a_parameter_of_the_user_is_left_out_too_and_that_is_said(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def takes(body: dict[str, Any]) -> tuple[int, object] | None:
        named = next((name for name in ("n", "stream_options", "reasoning_effort") if name in body), None)
        return (400, error(f"Unknown parameter: '{named}'.")) if named else None

    extra = {"n": 1, "stream_options": {"x": 1}, "reasoning_effort": "low"}
    with caplog.at_level(logging.WARNING, "combee.model"):
        model, _ = await talk(serve, takes, extra=extra)
    assert model.capabilities.without == ("n", "reasoning_effort", "stream_options")
    assert all(f"{name} (it is left out)" in caplog.text for name in extra)


async def test_a_model_that_never_keeps_to_the_form_is_asked_in_another_one(serve: Any) -> None:
    said = error("Failed to generate JSON.", code="json_validate_failed", failed_generation="{")
    model, bodies = await talk(serve, lambda body: (400, said) if "response_format" in body else None, calls=30)
    assert model.capabilities.structured == "words"
    assert "response_format" not in bodies[-1]


WINDOW = "This model's maximum context length is 4096 tokens"
ROOM = [
    (f"{WINDOW}. However, you requested 4296 tokens (200 in the messages, 4096 in the completion).", 3_896),
    (f"'max_tokens' is too large: 4096. {WINDOW} and your request has 200 input tokens (4096 > 4096 - 200).", 3_896),
    (f"{WINDOW}, however you requested 4296 tokens (200 in your prompt; 4096 for the completion).", 3_896),
    ("It exceeds the maximum context length of 4096 tokens: 200 tokens from the input messages and 4096 more.", 3_896),
    ("input length and `max_tokens` exceed context limit: 200 + 4096 > 4096, decrease input length", 3_896),
    ("Request too large for model on tokens per minute (TPM): Limit 4000, Requested 4296", 3_784),
]


@pytest.mark.parametrize(("message", "room"), ROOM)
def test_the_room_that_is_left_for_a_reply_is_read(message: str, room: int) -> None:
    smaller = in_another_form(ASKED, fault_of(400, {}, json.dumps(error(message)).encode()))
    assert smaller is not None
    assert smaller.max_tokens == room


@pytest.mark.parametrize(
    "message",
    [
        f"{WINDOW}. However, you requested 9096 tokens (5000 in the messages, 4096 in the completion).",
        "Request too large on tokens per minute (TPM): Limit 4000, Requested 94296",
        "the request exceeds the available context size",
    ],
)
def test_a_prompt_that_is_too_long_by_itself_is_not_tried_again(message: str) -> None:
    assert in_another_form(ASKED, fault_of(400, {}, json.dumps(error(message)).encode())) is None


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "The model `x` does not exist"),
        (429, "Rate limit reached, lower the temperature of your requests"),
        (401, "Invalid API key; seed"),
        (500, "The server had an error while processing your seed"),
        (503, "The model is overloaded. Please retry with a smaller max_tokens"),
    ],
)
def test_what_is_no_refusal_of_a_field_changes_nothing(status: int, message: str) -> None:
    can = Capabilities()
    sent = write_body(ASKED, "x", can, {})
    assert adapt(ASKED, can, fault_of(status, {}, json.dumps(error(message)).encode()), sent) is None


def test_what_calls_in_flight_find_out_is_joined_whatever_comes_first() -> None:
    one = Capabilities(structured="json_object", json_schema=False, without=("seed",))
    other = Capabilities(limit_name="max_completion_tokens", system=False, most_tokens=100, without=("stop",))
    assert one.narrowed(other) == other.narrowed(one)
    assert one.narrowed(one) == one
    assert one.narrowed(other).without == ("seed", "stop")
