from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from combee.errors import DataError, StorageError, UsageError
from combee.kernel.playbook import Bullet, Playbook, load, read, save

BOOK = Playbook((Bullet("misc-00001", "OTHERS", "Σ 😀 a\nb", 2, 1, ("r1",), 3, 4),), 5, "words")


@pytest.mark.parametrize("name", ["book.json", "book.JSON"])
def test_json_on_disk_is_lossless(tmp_path: Path, name: str) -> None:
    save(BOOK, tmp_path / name)
    assert load(tmp_path / name) == BOOK
    assert [path.name for path in tmp_path.iterdir()] == [name], "no temporary file stays"


@pytest.mark.parametrize("name", ["book.md", "book.txt"])
def test_text_on_disk_keeps_what_text_keeps(tmp_path: Path, name: str) -> None:
    save(BOOK, tmp_path / name)
    assert load(tmp_path / name) == Playbook((Bullet("misc-00001", "OTHERS", "Σ 😀 a\nb", 2, 1),), 5, "words")


@pytest.mark.parametrize("name", ["book.json", "book.md"])
def test_files_are_utf8_under_any_locale_and_lone_surrogates_are_replaced(tmp_path: Path, name: str) -> None:
    code = (
        "import sys; from combee.kernel.playbook import *;"
        "save(Playbook((Bullet('misc-00001', 'OTHERS', '\\u03a3 \\U0001f600 \\ud800'),), 1), sys.argv[1])"
    )
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / name)], env=env, capture_output=True, text=True, check=True
    )
    assert "lone surrogate" in done.stderr
    assert "Σ 😀 \ufffd" in (tmp_path / name).read_bytes().decode("utf-8")


@pytest.mark.parametrize("name", ["book.json", "book.md"])
def test_when_the_disk_is_full_the_old_file_still_loads(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    save(BOOK, path)
    before = path.read_bytes()
    # A limit on the size of files stands for the full disk: the write really fails in the middle.
    code = (
        "import resource, signal, sys\n"
        "from combee.errors import StorageError\n"
        "from combee.kernel.playbook import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try: save(Playbook((Bullet('misc-00001', 'OTHERS', 'x' * 50_000),)), sys.argv[1])\n"
        "except StorageError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert "unchanged" in done.stdout
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [name]
    load(path)


def test_a_folder_without_permission_is_a_clear_error(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(StorageError, match="cannot be written"):
        save(BOOK, locked / "book.json")


def test_a_link_keeps_pointing_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "v1.json").write_text("{}")
    (tmp_path / "latest.json").symlink_to("v1.json")
    save(BOOK, tmp_path / "latest.json")
    assert (tmp_path / "latest.json").is_symlink()
    assert load(tmp_path / "v1.json") == BOOK


@pytest.mark.parametrize(
    ("content", "line", "column"), [(b"ab\nc\xffd", 2, 2), (b"\xff", 1, 1), ("Σ".encode("utf-16"), 1, 1)]
)
@pytest.mark.parametrize("name", ["book.json", "book.md"])
def test_a_file_that_is_not_utf8_names_the_place(
    tmp_path: Path, name: str, content: bytes, line: int, column: int
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="not UTF-8") as caught:
        load(tmp_path / name)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(tmp_path / name) in str(caught.value)


def test_bom_and_crlf_are_read(tmp_path: Path) -> None:
    (tmp_path / "book.md").write_bytes(b"\xef\xbb\xbf## OTHERS\r\n[misc-00001] helpful=1 harmful=0 :: x\r\n")
    assert load(tmp_path / "book.md").bullets == (Bullet("misc-00001", "OTHERS", "x", 1),)
    save(BOOK, tmp_path / "book.json")
    (tmp_path / "book.json").write_bytes(
        b"\xef\xbb\xbf" + (tmp_path / "book.json").read_bytes().replace(b"\n", b"\r\n")
    )
    assert load(tmp_path / "book.json") == BOOK


def test_bad_places_are_clear_errors(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    for path in (tmp_path / "missing.json", tmp_path / "folder.json", tmp_path / "book.pdf", tmp_path / "none"):
        with pytest.raises(UsageError):
            load(path)
    for path in (tmp_path / "no" / "book.json", tmp_path / "folder.json", tmp_path / "book.pdf"):
        with pytest.raises(UsageError):
            save(BOOK, path)
    (tmp_path / "broken.json").write_text('{"format":')
    with pytest.raises(DataError, match=r"broken\.json:1:11: not JSON"):
        load(tmp_path / "broken.json")


def test_an_empty_text_file_is_an_empty_book(tmp_path: Path) -> None:
    (tmp_path / "book.md").write_text("")
    assert load(tmp_path / "book.md") == Playbook()


def test_what_is_odd_in_a_text_is_logged_or_returned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "book.md").write_text("[misc-00001] x\n")
    with caplog.at_level(logging.WARNING):
        load(tmp_path / "book.md")
    assert "book.md:1: no section line" in caplog.text
    assert len(read(tmp_path / "book.md").problems) == 1


@pytest.mark.skipif(os.name != "posix", reason="pipes lie in folders on POSIX")
def test_a_device_or_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.md"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="device or a pipe"):
        save(Playbook(), pipe)
    assert pipe.is_fifo()
