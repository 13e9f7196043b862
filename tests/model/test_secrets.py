"""The key never appears: not in a repr, a log, an error (or what hangs on it), a ledger row or a reply."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import traceback
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from combee.errors import CombeeError, UsageError
from combee.mock import FAULTS, MockConfig, MockServer
from combee.model import Engine, Limiter, Message, OpenAIModel, Request, RetryPolicy, Timeouts, check_endpoint
from combee.model.environment import Scrubber, Secret

KEY = "sk-Very+Secret/Key_0123456789abcdef"


def ask() -> Request:
    return Request((Message("user", "hello"),))


def engine(**options: Any) -> Engine:
    return Engine(limiter=Limiter(4), retry=RetryPolicy(backoff=0.0, max_tries=2), **options)


def everything_about(error: BaseException | None) -> Iterator[str]:
    """All texts that a logger or debugger may show of an error: itself, its arguments, what it was raised from."""
    seen = 0
    while error is not None and seen < 10:
        yield from (str(error), repr(error), repr(error.args), repr(vars(error)))
        yield "".join(traceback.TracebackException.from_exception(error, capture_locals=False).format())
        error = error.__cause__ or error.__context__
        seen += 1


def assert_hidden(*texts: str) -> None:
    forms = {KEY, quote(KEY, safe=""), json.dumps(KEY), base64.b64encode(KEY.encode()).decode(), KEY[:20], KEY[-12:]}
    for text in texts:
        assert not [form for form in forms if form in text], text


@pytest.mark.parametrize("fault", sorted(FAULTS))
async def test_no_fault_shows_the_key(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    rows: list[dict[str, Any]] = []
    async with MockServer(MockConfig(faults={fault: 1.0}, hang=60, key=KEY)) as server:
        from combee.model import Ledger

        run = engine(ledger=Ledger(rows.append))
        limits = Timeouts(read=0.03 if fault == "timeout" else 30)
        async with OpenAIModel(server.url, "any", api_key=KEY, engine=run, timeouts=limits) as model:
            with pytest.raises(CombeeError) as caught:
                await model.complete(ask())
            assert_hidden(repr(model), repr(model.endpoint), repr(model.engine), repr(vars(model.endpoint)["_key"]))
    assert_hidden(*everything_about(caught.value), caplog.text, json.dumps(rows))


class Echo(asyncio.Protocol):
    """A server that quotes the key of a request back, in an answer of a given form."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        head = data.decode("latin-1").lower()
        mark = next((one for one in ("authorization: bearer ", "api-key: ") if one in head), None)
        if mark is None or self.transport is None:
            return
        start = head.index(mark) + len(mark)
        key = data.decode("latin-1")[start:].split("\r\n")[0]
        pad = "x" * 285  # so that a cut at 300 characters would fall into the key
        status, body = {
            "auth": ("401 No", json.dumps({"error": {"message": f"Incorrect key: {key}. {pad}{key}"}})),
            "bad_request": ("400 No", json.dumps({"error": {"message": f"{pad} {key}"}})),
            "page": ("502 No", f"<html>{key}</html>"),
            "not_json": ("200 OK", f"your key is {key}"),
            "in_body": ("200 OK", json.dumps({"error": {"message": f"upstream refused {key} {quote(key, safe='')}"}})),
            "no_choices": ("200 OK", json.dumps({"debug": {"headers": {"authorization": f"Bearer {key}"}}})),
            "redirect": ("307 Go", ""),
            "bad_http": (f"999999 {key}", ""),
        }[self.form]
        location = f"Location: http://127.0.0.1:9/?key={key}\r\n" if self.form == "redirect" else ""
        self.transport.write(f"HTTP/1.1 {status}\r\n{location}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        self.transport.close()


FORMS = ["auth", "bad_request", "page", "not_json", "in_body", "no_choices", "redirect", "bad_http"]


@pytest.mark.parametrize("form", FORMS)
async def test_an_endpoint_that_quotes_the_key_does_not_get_it_into_an_error(form: str) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Echo(form), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    run = engine()
    async with OpenAIModel(f"http://127.0.0.1:{port}/v1", "any", api_key=KEY, engine=run) as model:
        with pytest.raises(CombeeError) as caught:
            await model.complete(ask())
        report = await check_endpoint(model)
    server.close()
    await server.wait_closed()
    assert_hidden(*everything_about(caught.value), json.dumps(report.to_json()), repr(run.ledger.rows))


async def test_a_reply_that_quotes_the_key_comes_without_it() -> None:
    async with (
        MockServer(reply=lambda _: f"your key is {KEY}") as server,
        OpenAIModel(server.url, "any", api_key=KEY, engine=engine()) as model,
    ):
        assert (await model.complete(ask())).text == "your key is ***"


async def test_a_password_in_the_url_and_keys_in_its_query_are_hidden_but_sent() -> None:
    async with MockServer() as server:
        url = server.url.replace("http://", "http://me:pass-word-1@") + "?api-version=1&key=query-secret-2"
        async with OpenAIModel(url, "any", api_key_env=None, engine=engine()) as model:
            assert (await model.complete(ask())).text
            assert "pass-word-1" not in repr(model)
            assert "query-secret-2" not in repr(model)
            assert model.endpoint.scrub("at pass-word-1 and query-secret-2") == "at *** and ***"


@pytest.mark.parametrize("key", ["two words\x00", "schlüssel", "line\nbreak"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(UsageError, match="characters") as caught:
        OpenAIModel("http://127.0.0.1:1/v1", "any", api_key=key)
    assert key not in str(caught.value)


def test_a_secret_is_neither_printed_nor_pickled() -> None:
    secret = Secret(KEY)
    assert_hidden(repr(secret), str(secret), f"{secret}")
    with pytest.raises(TypeError, match="not to be stored"):
        pickle.dumps(secret)


def test_other_keys_are_masked_too() -> None:
    said = Scrubber([])("Authorization: Bearer abc.def and sk-proj-abcdefghijklmnop")
    assert said == "Authorization: *** and ***"
