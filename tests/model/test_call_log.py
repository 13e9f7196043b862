"""What a resumed run knows of its earlier processes: what endpoints refused, and the minutes that they worked."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from combee.errors import BudgetError
from combee.kernel.journal import Journal
from combee.mock import MockConfig, MockServer
from combee.model import Message, ModelSettings, Request, open_models
from combee.model.clients import CallLog, Spent
from combee.model.settings import ROLES

PLAIN = Request((Message("user", "hello"),), max_tokens=8, role="curator", item="t")
FORMED = Request((Message("user", "hello"),), {"type": "object", "properties": {}}, role="generator", item="t")
OWN = {"curator": {"max_calls": 99}}  # a budget of its own gives a role a client of its own


def at(url: str) -> dict[str, ModelSettings]:
    return dict.fromkeys(ROLES, ModelSettings(name="m", api_key_env="NO_SUCH_VARIABLE", base_url=url))


@pytest.mark.parametrize("budget", [{}, OWN])
@pytest.mark.parametrize("requests", [(FORMED, PLAIN), (PLAIN, FORMED), (FORMED, FORMED)])
async def test_a_resumed_run_asks_for_nothing_that_the_endpoint_has_refused(
    tmp_path: Path, budget: Mapping[str, Any], requests: Sequence[Request]
) -> None:
    async with MockServer(MockConfig(schema="refuse", json_mode="refuse")) as server:
        seen = []
        for role in ("generator", "reflector", "generator"):
            with Journal.open(tmp_path) as journal:
                models = open_models(at(server.url), budget=budget)
                models.attach(journal)
                before = server.stats.requests
                for asked, request in zip((role, "curator"), requests, strict=True):
                    await models.by_role[asked].complete(request)
                seen.append(server.stats.requests - before)
                await models.aclose()
    alone = budget == OWN and requests == (FORMED, FORMED)  # in one process each client finds out by itself
    assert seen == [6 if alone else 4, 2, 2]


Process = tuple[float, Sequence[tuple[str, float]]]
PROCESSES: Sequence[Process] = [
    (-150, [("generator", -149)]),
    (-120, []),
    (-50, [("generator", -49), ("curator", -48), ("reflector", -46)]),
]


def spent(journal: Journal, processes: Sequence[Process]) -> Spent:
    """Return what was spent by processes that began and booked calls at these minutes from now."""
    now = time.time()
    for start, calls in processes:
        log = CallLog()
        log.attach(journal)
        log.spent_before()
        *before, (_, booked) = cast("list[tuple[float, int]]", journal.meta("starts"))
        journal.set_meta("starts", [*before, (now + 60 * start, booked)])
        for role, at in calls:
            log.book({"role": role, "at": now + 60 * at, "wire": 30.0, "paid": "yes"})
    log = CallLog()
    log.attach(journal)
    return log.spent_before()


@pytest.mark.parametrize(
    ("processes", "minutes"),
    [
        (PROCESSES, 5),
        # The clock was ten hours ahead, and was put right between two processes, or within one.
        ([(600, [("generator", 601)]), (-50, [("generator", -49)])], 2),
        ([(600, [("generator", 601), ("generator", -49), ("generator", -48)])], 2),
        ([(600, [("generator", -50)]), (-45, [("generator", -43)])], 2),
        ([(-50, [])], 0),
    ],
)
def test_minutes_count_over_all_processes_of_a_run_and_not_between_them(
    tmp_path: Path, processes: Sequence[Process], minutes: float
) -> None:
    with Journal.open(tmp_path) as journal:
        assert spent(journal, processes).all["minutes"] == pytest.approx(minutes)


def test_minutes_of_a_role_are_those_worked_since_its_first_call_was_sent(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        found = spent(journal, [*PROCESSES, (-20, [("generator", -10)])]).by_role
    minutes = {role: sums["minutes"] for role, sums in found.items()}
    assert minutes == pytest.approx({"generator": 14.5, "curator": 12.5, "reflector": 10.5})


@pytest.mark.parametrize(
    ("budget", "fits"),
    [
        ({"max_minutes": 4.9}, False),
        ({"max_minutes": 100}, True),
        ({"curator": {"max_minutes": 2.4}}, False),
        ({"curator": {"max_minutes": 4}}, True),
    ],
)
async def test_minutes_of_earlier_processes_count_against_the_budgets(
    tmp_path: Path, budget: Mapping[str, Any], *, fits: bool
) -> None:
    async with MockServer() as server:
        with Journal.open(tmp_path) as journal:
            spent(journal, PROCESSES)
            models = open_models(at(server.url), budget=budget)
            models.attach(journal)
            curator = models.by_role["curator"]
            if fits:
                await curator.complete(PLAIN)
            else:
                with pytest.raises(BudgetError, match="minutes"):
                    await curator.complete(PLAIN)
            await models.aclose()
    assert server.stats.requests == int(fits)


@pytest.mark.parametrize("like", ["mistral", "vllm", "openai"])
async def test_a_resumed_run_leaves_out_at_once_what_a_provider_does_not_take(tmp_path: Path, like: str) -> None:
    refused = []
    asked = Request((Message("system", "s"), Message("user", "u")), max_tokens=8, seed=1, role="curator", item="t")
    async with MockServer(MockConfig(like=like)) as server:
        for _ in range(2):
            with Journal.open(tmp_path) as journal:
                models = open_models(at(server.url))
                models.attach(journal)
                before = server.stats.by_outcome.get("bad_request", 0)
                await models.by_role["curator"].complete(asked)
                refused.append(server.stats.by_outcome.get("bad_request", 0) - before)
                await models.aclose()
    assert refused[0] >= 1
    assert refused[1] == 0
