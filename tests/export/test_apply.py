"""Into a repository: one block, idempotent, every other byte untouched, nothing outside, nothing half written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import StorageError, UsageError
from combee.export import BEGIN, END, File, changes, diff_of, export, put_block, write
from combee.kernel.playbook import Bullet, Playbook

BLOCK = f"{BEGIN}\n## OTHERS\n[m-00001] helpful=0 harmful=0 :: x\n{END}\n"
BODIES = st.text(alphabet="ab #\n\r", max_size=60).map(str.encode)


@given(BODIES)
def test_the_block_goes_in_once_and_leaves_the_rest_alone(body: bytes) -> None:
    once = put_block(body, BLOCK)
    assert put_block(once, BLOCK) == once
    assert once.startswith(body)
    newer = put_block(once, BLOCK.replace("x", "y"))
    assert newer.startswith(body)
    assert newer.count(BEGIN.encode()) == 1
    assert newer.replace(b"\r\n", b"\n").endswith(BLOCK.replace("x", "y").encode())


def test_line_ends_of_the_file_are_kept() -> None:
    body = b"\xef\xbb\xbf# Rules\r\n\r\nBe kind.\r\n"
    new = put_block(body, BLOCK)
    assert new.startswith(body)
    assert b"\n" not in new.replace(b"\r\n", b"")
    assert new.endswith(BLOCK.replace("\n", "\r\n").encode())
    middle = new + b"\r\nAfter.\r\n"
    assert put_block(middle, BLOCK.replace("x", "yy")).endswith(b"\r\nAfter.\r\n")


@pytest.mark.parametrize("body", [f"{BEGIN}\nx\n", f"{END}\n", f"{END}\n{BEGIN}\n", BLOCK + BLOCK])
def test_broken_marks_are_told_and_not_guessed(body: str) -> None:
    with pytest.raises(UsageError, match=r"Leave one pair|holds"):
        put_block(body.encode(), BLOCK)


def test_a_mark_inside_a_line_is_no_mark() -> None:
    body = f"We use `{BEGIN}` here.\n".encode()
    assert put_block(body, BLOCK).startswith(body)


def test_a_change_is_shown_and_written_in_one_step(tmp_path: Path) -> None:
    target = tmp_path / "AGENTS.md"
    target.write_bytes(b"# Rules\n")
    target.chmod(0o640)
    found = changes(tmp_path, [File("AGENTS.md", BLOCK)], into_block=True)
    assert "+[m-00001] helpful=0 harmful=0 :: x" in diff_of(found)
    write(found, tmp_path)
    assert target.read_bytes() == b"# Rules\n\n" + BLOCK.encode()
    assert target.stat().st_mode & 0o777 == 0o640
    assert changes(tmp_path, [File("AGENTS.md", BLOCK)], into_block=True) == ()
    assert [path.name for path in tmp_path.iterdir()] == ["AGENTS.md"]


@pytest.mark.parametrize("path", ["../x.md", "/etc/x.md", "a/../../x.md", ".git/hooks/x"])
def test_nothing_is_written_outside(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match=r"leads out|\.git"):
        changes(tmp_path, [File(path, BLOCK)])


def test_links_that_lead_out_are_refused_also_at_the_last_moment(tmp_path: Path) -> None:
    repo, outside = tmp_path / "repo", tmp_path / "outside"
    repo.mkdir()
    outside.mkdir()
    (repo / ".cursor").symlink_to(outside)
    with pytest.raises(UsageError, match="leads out"):
        changes(repo, [File(".cursor/rules/x.mdc", BLOCK)])
    (repo / ".cursor").unlink()
    found = changes(repo, [File(".cursor/rules/x.mdc", BLOCK)])
    (repo / ".cursor").symlink_to(outside)
    with pytest.raises(UsageError, match=r"leads out|changed meanwhile"):
        write(found, repo)
    assert list(outside.iterdir()) == []


def test_a_file_that_changed_after_the_diff_or_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    found = changes(tmp_path, [File("AGENTS.md", BLOCK)], into_block=True)
    (tmp_path / "AGENTS.md").write_text("mine\n")
    with pytest.raises(UsageError, match="changed meanwhile"):
        write(found, tmp_path)
    with pytest.raises(UsageError, match="not ours"):
        changes(tmp_path, [File("AGENTS.md", BLOCK)])
    assert (tmp_path / "AGENTS.md").read_text() == "mine\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into folders that are read-only")
def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    found = changes(tmp_path, [File("AGENTS.md", BLOCK)], into_block=True)
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="cannot be written"):
        write(found, tmp_path)


def test_what_says_how_to_read_the_lessons_comes_in_once_and_is_the_files_own_then() -> None:
    first = export(Playbook((Bullet("m-00001", "OTHERS", "x"),), 1), "agents")[0].text
    newer = export(Playbook((Bullet("m-00001", "OTHERS", "y"),), 1), "agents")[0].text
    legend = first[: first.index(BEGIN)]
    assert "how often a lesson helped" in legend
    for body in (b"", b"Mine.\n"):
        once = put_block(body, first)
        assert put_block(once, newer) == put_block(body, newer)
        own = once.replace(legend.encode(), b"In my words.\n")
        assert put_block(own, newer).startswith(own[: own.index(BEGIN.encode())])
