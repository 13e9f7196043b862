"""Whatever shape a provider gives an error, its words, its kind, the field that it names and its wait are read.

The bodies have the shapes that users of these providers have shown in public; names and numbers are made up.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from combee.errors import CallErrorKind
from combee.model import Fault, Usage
from combee.model.provider_errors import fault_of, read_error, seconds_in
from combee.model.reply import read_reply

_KIND = CallErrorKind
UNKNOWN = 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'
GEMINI = {"code": 400, "message": UNKNOWN, "status": "INVALID_ARGUMENT", "details": [
    {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{"description": UNKNOWN}]}]}  # fmt: skip
FORBIDDEN = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 7}
QUOTA = "You exceeded your current quota, please check your plan and billing details."


def raw(data: object) -> bytes:
    return data.encode() if isinstance(data, str) else json.dumps(data).encode()


@pytest.mark.parametrize(
    "body",
    [
        [{"error": GEMINI}],
        {"error": GEMINI},
        {"error": {"message": f"Error from provider: {json.dumps({'error': GEMINI}, indent=2)}\n", "code": 400}},
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {
            "raw": json.dumps([{"error": GEMINI}]), "provider_name": "Google"}}},
        {"object": "error", "message": {"detail": [FORBIDDEN]}, "type": "invalid_request_error", "code": None},
        {"object": "error", "message": json.dumps({"detail": [FORBIDDEN]}), "code": "1000"},
        {"detail": [FORBIDDEN]},
        {"object": "error", "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'input': 7}]"},
        {"detail": "Error code: 400 - {'error': {'message': \"Unsupported parameter: 'seed'\", 'param': 'seed'}}"},
        {"code": "Client specified an invalid argument", "error": "Argument not supported on this model: seed"},
        {"error": "json: unknown field \"seed\""},
        {"error": {"message": "Unrecognized request argument supplied: seed", "type": "invalid_request_error"}},
        {"error": {"message": "property 'seed' is unsupported", "type": "invalid_request_error"}},
        {"error": {"message": "nope", "param": "seed", "code": "unsupported_parameter"}},
        {"errors": [{"code": 7003, "message": "`seed` is not supported by this model"}], "success": False},
        {"message": "Model grok-x does not support parameter seed."},
        {"errors": {"seed": ["is not allowed"]}},
        {"title": "Bad Request", "status": 400, "invalid-params": [{"name": "seed", "reason": "unsupported"}]},
        {"detail": [{"type": "value_error", "path": "$.seed", "msg": "unexpected"}]},
        {"message": "Malformed input request: #: extraneous key [seed] is not permitted"},
        {"error": {"type": "invalid_request_error", "message": "seed: Extra inputs are not permitted"}},
        "<?xml version='1.0'?><Error><Code>400</Code><Message>Unsupported: seed</Message></Error>",
        "the field `seed` is not known here",
        "<html><head><title>400</title></head><body><h1>Unknown parameter: “seed”</h1></body></html>",
    ],
)  # fmt: skip
def test_a_refused_field_is_named_in_any_shape_and_phrasing(body: object) -> None:
    said = read_error(raw(body))
    assert said is not None
    assert said.names("seed")
    assert not said.names("temperature")
    assert fault_of(400, {}, raw(body)).kind is _KIND.BAD_REQUEST


def test_a_request_that_is_sent_back_names_nothing() -> None:
    body = {"error": {"message": "Bad Request"}, "request": {"seed": 7, "stop": ["x"], "temperature": 0}, "seed": 7}
    found = read_error(raw(body))
    assert found is not None
    assert not any(found.names(name) for name in ("seed", "stop", "temperature"))


def test_what_an_error_repeats_of_the_request_is_not_read_as_its_words() -> None:
    echoed = "Ignore seed. maximum context length, insufficient_quota, invalid api key, content_filter"
    body = {
        "detail": [{"type": "extra_forbidden", "loc": ["body", "user"], "msg": "no", "input": echoed, "ctx": echoed}]
    }
    fault = fault_of(422, {}, raw(body))
    assert fault.kind is _KIND.BAD_REQUEST
    assert fault.body is not None
    assert not fault.body.names("seed")
    unfit = {
        "error": {"message": "Failed to generate JSON.", "code": "json_validate_failed", "failed_generation": echoed}
    }
    assert fault_of(400, {}, raw(unfit)).kind is _KIND.SCHEMA


def said(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


DELAY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "26s"}
GROQ = "Rate limit reached for model `x` on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try "


@pytest.mark.parametrize(
    ("status", "body", "wait"),
    [
        (429, said(f"{QUOTA} Please retry in 1.2s.", details=[{"retryDelay": "1s"}]), 1.2),
        (429, [said(QUOTA, code=429, status="RESOURCE_EXHAUSTED", details=[DELAY])], 26),
        (429, said(f"{QUOTA} Please retry in 58.82s."), 58.82),
        (429, said(json.dumps(said(QUOTA, details=[DELAY]))), 26),
        (429, said("Resource has been exhausted (e.g. check quota).", code=429), None),
        (429, said(f"{QUOTA} (tokens per minute)"), None),
        (429, said(f"{GROQ} again in 7m12s. Upgrade at https://x.y/settings/billing"), 432),
        (429, said("Please retry after 26 seconds.", code="429"), 26),
        (429, {"message": "Your quota will reset after 20s."}, 20),
        (429, {"object": "error", "message": "Service tier capacity exceeded for this model."}, None),
        (403, {"error": {"errors": [{"reason": "rateLimitExceeded"}], "message": "Quota exceeded"}}, None),
        (400, said("Too many requests, slow down"), None),
        (200, said("slow down", code=429), None),
        (429, {"error": "INSUFFICIENT QUOTA", "message": "You exceeded your limit of concurrent requests."}, None),
        (400, {"message": "ThrottlingException: Too many tokens, please wait before trying again."}, None),
        (429, said("You exceeded your current requests list.", code="limit_requests"), None),
        (429, said("您的账户已达到速率限制，请您控制请求频率", code="1302"), None),
        (429, said("Your request reached organization max RPM: 3, please try again after 1 seconds"), 1),
        (429, said("Rate limit of 80,000 input tokens per minute. Please reduce the prompt length, or wait."), None),
        (200, {"choices": [{"finish_reason": "error", "error": {"code": 429, "message": ""}, "message": {}}]}, None),
        (200, {"detail": "Rate limit exceeded"}, None),
    ],
)  # fmt: skip
def test_a_limit_with_a_window_is_waited_for(status: int, body: Any, wait: float | None) -> None:
    fault = read_reply(raw(body), "m") if status == 200 else fault_of(status, {}, raw(body))
    assert isinstance(fault, Fault)
    assert fault.kind is _KIND.RATE_LIMIT
    assert fault.retry_after == pytest.approx(wait)
    assert "credit" not in (fault.hint or "")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, said(f"{QUOTA} See https://ai.example/docs/rate-limits for more.")),
        (429, said(QUOTA, type="insufficient_quota", code=None)),
        (429, said("* Quota exceeded for metric: requests, limit: 0, model: pro. Please retry in 45s.")),
        (402, said("Insufficient Balance", code="invalid_request_error")),
        (400, said("Insufficient Balance", code="invalid_request_error")),
        (402, said("You requested up to 4096 tokens, but can only afford 4000.")),
        (403, {"code": "forbidden", "error": "Your team doesn't have any credits yet. You can purchase credits."}),
        (429, {"error": "Your team has used all available credits or reached its monthly spending limit."}),
        (429, said("余额不足或无可用资源包,请充值。", code="1113")),
        (429, {"error": "You have reached your monthly usage limit."}),
        (400, said("Insufficient balance. Try again after a top up.")),
        (200, said("Insufficient credits. Add more at https://x.y/credits", code=402)),
    ],
)
def test_only_a_quota_without_a_window_asks_for_credit(status: int, body: Any) -> None:
    fault = read_reply(raw(body), "m") if status == 200 else fault_of(status, {}, raw(body))
    assert isinstance(fault, Fault)
    assert fault.kind is _KIND.QUOTA
    assert "add credit" in (fault.hint or "")


@pytest.mark.parametrize("unit", [1, 1000])
def test_the_moment_when_a_limit_ends_is_read_from_header_fields_inside_a_body(unit: int) -> None:
    moment = str(round((time.time() + 40) * unit))
    fields = {"X-RateLimit-Limit": "80", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": moment}
    fault = fault_of(429, {}, raw(said("Rate limit exceeded: limit_rpd/a/b", code=429, metadata={"headers": fields})))
    assert fault.retry_after == pytest.approx(40, abs=5)
    past = {**fields, "X-RateLimit-Reset": "1741305600000"}
    assert fault_of(429, {}, raw(said("Rate limit exceeded", metadata={"headers": past}))).retry_after is None
    assert fault_of(503, {}, raw({"error": "Model is currently loading", "estimated_time": 20.0})).retry_after == 20


@pytest.mark.parametrize(
    "words",
    ["No endpoints found that support image input.", "No allowed providers are available for the selected model.",
     "No endpoints found matching your data policy (Free model publication)."],
)  # fmt: skip
def test_a_router_that_has_nobody_is_no_wrong_address(words: str) -> None:
    fault = fault_of(404, {}, raw(said(words, code=404)))
    assert fault.fatal
    assert "router" in (fault.hint or "")
    assert "chat endpoint" not in fault.message


def test_a_window_may_stand_in_the_header_alone() -> None:
    body = raw({"error": {"message": QUOTA, "code": "insufficient_quota"}})
    fault = fault_of(429, {"retry-after": "3"}, body)
    assert (fault.kind, fault.retry_after) == (_KIND.RATE_LIMIT, 3)
    assert fault_of(429, {"retry-after": "20s"}, b"").retry_after == 20


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Please try again in 1h2m3.5s", 3723.5), ("try again in 500ms", 0.5), ("Retry after 2 minutes", 120),
        ("wait 3 days", 259_200), ("请在12秒后重试", 12), ("retry in 99999999999s", 1e9), ("try again later", None),
        ("resets at noon, 5 calls a minute", None), ("took 5 seconds", None),
    ],
)  # fmt: skip
def test_a_wait_is_read_from_a_sentence(said: str, seconds: float | None) -> None:
    assert seconds_in(said) == pytest.approx(seconds)


FILTERED = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
TPM = "Request too large on tokens per minute (TPM): Limit 6000, Requested 14368"


@pytest.mark.parametrize(
    ("kind", "status", "body"),
    [
        ("auth", 400, [said("API key not valid. Please pass a valid API key.", code=400)]),
        ("auth", 400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***."}),
        ("auth", 401, {"message": "Unauthorized", "request_id": "9"}),
        ("auth", 401, said("Access denied due to invalid subscription key", code="401")),
        ("auth", 200, {"success": False, "errors": [{"code": 10000, "message": "Authentication error"}]}),
        ("auth", 200, said("No auth credentials found", code=401)),
        ("no_such_model", 404, said("The API deployment does not exist", code="DeploymentNotFound")),
        ("no_such_model", 404, said('model "x" not found, try pulling it first', type="api_error")),
        ("no_such_model", 404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}),
        ("no_such_model", 404, said("No endpoints found for a/b.", code=404)),
        ("bad_request", 404, said("Resource not found", code="404")),
        ("content_filter", 400, said("The response was filtered", innererror=FILTERED)),
        ("content_filter", 400, {"code": "DataInspectionFailed", "message": "data_inspection_failed"}),
        ("context_too_long", 400, {"object": "error", "message": "The input is longer than the context length (8)."}),
        ("context_too_long", 500, said("the request exceeds it", type="exceed_context_size_error", n_ctx=8)),
        ("context_too_long", 200, said("the request exceeds it", code=400, type="exceed_context_size_error")),
        ("context_too_long", 400, [said("The input token count (9) exceeds the maximum number of tokens allowed")]),
        ("context_too_long", 400, {"error": "This model's maximum prompt length is 8 but it contains 9 tokens."}),
        ("context_too_long", 400, {"message": "Range of input length should be [1, 6000]"}),
        ("context_too_long", 400, {"object": "error", "message": "max_tokens must be at least 1, got -186."}),
        ("context_too_long", 400, said("You requested 65535 output tokens and your prompt contains at least 62466 "
                                       "input tokens. This model's maximum context length is 128000 tokens.")),
        ("context_too_long", 422, {"error": "Input validation: `inputs` tokens + `max_new_tokens` must be <= 4096"}),
        ("context_too_long", 422, {"error": "`inputs` must have less than 1024 tokens. Given: 1500"}),
        ("server", 524, "error code: 524"),
        ("server", 200, {"code": 502, "message": "Network connection lost.", "metadata": {"type": "unavailable"}}),
        ("error_in_body", 200, {"id": None, "choices": None, "model": None}),
        ("auth", 403, said("Country, region, or territory not supported", type="request_forbidden")),
        ("context_too_long", 413, said(TPM, type="tokens", code="rate_limit_exceeded")),
        ("context_too_long", 429, said(TPM)),
        ("error_in_body", 200, {"object": "error", "message": "worker died", "code": 50001}),
        ("error_in_body", 200, {"code": 1302, "msg": "try another time", "success": False}),
        ("auth", 200, {"base_resp": {"status_code": 1004, "status_msg": "login fail"}, "choices": None}),
        ("server", 200, [said("The model is overloaded.", code=503)]),
        ("server", 503, "<!DOCTYPE html><title>x | 503: Service unavailable</title>"),
        ("server", 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ("server", 504, "upstream request timeout"),
        ("schema", 400, said("Failed to generate JSON. Please adjust your prompt.", code="json_validate_failed")),
        ("schema", 422, {"detail": "The model's output was not valid JSON for the schema."}),
        ("bad_request", 422, "Failed to parse the request body as JSON: messages[0].role: unknown variant `system`"),
        ("bad_request", 400, said("We could not parse the JSON body of your request.")),
        ("auth", 400, [said("API key expired. Please renew the API key.", details=[{"reason": "API_KEY_INVALID"}])]),
        ("bad_request", 400, said("Invalid schema for response_format 'reply': missing 'bar'")),
    ],
)  # fmt: skip
def test_an_error_has_the_same_kind_in_whatever_shape(kind: str, status: int, body: Any) -> None:
    fault = read_reply(raw(body), "m") if status == 200 else fault_of(status, {}, raw(body))
    assert getattr(fault, "kind", None) == kind


def test_the_innermost_reason_is_in_the_message() -> None:
    inner = json.dumps({"error": {"message": "at most 1 image per prompt", "code": "invalid_request_error"}})
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": inner}}}
    assert "Provider returned error: at most 1 image" in fault_of(400, {}, raw(body)).message
    page = b"<html><head><title>Just a moment...</title></head><body>" + b"x" * 9000 + b"</body></html>"
    assert "Just a moment..." in fault_of(403, {}, page).message
    odd = 'Value {"a": 1} is not what was asked'
    assert odd in fault_of(400, {}, raw({"error": odd})).message


USED = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, {"error": {"message": "lost"}, "usage": USED}),
        (502, {"error": {"message": "lost", "usage": USED}}),
        (400, {"error": {"message": "x", "metadata": {"usage": USED}}}),
        (200, {"error": {"message": "lost", "code": 502}, "usage": USED}),
        (200, {"choices": [], "usage": USED}),
        (200, {"choices": [{"error": {"code": 502, "message": "x"}, "message": {"content": "ha"}}], "usage": USED}),
        (200, {"choices": [{"message": {"content": "half a sent"}, "finish_reason": "abort"}], "usage": USED}),
        (200, [{"error": {"message": "lost"}, "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3}}]),
    ],
)
def test_what_a_failed_call_was_charged_is_read_wherever_it_is_stated(status: int, body: Any) -> None:
    fault = read_reply(raw(body), "m") if status == 200 else fault_of(status, {}, raw(body))
    assert fault.usage == Usage(7, 3)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"0", b"[]", b"{}", b"[" * 50_000, b'{"a":' * 3_000, b"\xff\xfe", b'"\\ud800"']
)
def test_no_body_breaks_the_reader(body: bytes) -> None:
    assert fault_of(500, {}, body).kind is _KIND.SERVER
    read_reply(body, "m")
