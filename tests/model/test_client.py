"""The HTTP client against the mock endpoint: replies, retries, faults of every kind, and both sides' books compared."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import BudgetError, CallError, CallErrorKind, UsageError
from combee.kernel.journal.purchases import PURCHASE, Purchases
from combee.mock import FAULTS, MockConfig, MockServer, parse_latency
from combee.model import (
    Budget,
    Engine,
    Ledger,
    Limiter,
    Message,
    OpenAIModel,
    Price,
    Request,
    Response,
    RetryPolicy,
    StoppedError,
    Timeouts,
)
from combee.model.dialect import Capabilities, to_bytes, write_body

FAST = RetryPolicy(backoff=0.01)


def ask(text: str = "hello", **options: Any) -> Request:
    return Request((Message("user", text),), **options)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError


def engine(limiter: Limiter | None = None, **options: Any) -> Engine:
    return Engine(limiter=limiter or Limiter(64), retry=options.pop("retry", FAST), **options)


async def test_a_reply_carries_text_usage_timing_and_cost() -> None:
    async with MockServer(MockConfig(cached=0.5)) as server:
        price = Price(1.0, 2.0, 0.1)
        async with OpenAIModel(server.url, "any", engine=engine(), price=price) as model:
            reply = await model.complete(ask("x" * 399))
    assert reply.text == "ok: " + "x" * 40
    assert reply.usage is not None
    assert (reply.usage.prompt, reply.usage.completion, reply.usage.cached) == (100, 12, 50)
    assert reply.cost == pytest.approx((50 * 1.0 + 50 * 0.1 + 12 * 2.0) / 1e6)
    assert reply.timing.wire > 0
    assert reply.model == "any"


@pytest.mark.parametrize("how", ["field", "tag"])
async def test_thinking_is_not_part_of_the_answer(how: Any) -> None:
    async with (
        MockServer(MockConfig(thinking=how)) as server,
        OpenAIModel(server.url, "any", engine=engine()) as model,
    ):
        assert (await model.complete(ask())).text == "ok: hello"


async def test_30_percent_faults_of_every_kind_lose_no_call_and_both_books_agree() -> None:
    kinds = [name for name in FAULTS if name not in {"length", "content_filter", "timeout"}]
    faults = {**dict.fromkeys(kinds, 0.27 / len(kinds)), "timeout": 0.005}
    config = MockConfig(faults=faults, hang=60, seed=3)
    ledger = Ledger()
    async with MockServer(config) as server:
        run = engine(ledger=ledger, retry=RetryPolicy(backoff=0.01))
        limits = Timeouts(read=4)  # long enough that a machine that stalls for a moment times out no good reply
        async with OpenAIModel(server.url, "any", engine=run, timeouts=limits) as model:
            replies = await asyncio.gather(*(model.complete(ask(f"question {i}")) for i in range(400)))
        stats = server.stats
    assert len(replies) == 400
    assert ledger.total.calls == stats.requests
    assert ledger.total.ok == stats.by_outcome["ok"] == 400
    # What the endpoint told is known to the token; what broke off before is marked as unknown, attempt by attempt.
    known = [row.usage for row in ledger if row.usage is not None and not row.usage.estimated]
    assert sum(usage.prompt for usage in known) == stats.delivered_prompt
    assert sum(usage.completion for usage in known) == stats.delivered_completion
    broken = Counter(row.outcome for row in ledger if row.paid == "unknown")
    assert broken["truncated_body"] + broken["timeout"] == stats.undelivered
    assert broken["connection"] == stats.by_outcome.get("reset", 0)
    assert sum(row.paid == "yes" for row in ledger) == stats.paid - stats.undelivered
    told = {
        "rate_limit": ["rate_limit"],
        "server": ["server", "overloaded", "html_502"],
        "not_json": ["html"],
        "error_in_body": ["error_in_body", "error_text"],
        "empty": ["empty", "null"],
    }
    for outcome, names in told.items():
        assert ledger.total.outcomes.get(outcome, 0) == sum(stats.by_outcome.get(name, 0) for name in names)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("rate_limit", CallErrorKind.RATE_LIMIT),
        ("server", CallErrorKind.SERVER),
        ("overloaded", CallErrorKind.SERVER),
        ("html", CallErrorKind.NOT_JSON),
        ("html_502", CallErrorKind.SERVER),
        ("reset", CallErrorKind.CONNECTION),
        ("error_in_body", CallErrorKind.ERROR_IN_BODY),
        ("error_text", CallErrorKind.ERROR_IN_BODY),
        ("timeout", CallErrorKind.TIMEOUT),
        ("truncated", CallErrorKind.TRUNCATED_BODY),
        ("bad_json", CallErrorKind.TRUNCATED_BODY),
        ("empty", CallErrorKind.EMPTY),
        ("null", CallErrorKind.EMPTY),
        ("length", CallErrorKind.LENGTH),
        ("content_filter", CallErrorKind.CONTENT_FILTER),
    ],
)
async def test_each_fault_that_does_not_end_is_a_typed_error(fault: str, kind: CallErrorKind) -> None:
    async with MockServer(MockConfig(faults={fault: 1.0}, hang=60)) as server:
        run = engine(retry=RetryPolicy(backoff=0.0, max_tries=3))
        limits = Timeouts(read=0.05 if fault == "timeout" else 30)
        async with OpenAIModel(server.url, "any", engine=run, timeouts=limits) as model:
            with pytest.raises(CallError) as caught:
                await model.complete(ask())
        assert caught.value.kind is kind
        assert 1 <= server.stats.requests <= 3
        assert run.ledger.total.calls == server.stats.requests


async def test_a_body_that_breaks_off_in_the_middle_is_bought_again_and_both_tries_are_counted() -> None:
    async with MockServer(MockConfig(faults={"truncated": 1.0})) as server:
        run = engine()
        async with OpenAIModel(server.url, "any", engine=run, price=Price(1, 1)) as model:
            task = asyncio.ensure_future(model.complete(ask()))
            await until(lambda: server.stats.requests >= 1)
            server.config = MockConfig()
            reply = await task
    assert isinstance(reply, Response)
    assert reply.timing.retries >= 1
    rows = run.ledger.rows
    assert [row.outcome for row in rows] == ["truncated_body"] * (len(rows) - 1) + ["ok"]
    assert all(row.cost is not None and row.cost > 0 for row in rows)
    assert rows[0].paid == "unknown"
    assert rows[0].usage is not None
    assert rows[0].usage.estimated


async def test_a_cut_reply_is_tried_again_with_twice_the_room_or_taken_as_it_is() -> None:
    asked: list[int] = []

    def long(body: Mapping[str, Any]) -> str:
        asked.append(body["max_tokens"])
        return "word " * 60

    async with MockServer(reply=long) as server, OpenAIModel(server.url, "any", engine=engine()) as model:
        assert (await model.complete(ask(max_tokens=50))).finish == "stop"
        assert asked == [50, 100]
        cut = await model.complete(ask(max_tokens=10, accept_cut=True))
        assert (cut.finish, len(cut.text)) == ("length", 40)
        with pytest.raises(CallError) as caught:
            await model.complete(ask(max_tokens=10))
    assert caught.value.kind is CallErrorKind.LENGTH


async def test_a_wrong_key_stops_the_run_at_once_without_further_calls() -> None:
    async with MockServer(MockConfig(key="right")) as server:
        run = engine(Limiter(2))
        async with OpenAIModel(server.url, "any", api_key="wrong-key-1", engine=run) as model:
            results = await asyncio.gather(*(model.complete(ask()) for _ in range(50)), return_exceptions=True)
        assert server.stats.requests <= 2
    kinds = {getattr(result, "kind", None) for result in results}
    assert kinds == {CallErrorKind.AUTH}
    assert sum(isinstance(result, StoppedError) for result in results) >= 48
    assert "key" in str(results[0])


async def test_an_unknown_model_stops_the_run_at_once() -> None:
    async with MockServer(MockConfig(models=("real",))) as server:
        async with OpenAIModel(server.url, "reel", engine=engine()) as model:
            with pytest.raises(CallError) as caught:
                await model.complete(ask())
            with pytest.raises(StoppedError, match="no such model"):
                await model.complete(ask())
        assert server.stats.requests == 1
    assert caught.value.kind is CallErrorKind.NO_SUCH_MODEL


async def test_failures_in_a_row_stop_the_run_and_a_success_between_does_not() -> None:
    async with MockServer(MockConfig(faults={"server": 1.0})) as server:
        run = engine(retry=RetryPolicy(backoff=0.0, max_tries=2, stop_after=5))
        async with OpenAIModel(server.url, "any", engine=run) as model:
            for _ in range(4):
                with pytest.raises(CallError):
                    await model.complete(ask())
            server.config = MockConfig()
            await model.complete(ask())
            server.config = MockConfig(faults={"server": 1.0})
            for _ in range(5):
                with pytest.raises(CallError):
                    await model.complete(ask())
            with pytest.raises(StoppedError, match=r"5 calls in a row failed.*HTTP 500"):
                await model.complete(ask())


async def test_the_retry_budget_of_a_run_ends_retries() -> None:
    async with MockServer(MockConfig(faults={"server": 1.0})) as server:
        run = engine(retry=RetryPolicy(backoff=0.0, spare=7, stop_after=1000))
        async with OpenAIModel(server.url, "any", engine=run) as model:
            for _ in range(10):
                with pytest.raises(CallError):
                    await model.complete(ask())
        assert server.stats.requests == 10 + 7


@pytest.mark.parametrize("how", ["seconds", "date"])
async def test_no_call_comes_back_before_the_endpoint_allows_it(how: Any) -> None:
    async with MockServer(MockConfig(rate=2, burst=1, retry_after=how)) as server:
        async with OpenAIModel(server.url, "any", engine=engine(Limiter(2))) as model:
            began = asyncio.get_running_loop().time()
            await asyncio.gather(model.complete(ask()), model.complete(ask()))
            took = asyncio.get_running_loop().time() - began
        assert server.stats.by_outcome == {"ok": 2, "limited": 1}
    assert took >= 0.45  # the bucket fills in half a second; whole seconds are what the header can say


async def test_an_endpoint_that_allows_8_at_once_sees_8_and_a_batch_of_500_loses_none() -> None:
    config = MockConfig(max_in_flight=8, latency=parse_latency("0.005"))
    async with MockServer(config) as server:
        async with OpenAIModel(server.url, "any", engine=engine(Limiter(8))) as model:
            replies = await asyncio.gather(*(model.complete(ask(str(i))) for i in range(500)))
        assert len(replies) == 500
        assert server.stats.peak_in_flight == 8
        assert server.stats.by_outcome == {"ok": 500}


async def test_without_usage_tokens_are_estimated_and_marked() -> None:
    async with MockServer(MockConfig(usage=False)) as server:
        run = engine()
        async with OpenAIModel(server.url, "any", engine=run, price=Price(1, 1)) as model:
            reply = await model.complete(ask("x" * 4000))
            assert model.capabilities.usage is False
    assert reply.usage is not None
    assert reply.usage.estimated
    assert reply.usage.prompt == pytest.approx(1000, rel=0.1)
    assert run.ledger.total.estimated == 1
    assert run.ledger.total.cost > 0


async def test_an_unknown_price_blocks_a_budget_in_money_and_says_how_to_give_one() -> None:
    async with MockServer() as server:
        with pytest.raises(BudgetError, match="price") as caught:
            OpenAIModel(server.url, "any", engine=engine(budget=Budget(max_cost=1.0)))
        assert caught.value.hint is not None
        assert "--price" in caught.value.hint
        OpenAIModel(server.url, "any", engine=engine(budget=Budget(max_cost=1.0)), price=Price(0, 0))


async def test_a_budget_in_money_holds_with_hundreds_of_calls_at_once() -> None:
    async with MockServer(MockConfig(latency=parse_latency("0.002"))) as server:
        budget = Budget(max_cost=0.005)
        run = engine(Limiter(200), budget=budget)
        async with OpenAIModel(server.url, "any", engine=run, price=Price(1, 2)) as model:
            calls = (model.complete(ask("x" * 80, max_tokens=50)) for _ in range(400))
            results = await asyncio.gather(*calls, return_exceptions=True)
    done = sum(isinstance(result, Response) for result in results)
    refused = [result for result in results if isinstance(result, BudgetError)]
    assert done + len(refused) == 400
    assert done > 80  # the reservations of 50 tokens each did not starve it: what was not used came back
    assert run.ledger.total.cost <= 0.005
    assert budget.cost == pytest.approx(run.ledger.total.cost)
    assert budget.in_flight == 0


@pytest.mark.parametrize(
    ("limit", "match"),
    [({"max_calls": 30}, "30 calls"), ({"max_tokens": 200}, "200 tokens"), ({"max_minutes": 1e-9}, "minutes")],
)
async def test_other_budgets_hold_too(limit: dict[str, Any], match: str) -> None:
    async with MockServer() as server:
        run = engine(budget=Budget(**limit))
        async with OpenAIModel(server.url, "any", engine=run) as model:
            calls = (model.complete(ask(max_tokens=20)) for _ in range(100))
            results = await asyncio.gather(*calls, return_exceptions=True)
        assert server.stats.requests <= 45
    assert any(isinstance(result, BudgetError) and match in str(result) for result in results)


async def test_what_an_endpoint_refuses_is_given_up_once_and_remembered() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    config = MockConfig(schema="refuse", json_mode="refuse")
    async with (
        MockServer(config, lambda _: '{"a": "b"}') as server,
        OpenAIModel(server.url, "any", engine=engine()) as model,
    ):
        replies = await asyncio.gather(*(model.complete(ask(schema=schema)) for _ in range(20)))
        assert {reply.text for reply in replies} == {'{"a": "b"}'}
        assert model.capabilities.structured == "words"
        before = server.stats.requests
        await model.complete(ask(schema=schema))
        assert server.stats.requests == before + 1


async def test_parameters_that_a_model_does_not_take_are_renamed_or_dropped() -> None:
    bodies: list[Mapping[str, Any]] = []

    def reply(body: Mapping[str, Any]) -> str:
        bodies.append(body)
        if "max_tokens" in body:
            raise ValueError
        return "fine"

    async with MockServer(reply=reply) as server:
        # The mock answers 400 to a script that fails; the message is put in by hand.
        from combee.model.dialect import Capabilities, adapt, write_body
        from combee.model.provider_errors import fault_of

        said = b'{"error":{"message":"Unsupported parameter: use max_completion_tokens instead of max_tokens"}}'
        sent = write_body(ask(), "m", Capabilities(), {})
        left = adapt(ask(), Capabilities(), fault_of(400, {}, said), sent)
        assert left is not None
        sent = write_body(ask(), "m", left, {})
        assert "max_completion_tokens" in sent
        said = b'{"error":{"message":"temperature does not support 0 with this model"}}'
        left = adapt(ask(), left, fault_of(400, {}, said), sent)
        assert left is not None
        assert "temperature" not in write_body(ask(), "m", left, {})
        async with OpenAIModel(
            server.url, "any", engine=engine(), capabilities=left, extra={"reasoning_effort": "low"}
        ) as model:
            assert (await model.complete(ask())).text == "fine"
    assert bodies[-1]["reasoning_effort"] == "low"
    assert bodies[-1]["max_completion_tokens"] == 4096


async def test_a_context_that_is_too_long_is_told_apart_and_not_retried() -> None:
    async with MockServer(MockConfig(context=100)) as server:
        async with OpenAIModel(server.url, "any", engine=engine()) as model:
            with pytest.raises(CallError) as caught:
                await model.complete(ask("word " * 1000))
            assert (await model.complete(ask())).text  # the next one goes through
        assert server.stats.requests == 2
    assert caught.value.kind is CallErrorKind.CONTEXT_TOO_LONG


async def test_a_closed_port_says_what_to_check_and_was_not_paid() -> None:
    async with MockServer() as server:
        pass  # it is closed again
    run = engine(retry=RetryPolicy(backoff=0.0, max_tries=2))
    async with OpenAIModel(server.url, "any", engine=run) as model:
        with pytest.raises(CallError, match="no connection") as caught:
            await model.complete(ask())
    assert caught.value.kind is CallErrorKind.CONNECTION
    assert run.ledger.total.maybe_paid == 0


@pytest.mark.parametrize("url", ["closed", "http://no-such-host.invalid/v1"])
async def test_an_endpoint_where_nothing_ever_answered_stops_the_run_and_names_the_setting(url: str) -> None:
    async with MockServer() as server:
        pass  # it is closed again
    run = engine()
    async with OpenAIModel(server.url if url == "closed" else url, "any", api_key="k", engine=run) as model:
        results = await asyncio.gather(*(model.complete(ask()) for _ in range(8)), return_exceptions=True)
        with pytest.raises(StoppedError, match="--base-url") as caught:
            await model.complete(ask())
    assert all(isinstance(result, CallError | StoppedError) for result in results)
    assert run.ledger.total.calls <= 3 * 8
    assert "ssl" not in str(caught.value)


async def test_an_endpoint_that_answered_before_is_waited_for() -> None:
    server = MockServer()
    await server.start()
    run = engine(retry=RetryPolicy(backoff=0.01, max_tries=5))
    async with OpenAIModel(server.url, "any", engine=run) as model:
        assert (await model.complete(ask())).text
        await server.aclose()
        with pytest.raises(CallError, match="tried 5 times"):
            await model.complete(ask())
    assert run.stopped is None


async def test_cancelled_calls_give_back_slot_and_budget_and_are_booked_as_unknown() -> None:
    async with MockServer(MockConfig(latency=parse_latency("5"))) as server:
        budget = Budget(max_calls=10)
        run = engine(Limiter(4), budget=budget)
        async with OpenAIModel(server.url, "any", engine=run) as model:
            tasks = [asyncio.ensure_future(model.complete(ask())) for _ in range(6)]
            await until(lambda: server.stats.requests == 4)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert run.limiter.state.in_flight == 0
    assert budget.in_flight == 0
    assert run.ledger.total.outcomes == {"cancelled": 4}


async def test_the_session_is_reopened_in_another_event_loop() -> None:
    def in_own_loop(url: str, model: OpenAIModel) -> str:
        async def main() -> str:
            try:
                return (await model.complete(ask())).text
            finally:
                await model.aclose()

        assert url
        return asyncio.run(main())

    async with MockServer() as server:
        model = OpenAIModel(server.url, "any", engine=engine())
        assert await asyncio.to_thread(in_own_loop, server.url, model)
        assert await asyncio.to_thread(in_own_loop, server.url, model)


@pytest.mark.parametrize("url", ["", "ftp://x", "localhost:80", "http://", "http://host:notaport/v1"])
def test_what_is_no_base_url_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="base URL"):
        OpenAIModel(url, "any", api_key="k")


def test_base_url_and_key_come_from_the_environment_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://example.test/v1/chat/completions")
    monkeypatch.setenv("MY_KEY", " secret-of-mine\n")
    model = OpenAIModel(model="any", api_key_env="MY_KEY")
    assert model.endpoint.base_url == "https://example.test/v1"
    assert model.endpoint.has_key
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(UsageError, match="MY_KEY is not set"):
        OpenAIModel(model="any", api_key_env="MY_KEY")


@given(st.lists(st.text(), min_size=1, max_size=3), st.text(max_size=5))
def test_the_prepared_bytes_are_the_body(texts: list[str], stop: str) -> None:
    request = Request(tuple(Message("user", text) for text in texts), stop=(stop,), seed=1, schema={"type": "object"})
    body = write_body(request, "m", Capabilities(), {"extra": {"a": [1]}})
    assert json.loads(to_bytes(body)) == json.loads(json.dumps(body))


def test_a_lone_surrogate_is_sent_as_a_question_mark() -> None:
    body = write_body(ask("a\ud800b"), "m", Capabilities(), {})
    assert json.loads(to_bytes(body))["messages"][0]["content"] == "a?b"


async def test_a_call_that_is_broken_off_is_booked_with_a_reply_as_long_as_those_before() -> None:
    async with MockServer(reply=lambda body: "word " * 40 if "quick" in str(body) else "never") as server:
        run = engine()
        async with OpenAIModel(server.url, "any", engine=run, price=Price(1, 1)) as model:
            known = (await model.complete(ask("quick"))).usage
            server.config = MockConfig(latency=parse_latency("60"))
            task = asyncio.ensure_future(model.complete(ask("slow")))
            await until(lambda: server.stats.requests == 2)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    lost = run.ledger.rows[-1]
    assert (lost.outcome, lost.paid) == ("cancelled", "unknown")
    assert known is not None
    assert lost.usage is not None
    assert (lost.usage.completion, lost.usage.estimated) == (known.completion, True)


async def test_what_was_lost_at_a_kill_is_booked_once_however_often_the_call_is_tried(tmp_path: Path) -> None:
    killed = Purchases(tmp_path, lambda _: False)
    for _ in range(2):
        killed.mark(b"k" * 16)  # its process never closes it
    purchases = Purchases(tmp_path, lambda _: False)
    token = PURCHASE.set(purchases.begin(b"k" * 16))
    try:
        async with MockServer(MockConfig(faults={"truncated": 1.0})) as server:
            budget = Budget(max_calls=100)
            run = engine(budget=budget)
            async with OpenAIModel(server.url, "any", engine=run) as model:
                task = asyncio.ensure_future(model.complete(ask()))
                await until(lambda: server.stats.requests >= 2)
                server.config = MockConfig()
                await task
    finally:
        PURCHASE.reset(token)
        purchases.close()
        killed._table.close()
        killed._file.close()
    tries = server.stats.requests
    outcomes = run.ledger.total.outcomes
    assert outcomes["lost_at_a_kill"] == 2
    assert run.ledger.total.calls == budget.calls == tries + 2
