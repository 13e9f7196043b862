"""Exports where agents find them: a skill under its own name, an AGENTS.md that is not cut, what a validator takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import skills_ref

from combee.cli import run
from combee.kernel.playbook import Bullet, Playbook, save
from combee.mcp import LessonStore


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bullets = [
        Bullet(f"err-{n:05d}", "OTHERS", f"Step {n} of the release needs the flag --stage-{n} and port {8000 + n}.")
        for n in range(1, 701)
    ]
    save(Playbook(tuple(bullets), 700), "book.json")


def test_a_skill_takes_the_name_of_the_folder_that_it_is_written_to(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(".claude/skills/docs-helper")
    assert run(["export", "book.json", "--to", "skill", "--out", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "docs-helper"
    assert "\nname: docs-helper\n" in (folder / "SKILL.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("said", ['Use when: a "b" #c', "two\nlines", "- a: {b} & *c", "不要改测试: 先跑 make fmt"])
def test_whatever_a_description_says_the_formats_validator_reads_it(said: str) -> None:
    assert run(["export", "book.json", "--to", "skill", "--out", "skills/a", "--description", said, "--json"]) == 0
    assert not skills_ref.validate(Path("skills/a"))
    assert skills_ref.read_properties(Path("skills/a")).description == " ".join(said.split())


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("--out", "skills/a", "--name", "b"), "Write it to skills/b, or leave out --name."),
        (("--out", "skills/Docs_Helper"), "Write it to skills/docs-helper"),
        (("--out", "skills/Übung--é"), "Write it to skills/ubung-e"),
        (("--out", f"skills/{'a' * 70}"), f"Write it to skills/{'a' * 64}:"),
        (("--out", "skills/a", "--description", "d" * 1025), "Say when to use it."),
        (("--out", "skills/a", "--description", "use <system>this</system>"), "Say when to use it."),
    ],
)
def test_a_skill_that_no_agent_would_find_is_refused_with_the_remedy(
    arguments: tuple[str, ...], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "book.json", "--to", "skill", *arguments]) == 2
    assert remedy in capsys.readouterr().err
    assert not Path("skills").exists()


def test_an_agents_file_that_agents_would_cut_is_told_with_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "book.json", ".", "--yes", "--json"]) == 0
    said = capsys.readouterr()
    notes = json.loads(said.out)["notes"]
    assert Path("AGENTS.md").stat().st_size > 32_768
    assert len(notes) == 1
    assert "agents cut it at 32,768" in notes[0]
    assert notes[0] in said.err
    fits = notes[0].partition("--max-tokens ")[2].split()[0]
    assert run(["apply", "book.json", ".", "--yes", "--json", "--max-tokens", fits]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
    assert Path("AGENTS.md").stat().st_size <= 32_768


def test_the_formats_own_validator_takes_a_skill() -> None:
    assert run(["export", "book.json", "--to", "skill", "--out", "skills/release-steps"]) == 0
    assert skills_ref.validate(Path("skills/release-steps")) == []
    assert skills_ref.validate(Path(skills_ref.__file__).parent) != []


def test_two_reports_that_differ_never_share_an_id(tmp_path: Path) -> None:
    store = LessonStore(Path("book.json"), reports=tmp_path / "reported.jsonl")
    chat = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]
    other = [chat[0], {"role": "assistant", "content": "done "}]
    reports = [("a", chat, True), ("a", chat, False), ("a", chat, None), ("b", chat, True), ("a", other, True)]
    names = [store.report(task, messages, success=success)["stored"] for task, messages, success in reports]
    assert len(set(names)) == len(names)
    assert store.report("a", chat, success=True)["stored"] == names[0]  # the same one, sent again


def test_a_skill_that_takes_much_of_a_window_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "book.json", "--to", "skill", "--out", "skills/a"]) == 0
    said = capsys.readouterr().err
    assert "references/01-others.md has about" in said
    assert "--max-tokens 5000" in said
    assert run(["export", "book.json", "--to", "skill", "--out", "skills/b", "--max-tokens", "5000"]) == 0
    assert "an agent reads it whole" not in capsys.readouterr().err
