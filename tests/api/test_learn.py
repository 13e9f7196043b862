"""`combee.learn` and its kin: from Python the same runs as from the command line, also in a running event loop."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import combee
from combee.cli import run
from combee.kernel.journal import Journal
from combee.kernel.learn import Event, StepFinished
from combee.kernel.playbook import to_json
from combee.mock import MockConfig, MockServer, parse_latency
from combee.run.settings import Settings
from combee.run.spec import SPEC_KEY
from tests.cli.gauges import FILE, gauges_here, student

WORDS = ("rent", "tax", "wage")
ROWS = [(f"Which account takes the {word} of case {n}?", word.upper()) for n in range(20) for word in WORDS]
SIZES: dict[str, Any] = {"tasks": {"train": 6, "test": 2}}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gauges_here(tmp_path, monkeypatch)


def oracle(question: str, playbook: combee.Playbook) -> str:
    """Knows what stands in its playbook."""
    case = question.rpartition(" G-")[2]
    found = [bullet.text for bullet in playbook if f"G-{case}" in bullet.text]
    return found[0].rpartition(" gives ")[2] if found else "I do not know"


def there(name: str) -> bool:
    return Path(name).exists()


def versions(folder: Path) -> list[str]:
    with Journal.open(folder, create=False, read_only=True) as journal:
        return [version.digest for version in journal.versions()]


def test_the_run_is_that_of_the_command_line() -> None:
    Path("rows.csv").write_text("question,answer\n" + "".join(f"{q},{a}\n" for q, a in ROWS), encoding="utf-8")
    assert run(["learn", "rows.csv", "--batch", "12", "--epochs", "2", "--out", "cli", "--quiet"]) == 0
    result = combee.learn("rows.csv", batch=12, epochs=2, folder="api")
    assert to_json(result.playbook) == (Path("cli") / "playbook.json").read_text(encoding="utf-8")
    assert versions(Path("api")) == versions(Path("cli"))
    for folder in ("cli", "api"):
        assert {path.name for path in Path(folder).iterdir()} >= {"journal.sqlite", "playbook.md", "report.html"}
    assert (result.reason, result.score, result.cost, len(result.steps)) == ("completed", 1.0, 0.0, 6)
    assert run(["resume", "api", "--quiet"]) == 0  # one door: what one began the other goes on with
    assert run(["learn", "rows.csv", "--set", "learn.batch=12", "--out", "api", "--quiet"]) == 2


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        [{"question": question, "answer": answer} for question, answer in ROWS],
        [combee.Task(f"t{n}", question, answer) for n, (question, answer) in enumerate(ROWS)],
        {"train": ROWS[:36], "val": ROWS[36:48], "test": ROWS[48:]},
    ],
)
def test_tasks_are_rows_of_any_kind(rows: Any) -> None:
    result = combee.learn(rows)
    assert result.score == 1.0
    assert result.folder.parent == Path("runs")
    assert combee.load_playbook(result.folder) == result.playbook
    assert run(["eval", str(result.folder)]) == 0  # rows are kept in the folder, so other commands find them


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("only a question",)], "Row 1 of the tasks has 1 parts"),
        (["my.csv", "other.csv"], "A file or folder is given by itself, not in a list"),
        (5, "Tasks cannot be int"),
        (None, "No tasks are named to learn from"),
        ([("q", object())], "Row 1 of the tasks cannot be used: Object of type object"),
        ([{"question": "q"}], "no column is called"),
        ([], "empty"),
        ({"train": ROWS, "dev": ROWS}, "There is no split 'dev'"),
        ("nowhere.csv", "no such file"),
    ],
)
def test_what_is_no_task_is_refused_and_leaves_nothing(rows: Any, says: str) -> None:
    with pytest.raises(combee.UsageError, match=says):
        combee.learn(rows)
    assert not Path("runs").exists() or not list(Path("runs").iterdir())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"batch": 0}, "batch in \\[learn\\] cannot be 0"),
        ({"settings": {"lern": {}}}, "Did you mean 'learn'"),
        ({"settings": {"learn": {"nea": 1}}}, "Did you mean 'near'"),
        ({"settings": "none.toml"}, "no such file"),
        ({"model": "m"}, "no base URL is given"),
        ({"model": combee.Model("m", base_url="https://api.example.com/v1")}, "OPENAI_API_KEY"),
        ({"model": combee.Model("m", base_url="http://127.0.0.1:9/v1", key_env="sk-" + "a1B2" * 9)}, "NAME"),
        ({"model": combee.Model("m", base_url="http://127.0.0.1:9/v1"), "max_cost": 1}, "price"),
        ({"model": combee.Model("m", price="cheap")}, "not a price"),
        ({"model": {"generatr": combee.Model("m")}}, "Did you mean 'generator'"),
        ({"max_calls": 5}, "does nothing without a model"),
        ({"start": "none.json"}, "none.json"),
        ({"traces": "x"}, "Tasks and traces are both given"),
        ({"scorer": "exat"}, "exact"),
        ({"agent": "gpt"}, "`agent` is 'gpt', no function"),
    ],
)
def test_a_wrong_argument_is_a_usage_error_as_on_the_command_line(given: dict[str, Any], says: str) -> None:
    with pytest.raises(combee.UsageError, match=says):
        combee.learn(ROWS, **given)
    assert not Path("runs").exists() or not list(Path("runs").iterdir())


async def test_a_model_learns_in_the_loop_that_runs_and_a_budget_is_no_error() -> None:
    async with MockServer(reply=student()) as server:
        model = combee.Model("student", base_url=server.url)
        short = await combee.alearn(FILE, model=model, val=2, batch=3, settings=SIZES, max_calls=10, folder="r")
        assert (short.reason, short.calls) == ("budget", 10)
        done = await combee.alearn(FILE, model=model, val=2, batch=3, settings=SIZES, max_calls=500, folder="r")
        assert (done.reason, len(done.playbook), done.score) == ("completed", 6, 0.0)
        assert short.calls + done.calls == server.stats.paid  # nothing was bought twice
        assert done.cost is None  # no list knows its price
        scores = await combee.aevaluate(done, split="train")
        assert (scores.score, scores.without, scores.split) == (1.0, 0.0, "train")
        assert not there("combee-unfinished")


async def test_the_sync_calls_work_where_a_loop_runs() -> None:
    """As in a notebook: the loop of the cell runs, so the call has one of its own."""
    async with MockServer(reply=student()) as server:
        model = combee.Model("student", base_url=server.url, price="1/2")

        def cell() -> tuple[combee.Result, combee.Scores]:
            async def inside() -> tuple[combee.Result, combee.Scores]:
                learned = combee.learn(FILE, model=model, val=2, settings=SIZES, max_cost=5)
                return learned, combee.evaluate(learned, split="train")

            return asyncio.run(inside())

        result, scores = await asyncio.to_thread(cell)
    assert (result.reason, scores.score) == ("completed", 1.0)
    assert result.cost is not None
    assert 0 < result.cost < 5


async def test_a_function_of_ones_own_answers_and_a_model_reflects() -> None:
    loops = set()

    async def agent(question: str, playbook: combee.Playbook) -> tuple[str, list[str]]:
        loops.add(asyncio.get_running_loop())
        return oracle(question, playbook), [bullet.id for bullet in playbook if question[-6:-1] in bullet.text]

    async with MockServer(reply=student()) as server:
        model = combee.Model("student", base_url=server.url)
        result = await combee.alearn(FILE, model=model, agent=agent, val=2, batch=3, epochs=2, settings=SIZES)
        assert loops == {asyncio.get_running_loop()}  # what it holds belongs to the caller's loop
        hits = [step.hits for step in result.steps]
        assert hits == [0, 0, 3, 3]  # in the second epoch it knows its lessons
        assert max(bullet.helpful for bullet in result.playbook) == 1  # bullets it named have votes
        asked = server.stats.paid
        scores = await combee.aevaluate(result, split="train")
        assert (scores.score, scores.without) == (1.0, 0.0)
        assert server.stats.paid == asked  # the function answers, not the model


def test_a_plain_function_is_called_in_threads_and_its_failures_are_tried_again() -> None:
    threads, failed = set(), set[str]()

    def agent(question: str, playbook: combee.Playbook) -> str:
        threads.add(threading.current_thread())
        if question not in failed:
            failed.add(question)
            raise ConnectionError("the line is down")
        return question.split()[4].upper()

    result = combee.learn(ROWS, agent=agent, batch=12)
    assert (result.score, result.unlearned) == (1.0, ())
    assert threading.current_thread() not in threads
    assert len(threads) > 1
    with Journal.open(result.folder, create=False, read_only=True) as journal:
        assert any(True for _ in journal.results())


def test_a_function_that_returns_no_text_or_never_answers_is_said() -> None:
    with pytest.raises(combee.UsageError, match="returned NoneType"):
        combee.learn(ROWS, agent=lambda question, playbook: None)  # type: ignore[arg-type]

    def down(question: str, playbook: combee.Playbook) -> str:
        raise RuntimeError("no quota")

    with pytest.raises(combee.RunError, match=r"no quota \(test_learn.py:\d+\)"):
        combee.learn(ROWS, agent=down)
    numbers = [(f"How long is {n}?", f"{n}.5") for n in range(30)]
    with pytest.raises(combee.UsageError, match="only knows labels"):
        combee.learn(numbers, agent=down)


def test_a_folder_is_gone_on_with_and_another_call_is_refused_without_harm() -> None:
    seen: list[str] = []

    def agent(question: str, playbook: combee.Playbook) -> str:
        seen.append(question)
        return "RENT"

    first = combee.learn(ROWS, agent=agent, batch=12, folder="mine")
    asked = len(seen)
    again = combee.learn(ROWS, agent=agent, folder="mine")  # what is not named is as it was
    assert (again.playbook, len(seen)) == (first.playbook, asked)
    for other, says in (({"batch": 6}, "batch was 12 and is 6"), ({"tasks": ROWS[1:]}, "tasks have changed")):
        with pytest.raises(combee.UsageError, match=says):
            combee.learn(**{"tasks": ROWS, "agent": agent, "folder": "mine", **other})  # type: ignore[arg-type]
    with Journal.open(Path("mine"), create=False, read_only=True) as journal:
        assert Settings.from_json(journal.meta(SPEC_KEY)).learn_config().batch == 12
    assert combee.resume("mine", agent=agent).playbook == first.playbook
    more = combee.learn(ROWS, agent=agent, folder="mine", epochs=2)
    assert len(more.steps) == 2 * len(first.steps)


def test_a_run_that_was_cancelled_goes_on() -> None:
    rows = [*ROWS, *((question.replace("case", "bill"), answer) for question, answer in ROWS)]
    asked = 0

    async def agent(question: str, playbook: combee.Playbook) -> str:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.002)
        return "TAX"

    async def stopped() -> None:
        steps = asyncio.Event()
        task = asyncio.ensure_future(
            combee.alearn(rows, agent=agent, batch=4, folder="s", on_event=lambda event: _tell(event, steps))
        )
        await steps.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    before = asked
    done = asyncio.run(combee.aresume("s", agent=agent))
    assert done.reason == "completed"
    assert before > 0
    assert asked < 2 * len(rows)


def _tell(event: Event, steps: asyncio.Event) -> None:
    if isinstance(event, StepFinished) and event.step == 2:
        steps.set()


def test_a_scorer_is_a_function_and_a_playbook_is_begun_with() -> None:
    def close(task: combee.Task, answer: str) -> float:
        return 1.0 if answer == task.target else 0.5

    first = combee.learn(ROWS, scorer=close)
    assert first.score == 1.0
    scores = combee.evaluate(first, [("Which account takes the moon?", "MOON")])
    assert (scores.hits, scores.total) == (50, 100)
    second = combee.learn(ROWS, start=first.playbook)
    assert second.steps[0].hits == second.steps[0].total


def test_traces_are_learned_from_without_their_secrets() -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    called = {"name": "bash", "arguments": json.dumps({"command": "pytest"})}
    steps = [
        {"role": "user", "content": "run the tests"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": called}]},
        {"role": "tool", "tool_call_id": "1", "content": f"pytest: error: no tests ran {secret}"},
    ]  # fmt: skip
    Path("run.json").write_text(json.dumps({"messages": steps}), encoding="utf-8")
    result = combee.learn(traces="run.json")
    assert (result.score, result.reason) == (None, "completed")
    assert not any(secret.encode() in path.read_bytes() for path in result.folder.iterdir())
    with pytest.raises(combee.UsageError, match="learned from traces"):
        combee.evaluate(result)


def test_evaluate_takes_results_books_files_and_runs() -> None:
    with pytest.raises(combee.UsageError, match="Nothing is named to score"):
        combee.evaluate(None)  # type: ignore[arg-type]
    result = combee.learn(ROWS, folder="runs/a")
    held = [("Which account takes the rent of case 99?", "RENT"), ("Which account takes the tax of case 98?", "TAX")]
    Path("held.csv").write_text("question,answer\n" + "".join(f"{q},{a}\n" for q, a in held), encoding="utf-8")
    result.playbook.save("book.json")
    for what in (result, result.playbook, "book.json", Path("runs/a"), "a", "a@best"):
        scores = combee.evaluate(what, "held.csv")
        assert (scores.score, scores.total, scores.split, scores.errors) == (1.0, 2, "all", {})
    assert combee.evaluate("a").split == "test"
    with pytest.raises(combee.UsageError, match="No tasks are named"):
        combee.evaluate(result.playbook)
    with pytest.raises(combee.UsageError, match="There is no run 'b'"):
        combee.evaluate("b", "held.csv")


async def test_a_budget_that_does_not_reach_for_a_score_is_refused_before_anything_is_paid() -> None:
    async with MockServer(MockConfig(latency=parse_latency("0.001")), student()) as server:
        model = combee.Model("student", base_url=server.url)
        result = await combee.alearn(FILE, model=model, val=2, settings=SIZES)
        before = server.stats.paid
        with pytest.raises(combee.UsageError, match="more than max_calls = 3"):
            await combee.aevaluate(result, max_calls=3)
        assert server.stats.paid == before


@pytest.fixture(scope="module")
def fresh() -> str:
    program = (
        "import sys, combee; before = set(sys.modules); names = dir(combee); combee.UsageError; "
        "print(len(names), sorted(m for m in before if m.split('.')[0] in "
        "('pydantic','aiohttp','click','rich','numpy','gepa','combee')), 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_is_light_and_offers_few_names(fresh: str) -> None:
    count, rest = fresh.split(" ", 1)
    assert int(count) <= 30
    assert rest == "['combee'] False"


def test_every_name_is_there_and_documented() -> None:
    assert dir(combee) == sorted(combee.__all__)
    for name in combee.__all__:
        found = getattr(combee, name)
        if name.startswith("__") or name == "redaction":
            continue
        text = found.__doc__ or ""
        assert len(text) > 30, name
    with pytest.raises(AttributeError, match="no attribute 'lern'"):
        combee.lern  # type: ignore[attr-defined]  # noqa: B018
    assert combee.redaction.find_secrets("nothing") == ()
