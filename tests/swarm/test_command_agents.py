"""Members of a swarm that are programs of the command line, played by scripts that behave like them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from combee.cli import run
from combee.swarm import World
from combee.swarm.command_agents import printed
from combee.swarm.state import SwarmState

PROGRAM = str(Path(__file__).with_name("coding_agent.py"))


def office(folder: Path, how: str, *, resume: bool = False, more: str = "", words: tuple[str, ...] = ()) -> Path:
    command = [sys.executable, PROGRAM, how, *words]
    lines = ["[[agents]]", 'name = "ann"', 'role = "coder"', 'kind = "command"', f"command = {json.dumps(command)}"]
    if resume:
        lines.append(f"resume = {json.dumps([*command, '--resume', '{session}'])}")
    lines += [more, "[[agents]]", 'name = "wes"', 'role = "other"']
    file = folder / "office.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def ask(file: Path, question: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    if not file.with_suffix(".sqlite").exists():
        assert run(["swarm", "run", str(file)]) == 0
        capsys.readouterr()
    code = run(["swarm", "ask", "ann", question, "--world", str(file)])
    caught = capsys.readouterr()
    return code, caught.out + caught.err


@pytest.mark.parametrize("how", ["claude", "codex"])
def test_a_program_that_names_its_session_is_resumed_and_told_what_is_new(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = office(tmp_path, how, resume=True)
    assert ask(file, "What is seven?", capsys) == (0, "heard 1: user asks: What is seven?\n")
    assert ask(file, "And eight?", capsys) == (0, "heard 2: user asks: And eight?\n")  # another process of ours
    (session,) = tmp_path.glob("*.session")
    first, second = session.read_text().split("\0")
    assert "You are ann, role coder." in first
    assert second == "user asks: And eight?"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert (calls[0], len(calls)) == (f"{how} ", 2)
    with World.open(file.with_suffix(".sqlite")) as world:
        told = [event.data["dollars"] for event in world.events("paid")]
        spent = world.rows("SELECT prompt, completion, estimated FROM spend WHERE purpose = 'ask'")
    assert told == ([0.25] * 2 if how == "claude" else [None] * 2)
    assert spent == [(10, 4, 0)] * 2 if how == "claude" else spent == [(7, 2, 0)] * 2


def test_one_that_names_no_session_is_told_everything_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = office(tmp_path, "plain")
    assert ask(file, "What is seven?", capsys)[1] == "heard 1: user asks: What is seven?\n"
    assert ask(file, "And eight?", capsys)[1] == "heard 1: user asks: And eight?\n"
    texts = [path.read_text() for path in tmp_path.glob("*.session")]
    assert sorted(text.count("What is seven?") for text in texts) == [1, 2]  # the answer repeats it


def test_the_prompt_may_stand_in_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = office(tmp_path, "argument", words=("{prompt}",))
    assert ask(file, '$(rm -rf /) `x` "y"', capsys)[1] == 'heard 1: user asks: $(rm -rf /) `x` "y"\n'
    with World.open(file.with_suffix(".sqlite")) as world:
        SwarmState(world, {}).put("user", "seven\0eight", to="ann")
    assert run(["swarm", "run", str(file)]) == 0
    assert "seven\N{REPLACEMENT CHARACTER}eight" in (tmp_path / "heard").read_text()
    for question in ("long " * 30_000, "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 50_000):
        code, said = ask(file, question, capsys)
        assert (code, "too long for the command line" in said) == (1, True)


def test_a_program_uses_tools_of_the_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = office(tmp_path, "tool", resume=True)
    assert ask(file, "Open one", capsys) == (0, "done\n")
    first, second = (tmp_path / "calls").read_text().splitlines()
    assert (first, second[: len("tool --resume s")]) == ("tool ", "tool --resume s")
    with World.open(file.with_suffix(".sqlite")) as world:
        assert world.rows("SELECT title, author FROM issues") == [("from a program", "ann")]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("error", "I lost the thread"),
        ("crash", "ended with code 3: Traceback: it broke"),
        ("broken", "it printed broken JSON"),
        ("silent", "it printed no answer"),
    ],
)
def test_a_failure_is_reported_with_its_reason_and_never_an_answer(
    how: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = ask(office(tmp_path, how), "What is seven?", capsys)
    assert (code, why in said, "No answer:" in said) == (1, True, True), said


@pytest.mark.parametrize("how", ["limit", "limit-2"])
def test_a_limit_of_its_provider_ends_no_task(how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = office(tmp_path, how)
    code, said = ask(file, "What is seven?", capsys)
    assert (code, "usage limit reached" in said, "No answer yet." in said) == (1, True, True)
    office(tmp_path, "plain")
    assert run(["swarm", "run", str(file)]) == 0
    with World.open(file.with_suffix(".sqlite")) as world:
        assert world.rows("SELECT body FROM mail WHERE kind = 'answer'") == [("heard 1: user asks: What is seven?",)]


def left_over(folder: Path) -> str:
    """Return the numbers of the processes that a program left where it works, after some time to end."""
    for _ in range(100):
        words = ["pgrep", "-f", f"left-over-{folder}$"]
        if not (left := subprocess.run(words, capture_output=True, text=True, check=False).stdout):
            break
        time.sleep(0.1)
    return left


@pytest.mark.parametrize("how", ["hang", "deaf"])
def test_one_that_hangs_is_killed_with_all_that_it_started(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = ask(office(tmp_path, how, more="timeout = 1.5"), "What is seven?", capsys)
    assert (code, "gave no answer in 1.5 s and was killed" in said) == (1, True), said
    assert left_over(tmp_path) == ""


@pytest.mark.parametrize("how", ["leaves", "escapes"])
def test_an_answer_is_not_waited_for_because_a_child_holds_the_output(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = office(tmp_path, how, more="timeout = 9")
    assert ask(file, "What is seven?", capsys) == (0, "left a child\n")
    assert how == "escapes" or left_over(tmp_path) == ""


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_a_program_ends_with_us_and_the_question_is_asked_again(
    stop: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = office(tmp_path, "hang")
    assert run(["swarm", "run", str(file)]) == 0
    words = [sys.executable, "-m", "combee", "swarm", "ask", "ann", "What is seven?", "--world", str(file)]
    asking = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    while not (tmp_path / "hanging").exists():
        assert asking.poll() is None
        time.sleep(0.05)
    os.kill(asking.pid, stop)
    asking.communicate(timeout=60)
    assert left_over(tmp_path) == ""
    office(tmp_path, "plain")
    assert run(["swarm", "run", str(file)]) == 0
    with World.open(file.with_suffix(".sqlite")) as world:
        assert world.rows("SELECT body FROM mail WHERE kind = 'answer'") == [("heard 1: user asks: What is seven?",)]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("how", "code", "why"),
    [
        ("floods", 1, "it printed more than 8 MiB"),
        ("binary", 0, "ABC"),
        ("hurried", 0, "answered unread"),
    ],
)
def test_odd_programs_end_no_run(
    how: str, code: int, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done, said = ask(office(tmp_path, how), "What is seven?" * 20_000, capsys)
    assert (done, why in said) == (code, True), said[:400]


@pytest.mark.parametrize("session", ["--dangerously-skip-permissions", "-x", "a b", "a\nb", "../x"])
def test_a_session_that_a_model_may_have_written_is_never_an_option(
    session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = office(tmp_path, "attack", resume=True, words=(session,))
    for question in ("What is seven?", "And eight?"):
        assert ask(file, question, capsys) == (0, f"heard 1: user asks: {question}\n")
    assert "--resume" not in (tmp_path / "calls").read_text()
    with World.open(file.with_suffix(".sqlite")) as world:
        assert [event.data["dollars"] for event in world.events("paid")] == [None, None]
        assert all(prompt >= 0 for (prompt,) in world.rows("SELECT prompt FROM spend"))


def test_a_session_that_is_gone_is_begun_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = office(tmp_path, "forgets", resume=True)
    assert ask(file, "What is seven?", capsys)[0] == 0
    code, said = ask(file, "And eight?", capsys)
    assert (code, "No conversation found" in said) == (1, True)
    assert ask(file, "And nine?", capsys) == (0, "heard 1: user asks: And nine?\n")


def test_two_members_may_be_one_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = office(tmp_path, "claude", resume=True)
    whole = file.read_text()
    file.write_text(f"{whole}\n{whole.split('[[agents]]')[1].join(['[[agents]]', '']).replace('ann', 'bob')}")
    file.write_text(file.read_text().replace('"bob"\nrole = "coder"', '"bob"\nrole = "second"'))
    assert ask(file, "What is seven?", capsys)[1] == "heard 1: user asks: What is seven?\n"
    for who, heard in (("bob", 1), ("ann", 2), ("bob", 2)):
        assert run(["swarm", "ask", who, "And eight?", "--world", str(file)]) == 0
        assert capsys.readouterr().out == f"heard {heard}: user asks: And eight?\n"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('kind = "command"\n', ""), 'is no program\n  Add kind = "command".'),
        (("command = ", "# "), "ann has no command"),
        (('role = "coder"\n', 'role = "coder"\nmode = "fork"\n'), "A program has no copies"),
        (('role = "other"', 'role = "coder"'), "have one role"),
        (("{session}", "x"), "nothing in it stands for the session"),
        (((f'["{sys.executable}"', '["no-such-program"')), "there is no program 'no-such-program'"),
        (('role = "coder"\n', 'role = "coder"\nfolder = "nowhere"\n'), "which is no folder"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_made(
    change: tuple[str, str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = office(tmp_path, "claude", resume=True)
    file.write_text(file.read_text().replace(*change))
    assert run(["swarm", "run", str(file)]) == 2
    assert why in capsys.readouterr().err
    assert not file.with_suffix(".sqlite").exists()


@pytest.mark.parametrize(
    ("output", "text", "session", "error"),
    [
        ("plain\ntext\n", "plain\ntext", "", ""),
        ('{"response": "hi", "session_id": "a", "stats": {}}', "hi", "a", ""),
        ('[{"type": "system", "session_id": "b"}, {"result": "yes", "is_error": false}]', "yes", "b", ""),
        ('{"type": "error", "message": "no key"}', "no key", "", "no key"),
        ("[x] is what I did", "[x] is what I did", "", ""),
        ('{"result": "hi", "session_id": "{prompt}"}', "hi", "", ""),
        ('{"result": "hi", "session_id": {"a": 1}}', "hi", "", ""),
        ('{"limit": 5}', '{"limit": 5}', "", ""),
        ('{"type": "error", "message": "reconnecting"}\n{"text": "ok"}\n{"type": "turn.completed"}', "ok", "", ""),
        ('{"thread_id": "c"}\nnoise\n{"item": {"type": "agent_message", "text": "ok"}}', "ok", "c", ""),
    ],
)  # fmt: skip
def test_what_programs_print(output: str, text: str, session: str, error: str) -> None:
    said = printed(output)
    assert (said.text, said.session, said.error) == (text, session, error)
