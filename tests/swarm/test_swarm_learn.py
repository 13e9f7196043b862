"""A swarm learns while it lives: rounds, views by role and task, held-out tasks in copies, controls, resume."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from combee.cli.main import run
from combee.errors import CallError, CallErrorKind, UsageError
from combee.kernel.journal import MemoryScope
from combee.kernel.learn import Reflection, Task
from combee.kernel.playbook import Playbook, VoteKind, load
from combee.redaction import Trace
from combee.swarm import Lessons, PolicyModel, Reply, Swarm, View, World, totals
from combee.swarm.config import build, read_swarm_file
from combee.swarm.example import DESKS, write_rehearsal
from combee.swarm.learning import HeldOutTasks, SwarmGenerator, SwarmTasks, addressed
from combee.swarm.traces import question_trace
from combee.tasks import Exact, TaskSet
from combee.tasks import load as load_tasks
from combee.traces.mining import MiningReflector

from .conftest import office
from .test_lessons import BOOK


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small rehearsal after three rounds; tests that change it take a copy."""
    file = write_rehearsal(tmp_path_factory.mktemp("rehearsal") / "r", desks=DESKS[:4])
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("window = 2000", "window = 1000"), encoding="utf-8")  # so few desks learn a small book
    assert run(["swarm", "learn", str(file), "--rounds", "3", "--quiet"]) == 0
    return file.parent


@pytest.fixture
def copied(learned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(learned, tmp_path / "copy"))


def tasks_in(folder: Path) -> TaskSet:
    return load_tasks(str(folder / "tasks"))


def test_each_round_scores_better_and_the_controls_say_why(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    command = ["swarm", "learn", str(copied / "swarm.toml"), "--rounds", "3", "--controls", "--json"]
    assert run(command) == 0
    told = json.loads(capsys.readouterr().out)
    right = [row["held_out"][0] / row["held_out"][1] for row in told["rounds"]]
    assert told["start"][0] / told["start"][1] < 0.5
    assert right[0] > 0.5
    assert right[-1] > 0.8
    assert [row["training"][0] for row in told["rounds"]] == sorted(row["training"][0] for row in told["rounds"])
    none, view, blind, whole, larger = told["controls"]
    assert view["hits"] / view["total"] > max(none["hits"], blind["hits"]) / view["total"] + 0.3
    assert whole["full"] == 4
    assert whole["hits"] == 0
    assert abs(larger["hits"] - view["hits"]) < 0.1 * view["total"]
    assert larger["tokens"] > 5 * view["tokens"]
    assert run(command) == 0  # again: nothing is asked, and the same is said
    again = json.loads(capsys.readouterr().out)
    assert again["calls"]["bought"] == 0
    assert {**again, "calls": 0} == {**told, "calls": 0}


def test_lessons_that_were_named_have_votes_and_the_run_can_be_looked_into(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = load(copied / "learned" / "playbook.json")
    assert max(bullet.helpful for bullet in book) > 5
    assert sum(bullet.harmful for bullet in book) == 0  # nothing moved: who read where a lesson says was right
    best = max(book, key=lambda bullet: bullet.helpful)
    for command in (["why", str(copied / "learned"), best.id], ["versions", str(copied / "learned")]):
        assert run(command) == 0
    assert "case-" in capsys.readouterr().out
    assert (copied / "learned" / "report.html").exists()


def test_the_other_commands_go_by_what_was_learned(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = next(
        task for task in tasks_in(copied).test if task.question.startswith(f"@{DESKS[0]} Look into the fees")
    )  # a question that was never learned from
    world = str(copied / "swarm.sqlite")
    with World.open(world) as opened:
        opened.set_meta("file", str(copied / "swarm.toml"))
    capsys.readouterr()
    assert run(["swarm", "ask", DESKS[0], addressed(task.question, "")[1], "--world", world]) == 0
    assert re.fullmatch(rf"{task.target} \[\S+\]\n", capsys.readouterr().out)


def score(folder: Path, book: Playbook, lessons: Lessons) -> float:
    described = read_swarm_file(folder / "swarm.toml")
    tasks = tasks_in(folder)
    with World.open(described.world) as world:
        swarm = build(described, world)
        before, agents = totals(world), world.agents(forks=True)
        exam = HeldOutTasks(swarm, tasks.test, tasks.scorer, "")
        found = asyncio.run(exam.score(book, MemoryScope(), lessons))
        assert (totals(world), world.agents(forks=True)) == (before, agents)  # held-out tasks leave nothing behind
    assert found.evaluation.complete
    return found.evaluation.accuracy or 0


def test_what_agents_do_hangs_on_the_words_of_their_views(copied: Path) -> None:
    book = load(copied / "learned" / "playbook.json")
    lessons = Lessons(book, 160)
    places = {bullet.id: re.findall(r"`path` was `([^`]+)`", bullet.text)[0] for bullet in book}
    shifted = dict(zip(places, [*list(places.values())[7:], *list(places.values())[:7]], strict=True))
    wrong = replace(book, bullets=tuple(
        replace(bullet, text=bullet.text.replace(f"was `{places[bullet.id]}`", f"was `{shifted[bullet.id]}`"))
        for bullet in book
    ))  # fmt: skip
    right, misled, none = (
        score(copied, book, lessons),
        score(copied, wrong, lessons),
        score(copied, Playbook(), lessons),
    )
    assert right > 0.8
    assert misled < 0.5
    assert none < 0.5


def test_a_view_without_the_role_is_not_enough(copied: Path) -> None:
    """The questions name a kind of book, not whose it is: that is in the role alone."""
    book = load(copied / "learned" / "playbook.json")

    class RoleBlind(Lessons):
        def view(self, role: str, question: str) -> Playbook:
            return super().view("", question)

    assert score(copied, book, RoleBlind(book, 60)) < score(copied, book, Lessons(book, 60)) - 0.1


def test_killed_between_two_thoughts_it_goes_on_to_the_same_playbook(tmp_path: Path) -> None:
    file = write_rehearsal(tmp_path / "r", desks=DESKS[:1])
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("combee.swarm.example:agent", "killed_agent:agent"), encoding="utf-8")
    command = [sys.executable, "-m", "combee", "swarm", "learn", str(file), "--rounds", "2", "--json"]

    def learn(at: int) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "KILL_AT": str(at)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert learn(60).returncode == -9
    resumed = learn(0)
    assert resumed.returncode == 0, resumed.stderr
    book = (file.parent / "learned" / "playbook.json").read_bytes()
    with World.open(file.parent / "swarm.sqlite", read_only=True) as world:
        keys = world.rows("SELECT key FROM mail WHERE kind = 'ask'")
        assert len(keys) == 2 * len(tasks_in(file.parent).train)  # each question was put once, also the one in flight
    for name in ("learned", "swarm.sqlite"):
        path = file.parent / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert learn(0).returncode == 0
    assert (file.parent / "learned" / "playbook.json").read_bytes() == book


def test_ctrl_c_with_json_prints_the_keys_of_any_end_and_the_same_command_goes_on(tmp_path: Path) -> None:
    file = write_rehearsal(tmp_path / "r", desks=DESKS[:2])
    file.write_text(file.read_text(encoding="utf-8").replace("combee.swarm.example", "killed_agent"), encoding="utf-8")
    command = [sys.executable, "-m", "combee", "swarm", "learn", str(file), "--rounds", "2", "--json"]

    def learn(at: int) -> tuple[int, dict[str, object], str]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "KILL_WITH": "SIGINT",
            "KILL_AT": str(at),
        }
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, json.loads(done.stdout), done.stderr

    code, stopped, said = learn(260)  # replies: in the second round
    assert code == 130
    assert "The same command goes on" in said
    assert stopped["reason"] == "interrupted"
    rows = stopped["rounds"]
    assert isinstance(rows, list)
    assert len(rows) == 1
    code, whole, _ = learn(0)
    assert (code, whole["reason"]) == (0, "completed")
    assert set(stopped) == set(whole)
    assert isinstance(whole["rounds"], list)
    assert whole["rounds"][0] == rows[0] | {"held_out": whole["rounds"][0]["held_out"]}


def test_it_goes_on_only_with_the_tasks_and_rounds_it_began_with(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["swarm", "learn", str(copied / "swarm.toml"), "--rounds", "2"]) == 2
    assert "epochs changed since" in capsys.readouterr().err
    assert run(["swarm", "learn", str(copied / "swarm.toml"), "--max-calls", "5"]) == 2
    assert "--max-calls does nothing without a model that reflects" in capsys.readouterr().err
    file = copied / "tasks" / "train.jsonl"
    file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[1:]), encoding="utf-8")
    assert run(["swarm", "learn", str(copied / "swarm.toml"), "--rounds", "3"]) == 2
    assert "error: tasks changed since" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('source = "tasks"', 'sorce = "tasks"', "Did you mean 'source'"),
        ("[learn]", "[options]", "[options] has no key 'view_tokens'"),
        ('name = "billing"', 'name = "bill"', "is for 'billing', who is not described"),
        ("epochs = 4", 'epochs = "four"', 'swarm.toml:15: epochs in [learn] cannot be "four"'),
        ("window = 2000", "window = 0", "window in [[agents]] cannot be 0"),
        ("view_tokens = 160", "view_tokens = true", "view_tokens in [learn] cannot be true"),
    ],
)
def test_a_wrong_description_is_said_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, says: str
) -> None:
    file = write_rehearsal(tmp_path / "r", desks=DESKS[:1])
    file.write_text(file.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    assert run(["swarm", "learn", str(file)]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "r" / "learned").exists()
    assert not (tmp_path / "r" / "swarm.sqlite").exists()
    assert run(["swarm", "init", str(tmp_path / "r")]) == 2


def test_lessons_come_within_a_round_where_the_batch_is_smaller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_rehearsal(tmp_path / "r", desks=DESKS[:1])
    text = file.read_text(encoding="utf-8").replace("epochs = 4", "epochs = 1\nbatch = 5")
    file.write_text(text, encoding="utf-8")
    assert run(["swarm", "learn", str(file), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rounds"]
    assert [(row["round"], row["step"], row["training"][1]) for row in rows] == [(1, 0, 5), (1, 1, 5), (1, 2, 5)]
    assert all(row["held_out"] is not None for row in rows)
    assert rows[2]["bullets"] > rows[0]["bullets"]


class SaysNothing:
    """A reflector without a lesson, so that the votes are those of the loop itself."""

    async def reflect_trace(self, trace: Trace, playbook: Playbook, scope: object) -> Reflection | None:
        return None


def sampled(world: World, policy: object, task: Task, book: Playbook) -> tuple[str, bool | None]:
    swarm = Swarm(world, {"": PolicyModel(policy)})  # type: ignore[arg-type]  # a policy
    world.spawn("ann")
    crew = SwarmGenerator(swarm, to="ann", lessons=Lessons(Playbook()))
    found = asyncio.run(SwarmTasks(crew, SaysNothing(), Exact(), "r")(task, book, MemoryScope(), 0))
    if found.reflection is None:
        return "", None
    return found.reflection.votes[0].bullet, found.reflection.votes[0].kind is VoteKind.HELPFUL


def test_what_an_answer_names_gets_a_vote_by_its_score_and_is_no_part_of_the_answer(world: World) -> None:
    name = BOOK.bullets[3].id
    for answer, helpful in (("f03", True), ("f04", False)):
        voted = sampled(world, lambda _, a=answer: f"{a} [{name}] [kept]"[: len(a) + len(name) + 3],
                        Task("t" + answer, "Where is the dynamo?", "f03"), BOOK)  # fmt: skip
        assert voted == (name, helpful)
    assert sampled(world, lambda _: "f03", Task("none", "Where?", "f03"), BOOK) == ("", None)


def test_a_model_that_fails_is_no_wrong_answer_and_a_full_agent_is(world: World) -> None:
    class Down:
        slow = True

        async def reply(self, view: View) -> Reply:
            raise CallError("the endpoint is down", kind=CallErrorKind.SERVER)

    swarm = Swarm(world, {"": PolicyModel(lambda view: "ok"), "down": Down()})
    world.spawn("ann", role="down")
    world.spawn("bob", window=5)
    crew = SwarmGenerator(swarm, to="ann", lessons=Lessons(Playbook()))
    with pytest.raises(CallError, match="the endpoint is down"):
        asyncio.run(crew.work(Task("a", "?", "x"), Playbook(), key="a"))
    done = asyncio.run(crew.work(Task("b", f"@bob {'long ' * 50}", "x"), Playbook(), key="b"))
    assert done.answer == ""
    with pytest.raises(UsageError, match="not there"):
        asyncio.run(crew.work(Task("c", "@eve ?", "x"), Playbook(), key="c"))


def test_the_trace_of_a_question_holds_what_others_did_for_it_and_nothing_else(world: World) -> None:
    swarm = Swarm(world, {"": PolicyModel(office)})
    world.spawn("ann", role="reader")
    world.spawn("wes", role="worker", mode="serial")
    swarm.tell("ann", "doc/0000..0009")
    first, second = (swarm.ask("user", f"find {number:04d}", to="wes") for number in (3, 4))
    asyncio.run(swarm.run())
    traces = [question_trace(world, number, name=f"q{number}", task="find") for number in (first, second)]
    texts = ["\n".join(step.text for step in trace.steps) for trace in traces]
    assert "value of 0003" in texts[0]
    assert "v0021" in texts[0]
    assert "0004" not in texts[0].replace("k0004", "")
    assert "value of 0004" in texts[1]
    assert {step.agent for step in traces[0].steps} == {None, "ann"}
    assert traces[0].meta["role"] == "worker"


def test_mined_lessons_come_from_what_the_agents_saw(learned: Path) -> None:
    described = read_swarm_file(learned / "swarm.toml")
    with World.open(described.world, read_only=True) as world:
        numbers = [row[0] for row in world.rows("SELECT id FROM mail WHERE kind = 'ask' ORDER BY id")]
        found = [question_trace(world, number, name="t", task="?") for number in numbers[:20]]
    mined = 0
    for trace in found:
        assert trace.steps[-1].role == "assistant"
        reads = [json.loads(call.arguments)["path"] for step in trace.steps for call in step.tool_calls]
        assert reads[0].split("/")[-2] in DESKS
        reflection = asyncio.run(MiningReflector().reflect_trace(trace, Playbook(), MemoryScope()))
        if reflection is not None:
            mined += 1
            assert reads[-1] in reflection.lessons[0]
            assert reads[0] in reflection.lessons[0]
    assert 0 < mined < len(found)
