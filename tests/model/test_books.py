"""Prices, ledger, budget and the estimate before a run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import cast

import genai_prices
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.journaled_model import JournaledModel
from combee.errors import BudgetError, CallError, CallErrorKind, UsageError
from combee.kernel.journal import JSON, Journal, Scope
from combee.model import (
    Budget,
    Engine,
    Fault,
    Ledger,
    Message,
    Phase,
    Price,
    Request,
    Response,
    RetryPolicy,
    Usage,
    estimate_phases,
    find_price,
    parse_price,
)
from combee.model.ledger import LOST, CallRow


def test_a_price_is_dollars_per_million_and_cached_tokens_are_cheaper() -> None:
    price = Price(1.0, 4.0, 0.1)
    assert price.cost(Usage(1_000_000, 500_000)) == pytest.approx(3.0)
    assert price.cost(Usage(1_000_000, 0, cached=400_000)) == pytest.approx(0.64)
    assert Price(1.0, 4.0).cost(Usage(1_000_000, 0, cached=400_000)) == pytest.approx(1.0)
    assert Price(1.0, 1.0, tiers=((200, 2.0),)).cost(Usage(300, 0)) == pytest.approx(600e-6)


def test_list_prices_are_found_by_the_host_and_never_guessed() -> None:
    found = find_price("deepseek-chat", "https://api.deepseek.com/v1")
    assert found is not None
    assert found.prompt > 0
    assert found.completion > found.prompt > (found.cached or 0)
    assert found.source.startswith(f"genai-prices {version('genai-prices')}: deepseek/")
    assert find_price("deepseek-chat", "http://127.0.0.1:8000/v1") is None
    assert find_price("deepseek-chat", "https://proxy.example/v1") is None
    assert find_price("no-such-model", "https://api.deepseek.com/v1") is None


@pytest.mark.parametrize("model", ["deepseek-chat", "deepseek-reasoner"])
def test_a_price_by_the_hour_is_that_of_the_dearest_hour_at_any_time(model: str) -> None:
    url = "https://api.deepseek.com/v1"
    found = find_price(model, url)
    assert found is not None
    assert found.source.endswith("at its dearest hour of the day")
    usage, now = genai_prices.Usage(input_tokens=10**6, output_tokens=10**6), datetime.now(UTC)
    by_hour = [
        float(
            genai_prices.calc_price(
                usage, model, provider_api_url=url, genai_request_timestamp=now + timedelta(hours=hour)
            ).total_price
        )
        for hour in range(24)
    ]
    assert min(by_hour) < max(by_hour) == pytest.approx(found.cost(Usage(10**6, 10**6)))


def test_a_price_that_is_the_same_all_day_is_not_called_dearest() -> None:
    found = find_price("claude-sonnet-4-5", "https://api.anthropic.com/v1")
    assert found is not None
    assert "dearest" not in found.source


def test_prices_are_read_from_text() -> None:
    assert parse_price("0.27/1.10/0.07") == Price(0.27, 1.10, 0.07)
    assert parse_price("0/0") == Price(0, 0)
    for bad in ("", "1", "a/b", "1/2/3/4", "-1/2", "nan/1"):
        with pytest.raises(UsageError):
            parse_price(bad)


def row(role: str = "leaf", usage: Usage | None = None, *, outcome: str = "ok", cost: float | None = 0.5) -> CallRow:
    return CallRow("m", role, "item", 0, 0, outcome, "yes", usage, cost, 0.1, 0.2, 0.0)


def test_the_ledger_sums_by_role_and_sends_each_row_on() -> None:
    sent: list[dict[str, object]] = []
    ledger = Ledger(sent.append)
    ledger.record(row("leaf", Usage(10, 5, 2)))
    ledger.record(row("leaf", None, outcome="server", cost=None))
    ledger.record(row("agent", Usage(1, 1, estimated=True), cost=None))
    assert ledger.by_role["leaf"].tokens == 15
    assert ledger.by_role["leaf"].outcomes == {"ok": 1, "server": 1}
    assert ledger.total.cost == 0.5
    assert ledger.total.unpriced == 2
    assert ledger.total.estimated == 1
    assert [entry["role"] for entry in sent] == ["leaf", "leaf", "agent"]
    assert sent[0]["usage"] == {"prompt": 10, "completion": 5, "cached": 2, "estimated": False}


def test_the_estimate_of_a_call_learns_from_replies() -> None:
    ledger = Ledger()
    request = Request((Message("user", "x" * 992),), max_tokens=1000, role="leaf")
    assert ledger.expect("m", request) == Usage(251, 1000, estimated=True)
    for _ in range(16):
        ledger.record(row("leaf", Usage(500, 40)), characters=1000)
    assert ledger.expect("m", request) == Usage(501, 76, estimated=True)


@pytest.mark.parametrize("name", ["max_cost", "max_calls", "max_tokens", "max_minutes"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_budget_of_nothing_is_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=name):
        Budget(**{name: value})  # type: ignore[arg-type]  # a float for the whole numbers too


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=40), st.integers(60, 400))
def test_a_budget_is_never_passed_when_calls_take_no_more_than_expected(
    calls: list[tuple[int, int]], limit: int
) -> None:
    budget = Budget(max_tokens=limit)

    async def one(expected: int, used: int) -> None:
        held = await budget.reserve(Usage(expected, 0), None)
        await asyncio.sleep(0)
        assert budget.tokens <= limit
        budget.settle(held, Usage(min(used, expected), 0), None)

    async def main() -> list[BaseException | None]:
        return await asyncio.gather(*(one(*call) for call in calls), return_exceptions=True)

    results = asyncio.run(main())
    assert budget.tokens <= limit
    assert budget.in_flight == 0
    assert all(result is None or isinstance(result, BudgetError) for result in results)
    if sum(expected for expected, _ in calls) <= limit:
        assert results == [None] * len(calls)


PHASES = (
    Phase("rollout", calls=40, prompt=2000, completion=500, seconds=10, price=Price(1, 2)),
    Phase("leaf", calls=6, prompt=8000, completion=1000, seconds=20, price=Price(1, 2)),
)


def test_the_estimate_adds_up_calls_tokens_money_and_time() -> None:
    plan = estimate_phases(PHASES, steps=3, concurrency=16)
    assert plan.calls == 138
    assert plan.tokens == 3 * (40 * 2500 + 6 * 9000)
    assert plan.cost == pytest.approx(3 * (40 * 3000 + 6 * 10_000) / 1e6)
    assert plan.minutes == pytest.approx(3 * (3 * 10 + 20) / 60)
    assert plan.table().splitlines() == [
        "phase    calls   tokens     cost  minutes",
        "rollout    120  300,000  $0.3600      1.5",
        "leaf        18  162,000  $0.1800      1.0",
        "all        138  462,000  $0.5400      2.5",
    ]


@pytest.mark.parametrize(
    ("budget", "match"),
    [
        (Budget(max_cost=0.1), r"about \$0.1800, more than max_cost = 0.1"),
        (Budget(max_calls=45), "46 calls"),
        (Budget(max_tokens=1000), "154,000 tokens"),
        (Budget(max_minutes=0.1), "minutes"),
    ],
)
def test_a_budget_too_small_for_one_step_is_refused(budget: Budget, match: str) -> None:
    with pytest.raises(BudgetError, match=match):
        estimate_phases(PHASES, budget=budget)


def test_a_budget_in_money_needs_all_prices() -> None:
    with pytest.raises(BudgetError, match="draft is not known"):
        estimate_phases([*PHASES, Phase("draft", 1, 1, 1)], budget=Budget(max_cost=10))
    assert estimate_phases([*PHASES, Phase("draft", 1, 1, 1)]).cost is None


class Metered:
    """A model behind an engine, with its own count of what it charges for."""

    def __init__(self, journal: Journal, budget: Budget | None = None) -> None:
        self.ledger = Ledger(journal.record_call)
        self.budget = budget or Budget()
        self.engine = Engine(ledger=self.ledger, budget=self.budget, retry=RetryPolicy(backoff=0.0))
        self.charged = 0
        self.answer: Response | Fault = Response("done", Usage(100, 20))
        self.name = "m"

    async def complete(self, request: Request) -> Response:
        async def send(_: Request) -> Response | Fault:
            if isinstance(self.answer, Fault):
                return self.answer
            self.charged += 1
            return self.answer

        return await self.engine.complete(request, send, model="m", price=Price(1.0, 1.0))


DIES = """
import asyncio, os, signal, sys
from pathlib import Path
from combee.kernel.journal import Journal
from benchmarks.journaled_model import JournaledModel
from combee.model import Message, Request

class Dies:
    name = "m"

    async def complete(self, request):
        os.kill(os.getpid(), signal.SIGKILL)

journal = Journal.open(Path(sys.argv[1]))
scope = journal.scope(seed=0, epoch=0, step=0)
asked = Request((Message("user", "how many?"),), max_tokens=50, role="leaf", item="1")
asyncio.run(JournaledModel(Dies(), scope).complete(asked))
"""


def killed(folder: Path, times: int = 1) -> None:
    """Kill processes while they ask what `ASKED` asks."""
    for _ in range(times):
        subprocess.run([sys.executable, "-c", DIES, folder], check=False)


def place(journal: Journal) -> Scope:
    return journal.scope(seed=0, epoch=0, step=0)


ASKED = Request((Message("user", "how many?"),), max_tokens=50, role="leaf", item="1")


@pytest.mark.parametrize("times", [1, 3])
def test_what_was_in_flight_at_a_kill_is_booked_as_maybe_paid_when_it_is_bought_again(
    tmp_path: Path, times: int
) -> None:
    killed(tmp_path, times)
    with Journal.open(tmp_path) as journal:
        assert journal.stats().lost == 1
        model = Metered(journal)
        asyncio.run(JournaledModel(model, place(journal)).complete(ASKED))
        other = Request((Message("user", "and now?"),), role="leaf", item="2")
        asyncio.run(JournaledModel(model, place(journal)).complete(other))
        asyncio.run(JournaledModel(model, place(journal)).complete(ASKED))
        rows = [(row.item, row.outcome, row.paid) for row in model.ledger]
    assert rows == [("1", LOST, "unknown")] * times + [("1", "ok", "yes"), ("2", "ok", "yes")]
    assert model.ledger.total.maybe_paid == times
    assert model.ledger.total.tokens == (times + 2) * 120 == model.budget.tokens
    assert model.ledger.total.cost == pytest.approx((times + 2) * 120e-6) == model.budget.cost
    assert model.budget.calls == times + 2
    with Journal.open(tmp_path) as journal:
        assert journal.stats().lost == 0
        assert len(list(journal.calls())) == times + 2


def test_a_loss_stays_until_an_answer_shows_what_it_took(tmp_path: Path) -> None:
    killed(tmp_path)
    with Journal.open(tmp_path) as journal:
        model = Metered(journal)
        model.answer = Fault(CallErrorKind.AUTH, "who is there?")  # nobody is charged, so it shows nothing
        with pytest.raises(CallError):
            asyncio.run(JournaledModel(model, place(journal)).complete(ASKED))
        assert model.ledger.total.maybe_paid == 0
    with Journal.open(tmp_path) as journal:
        assert journal.stats().lost == 1
        model = Metered(journal)
        model.answer = Fault(CallErrorKind.CONTENT_FILTER, "no", usage=Usage(7, 0))  # charged, and no result
        for _ in range(2):
            with pytest.raises(CallError):
                asyncio.run(JournaledModel(model, place(journal)).complete(ASKED))
        assert [row.outcome for row in model.ledger] == [LOST, "content_filter", "content_filter"]
    with Journal.open(tmp_path) as journal:
        assert journal.stats().lost == 0


@pytest.mark.parametrize(
    "fault",
    [
        Fault(CallErrorKind.SERVER, "lost", usage=Usage(100, 20)),
        Fault(CallErrorKind.ERROR_IN_BODY, "lost", usage=Usage(100, 20)),
        Fault(CallErrorKind.BAD_REQUEST, "no", usage=Usage(100, 20)),
        Fault(CallErrorKind.NOT_JSON, "a page", usage=Usage(100, 20), paid="no"),
    ],
    ids=lambda fault: str(fault.kind),
)
def test_what_a_reply_says_it_took_is_booked_whatever_else_it_says(tmp_path: Path, fault: Fault) -> None:
    with Journal.open(tmp_path) as journal:
        model = Metered(journal)
        model.answer = replace(fault, fatal=True)  # one try
        with pytest.raises(CallError):
            asyncio.run(JournaledModel(model, place(journal)).complete(ASKED))
        assert [row.paid for row in model.ledger] == ["yes"]
        assert model.ledger.total.cost == pytest.approx(120e-6)
        assert model.budget.cost == pytest.approx(120e-6)
        assert (model.budget.calls, model.budget.tokens) == (1, 120)


def test_what_waits_for_a_slot_at_a_kill_is_not_booked(tmp_path: Path) -> None:
    """A thousand calls gathered at once, of which the limiter lets four go out, and the process is killed."""
    program = """
import asyncio, os, signal, sys
from pathlib import Path
from combee.kernel.journal import Journal
from combee.model import Engine, Limiter, Message, Request

async def main(journal):
    engine, scope, out = Engine(limiter=Limiter(4)), journal.scope(seed=0, epoch=0, step=0), []

    async def send(request):
        out.append(request.item)
        if len(out) == 4:
            print(*out, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(60)

    async def one(item):
        request = Request((Message("user", item),), item=item)
        await scope.once("leaf", item, None, lambda: engine.complete(request, send, model="m", price=None))

    await asyncio.gather(*(one(str(number)) for number in range(1000)))

asyncio.run(main(Journal.open(Path(sys.argv[1]))))
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path], check=False, capture_output=True, text=True)
    out = set(done.stdout.split())
    assert len(out) == 4
    with Journal.open(tmp_path) as journal:
        assert journal.stats().lost == 4
        model, scope = Metered(journal), place(journal)

        async def call(item: str) -> JSON:
            return (await model.complete(replace(ASKED, item=item))).text

        async def all_of_them() -> None:
            items = map(str, range(1000))
            await asyncio.gather(*(scope.once("leaf", item, None, partial(call, item)) for item in items))

        asyncio.run(all_of_them())
        assert {row.item for row in model.ledger if row.outcome == LOST} == out
        assert model.ledger.total.calls == model.budget.calls == 1004


def test_a_limit_counts_what_was_in_flight_at_a_kill(tmp_path: Path) -> None:
    killed(tmp_path)
    with Journal.open(tmp_path) as journal:
        model = Metered(journal, Budget(max_calls=1))
        with pytest.raises(BudgetError, match="1 call"):
            asyncio.run(JournaledModel(model, place(journal)).complete(ASKED))
        assert model.charged == 0
    with Journal.open(tmp_path) as journal:
        model = Metered(journal, Budget(max_calls=2))
        asyncio.run(JournaledModel(model, place(journal)).complete(ASKED))
        assert model.budget.calls == 2


def test_only_what_was_begun_is_lost_inside_a_lost_result(tmp_path: Path) -> None:
    """A result that rests on two calls, the first of which came home before the kill and the second never began."""
    program = """
import asyncio, os, signal, sys
from pathlib import Path
from combee.kernel.journal import Journal

async def main(journal):
    scope = journal.scope(seed=0, epoch=0, step=0)

    async def first():
        return 1

    async def both():
        await scope.once("leaf", "1", None, first)
        journal.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    await scope.once("rollout", "t", None, both)

asyncio.run(main(Journal.open(Path(sys.argv[1]))))
"""
    subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    with Journal.open(tmp_path) as journal:
        model, scope = Metered(journal), place(journal)

        async def call(item: str) -> JSON:
            return (await model.complete(replace(ASKED, item=item))).text

        async def both() -> JSON:
            await scope.once("leaf", "1", None, lambda: call("1"))
            return await scope.once("leaf", "2", None, lambda: call("2"))

        asyncio.run(cast("Coroutine[None, None, JSON]", scope.once("rollout", "t", None, both)))
        assert journal.stats().lost == 1
        assert [(row.item, row.outcome) for row in model.ledger] == [("2", "ok")]
