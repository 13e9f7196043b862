"""A full disk gives one clear error; what was committed before still loads, and the run goes on when there is space."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from combee.errors import StorageError
from combee.kernel.journal import JSON, Journal

# Incompressible, so that each version costs its size.
TEXTS = [random.Random(step).randbytes(15_000).hex() for step in range(60)]


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_versions(journal: Journal) -> tuple[int, StorageError | None]:
    """Add versions until the disk is full; return how many were acknowledged, and the error."""
    for step, text in enumerate(TEXTS):
        try:
            journal.add_version(text, digest_of(text), step=step)
            journal.label("last", digest_of(text))
        except StorageError as error:
            return step, error
    return len(TEXTS), None


def check_what_is_left(run_dir: Path, acknowledged: int, *, read_only: bool) -> None:
    with Journal.open(run_dir, read_only=read_only) as journal:
        assert journal.problems() == []
        versions = journal.versions()
        assert len(versions) >= acknowledged
        for version in versions:
            assert digest_of(journal.text(version.digest)) == version.digest
        assert journal.labels()["last"] in {version.digest for version in versions[acknowledged - 1 :]}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = sys.platform == "linux" and os.geteuid() == 0
    if mounted:
        command = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)]
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    if not mounted:
        pytest.skip("a small file system can be mounted by root on Linux only")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_disk_that_fills_up_while_versions_are_written(small_disk: Path) -> None:
    run = small_disk / "run"
    journal = Journal.open(run)
    acknowledged, error = write_versions(journal)
    assert error is not None
    assert "disk is full" in error.message
    assert "Free some space" in (error.hint or "")
    with pytest.raises(StorageError):
        journal.record_event("after", 1)
    check_what_is_left(run, acknowledged, read_only=True)
    with pytest.raises(StorageError, match="disk is full"):
        journal.close()
    assert 0 < acknowledged < len(TEXTS)
    check_what_is_left(run, acknowledged, read_only=True)

    subprocess.run(["mount", "-o", "remount,size=40m", small_disk], check=True)
    with Journal.open(run) as journal:
        assert write_versions(journal) == (len(TEXTS), None)
    check_what_is_left(run, len(TEXTS), read_only=False)

    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    check_what_is_left(run, len(TEXTS), read_only=True)
    with pytest.raises(StorageError, match=r"cannot be opened"):
        Journal.open(run)


def test_nothing_more_is_bought_once_results_cannot_be_stored(small_disk: Path) -> None:
    made: list[int] = []

    async def run(journal: Journal) -> None:
        scope = journal.scope(seed=0, epoch=0, step=0)
        for item in range(1000):

            async def make(number: int = item) -> JSON:
                made.append(number)
                await asyncio.sleep(0.001)
                return TEXTS[number % len(TEXTS)]

            await scope.once("r", str(item), item, make)

    with pytest.raises(StorageError, match="disk is full"), Journal.open(small_disk) as journal:
        asyncio.run(run(journal))
    assert len(made) < 100
    with Journal.open(small_disk, read_only=True) as journal:
        stored = [address.item for address, _ in journal.results()]
    assert stored == [str(number) for number in made[: len(stored)]]
    assert stored


LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
sys.path.insert(0, sys.argv[2])
import test_full_disk as here
from combee.kernel.journal import Journal
try:
    with Journal.open(Path(sys.argv[1])) as journal:
        acknowledged, error = here.write_versions(journal)
        print(acknowledged, flush=True)
        print(error.message, error.hint, flush=True)
except here.StorageError:
    print("closed", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
def test_a_file_size_limit_is_reported_and_the_last_version_still_loads(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, str(tmp_path), str(Path(__file__).parent)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    acknowledged, message, closed = ended.stdout.splitlines()
    assert 0 < int(acknowledged) < len(TEXTS)
    assert "disk" in message
    assert "run the same command again" in message
    assert closed == "closed"
    check_what_is_left(tmp_path, int(acknowledged), read_only=True)
    check_what_is_left(tmp_path, int(acknowledged), read_only=False)
