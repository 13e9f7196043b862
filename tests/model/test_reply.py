"""Every shape in which an endpoint fails is told apart: statuses, bodies, and errors that pretend to be answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from combee.errors import CallErrorKind
from combee.model import RULES, Fault, Response, Usage
from combee.model.answer_text import strip_thinking
from combee.model.provider_errors import fault_of, retry_after_seconds
from combee.model.reply import read_reply


def body(content: Any, usage: dict[str, Any] | None = None, finish: str | None = "stop", **message: Any) -> bytes:
    reply: dict[str, Any] = {"choices": [{"message": {"content": content, **message}, "finish_reason": finish}]}
    if usage is not None:
        reply["usage"] = usage
    return json.dumps(reply).encode()


USED = {"prompt_tokens": 10, "completion_tokens": 5}
NONE = {"prompt_tokens": 0, "completion_tokens": 0}


@pytest.mark.parametrize(
    ("content", "usage"),
    [
        ("API Error: 529 overloaded", NONE),
        ("API Error: 529 overloaded", None),
        ("API Error: 529 overloaded", USED),
        ('API Error: 429 {"type":"error"}', None),
        ("Rate limit exceeded, please try again later", NONE),
        ("Service temporarily unavailable", {"prompt_tokens": 10, "completion_tokens": 0}),
        ("upstream connect error or disconnect/reset before headers", None),
        ("Error: the request timed out", NONE),
    ],
)
def test_an_error_told_as_an_answer_is_an_error(content: str, usage: dict[str, Any] | None) -> None:
    found = read_reply(body(content, usage), "m")
    assert isinstance(found, Fault)
    assert found.kind is CallErrorKind.ERROR_IN_BODY


@pytest.mark.parametrize(
    ("content", "usage"),
    [
        ("Error handling: retry at 429, and wait when overloaded.", USED),
        ("The API error rate limit is exceeded when...", USED),
        ("Paris", NONE),  # some servers always report zeros
        ("Paris", None),
        ([{"type": "text", "text": "Par"}, {"type": "reasoning", "text": "x"}, {"text": "is"}], USED),
    ],
)
def test_an_answer_that_speaks_of_errors_is_an_answer(content: Any, usage: dict[str, Any] | None) -> None:
    found = read_reply(body(content, usage), "m")
    assert isinstance(found, Response)
    assert (found.usage is None) == (usage is not USED)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", CallErrorKind.NOT_JSON),
        (b"<!DOCTYPE html><html></html>", CallErrorKind.NOT_JSON),
        (b"data: {}\n\n", CallErrorKind.ERROR_IN_BODY),
        (b'{"choices": [{"mess', CallErrorKind.TRUNCATED_BODY),
        (b"[" * 100_000, CallErrorKind.TRUNCATED_BODY),
        (b"null", CallErrorKind.ERROR_IN_BODY),
        (b'{"choices": []}', CallErrorKind.ERROR_IN_BODY),
        (b'{"choices": [null]}', CallErrorKind.ERROR_IN_BODY),
        (b'{"error": "broken"}', CallErrorKind.ERROR_IN_BODY),
        (b'{"error": {"message": "slow down", "code": 429}}', CallErrorKind.RATE_LIMIT),
        (b'{"error": {"message": "No auth", "code": 401}}', CallErrorKind.AUTH),
        (b'{"error": {"message": "Provider down", "code": 502}}', CallErrorKind.SERVER),
        (b'{"error": {"message": "maximum context length is 10"}}', CallErrorKind.CONTEXT_TOO_LONG),
        (
            b'{"choices": [{"error": {"message": "upstream", "code": 502}, "message": {"content": ""}}]}',
            CallErrorKind.SERVER,
        ),
        (body(None), CallErrorKind.EMPTY),
        (body(""), CallErrorKind.EMPTY),
        (body("  \n"), CallErrorKind.EMPTY),
        (body("<think>hm</think>"), CallErrorKind.EMPTY),
        (body(None, finish="tool_calls"), CallErrorKind.EMPTY),
        (body(None, finish="length", reasoning_content="hm"), CallErrorKind.LENGTH),
        (body("<think>hm", finish="length"), CallErrorKind.LENGTH),
        (body("half", finish="content_filter"), CallErrorKind.CONTENT_FILTER),
        (body(None, refusal="I will not"), CallErrorKind.CONTENT_FILTER),
    ],
)
def test_a_200_without_an_answer_is_a_typed_fault(raw: bytes, kind: CallErrorKind) -> None:
    found = read_reply(raw, "m")
    assert isinstance(found, Fault)
    assert found.kind is kind


def error(message: str, **more: Any) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


@pytest.mark.parametrize(
    ("status", "raw", "kind"),
    [
        (429, b"", CallErrorKind.RATE_LIMIT),
        (429, error("You exceeded your current quota", code="insufficient_quota"), CallErrorKind.QUOTA),
        (500, b"<html>", CallErrorKind.SERVER),
        (502, b"", CallErrorKind.SERVER),
        (529, error("Overloaded"), CallErrorKind.SERVER),
        (408, b"", CallErrorKind.TIMEOUT),
        (401, b"", CallErrorKind.AUTH),
        (402, error("Insufficient Balance"), CallErrorKind.QUOTA),
        (403, b"", CallErrorKind.AUTH),
        (404, error("The model `x` does not exist", code="model_not_found"), CallErrorKind.NO_SUCH_MODEL),
        (400, error("Model Not Exist"), CallErrorKind.NO_SUCH_MODEL),
        (404, b'{"detail":"Not Found"}', CallErrorKind.BAD_REQUEST),
        (307, b"", CallErrorKind.BAD_REQUEST),
        (405, b"", CallErrorKind.BAD_REQUEST),
        (413, b"", CallErrorKind.CONTEXT_TOO_LONG),
        (400, error("too long", code="context_length_exceeded"), CallErrorKind.CONTEXT_TOO_LONG),
        (400, error("This model's maximum context length is 8192 tokens"), CallErrorKind.CONTEXT_TOO_LONG),
        (400, error("request (9 tokens) exceeds the available context size"), CallErrorKind.CONTEXT_TOO_LONG),
        (400, error("prompt is too long: 9 tokens > 8 maximum"), CallErrorKind.CONTEXT_TOO_LONG),
        (400, error("filtered", code="content_filter"), CallErrorKind.CONTENT_FILTER),
        (400, error("response_format is not supported"), CallErrorKind.BAD_REQUEST),
        (422, b'{"detail":[{"msg":"no"}]}', CallErrorKind.BAD_REQUEST),
    ],
)
def test_a_status_is_a_kind(status: int, raw: bytes, kind: CallErrorKind) -> None:
    assert fault_of(status, {}, raw).kind is kind


def test_every_kind_has_one_rule() -> None:
    assert set(RULES) == set(CallErrorKind)


def test_retry_after_is_read_as_seconds_as_a_date_and_as_milliseconds() -> None:
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    date = format_datetime(now + timedelta(seconds=30), usegmt=True)
    assert retry_after_seconds({"retry-after": "2"}) == 2
    assert retry_after_seconds({"retry-after": "0.5"}) == 0.5
    assert retry_after_seconds({"retry-after": date}, now) == 30
    assert retry_after_seconds({"retry-after": date}, now + timedelta(hours=1)) == 0
    assert retry_after_seconds({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert retry_after_seconds({"retry-after": "99999999999999"}) == 1e9  # a very long wait, not none at all
    for bad in ("", "soon", "nan", "-", "inf"):
        assert retry_after_seconds({"retry-after": bad}) is None
    assert retry_after_seconds({}) is None


@pytest.mark.parametrize(
    ("usage", "meant"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(9, 2, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, Usage(9, 2, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(9, 2)),
        ({"prompt_tokens": None}, None),
        ({"prompt_tokens": -1, "completion_tokens": "x"}, None),
        ([], None),
    ],
)
def test_usage_is_read_in_its_forms_and_nothing_said_is_unknown(usage: Any, meant: Usage | None) -> None:
    found = read_reply(body("hi", usage), "m")
    assert isinstance(found, Response)
    assert found.usage == meant


def test_thinking_is_cut_only_where_it_stands_first() -> None:
    assert strip_thinking("<think>a</think> b") == "b"
    assert strip_thinking("a</think>b") == "b"
    assert strip_thinking("Write <think>x</think> so.") == "Write <think>x</think> so."
    assert strip_thinking("<think>never ends") == ""
    assert strip_thinking("plain") == "plain"


@pytest.mark.parametrize(
    ("usage", "billed"),
    [
        # Thinking outside `completion_tokens`: with its number, or in the total alone.
        ({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 21_100}, 20_100),
        ({"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 399,
          "completion_tokens_details": {"reasoning_tokens": 386}}, 387),
        ({"prompt_tokens": 21, "completion_tokens": 0, "total_tokens": 81,
          "completion_tokens_details": {"reasoning_tokens": 60}}, 60),
        ({"promptTokenCount": 20, "candidatesTokenCount": 198, "thoughtsTokenCount": 405, "totalTokenCount": 623}, 603),
        ({"promptTokenCount": 21, "thoughtsTokenCount": 60}, 60),
        ({"input_tokens": 9, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 8}}, 11),
        ({"prompt_tokens": 9, "completion_tokens": 3, "reasoning_tokens": 8}, 11),
        # Inside, as OpenAI has it.
        ({"prompt_tokens": 20, "completion_tokens": 424, "total_tokens": 444,
          "completion_tokens_details": {"reasoning_tokens": 300}}, 424),
        # Parts and total disagree: the dearer holds.
        ({"prompt_tokens": 20, "completion_tokens": 424, "total_tokens": 30}, 424),
        ({"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10,
          "completion_tokens_details": {"reasoning_tokens": 7}}, 12),
        ({"total_tokens": 50}, 50),
        ({"prompt_tokens": "9", "completion_tokens": "3", "total_tokens": "40"}, 31),
        ({"prompt_tokens": 9, "completion_tokens": 3, "completion_tokens_details": {"thinking_tokens": 20}}, 23),
        ({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": float("inf")}, 3),
        ({"prompt_tokens": 9, "completion_tokens": True, "total_tokens": "many"}, 0),
    ],
)  # fmt: skip
def test_thinking_is_billed_wherever_it_is_reported(usage: Any, billed: int) -> None:
    found = read_reply(body("hi", usage), "m")
    assert isinstance(found, Response)
    assert found.usage is not None
    assert found.usage.completion == billed


@pytest.mark.parametrize(
    "word",
    ["error", "abort", "network_error", "insufficient_system_resource", "cancelled", "interrupted", "timeout",
     "unknown", "malformed_function_call", "OTHER", "xyz", 7, {"type": "abort", "message": "x"}],
)  # fmt: skip
def test_half_a_sentence_with_any_other_end_is_no_success(word: Any) -> None:
    found = read_reply(body("Half a sente", USED, finish=word), "m")
    assert isinstance(found, Fault)
    assert found.kind is CallErrorKind.ERROR_IN_BODY
    assert found.usage == Usage(10, 5)
    assert RULES[found.kind].retries > 0


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", "stop"), ("STOP", "stop"), ("FinishReason.STOP", "stop"), ("end_turn", "stop"), ("eos_token", "stop"),
        ("stop_sequence", "stop"), ("COMPLETE", "stop"), ("length", "length"), ("MAX_TOKENS", "length"),
        ("model_length", "length"), (None, "unknown"), ("", "unknown"),
    ],
)  # fmt: skip
def test_the_words_of_other_providers_for_an_end_are_known(word: Any, finish: str) -> None:
    found = read_reply(body("whole", USED, finish=word), "m")
    assert isinstance(found, Response)
    assert found.finish == finish


@pytest.mark.parametrize(
    "word", ["content_filter", "SAFETY", "recitation", "content_filter: PROHIBITED_CONTENT", "sensitive"]
)
def test_a_filter_is_a_filter_by_any_name(word: str) -> None:
    found = read_reply(body("half", USED, finish=word), "m")
    assert isinstance(found, Fault)
    assert found.kind is CallErrorKind.CONTENT_FILTER
