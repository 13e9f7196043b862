"""Prices, ledger, budget and the estimate before a run."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import BudgetError, UsageError
from combee.model import Budget, Ledger, Message, Phase, Price, Request, Usage, estimate, find_price, parse_price
from combee.model.ledger import CallRow


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
    assert found.source.startswith("genai-prices: deepseek/")
    assert find_price("deepseek-chat", "http://127.0.0.1:8000/v1") is None
    assert find_price("deepseek-chat", "https://proxy.example/v1") is None
    assert find_price("no-such-model", "https://api.deepseek.com/v1") is None


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
    plan = estimate(PHASES, steps=3, concurrency=16)
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
        estimate(PHASES, budget=budget)


def test_a_budget_in_money_needs_all_prices() -> None:
    with pytest.raises(BudgetError, match="draft is not known"):
        estimate([*PHASES, Phase("draft", 1, 1, 1)], budget=Budget(max_cost=10))
    assert estimate([*PHASES, Phase("draft", 1, 1, 1)]).cost is None
