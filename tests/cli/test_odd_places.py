"""Places that are no files: pipes, devices, links in circles. Nothing waits for them; the error says what they are."""

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

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")

ROWS = "".join(f'{{"question": "the {word} of case {n}", "answer": "{word}"}}\n' for n in range(6) for word in "ab")


def combee(*arguments: str, folder: Path, out: int | None = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "combee", *arguments],
        cwd=folder,
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows, one finished run, a pipe, a link in a circle, and a repository that holds both."""
    place = tmp_path_factory.mktemp("odd")
    (place / "rows.jsonl").write_text(ROWS, encoding="utf-8")
    assert combee("learn", "rows.jsonl", "--name", "one", "--quiet", folder=place).returncode == 0
    for name in ("pipe.md", "pipe.toml", "piped/AGENTS.md", "skill/SKILL.md"):
        (place / name).parent.mkdir(exist_ok=True)
        os.mkfifo(place / name)
    for name in ("loop.md", "looped/AGENTS.md"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).symlink_to((place / name).name)
    return place


@pytest.mark.parametrize(
    "command",
    [
        "export one --to prompt --out pipe.md",
        "export one --to prompt --out pipe.md --force",
        "export one --to prompt --out /dev/zero",
        "export one --to prompt --out /dev/zero --force",
        "export one --to prompt --out loop.md",
        "export one --to skill --out skill",
        "export one --to skill --out rows.jsonl",
        "export one --to skill --out /dev/zero",
        "apply one piped --yes",
        "apply one looped --yes",
        "show pipe.md",
        "show loop.md",
        "learn rows.jsonl --start pipe.md",
        "learn rows.jsonl --start loop.md",
        "learn rows.jsonl --config pipe.toml",
        "learn --from loop.md",
        "learn rows.jsonl --agent ace --model m --base-url http://127.0.0.1:9/v1 --prompts loop.md",
        "learn rows.jsonl --model local/~nobody-here/x.gguf",
        "learn rows.jsonl --model local/rows.jsonl.gguf",
        "swarm run pipe.toml",
    ],
)
def test_what_is_no_file_is_named_and_not_waited_for(folder: Path, command: str) -> None:
    done = combee(*command.split(), folder=folder)
    assert done.returncode == 2, done.stderr
    assert "unexpected" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("learn rows.jsonl --start -", "'-' does not stand for standard input"),
        ("learn rows.jsonl --start /dev/null", "/dev/null: is a device or a pipe"),
        ("learn rows.jsonl --start /dev/stdin", "/dev/stdin: is a device or a pipe"),
        ("learn rows.jsonl --start /proc/self/maps", "/proc/self/maps: a playbook file ends in"),
        ("learn rows.jsonl --start none.md", "error: none.md: there is no such file"),
        ("learn rows.jsonl --start runs/one", "runs/one: is a folder\n  Name a file, such as runs/one/playbook.json."),
        ("learn rows.jsonl --start pipe.md --dry-run", "pipe.md: is a device or a pipe"),
        ("learn /dev/stdin", "/dev/stdin: is a device or a pipe"),
        ("eval one pipe.md", "pipe.md: is a device or a pipe"),
        ("learn --from -", "'-' does not stand for standard input"),
        ("learn --from /dev/stdin", "/dev/stdin: is a device or a pipe"),
        ("learn --from none", "error: There is no file or folder 'none'."),
        ("traces none", "error: There is no file or folder 'none'."),
        ("traces pipe.md", "pipe.md: is a device or a pipe"),
        ("show /dev/stdin", "/dev/stdin: is a device or a pipe"),
        ("diff one pipe.md", "pipe.md: is a device or a pipe"),
        ("export one --to prompt --out -", "'-' does not stand for standard input or output"),
        ("init rows.jsonl", "rows.jsonl is a file."),
        ("demo --report /dev/null", "/dev/null is a device or a pipe"),
        ("demo --report nowhere/x.html", "There is no folder"),
        ("forget one --trace t --out nowhere/x.md", "There is no folder"),
    ],
)
def test_what_is_no_file_is_named_as_it_was_typed(
    folder: Path, command: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    before = set(folder.rglob("*"))
    assert run(command.split()) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert not out
    assert set(folder.rglob("*")) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_cannot_be_written_is_a_failed_run_without_a_traceback(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = combee("versions", "one", "--json", folder=folder, out=full.fileno())
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "error:" in done.stderr


def test_an_error_message_that_cannot_be_written_changes_no_exit_code(folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "combee", "show", "nope", "--json"],
            cwd=folder, stdout=subprocess.PIPE, stderr=full.fileno(), text=True, timeout=100, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "UsageError"


@pytest.mark.parametrize("encoding", ["latin-1", "gbk", "ascii", "cp1252"])
def test_any_text_is_printed_whatever_the_locale(folder: Path, encoding: str) -> None:
    (folder / "book.md").write_text("## \u4e2d\n[x-00001] helpful=0 harmful=0 :: caf\u00e9 \U0001f41d\n", "utf-8")

    def printed(*arguments: str) -> bytes:
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        command = [sys.executable, "-m", "combee", *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True, timeout=100).stdout

    assert "caf\u00e9 \U0001f41d" in json.loads(printed("show", "book.md", "--json"))["bullets"][0]["text"]
    assert "caf\u00e9 \U0001f41d" in printed("export", "book.md", "--to", "prompt").decode()
    shown = printed("show", "book.md")
    assert b"x-00001" in shown
    assert (b"\\U0001f41d" in shown) == (encoding != "ascii")  # click writes UTF-8 in place of ASCII


def test_a_name_that_is_no_text_is_said(folder: Path) -> None:
    name = os.fsdecode(b"\xce\xca.csv")
    (folder / name).write_text("question,answer\nQ,A\n", encoding="utf-8")
    tried = combee("learn", name, folder=folder)
    assert tried.returncode == 2
    assert "rename it" in tried.stderr


def test_many_ctrl_c_leave_no_traceback_and_a_run_that_goes_on(folder: Path) -> None:
    command = [sys.executable, "-m", "combee", "learn", "tags", "--set", "batch=1", "--name", "storm"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        journal = folder / "runs/storm/journal.sqlite"
        while process.poll() is None and not (journal.exists() and journal.stat().st_size > 50_000):
            time.sleep(0.01)
        for _ in range(12):
            process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        said = process.communicate(timeout=100)[0]
    assert "Traceback" not in said
    assert process.returncode != 0
    assert combee("resume", "storm", folder=folder).returncode == 0
