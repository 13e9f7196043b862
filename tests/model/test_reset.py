"""What header fields say of when a used-up limit is free again, in the spellings of providers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from combee.model import Endpoint, Engine, Limiter, Message, OpenAIModel, Request, RetryPolicy
from combee.model.openai import reset_seconds

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "6m0s"}, 360),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2.5s"}, 62.5),
        (
            {
                "x-ratelimit-remaining-requests": "9",
                "x-ratelimit-reset-requests": "9m",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "3s",
            },
            3,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1767225605"}, 5),
        ({"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225630000"}, 30),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset-after": "1.5"}, 1.5),
        ({"RateLimit-Remaining": "0", "RateLimit-Reset": "12"}, 12),
        ({"RateLimit": "limit=100, remaining=0, reset=7"}, 7),
        ({"RateLimit": '"burst";r=0;t=8'}, 8),
        ({"RateLimit": '"burst";r=3;t=8'}, None),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:20Z",
            },
            20,
        ),
        ({"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "6s"}, None),
        ({"x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ratelimit-reset-requests": "6s"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, None),
        ({"x-ratelimit-remaining": "none", "x-ratelimit-reset": "3"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1767300000"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1767225500"}, 0),
        ({"content-type": "text/html"}, None),
        ({}, None),
    ],
)
def test_the_time_of_a_used_up_limit_is_read_in_every_spelling(headers: dict[str, str], seconds: float | None) -> None:
    found = reset_seconds(headers, NOW)
    assert found == (None if seconds is None else pytest.approx(seconds))


async def test_a_window_that_says_in_its_fields_when_it_ends_is_not_asked_before(serve: Any) -> None:
    refused = b"HTTP/1.1 429 No\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 300\r\nContent-Length: 2\r\n\r\n{}"
    server = await serve(lambda _: [refused])
    endpoint = Endpoint(f"http://127.0.0.1:{server.port}/v1", api_key="k" * 8)
    engine = Engine(limiter=Limiter(2), retry=RetryPolicy(backoff=0, max_tries=4))
    async with OpenAIModel(model="any", endpoint=endpoint, engine=engine) as model:
        task = asyncio.ensure_future(model.complete(Request((Message("user", "x"),))))
        for _ in range(2000):
            if engine.limiter.is_blocked:
                break
            await asyncio.sleep(0.01)
        asked = len(server.requests)
        await asyncio.sleep(0.3)  # a probe would come after a tenth of a second
        task.cancel()
    assert engine.limiter.is_blocked
    assert len(server.requests) == asked
