"""A scope buys each result once and makes each decision once, in memory and in a file alike."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from combee.errors import CallError, CallErrorKind, UsageError
from combee.kernel.journal import JSON, Journal, MemoryScope, Scope


@pytest.fixture(params=["memory", "file"])
def scope(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scope]:
    if request.param == "memory":
        yield MemoryScope(seed=1, epoch=2, step=3)
        return
    with Journal.open(tmp_path) as journal:
        yield journal.scope(seed=1, epoch=2, step=3)


class Shop:
    """Makes values and counts how often it was asked."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.made: list[str] = []
        self.seconds = seconds

    def __call__(self, name: str, error: Exception | None = None) -> Callable[[], Awaitable[JSON]]:
        async def make() -> JSON:
            self.made.append(name)
            await asyncio.sleep(self.seconds)
            if error is not None:
                raise error
            return {"name": name, "number": len(self.made)}

        return make


async def test_a_result_is_bought_once(scope: Scope) -> None:
    shop = Shop()
    first = await scope.once("reflect", "a", {"x": 1}, shop("a"))
    again = await scope.once("reflect", "a", {"x": 1}, shop("a"))
    assert first == again == {"name": "a", "number": 1}
    assert shop.made == ["a"]


@pytest.mark.parametrize(
    ("role", "item", "inputs", "attempt"),
    [("curate", "a", 1, 0), ("reflect", "b", 1, 0), ("reflect", "a", 2, 0), ("reflect", "a", 1, 1)],
)
async def test_another_address_or_other_inputs_is_another_result(
    scope: Scope, role: str, item: str, inputs: int, attempt: int
) -> None:
    shop = Shop()
    first = await scope.once("reflect", "a", 1, shop("first"))
    other = await scope.once(role, item, inputs, shop("other"), attempt=attempt)
    assert shop.made == ["first", "other"]
    assert await scope.once("reflect", "a", 1, shop("no")) == first
    assert await scope.once(role, item, inputs, shop("no"), attempt=attempt) == other
    assert shop.made == ["first", "other"]


async def test_names_inside_a_sub_scope_never_meet_those_outside(scope: Scope) -> None:
    shop = Shop()
    inner = scope.sub("retry").sub("half")
    await scope.once("r", "a", None, shop("outer"))
    await inner.once("r", "a", None, shop("inner"))
    assert scope.decide("size", 1) == 1
    assert inner.decide("size", 2) == 2
    assert shop.made == ["outer", "inner"]
    assert scope.address == "seed 1/epoch 2/step 3"
    assert inner.address == "seed 1/epoch 2/step 3/retry/half"


async def test_overlapping_calls_share_one_computation_and_own_their_values(scope: Scope) -> None:
    shop = Shop(0.01)
    results = await asyncio.gather(*(scope.once("r", "a", None, shop("a")) for _ in range(20)))
    assert shop.made == ["a"]
    assert all(result == results[0] for result in results)
    assert results[0] is not results[1]


async def test_a_failure_is_shared_but_never_stored(scope: Scope) -> None:
    shop = Shop(0.01)
    error = CallError("down", kind=CallErrorKind.SERVER)
    results = await asyncio.gather(
        *(scope.once("r", "a", None, shop("a", error)) for _ in range(5)), return_exceptions=True
    )
    assert results == [error] * 5
    assert shop.made == ["a"]
    assert await scope.once("r", "a", None, shop("a")) == {"name": "a", "number": 2}


async def test_when_the_one_who_computes_is_cancelled_another_takes_over(scope: Scope) -> None:
    shop = Shop(0.05)
    tasks = [asyncio.create_task(scope.once("r", "a", None, shop(f"{index}"))) for index in range(4)]
    await asyncio.sleep(0.01)
    tasks[0].cancel()
    tasks[2].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert shop.made == ["0", "1"]
    assert results[1] == results[3] == {"name": "1", "number": 2}
    assert isinstance(results[0], asyncio.CancelledError)
    assert isinstance(results[2], asyncio.CancelledError)


async def test_a_cancelled_waiter_does_not_disturb_the_one_who_computes(scope: Scope) -> None:
    shop = Shop(0.02)
    first, second = (asyncio.create_task(scope.once("r", "a", None, shop("a"))) for _ in range(2))
    await asyncio.sleep(0.005)
    second.cancel()
    assert await first == {"name": "a", "number": 1}


def test_two_threads_with_loops_of_their_own_share_one_computation(scope: Scope) -> None:
    shop = Shop(0.1)
    results: list[JSON] = []
    together = threading.Barrier(2)

    async def ask() -> None:
        together.wait()
        results.append(await scope.once("r", "a", None, shop("a")))

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shop.made == ["a"]
    assert results == [{"name": "a", "number": 1}] * 2


async def test_the_first_answer_is_the_one_that_a_replay_gives(scope: Scope) -> None:
    async def make() -> dict[str, tuple[int, ...] | str]:
        return {"z": (1, 2), "a": "Σ\ud800"}

    first = await scope.once("r", "a", None, make)
    assert first == await scope.once("r", "a", None, make) == {"a": "Σ\ufffd", "z": [1, 2]}
    assert isinstance(first, dict)
    assert list(first) == ["a", "z"]


async def test_addresses_and_names_with_any_characters_work(scope: Scope) -> None:
    shop = Shop()
    for role, item in [("", ""), ("a/b", "c"), ("a", "b/c"), ("r\ud800", "i\x00"), ("1:a", "2")]:
        await scope.once(role, item, None, shop(role + item))
        await scope.once(role, item, None, shop("again"))
        assert scope.decide(role + item, 7) == 7
    assert len(shop.made) == 5
    assert "again" not in shop.made


async def test_a_result_that_is_not_json_is_refused_and_not_stored(scope: Scope) -> None:
    async def make() -> float:
        return float("nan")

    with pytest.raises(UsageError):
        await scope.once("r", "a", None, make)
    assert await scope.once("r", "a", None, Shop()("a")) == {"name": "a", "number": 1}


def test_a_decision_is_made_once(scope: Scope) -> None:
    assert scope.decide("batch", {"size": 40}) == {"size": 40}
    assert scope.decide("batch", {"size": 50}) == {"size": 40}
    assert scope.decide("none", None) is None
    assert scope.decide("none", 1) is None


def test_a_look_at_a_decision_makes_none(scope: Scope) -> None:
    assert scope.peek("batch") is None
    assert scope.decide("batch", [40]) == [40]
    assert scope.peek("batch") == [40]
    assert scope.sub("inner").peek("batch") is None


def test_threads_agree_on_a_decision(scope: Scope) -> None:
    together = threading.Barrier(4)
    answers: list[JSON] = []

    def ask(number: int) -> None:
        together.wait()
        answers.append(scope.decide("outer", [number, scope.decide("inner", number)]))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert all(answer == answers[0] for answer in answers)


def test_both_are_scopes(scope: Scope) -> None:
    assert isinstance(scope, Scope)
