from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from combee.ace import Prompts
from combee.errors import BudgetError, UsageError
from combee.kernel.journal import Journal
from combee.kernel.learn import LearnConfig
from combee.mock import MockConfig, MockServer, parse_latency
from combee.model import (
    Budget,
    Message,
    ModelSettings,
    OpenAIModel,
    Price,
    Request,
    RoleBudget,
    Usage,
    Workload,
    estimate_learning,
    open_models,
)
from combee.model.estimate import refuse_too_small
from combee.model.local import LocalModel
from combee.run.settings import Settings

ASK = Request((Message("user", "hello"),), max_tokens=8, role="generator", item="t")


def models_of(table: dict[str, Any], **tables: Any) -> dict[str, ModelSettings]:
    return Settings().over({"model": table, **tables}).models()


def test_a_role_takes_the_common_settings_where_it_has_none_of_its_own() -> None:
    found = models_of(
        {"name": "big", "base_url": "http://h/v1", "temperature": 0.5, "generator": {"name": "small"}},
        prices={"small": {"input": 1, "output": 2}},
    )
    small = ModelSettings(name="small", base_url="http://h/v1", temperature=0.5, price=Price(1, 2))
    assert found["generator"] == small
    assert (found["curator"].name, found["curator"].price) == ("big", None)


@pytest.mark.parametrize(
    "table",
    [{"name": ""}, {"name": "m", "max_in_flight": 0}, {"name": "m", "timeout": -1}],
)
def test_settings_that_cannot_be_used_are_refused_without_a_file_too(table: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ModelSettings(**table)


def test_without_a_name_there_is_no_model() -> None:
    with pytest.raises(UsageError, match="No model is named"):
        Settings().models()


def test_what_only_looks_private_is_a_setting() -> None:
    ModelSettings(name="m", api_key_env="MY_KEY", base_url="http://h/v1?api-version=1", extra={"user": "a@b.co"})


def test_roles_share_endpoint_limiter_and_engine_unless_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "k")
    table = {
        "name": "m", "base_url": "http://127.0.0.1:9/v1",
        "reflector": {"name": "strong"},
        "curator": {"base_url": "https://example.com/v1", "api_key_env": "OTHER_KEY", "max_in_flight": 3},
    }  # fmt: skip
    models = open_models(models_of(table)).by_role
    inner = {role: model.inner for role, model in models.items()}
    assert inner["generator"].engine is inner["reflector"].engine
    endpoints = {role: one.endpoint for role, one in inner.items() if isinstance(one, OpenAIModel)}
    assert endpoints["generator"] is endpoints["reflector"]
    assert endpoints["curator"] is not endpoints["generator"]
    assert inner["curator"].engine.limiter is not inner["generator"].engine.limiter
    assert inner["curator"].engine.ledger is inner["generator"].engine.ledger
    assert inner["curator"].engine.budget is inner["generator"].engine.budget


@pytest.mark.parametrize("limits", [{"max_calls": 0}, {"max_cost": -1}])
def test_a_budget_that_cannot_be_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        open_models(models_of({"name": "m", "base_url": "http://127.0.0.1:9/v1"}), budget=limits)


def test_a_budget_in_money_needs_a_price_and_a_given_one_will_do() -> None:
    table = {"name": "m", "base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(BudgetError):
        open_models(models_of(table), budget={"max_cost": 1})
    priced = models_of(table, prices={"m": {"input": 1, "output": 2}})
    assert open_models(priced, budget={"max_cost": 1}).budget.max_cost == 1
    found = priced["curator"].known_price()
    assert found is not None
    assert found.cost(Usage(1_000_000, 1_000_000)) == 3.0


async def test_a_role_has_a_budget_inside_that_of_the_run() -> None:
    whole = Budget(max_calls=3)
    role = RoleBudget(whole, max_calls=2)
    usage = Usage(1, 1)
    for _ in range(2):
        role.settle(await role.reserve(usage, None), usage, None)
    with pytest.raises(BudgetError):
        await role.reserve(usage, None)
    whole.settle(await whole.reserve(usage, None), usage, None)
    other = RoleBudget(whole, max_calls=9)
    with pytest.raises(BudgetError):
        await other.reserve(usage, None)
    assert (other.calls, other.in_flight, whole.calls, whole.in_flight) == (0, 0, 3, 0)


async def test_a_used_up_budget_lets_the_calls_in_flight_come_home_first() -> None:
    async with MockServer(MockConfig(latency=parse_latency("0.1"))) as server:
        models = open_models(
            models_of({"name": "m", "base_url": server.url, "max_in_flight": 50}), budget={"max_calls": 5}
        )
        model = models.by_role["generator"]
        home: list[str] = []

        async def one(number: int) -> None:
            try:
                await model.complete(ASK)
                home.append("reply")
            except BudgetError:
                home.append("stopped")

        await asyncio.gather(*(one(number) for number in range(9)))
        await models.aclose()
    assert home == ["reply"] * 5 + ["stopped"] * 4
    assert server.stats.paid == 5


async def test_what_was_spent_before_counts_and_every_call_is_booked(tmp_path: Path) -> None:
    table = {"name": "m", "api_key_env": "NO_SUCH_VARIABLE"}
    async with MockServer() as server:
        for allowed in (2, 1):
            with Journal.open(tmp_path) as journal:
                models = open_models(
                    models_of(table | {"base_url": server.url}), budget={"max_calls": 3, "generator": {"max_calls": 9}}
                )
                models.attach(journal)
                for _ in range(allowed):
                    await models.by_role["generator"].complete(ASK)
                if allowed == 1:
                    with pytest.raises(BudgetError):
                        await models.by_role["generator"].complete(ASK)
                    assert models.role_budgets["generator"].calls == 3
                await models.aclose()
        with Journal.open(tmp_path) as journal:
            assert len(list(journal.calls())) == server.stats.requests == 3


def test_local_models_are_free_and_share_weights_ledger_and_budget(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    weights = tmp_path / "any.gguf"
    weights.write_bytes(b"GGUF")
    table = {"name": f"local/{weights}", "reflector": {"max_in_flight": 3, "extra": {"top_k": 1}}}
    models = open_models(models_of(table), budget={"max_cost": 0.01, "curator": {"max_calls": 5}})
    inner = {role: model.inner for role, model in models.by_role.items()}
    local = {role: one for role, one in inner.items() if isinstance(one, LocalModel)}
    assert len({id(one.server) for one in local.values()}) == 1
    assert len(local) == len({id(one) for one in local.values()}) == 3
    assert local["generator"].server.slots == 3
    assert {one.engine.ledger for one in local.values()} == {models.ledger}
    assert local["generator"].engine.budget is models.budget
    assert models.settings["generator"].max_output_tokens < ModelSettings(name="m").max_output_tokens
    found = models.settings["generator"].known_price()
    assert found is not None
    assert found.cost(Usage(10**6, 10**6)) == 0


TOKENS = Prompts.load().tokens
WORK = Workload(samples=100, validation=20, question_tokens=50, book_tokens=0)
SETTINGS = {role: ModelSettings(name="m") for role in ("generator", "reflector", "curator")}


@pytest.mark.parametrize(("how", "leaves"), [("combee", 6), ("naive", 1), ("paper", 6 + 1), ("top_k", 1)])
def test_an_estimate_counts_the_calls_of_each_phase(how: str, leaves: int) -> None:
    config = LearnConfig(batch=40, aggregate=how, second_chances=1, max_items=10, eval_every=50)
    priced = {role: ModelSettings(name="m", price=Price(1, 2)) for role in SETTINGS}
    found = estimate_learning(WORK, config, priced, prompt_tokens=TOKENS)
    calls = {phase.name: phase.calls for phase in found.phases}
    assert (found.steps, calls["rollout"], calls["reflection"], calls["validation"]) == (3, 120, 120, 40)
    assert calls["aggregation"] + calls.get("top call", 0) == 3 * leaves
    assert found.cost is not None
    assert found.cost > 0


def test_a_budget_too_small_for_one_step_is_refused_before_anything_is_paid() -> None:
    config = LearnConfig(batch=40)
    with pytest.raises(BudgetError, match="one step"):
        estimate_learning(WORK, config, SETTINGS, prompt_tokens=TOKENS, budget=Budget(max_calls=50))
    with pytest.raises(BudgetError, match="price"):
        estimate_learning(WORK, config, SETTINGS, prompt_tokens=TOKENS, budget=Budget(max_cost=50))
    with pytest.raises(BudgetError, match="80 calls"):
        refuse_too_small(WORK, config, {"max_calls": 79})
    refuse_too_small(WORK, config, {"max_calls": 80})
    with pytest.raises(UsageError):
        refuse_too_small(WORK, config, {"max_calls": -1})
