from __future__ import annotations

from pathlib import Path

import pytest

from combee.ace import PLACEHOLDERS, Prompts
from combee.errors import UsageError


def write(folder: Path, name: str, text: str) -> Path:
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_our_prompts_have_all_their_placeholders_and_leave_none_open(name: str) -> None:
    must, may = PLACEHOLDERS[name]
    messages = Prompts.load()[name].render({key: f"<{key}>" for key in must | may})
    text = "\n".join(message.content for message in messages)
    assert [message.role for message in messages] == ["system", "user"]
    assert "{{" not in text
    assert all(f"<{key}>" in text for key in must)


@pytest.mark.parametrize("name", ["generator", "curator", "combine"])
def test_what_stays_the_same_comes_first_and_the_playbook_ends_it(name: str) -> None:
    must, may = PLACEHOLDERS[name]
    system, user = Prompts.load()[name].render({key: f"<{key}>" for key in must | may})
    assert system.content.endswith("<playbook>")
    assert "<playbook>" not in user.content


@pytest.mark.parametrize("name", sorted({*PLACEHOLDERS} - {"generator"}))
def test_lessons_are_written_in_the_language_of_what_they_come_from(name: str) -> None:
    must, may = PLACEHOLDERS[name]
    system, _ = Prompts.load()[name].render({key: f"<{key}>" for key in must | may})
    assert " in the language of the " in system.content


def test_a_prompt_of_the_users_stands_in_for_ours_and_changes_the_digest(tmp_path: Path) -> None:
    ours = Prompts.load()
    mine = Prompts.load(write(tmp_path, "generator", "--- system ---\nBook {{playbook}}\n--- user ---\nQ {{ task }}"))
    assert [message.content for message in mine["generator"].render({"playbook": "B", "task": "T"})] == [
        "Book B",
        "Q T",
    ]
    assert mine["curator"] == ours["curator"]
    assert mine.digest != ours.digest


def test_a_placeholder_inside_a_value_is_not_filled() -> None:
    messages = Prompts.load()["generator"].render({"playbook": "{{task}}", "task": "secret"})
    assert "secret" not in messages[0].content
    assert "{{task}}" in messages[0].content


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("generator", "--- system ---\n{{playbook}}\n--- user ---\nno task", "{{task}}"),
        ("generator", "--- system ---\n{{playbook}} {{target}}\n--- user ---\n{{task}}", "{{target}}"),
        ("generator", "{{playbook}} {{task}}", "two parts"),
        ("curator", "--- system ---\n{{playbok}}\n--- user ---\n{{reflections}}", "{{playbook}}"),
        ("generatr", "--- system ---\n--- user ---\n", "generator.md"),
    ],
)
def test_a_prompt_that_cannot_work_is_refused_by_name(tmp_path: Path, name: str, text: str, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        Prompts.load(write(tmp_path, name, text))
    assert named in str(caught.value)
    assert f"{name}.md" in str(caught.value)


def test_an_empty_or_missing_folder_of_prompts_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError):
            Prompts.load(folder)
