"""What is wrong with a swarm's file, its world or its folder is said, with what to do, before anything is made."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from combee.cli.main import run
from combee.errors import UsageError
from combee.mock import MockConfig, MockServer
from combee.model.settings import ModelSettings
from combee.swarm import World
from combee.swarm.config import populate, read_swarm_file
from combee.swarm.example import DESKS, write_rehearsal
from combee.swarm.opening import running, starting
from combee.swarm.settings import SwarmSettings

from .test_swarm_cli import FILE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "http.md").write_text("The retry limit of the HTTP client is 7 tries.\n", encoding="utf-8")
    (tmp_path / "tasks.jsonl").write_text('{"question": "@ann limit?", "answer": "7"}\n' * 5, encoding="utf-8")
    return tmp_path


MODEL = 'kind = "lookup"'
TOP = "\n[model]"
CHANNEL = "[[channels]]\nname = 'front'\n{}\n[documents]"
LEARN = "[learn]\ntasks = 'tasks.jsonl'\n{}\n[documents]"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (TOP, "channels = 'x'\n[model]", "Write [[channels]]"),
        ("[documents]", "[[channels]]\n[documents]", "[[channels]] has no 'name'"),
        ("[documents]", CHANNEL.format("members = 5"), "It must be a list of text"),
        ("[documents]", CHANNEL.format("members = ['bob']"), "has the member 'bob', who is not described"),
        ('reads = ["http.md"]', "reads = 5", "It must be a list of text"),
        ('reads = ["http.md"]', 'reads = "http.md"', "It must be a list of text"),
        ('reads = ["http.md"]', 'reads = ["htp.md"]', "Did you mean 'http.md'"),
        ('question = "What is the retry limit of the HTTP client?"', "", "[task] has no 'question'"),
        ('to = "wes"', 'to = ["wes"]', "It must be text"),
        ('role = "worker"', 'role = ["x"]', "It must be text"),
        ('role = "worker"', f"window = {10**23}", "of at least 1 and up to 1,000,000,000,000,000"),
        ('[documents]\nfolder = "docs"', "", "ann reads 'http.md', which is not in [documents]"),
        (TOP, 'learn = "docs"\n[model]', "learn must be a table"),
        ('folder = "docs"', 'folder = "docs"\nglob = ""', "Say something there"),
        ('folder = "docs"', 'folder = "docs"\nglob = "/etc/*"', "Give a pattern inside the folder"),
        ('folder = "docs"', 'folder = "docs"\nglob = "../*"', "Give a pattern inside the folder"),
        ('folder = "docs"', 'folder = "docs"\nglobe = "*"', "Did you mean 'glob'"),
        ('folder = "docs"', 'folder = "dogs"', "Make it: mkdir"),
        ('folder = "docs"', 'folder = "docs"\nglob = "."', "Give a pattern inside the folder"),
        ('folder = "docs"', f'folder = "{"y" * 300}"', "so long a name"),
        (TOP, f'world = "{"y" * 300}"\n[model]', "so long a name"),
        (MODEL, 'kind = "endpoint"\nname = "m"\nbase_url = 5', "It must be text"),
        (MODEL, 'kind = "script"\nname = "os:sep"', "is str, not a function"),
        (MODEL, 'kind = "script"\nname = ".os:x"', "Write package.module:function"),
        (MODEL, 'kind = "pydantic-ai"\nname = "cohere:x"', "Please install the `cohere` package"),
        (MODEL, 'kind = "pydantic-ai"\nname = "nonsense"', "Unknown model"),
        (MODEL, 'kind = "endpoint"\nname = "m"\n[budget]\nmax_minutes = inf', "It must be a number above 0"),
        (TOP, 'world = "a\\u0000b"\n[model]', "zero byte"),
        (TOP, 'world = ""\n[model]', "Say something there"),
        (TOP, 'world = "docs"\n[model]', "cannot be a world"),
        (TOP, 'world = "office.toml"\n[model]', "cannot be a world"),
        (TOP, 'world = "docs/http.md"\n[model]', "cannot be a world"),
        (TOP, 'world = "office.toml/w"\n[model]', "Name a place that you may write to"),
        (TOP, 'playbook = "none.json"\n[model]', "none.json"),
        ('name = "wes"', 'name = "ann"', "several agents 'ann'"),
        ("[documents]", LEARN.format("scorer = 5"), "It must be text"),
        ("[documents]", LEARN.format("scorer = 'exat'"), "exat"),
        ("[documents]", LEARN.format("to = 'bob'"), "go to 'bob', who is not described"),
        ("[documents]", LEARN.format("").replace("tasks.jsonl", "none.jsonl"), "from the folder of its file"),
    ],
)
def test_a_wrong_file_leaves_nothing_behind(
    folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, says: str
) -> None:
    file = folder / "office.toml"
    assert old in FILE
    file.write_text(FILE.replace(old, new, 1), encoding="utf-8")
    before = sorted(folder.rglob("*"))
    assert run(["swarm", "learn" if "[learn]" in new else "run", str(file)]) == 2
    assert says in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before


def test_a_repository_is_never_made_of_a_folder_or_inside_of_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def says(name: str) -> tuple[int, str]:
        text = f'repository = "{name}"\n{FILE}'.replace('[documents]\nfolder = "docs"\n', "")
        (folder / "office.toml").write_text(text, encoding="utf-8")
        code = run(["swarm", "run", str(folder / "office.toml")])
        return code, capsys.readouterr().err

    before = sorted(folder.rglob("*"))
    assert says("docs")[0] == 2
    assert f"git init {folder / 'docs'}" in says("docs")[1]
    assert says("typo")[0] == 2
    assert sorted({*folder.rglob("*")} - {folder / "office.toml"}) == before
    repository = folder / "repo"
    (repository / "inner").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    assert f"name {repository.resolve()}" in says("repo/inner")[1]
    assert not (repository / "inner" / ".git").exists()
    assert "ann reads 'http.md', which is not in the repository" in says("repo")[1]
    (repository / "http.md").write_text("The retry limit of the HTTP client is 8 tries.\n", encoding="utf-8")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    for command in (["add", "."], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(repository), *command], check=True)
    assert says("repo")[0] == 0


def test_worlds_of_one_folder_run_at_the_same_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = folder / "a.toml", folder / "b.toml"
    a.write_text(FILE, encoding="utf-8")
    b.write_text(FILE, encoding="utf-8")
    with starting(read_swarm_file(a)) as swarm:
        populate(read_swarm_file(a), swarm)
        swarm.world.flush()
        assert run(["swarm", "run", str(b)]) == 0
        world = ["--world", str(folder / "b.sqlite"), "--json"]
        capsys.readouterr()
        assert run(["swarm", "ask", "ann", "what is the retry limit?", *world]) == 0
        told = json.loads(capsys.readouterr().out)
        assert "7 tries" in told["answer"]["body"]
        assert told["queued"] is False
        assert run(["swarm", "run", str(a)]) == 1  # this world has its process
        assert f"{folder.resolve() / 'a.sqlite'} is in use by" in capsys.readouterr().err
        assert run(["swarm", "ask", "ann", "?", "--world", str(folder / "a.sqlite"), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["answer"], told["queued"]) == (None, True)
        asyncio.run(swarm.run())  # the process that runs the world takes it up
        assert swarm.answer(told["question"]) is not None


def test_a_question_goes_to_the_world_that_was_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "office.toml"
    file.write_text(FILE, encoding="utf-8")
    assert run(["swarm", "run", str(file)]) == 0
    (folder / "copy.sqlite").write_bytes((folder / "office.sqlite").read_bytes())
    assert run(["swarm", "ask", "ann", "?", "--world", str(folder / "copy.sqlite")]) == 2
    assert "describes another world" in capsys.readouterr().err


def test_files_that_learn_in_one_folder_have_runs_of_their_own(tmp_path: Path) -> None:
    first = write_rehearsal(tmp_path / "r", desks=DESKS[:1])
    second = first.with_name("night.toml")
    second.write_text(first.read_text(encoding="utf-8"), encoding="utf-8")
    assert run(["swarm", "learn", str(first), "--rounds", "1", "--quiet"]) == 0
    with running(read_swarm_file(first)):  # and at the same time
        assert run(["swarm", "learn", str(second), "--rounds", "2", "--quiet"]) == 0
    assert (tmp_path / "r" / "learned" / "playbook.json").exists()
    assert (tmp_path / "r" / "learned-night" / "playbook.json").exists()


def test_a_report_instead_of_an_answer_is_a_failed_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "office.toml"
    file.write_text(
        FILE.replace('role = "worker"', 'role = "worker"\nwindow = 20').replace('subject = "http.md"', ""),
        encoding="utf-8",
    )
    assert run(["swarm", "run", str(file)]) == 1
    assert "too long" in capsys.readouterr().out
    assert run(["swarm", "run", str(file), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["answer"]["kind"] == "report"


def test_a_task_that_is_too_long_for_its_agent_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "office.toml"
    file.write_text(
        FILE.replace('role = "worker"', 'role = "worker"\nwindow = 4').replace('subject = "http.md"', ""),
        encoding="utf-8",
    )
    assert run(["swarm", "run", str(file)]) == 2
    assert "too long" in capsys.readouterr().err


def test_a_task_that_was_changed_is_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "docs" / "http.md").write_text("The retry limit is 7 tries.\nThe timeout is 30 s.\n", encoding="utf-8")
    for asked, said in (("retry limit", "7 tries"), ("timeout", "30 s"), ("retry limit", "7 tries")):
        (folder / "office.toml").write_text(FILE.replace("retry limit of the HTTP client", asked), encoding="utf-8")
        assert run(["swarm", "run", str(folder / "office.toml")]) == 0
        assert said in capsys.readouterr().out


def test_the_files_of_a_swarm_are_no_documents_of_it(folder: Path) -> None:
    text = FILE.replace('folder = "docs"', 'folder = "."').replace('reads = ["http.md"]', 'reads = ["docs/http.md"]')
    (folder / "office.toml").write_text(text, encoding="utf-8")
    for _ in range(2):
        assert run(["swarm", "run", str(folder / "office.toml")]) == 0
    with World.open(folder / "office.sqlite", read_only=True) as world:
        found = [path for (path,) in world.rows("SELECT DISTINCT path FROM artefacts ORDER BY path")]
    assert found == ["docs/http.md", "office.toml", "tasks.jsonl"]


def test_what_is_no_world_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.sqlite").touch()
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    for name, says in ((".", "is a folder"), ("empty.sqlite", "nothing is in"), ("other.sqlite", "another program")):
        assert run(["swarm", "status", "--world", str(tmp_path / name)]) == 2
        assert says in capsys.readouterr().err


def test_an_example_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run(["swarm", "init", str(tmp_path / "file" / "x")]) == 1
    assert "Name a folder that you may write to" in capsys.readouterr().err


def test_a_batch_larger_than_the_tasks_is_all_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_rehearsal(tmp_path / "r", desks=DESKS[:1])
    text = file.read_text(encoding="utf-8").replace("epochs = 4", "epochs = 2\nbatch = 1000")
    file.write_text(text, encoding="utf-8")
    assert run(["swarm", "learn", str(file), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rounds"]
    assert [row["held_out"] is not None for row in rows] == [True, True]


@pytest.fixture
def answering() -> Iterator[str]:
    """An endpoint in a thread that answers everything with the same text; yields its URL."""
    ready, place = threading.Event(), dict[str, object]()

    async def serve() -> None:
        reply = json.dumps({"text": "7", "calls": []})
        async with MockServer(MockConfig(), lambda _: reply) as server:
            ended = asyncio.Event()
            place.update(url=server.url, loop=asyncio.get_running_loop(), ended=ended)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    yield str(place["url"])
    loop, ended = place["loop"], place["ended"]
    assert isinstance(loop, asyncio.AbstractEventLoop)
    assert isinstance(ended, asyncio.Event)
    loop.call_soon_threadsafe(ended.set)
    thread.join()


def test_a_budget_ends_a_run_in_one_way_whenever_it_is_reached(
    folder: Path, answering: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.dumps({"question": f"@ann limit {n}?", "answer": "7"}) + "\n" for n in range(12)]
    (folder / "tasks.jsonl").write_text("".join(rows), encoding="utf-8")

    def learn(calls: int) -> tuple[str, int]:
        model = f'kind = "endpoint"\nname = "m"\nbase_url = "{answering}"\n[budget]\nmax_calls = {calls}'
        table = "[learn]\ntasks = 'tasks.jsonl'\nrounds = 2\nbatch = 2\n[documents]"
        text = FILE.replace(MODEL, model).replace("[documents]", table)
        (folder / "office.toml").write_text(text, encoding="utf-8")
        assert run(["swarm", "learn", str(folder / "office.toml"), "--controls", "--json"]) == 0
        assert (folder / "learned-office" / "playbook.json").exists()
        told = json.loads(capsys.readouterr().out)
        return told["reason"], len(told["rounds"])

    seen = [learn(calls) for calls in (1, 1, 4, 9, 1000)]  # while reading, at the start, in the rounds, never
    assert [reason for reason, _ in seen] == ["budget"] * 4 + ["completed"]
    assert seen[0][1] == 0
    assert seen[-1][1] == 8  # 7 training tasks, two at a time, twice


def test_a_used_up_budget_is_a_reason_to_end_and_no_failure_for_run_and_ask(
    folder: Path, answering: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, world = str(folder / "office.toml"), str(folder / "office.sqlite")

    def limited(budget: str, *command: str) -> tuple[dict[str, object], str]:
        model = f'kind = "endpoint"\nname = "m"\nbase_url = "{answering}"\n[budget]\n{budget}'
        Path(file).write_text(FILE.replace(MODEL, model), encoding="utf-8")
        assert run(["swarm", *command, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert run(["swarm", *command]) == 0
        return told, "".join(capsys.readouterr())

    told, said = limited("max_tokens = 1", "run", file)
    assert (told["reason"], told["answer"], told["handled"]) == ("budget", None, 0)
    assert "No answer yet: the limit of 1 tokens is reached" in said
    told, said = limited("max_calls = 1", "run", file)  # enough to read first, and for no task
    assert (told["reason"], told["answer"], told["handled"]) == ("budget", None, 1)
    assert said.startswith("7\n")  # each process has its budget: the second one had a call for the task
    told, said = limited("max_tokens = 1", "ask", "ann", "Limit?", "--world", world)
    assert (told["reason"], told["answer"], told["queued"]) == ("budget", None, True)
    assert "No answer yet: the limit of 1 tokens is reached" in said
    assert "combee swarm run" in said
    told, said = limited("max_calls = 9", "run", file)  # takes up what is left
    assert (told["reason"], told["detail"], told["handled"]) == ("completed", "", 4)
    assert "budget" not in said


def test_the_words_of_older_versions_still_say_the_same(folder: Path) -> None:
    old = FILE.replace(
        MODEL, 'kind = "endpoint"\nname = "m"\nmax_tokens = 99\nprice = "0.5/2"\nbase_url = "http://h/v1"'
    )
    old += '[learn]\ntasks = "tasks.jsonl"\nrounds = 5\nscorer = "exact"\nview_tokens = 7\n'
    new = FILE.replace(MODEL, 'kind = "endpoint"\nname = "m"\nmax_output_tokens = 99\nbase_url = "http://h/v1"')
    new += '[prices]\nm = { input = 0.5, output = 2 }\n[tasks]\nsource = "tasks.jsonl"\nscorer = "exact"\n'
    new += "[learn]\nepochs = 5\nview_tokens = 7\n"
    read = []
    for number, text in enumerate((old, new)):
        (folder / f"{number}.toml").write_text(text, encoding="utf-8")
        settings = read_swarm_file(folder / f"{number}.toml").settings.model_dump()
        settings["prices"] = {name: (one["input"], one["output"]) for name, one in settings["prices"].items()}
        read.append(settings)
    assert read[0] == read[1]
    (folder / "0.toml").write_text(old.replace("rounds = 5", "rounds = 0"), encoding="utf-8")
    with pytest.raises(UsageError, match=rf"0\.toml:{old[: old.index('rounds')].count(chr(10)) + 1}: epochs in"):
        read_swarm_file(folder / "0.toml")


def test_a_model_has_the_settings_that_it_has_in_combee_toml(folder: Path) -> None:
    known = set(SwarmSettings.model_json_schema()["$defs"]["SwarmModelTable"]["properties"])
    assert known == {"kind", *(item.name for item in fields(ModelSettings))} - {"price"}
