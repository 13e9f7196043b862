"""What commands say to somebody new: names that can be typed, dates, one figure an epoch, the right order of words."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from combee.cli import run
from combee.cli.main import COMMANDS
from combee.kernel.playbook import Bullet, Playbook, save
from combee.run import plugins
from combee.run.plugins import offered
from combee.run.words import program, typed, with_program


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


FEW = ("learn", "tags", "--train", "20", "--val", "0", "--test", "2", "--batch", "10")


def test_training_has_one_figure_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*FEW, "--epochs", "2", "--name", "two"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("training"))
    first, second = map(float, re.findall(r"\d\.\d{3}", line))
    assert first < second
    assert run([*FEW, "--name", "one"]) == 0
    assert f"training   {first:.3f} before learning from each sample\n" in capsys.readouterr().out


def test_runs_stand_in_the_order_of_their_last_change_and_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("z", "a"):
        assert run([*FEW, "--name", name, "--quiet"]) == 0
    capsys.readouterr()
    assert run(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines] == ["z", "a"]
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d  ", line) for line in lines)


def test_the_built_in_tasks_are_not_learned_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == 0
    assert run(["learn", *FEW[2:], "--name", "unasked"]) == 0
    assert "note: nothing was named to learn from" in capsys.readouterr().err
    assert run([*FEW, "--name", "asked"]) == 0
    assert "nothing was named" not in capsys.readouterr().err


def test_eval_of_a_file_of_tasks_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my.jsonl").write_text(json.dumps({"question": "q", "answer": "a"}), encoding="utf-8")
    assert run(["eval", "my.jsonl"]) == 2
    assert "eval takes RUN [TASKS]" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="makes a command by a link")
def test_a_command_that_the_shell_does_not_find_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Path("bin/combee")
    started.parent.mkdir()
    started.write_text("#!/bin/sh\n", encoding="utf-8")
    started.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(started), "demo"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == "bin/combee"
    monkeypatch.setenv("PATH", str(started.parent.resolve()))
    assert program() == "combee"
    monkeypatch.setattr(sys, "argv", ["/anywhere/combee/__main__.py"])
    assert shlex.split(program()) == [sys.executable, "-m", "combee"]


def test_a_benchmark_is_found_under_both_of_its_names() -> None:
    root = Path(__file__).parents[2]
    for name in ("bench_nothing", "nothing"):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", name], cwd=root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "There is no benchmark nothing." in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="makes a command by a link")
def test_commands_that_are_named_can_be_pasted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = Path("my tools/combee")
    started.parent.mkdir()
    started.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m combee "$@"\n', encoding="utf-8")
    started.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(started)])
    assert run([*FEW, "--out", "a run", "--quiet"]) == 0
    following = capsys.readouterr().out.partition("next ")[2].strip().split(" · ")
    assert run([*FEW, "--out", "a run"]) == 2  # there is a run in it already
    following += re.findall("`(.*?)`", capsys.readouterr().err)
    assert (
        run(
            [
                "forget",
                "a run",
                "--trace",
                json.loads(Path("a run/playbook.json").read_text())["bullets"][0]["sources"][0],
            ]
        )
        == 0
    )
    following += re.search("^next: (.*)$", capsys.readouterr().out, re.MULTILINE)[1].split(" · ")  # type: ignore[index]
    assert [shlex.split(line)[1] for line in following] == ["show", "eval", "resume", "diff", "promote"]
    for line in following:
        assert shlex.split(line)[:1] == ["my tools/combee"]
    for line in (following[0], following[3]):
        assert subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=False).returncode == 0


def test_a_hint_of_the_library_names_the_command_as_it_was_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("combee.run.words.program", lambda: "bin/combee")
    assert (
        with_program("Run `combee doctor` on it; combee is a name.")
        == "Run `bin/combee doctor` on it; combee is a name."
    )
    assert typed("show", "a b") == "bin/combee show 'a b'"
    assert run(["export", "none.json", "--to", "prompt", "--json"]) == 2
    save(Playbook(), Path("empty.json"))
    capsys.readouterr()
    assert run(["export", "empty.json", "--to", "prompt", "--json"]) == 2
    assert "`bin/combee learn`" in json.loads(capsys.readouterr().out)["error"]["message"]


def _bare_commands(source: Path) -> Iterator[str]:
    """Texts that name a command without backticks, other than docstrings, help, and notes in a journal."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    left_out: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in {"help", "short_help", "note"}:
            left_out |= set(ast.walk(node))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(node.value)
    names = [*COMMANDS, *offered(plugins.COMMANDS)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out:
            found = re.search(rf"(?<![`\w./-])combee ({'|'.join(names)})\b", node.value)
            if found:
                yield f"{source.name}:{node.lineno}: {found[0]}"


def test_every_command_that_is_named_goes_through_the_one_way_to_name_it() -> None:
    folder = Path(run.__code__.co_filename).parent
    assert [bare for source in sorted(folder.glob("*.py")) for bare in _bare_commands(source)] == []


def test_diff_tells_other_words_from_other_votes_and_other_sources(capsys: pytest.CaptureFixture[str]) -> None:
    one = [Bullet(f"misc-0000{n}", "OTHERS", f"Read unit {n} first.", sources=("t1",)) for n in range(1, 6)]
    save(Playbook(tuple(one), 6), Path("old.json"))
    new = [
        replace(one[0], sources=("t2",), last_used=3),
        replace(one[1], helpful=2, sources=("t2",)),
        replace(one[2], text="Read the sign."),
        replace(one[3], section="FORMULAS"),
        replace(one[4], id="misc-00009"),
    ]
    save(Playbook(tuple(new), 10), Path("new.json"))
    assert run(["diff", "old.json", "new.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "added": {"misc-00009": "Read unit 5 first."},
        "removed": {"misc-00005": "Read unit 5 first."},
        "changed": {
            "misc-00003": ["Read unit 3 first.", "Read the sign."],
            "misc-00004": ["(OTHERS) Read unit 4 first.", "(FORMULAS) Read unit 4 first."],
        },
        "votes_only": {"misc-00002": {"helpful": [0, 2], "harmful": [0, 0]}},
        "sources_only": ["misc-00001"],
    }
    assert run(["diff", "old.json", "new.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines[2:6]] == ["-", "~", "~", "+"]
    assert lines[6:] == ["votes only: [misc-00002] +0 -0 → +2 -0", "sources or steps only: 1 bullet"]


def test_bullets_of_two_runs_are_matched_by_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    said = [f"Read unit {number} first." for number in range(6)]
    for name, texts in (("old.json", said[:5]), ("new.json", said[:0:-1])):
        book = [Bullet(f"misc-0000{n}", "OTHERS", text) for n, text in enumerate(texts, 1)]
        save(Playbook(tuple(book), 6), Path(name))
    assert run(["diff", "old.json", "new.json"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [f"- [misc-00001] {said[0]}", f"+ [misc-00001] {said[5]}"]


def test_a_book_and_its_text_form_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*FEW, "--name", "one", "--quiet"]) == 0
    capsys.readouterr()
    assert run(["diff", "one", "runs/one/playbook.md"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("sources or steps only: ")
    assert run(["diff", "one", "one"]) == 0
    assert capsys.readouterr().out.endswith("no difference\n")
