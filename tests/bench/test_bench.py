"""`combee bench`: each packaged bench runs in small, goes on after a stop, keeps its limits, and says what is wrong."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from combee.bench import scale
from combee.bench.cells import BenchRun, CellResult, Taken
from combee.bench.definition import SMALL_ROWS, Cell, bench_names, cells_of, read_bench, small
from combee.bench.results import BenchRow, rows_of_bench
from combee.cli import run
from combee.errors import RunError, UsageError
from combee.kernel.journal import Journal
from combee.kernel.learn import Event, StepFinished
from combee.mock import MockConfig, MockServer
from combee.mock.student import Student, lesson_of
from combee.run.execute import Interrupted
from combee.run.settings import Settings
from combee.tasks import load
from combee.tasks.published import PUBLISHED, look
from combee.terminal.display import Display
from tests.report.pages import read_page

TWO_ARMS = """\
title = "Two arms"
tasks = ["tags"]
seeds = 1

[[arms]]
name = "naive"
learn = { aggregate = "naive", batch = 12 }
paper = [{ tasks = "tags", score = 0.625, entries = 77 }]

[[arms]]
name = "combee"
vary = "learn.batch"
values = [8, 12]
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "COMBEE_DATA"):
        monkeypatch.delenv(name, raising=False)
    Path("two.toml").write_text(TWO_ARMS, encoding="utf-8")


def ready(folder: Path, display: type[Display] = Display) -> BenchRun:
    made = BenchRun(folder, cells_of(small(read_bench("two.toml")), Settings(), rows=SMALL_ROWS), {}, display)
    made.load()
    return made


def test_the_list_names_every_packaged_bench(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "list"]) == 0
    out = capsys.readouterr().out
    assert bench_names() == ["ablations", "baselines", "batch-sweep", "dynamic-batch", "gepa", "overload", "scale"]
    assert [line.split()[0] for line in out.splitlines()[:-1]] == bench_names()


@pytest.mark.parametrize("name", bench_names())
def test_every_bench_can_be_rehearsed_without_data_or_model(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", name, "--small", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["missing"] == 0
    assert len(found["rows"]) == found["runs"] == sum(len(arm.points) for arm in small(read_bench(name)).table.arms)
    assert all(0 <= row["interval"][0] <= row["score"] <= row["interval"][1] <= 1 for row in found["rows"])
    said = "REHEARSED" if name == "gepa" else "SIMULATED FORGETTING"
    assert any(said in note for note in found["notes"])
    page = read_page(Path(f"bench-results/{name}-small.html").read_text(encoding="utf-8"))
    assert read_bench(name).table.title in page.text
    rows = {(row["arm"], row["at"]): row for row in found["rows"]}
    if name == "gepa":
        _lessons_travel_and_one_call_loses_more(rows)
    if name == "scale":
        _the_law_of_scale_holds(rows)
    if name in {"gepa", "scale"}:  # another address of the student is no other run, and a size is not run twice
        assert run(["bench", name, "--small", "--json"]) == 0
        (again,) = json.loads(capsys.readouterr().out)
        assert (again["fresh"], again["rows"]) == (0, found["rows"])


def _lessons_travel_and_one_call_loses_more(rows: dict[Any, Any]) -> None:
    assert rows["no playbook", None]["score"] == 0
    assert rows["gepa, combee", 40]["score"] > rows["gepa, naive", 40]["score"] + 0.1
    assert rows["gepa, combee", 40]["entries"] > 1.5 * rows["gepa, naive", 40]["entries"]


def _the_law_of_scale_holds(rows: dict[Any, Any]) -> None:
    sizes = {"combee": (10, 100, 1000), "paper": (100, 1000)}
    assert set(rows) == {(arm, size) for arm, all_sizes in sizes.items() for size in all_sizes}
    assert rows["combee", 1000]["kept"] > 0.95
    assert rows["paper", 1000]["kept"] < 0.5
    assert all(rows[key]["reads"] == pytest.approx(2.0) for key in rows if key[0] == "paper")
    assert all(row[name] > 0 for row in rows.values() for name in ("cpu", "memory", "disk", "opened", "replayed"))


def test_what_gepa_would_take_is_said_like_that_of_any_bench(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--model", "student", "--base-url", "http://127.0.0.1:9/v1", "--price", "1/2"]
    assert run(["bench", "all", "--small", "--dry-run", "--json", *given]) == 0
    found = {one["bench"]: one for one in json.loads(capsys.readouterr().out)}
    assert set(found) == {f"{name}-small" for name in bench_names()}
    rows = {row["arm"]: row for row in found["gepa-small"]["missing"]}
    assert all(row["calls"] > 0 and row["cost"] > 0 and row["minutes"] > 0 for row in rows.values())
    assert rows["gepa, combee"]["calls"] > 2 * SMALL_ROWS[0]
    assert {row["calls"] for row in found["scale-small"]["missing"]} == {0}


def test_what_needs_a_model_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "gepa"]) == 2
    said = capsys.readouterr().err
    assert "The bench gepa needs a model." in said
    assert "--small" in said


SIZES = """\
title = "Sizes"
tasks = ["planted"]
seeds = 1
metrics = ["kept", "calls"]

[[arms]]
name = "combee"
learn = { batch = 20 }
vary = "size"
values = [40]
"""


def test_a_size_that_was_stopped_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path("sizes.toml").write_text(SIZES, encoding="utf-8")
    whole = scale._in_a_process

    def breaking(place: Path, how: str, cell: Cell) -> dict[str, Any]:
        if how == "open":
            raise RunError("broken off")
        return whole(place, how, cell)

    monkeypatch.setattr(scale, "_in_a_process", breaking)
    assert run(["bench", "sizes.toml", "--json"]) == 1
    assert "the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(scale, "_in_a_process", whole)
    assert run(["bench", "sizes.toml", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [(row["at"], row["kept"] > 0.5) for row in found["rows"]] == [(40, True)]
    (cell,) = Path("bench-results/cells").iterdir()
    with Journal.open(cell, create=False, read_only=True) as journal:
        assert len(list(journal.results("reflect"))) == 40


@pytest.mark.parametrize(
    ("old", "new"), [('vary = "size"', 'vary = "learn.batch"'), ("[40]", "[0]"), ('["planted"]', '["planted", "tags"]')]
)
def test_sizes_and_tasks_do_not_mix(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("sizes.toml").write_text(SIZES.replace(old, new), encoding="utf-8")
    assert run(["bench", "sizes.toml"]) == 2
    assert "size is varied, in whole numbers" in capsys.readouterr().err


def test_what_one_call_loses_shows_in_the_overload_curve(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "overload", "--small", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    entries = {(row["arm"], row["at"]): row["entries"] for row in found["rows"]}
    assert entries["naive", 50] < entries["naive", 1] / 2
    assert entries["combee", 50] > 2 * entries["naive", 50]


def test_the_papers_value_stands_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "two.toml", "--small"]) == 0
    naive = next(line for line in capsys.readouterr().out.splitlines() if line.split()[:2] == ["tags", "naive"])
    assert naive.endswith("0.625, 77 entries")
    assert "0.625, 77 entries" in Path("bench-results/two-small.html").read_text(encoding="utf-8")


def test_a_stop_between_cells_leaves_what_is_done_as_it_is(tmp_path: Path) -> None:
    first = ready(tmp_path / "a")

    def stop(cell: Cell, result: CellResult) -> None:
        if len(first.done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.run(stop)
    before = {path: path.read_bytes() for cell in first.done for path in first.place[cell].rglob("*") if path.is_file()}
    again = ready(tmp_path / "a")
    assert len(again.missing) == 1
    again.run(lambda cell, result: None)
    assert (again.fresh, again.missing) == (1, [])
    assert {path: path.read_bytes() for path in before} == before


def test_a_cell_that_was_stopped_goes_on_from_its_journal_to_the_same_result(tmp_path: Path) -> None:
    class Stopping(Display):
        def observe(self, event: Event) -> None:
            if isinstance(event, StepFinished) and event.step == 1:
                raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        ready(tmp_path / "a", Stopping).run(lambda cell, result: None)
    stopped, whole = ready(tmp_path / "a"), ready(tmp_path / "b")
    assert len(stopped.missing) == 3
    for one in (stopped, whole):
        one.run(lambda cell, result: None)

    def figures(one: BenchRun) -> list[CellResult]:
        return [replace(result, seconds=0.0) for result in one.done.values()]

    assert figures(stopped) == figures(whole)


def test_other_settings_and_other_data_are_another_cell() -> None:
    (one, *_), (other, *_) = (
        cells_of(read_bench("two.toml"), Settings().over({"learn": {"near": near}})) for near in (0.9, 0.8)
    )
    assert len({one.folder("a"), one.folder("b"), other.folder("a")}) == 3
    paced = replace(one, spec=one.spec.over({"budget": {"max_cost": 1}, "prices": {"m": {"input": 1, "output": 1}}}))
    assert paced.folder("a") == one.folder("a")


def test_the_interval_counts_a_row_once_however_many_seeds_answered_it() -> None:
    one = CellResult((("a", 1, 1), ("b", 0, 1), ("c", 1, 1)), 1, 0, 1, 1, 1.0, None, None)
    alone, thrice = (BenchRow("t", "arm", None, (one,) * times, None) for times in (1, 3))
    assert thrice.interval == pytest.approx(alone.interval)
    assert (alone.apart, thrice.apart) == (None, 0.0)
    assert thrice.score == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('name = "naive"', 'nmae = "naive"', 6, "'nmae'"),
        ("batch = 12 }", "batch = 0 }", 7, "batch"),
        ("score = 0.625", 'score = "high"', 8, "score"),
        ('vary = "learn.batch"', 'vary = "learn.bacth"', 13, "'bacth'"),
        ("values = [8, 12]", "values = [8, -1]", 13, "batch"),
        ('name = "combee"', 'name = "naive"', 11, "several arms 'naive'"),
        ('tasks = "tags",', 'tasks = "tugs",', 8, "'tugs'"),
        ('aggregate = "naive", batch', 'aggregate = "naive", max_items = 3, batch', 6, "learn.max_items does nothing"),
        ('title = "Two arms"', 'title = "Two arms', 1, "TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_key(
    old: str, new: str, line: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("two.toml").write_text(TWO_ARMS.replace(old, new), encoding="utf-8")
    assert run(["bench", "two.toml", "--small"]) == 2
    err = capsys.readouterr().err
    assert f"two.toml:{line}" in err
    assert said in err
    assert not Path("bench-results").exists()


def test_data_that_is_not_there_is_said_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "baselines"]) == 2
    assert "bench data" in capsys.readouterr().err
    assert run(["bench", "data"]) == 0
    out = capsys.readouterr().out
    assert all(file.name in out for files in PUBLISHED.values() for file in files.values())


def test_files_of_the_ace_repository_are_read_as_they_are(data_dir: Path, tmp_path: Path) -> None:
    for split, file in PUBLISHED["formula"].items():
        shutil.copy(data_dir / "formula" / f"{split}.jsonl", tmp_path / file.name)
    assert len(load("formula", data_dir=tmp_path).train) == 500
    found = {one.split: one for one in look(tmp_path) if one.tasks == "formula"}
    assert (found["train"].as_published, found["train"].rows) == (True, 500)
    with (tmp_path / PUBLISHED["formula"]["train"].name).open("a", encoding="utf-8") as file_of_theirs:
        file_of_theirs.write("\n")
    assert not next(one for one in look(tmp_path) if (one.tasks, one.split) == ("formula", "train")).as_published


def student() -> Student:
    tasks = load("tags", sizes=(SMALL_ROWS[0], 0, SMALL_ROWS[1]))
    return Student(tasks, {task.id: lesson_of(task) for task in tasks}, m0=None)


async def bench(url: str, *more: str) -> int:
    words = ["bench", "two.toml", "--small", "--json", "--model", "student", "--base-url", url, *more]
    return await asyncio.to_thread(run, words)


async def test_a_limit_holds_over_all_cells_and_nothing_is_paid_twice(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student()) as server:
        assert await bench(server.url, "--max-calls", "200") == 0
        (first,) = json.loads(capsys.readouterr().out)
        assert (first["fresh"], first["missing"]) == (1, 2)
        assert "limit" in first["stopped"]
        assert first["taken"]["calls"] == server.stats.paid <= 200
        assert await bench(server.url, "--max-calls", "2000") == 0
        (second,) = json.loads(capsys.readouterr().out)
        assert (second["fresh"], second["missing"], second["stopped"]) == (2, 0, None)
        assert second["taken"]["calls"] == server.stats.paid
        assert await bench(server.url) == 0
        (third,) = json.loads(capsys.readouterr().out)
        assert (third["fresh"], third["rows"]) == (0, second["rows"])
        assert second["taken"]["calls"] == server.stats.paid


async def test_a_limit_that_ends_learning_or_scoring_leaves_the_cell_to_the_same_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with MockServer(reply=student()) as server:
        for most in range(100_000, 1_100_000, 90_000):
            assert await bench(server.url, "--max-tokens", str(most)) == 0
            (found,) = json.loads(capsys.readouterr().out)
            assert found["taken"]["tokens"] <= most
            assert found["taken"]["calls"] == server.stats.paid
        assert found["missing"] == 0


async def test_rows_that_an_endpoint_refuses_are_no_wrong_answers(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student()) as server:
        assert await bench(server.url, "--out", "whole") == 0
        (whole,) = json.loads(capsys.readouterr().out)
        assert await bench(server.url, "--max-calls", str(int(whole["rows"][0]["calls"]))) == 0
        (learned,) = json.loads(capsys.readouterr().out)
        assert learned["missing"] == 3  # the first cell has learned, and is still to be scored
        async with MockServer(MockConfig(faults={"content_filter": 1.0})) as refusing:
            assert await bench(refusing.url) == 1
        (found, _) = map(json.loads, capsys.readouterr().out.splitlines())
        assert (found[0]["rows"], found[0]["missing"]) == ([], 3)
        assert await bench(server.url) == 0
    (again,) = json.loads(capsys.readouterr().out)
    assert [row["score"] for row in again["rows"]] == [row["score"] for row in whole["rows"]]


async def test_a_limit_below_one_step_is_refused_before_anything_is_paid(capsys: pytest.CaptureFixture[str]) -> None:
    async with MockServer(reply=student()) as server:
        assert await bench(server.url, "--max-calls", "5") == 2
        assert await bench(server.url, "--max-cost", "5") == 2
        assert server.stats.requests == 0
    assert "price" in capsys.readouterr().err


def test_a_dry_run_says_calls_tokens_money_and_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--model", "deepseek-chat", "--base-url", "https://api.deepseek.com/v1", "--dry-run", "--json"]
    assert run(["bench", "two.toml", "--small", *more]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    naive, combee = found["missing"]
    train, test = SMALL_ROWS
    assert (naive["cells"], naive["calls"]) == (1, 2 * train + test + 4)  # and one call for each of four steps
    assert combee["cells"] == 2
    assert all(one[name] > 0 for one in (naive, combee) for name in ("tokens", "cost", "minutes"))
    assert not Path("bench-results").exists()


def test_an_endpoint_that_is_down_ends_the_bench_with_what_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "two.toml", "--small", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"]
    assert run(words) == 1
    assert "the same command goes on" in capsys.readouterr().err


def test_costs_add_up_and_an_unknown_one_stays_unknown() -> None:
    assert Taken(1, 2, 0.5) + Taken(1, 2, 0.25) == Taken(2, 4, 0.75)
    assert (Taken(1, 2, None) + Taken()).cost is None


def test_there_is_no_bench_of_that_name() -> None:
    with pytest.raises(UsageError, match="batch-sweep"):
        read_bench("batch-swep")
    assert rows_of_bench(ready(Path("empty"))) == []
