"""What is spelled out by hand for speed is, byte for byte, what the journal would write itself."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.journaled_model import JournaledModel, inputs_of
from combee.kernel.journal import MemoryScope, canonical_json, hash_json
from combee.kernel.journal.values import Spelled
from combee.model import Message, Request, Response, Timing, Usage
from combee.model.asking import response_from_json, response_to_json
from combee.model.ledger import CallRow

counts = st.integers(0, 10**7)
seconds = st.floats(0, 1e9)
money = st.none() | st.floats(0, 1e6) | st.integers(0, 3)
texts = st.text(st.characters(codec=None, categories=None), max_size=40)
usages = st.none() | st.builds(Usage, counts, counts, counts, st.booleans())
rows = st.builds(
    CallRow,
    model=texts,
    role=texts,
    item=texts,
    attempt=st.integers(),
    tries=counts,
    outcome=st.sampled_from(['said "x"', "ok", "cancelled", "rate_limit"]),
    paid=st.sampled_from(["yes", "no", "unknown"]),
    usage=usages,
    cost=money,
    queued=seconds,
    wire=seconds,
    at=seconds,
)
responses = st.builds(
    Response,
    text=texts,
    usage=usages,
    finish=st.sampled_from(["stop", "length", 'said "x"']),
    timing=st.builds(Timing, seconds, seconds, counts),
    model=texts,
    cost=money,
)
requests = st.builds(
    Request,
    messages=st.lists(st.builds(Message, st.sampled_from(["system", "user"]), texts), max_size=3).map(tuple),
    schema=st.none() | st.just({"type": "object", "properties": {"a": {"type": "string"}}}),
    max_tokens=counts,
    temperature=st.floats(0, 2),
    seed=st.none() | st.integers(),
    stop=st.lists(texts, max_size=2).map(tuple),
)


class Echo:
    """A model that has one answer."""

    name = 'm "1"'

    def __init__(self, response: Response) -> None:
        self.response = response
        self.parameters = {"reasoning_effort": "low", "top_p": 0.1}

    async def complete(self, request: Request) -> Response:
        return self.response


def is_true_to_itself(value: object) -> bool:
    assert isinstance(value, Spelled)
    return canonical_json(value) == value.text == canonical_json(dict(value)) and json.loads(value.text) is not None


@given(rows, responses, requests)
def test_the_text_is_the_canonical_one(row: CallRow, response: Response, request: Request) -> None:
    assert is_true_to_itself(row.to_json())
    assert is_true_to_itself(response_to_json(response))
    assert is_true_to_itself(inputs_of(request, Echo(response)))


def test_the_hash_of_a_request_is_the_one_that_earlier_runs_are_stored_under() -> None:
    request = Request((Message("user", "word " * 800),), max_tokens=256)
    without = Echo(Response("x"))
    without.parameters = {}
    without.name = "m"
    assert hash_json(inputs_of(request, without)) == "029cb936c282357c69a77956d15770539082c4c95f984b190477ba54b3df22c7"


@given(responses, requests)
def test_a_reply_is_the_same_when_it_is_bought_and_when_it_is_read_again(response: Response, request: Request) -> None:
    async def twice() -> tuple[Response, Response]:
        model = JournaledModel(Echo(response), MemoryScope())
        return await model.complete(request), await model.complete(request)

    bought, read = asyncio.run(twice())
    assert bought == read == response_from_json(response_to_json(response))
