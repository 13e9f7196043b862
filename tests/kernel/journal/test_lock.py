"""One process writes to a run folder: the second is told who holds it, readers get in, the dead hold nothing."""

from __future__ import annotations

import multiprocessing
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from combee.errors import LockedError, StorageError, UsageError
from combee.kernel.journal import Journal

HOLDER = """
import sys
from pathlib import Path
from combee.kernel.journal import Journal
with Journal.open(Path(sys.argv[1])) as journal:
    journal.record_event("held", 1)
    journal.flush()
    print("open", flush=True)
    sys.stdin.read()
"""

RIVAL = """
import sys, time
from pathlib import Path
from combee.errors import LockedError
from combee.kernel.journal import Journal
wins = 0
end = time.monotonic() + 1.0
while time.monotonic() < end:
    try:
        with Journal.open(Path(sys.argv[1])) as journal:
            for _ in range(20):
                journal.record_event(sys.argv[2], wins)
            wins += 1
    except LockedError:
        time.sleep(0.001)
    time.sleep(0.001)
print(wins)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_the_second_process_is_told_who_holds_the_run_and_the_dead_hold_nothing(tmp_path: Path) -> None:
    with start(HOLDER, tmp_path) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(LockedError) as caught:
            Journal.open(tmp_path)
        assert f"process {holder.pid} on {socket.gethostname()} since 20" in caught.value.message
        assert caught.value.hint
        with Journal.open(tmp_path, read_only=True) as reader:
            assert [event.kind for event in reader.events()] == ["held"]
        holder.kill()
        holder.wait()
        with Journal.open(tmp_path) as journal:
            journal.record_event("taken over", 1)
            assert [event.kind for event in journal.events()] == ["held", "taken over"]


def test_processes_that_fight_for_a_run_corrupt_nothing(tmp_path: Path) -> None:
    rivals = [start(RIVAL, tmp_path, name) for name in ("red", "blue", "green")]
    wins = [int(rival.communicate()[0]) for rival in rivals]
    with Journal.open(tmp_path) as journal:
        assert journal.problems() == []
        events = list(journal.events())
    assert len(events) == 20 * sum(wins)
    blocks = [{(event.kind, event.data) for event in events[start : start + 20]} for start in range(0, len(events), 20)]
    assert all(len(block) == 1 for block in blocks), "each holder wrote alone"


def test_one_process_cannot_open_a_run_twice_and_is_told_so(tmp_path: Path) -> None:
    with Journal.open(tmp_path), pytest.raises(LockedError, match=f"this same process \\({os.getpid()}\\)"):
        Journal.open(tmp_path)
    with Journal.open(tmp_path):
        pass


@pytest.mark.parametrize("note", ["", "not json", '{"pid": "x"}', "[]", "\udcff"])
def test_a_note_nobody_can_read_still_gives_a_locked_error(tmp_path: Path, note: str) -> None:
    with Journal.open(tmp_path):
        (tmp_path / "journal.lock").write_bytes(note.encode("utf-8", "surrogateescape"))
        with pytest.raises(LockedError, match="another process"):
            Journal.open(tmp_path)


def test_a_lock_file_left_by_a_dead_process_blocks_nobody(tmp_path: Path) -> None:
    note = '{"pid": 1, "host": "elsewhere", "since": "2020-01-01T00:00:00+00:00"}'
    (tmp_path / "journal.lock").write_text(note, encoding="utf-8")
    with Journal.open(tmp_path):
        pass


def test_a_lock_file_that_cannot_be_opened_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "journal.lock").mkdir()
    with pytest.raises(StorageError, match=re.escape(str(tmp_path / "journal.lock"))):
        Journal.open(tmp_path)


def _use_in_child(journal: Journal, answers: multiprocessing.Queue[str]) -> None:
    try:
        journal.record_event("child", 1)
    except UsageError as error:
        answers.put(error.message)


FORKS = """
import os, sys
from pathlib import Path
from combee.kernel.journal import Journal
with Journal.open(Path(sys.argv[1])) as journal:
    journal.record_event("before", 1)
    journal.flush()
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    print(len((Path(sys.argv[1]) / "journal.lock").read_bytes()) > 0)
    journal.record_event("after", 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_that_ends_leaves_its_parents_journal_alone(tmp_path: Path) -> None:
    with start(FORKS, tmp_path) as parent:
        out, _ = parent.communicate(timeout=100)
    assert out == "True\n"
    with Journal.open(tmp_path) as journal:
        assert [event.kind for event in journal.events()] == ["before", "after"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_forked_child_cannot_write_and_does_not_hang(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with Journal.open(tmp_path) as journal:
        child = context.Process(target=_use_in_child, args=(journal, answers))
        child.start()
        assert "forked" in answers.get(timeout=100)
        child.join(100)
        assert child.exitcode == 0
        journal.record_event("parent", 1)
        time.sleep(0)
        assert [event.kind for event in journal.events()] == ["parent"]


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted there")
def test_deleting_the_lock_file_lets_no_second_writer_in(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        (tmp_path / "journal.lock").unlink()
        with pytest.raises(LockedError, match="in use by another process"):
            Journal.open(tmp_path)
        journal.record_event("still", 1)
    with Journal.open(tmp_path) as journal:
        assert [event.kind for event in journal.events()] == ["still"]
