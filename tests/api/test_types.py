"""What type checkers see of `import combee`: this file is checked by mypy, in strict mode, as users' code would be."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import combee

if TYPE_CHECKING:

    async def everything(rows: list[tuple[str, str]]) -> None:
        result = combee.learn("rows.csv", model=combee.Model("m", base_url="http://h/v1", key_env="KEY"), max_cost=2)
        assert_type(result, combee.Result)
        assert_type(result.playbook, combee.Playbook)
        assert_type(result.score, float | None)
        assert_type(result.folder, Path)
        assert_type([bullet.text for bullet in result.playbook], list[str])
        assert_type(
            await combee.alearn(rows, agent=plain, batch="auto", settings={"learn": {"near": 0.8}}), combee.Result
        )
        assert_type(combee.learn({"train": rows, "val": rows}, agent=coroutine, scorer=scored), combee.Result)
        assert_type(combee.learn(traces=Path("logs"), model={"curator": "m"}, start="book.json"), combee.Result)
        assert_type(combee.resume("runs/a", max_calls=5), combee.Result)
        assert_type(await combee.aresume(), combee.Result)
        scores = combee.evaluate(result, [combee.Task("a", "q", "t")], split="test")
        assert_type(scores, combee.Scores)
        assert_type(scores.interval, tuple[float, float])
        assert_type(await combee.aevaluate("runs/a@best"), combee.Scores)
        assert_type(combee.load_playbook("book.md"), combee.Playbook)
        assert_type(combee.redaction.find_secrets("text"), tuple[str, ...])
        combee.learn(rows, bach=3)  # type: ignore[call-arg]
        combee.learn(rows, batch="many")  # type: ignore[arg-type]
        await combee.alearn(rows, epochs="two")  # type: ignore[arg-type]
        combee.learn(rows, agent=wrong)  # type: ignore[arg-type]
        combee.evaluate(5)  # type: ignore[arg-type]
        combee.lern  # type: ignore[attr-defined]  # noqa: B018

    def plain(question: str, playbook: combee.Playbook) -> str: ...

    async def coroutine(asked: str, book: combee.Playbook) -> tuple[str, list[str]]: ...

    def wrong(question: str) -> str: ...

    def scored(task: combee.Task, answer: str) -> float: ...


def test_the_async_calls_take_the_arguments_of_the_others() -> None:
    for name in ("learn", "resume", "evaluate"):
        assert inspect.signature(getattr(combee, f"a{name}")) == inspect.signature(getattr(combee, name))
        assert inspect.iscoroutinefunction(getattr(combee, f"a{name}"))
