"""Many traces are cleaned on all cores: the file is the same, and what goes wrong there is told here."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from combee.errors import UsageError
from combee.redaction import Redactor, Step, Trace
from combee.traces.mining import keep, stored

SECRET = "ghp_" + "a1B2" * 9


def many(count: int) -> Iterator[Trace]:
    for number in range(count):
        steps = (Step(0, "tool", f"line {number}\x1b[31m red\x1b[0m {SECRET if number % 7 == 0 else 'plain'}"),)
        yield Trace(f"t{number % (count - 3)}", f"task {number}", steps)


def test_the_file_is_the_same_on_one_core_and_on_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = keep(many(60), tmp_path / "alone.jsonl", Redactor())
    monkeypatch.setattr(stored, "_FEW", 5)
    monkeypatch.setattr(stored, "_may_spawn", lambda: True)
    pools: list[ProcessPoolExecutor] = []

    def pool(*given: Any) -> ProcessPoolExecutor:
        pools.append(ProcessPoolExecutor(*given))
        return pools[-1]

    monkeypatch.setattr(stored, "ProcessPoolExecutor", pool)
    shared = keep(many(60), tmp_path / "shared.jsonl", Redactor())
    assert len(pools) == 1
    assert (tmp_path / "alone.jsonl").read_bytes() == (tmp_path / "shared.jsonl").read_bytes()
    assert (alone.traces, alone.twice, alone.redacted) == (shared.traces, shared.twice, shared.redacted)
    assert alone.twice == 3
    assert SECRET.encode() not in (tmp_path / "shared.jsonl").read_bytes()


def test_an_error_while_reading_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_FEW", 5)
    monkeypatch.setattr(stored, "_may_spawn", lambda: True)

    def broken() -> Iterator[Trace]:
        yield from many(30)
        raise UsageError("the folder is gone")

    with pytest.raises(UsageError, match="the folder is gone"):
        keep(broken(), tmp_path / "kept.jsonl", Redactor())
    assert list(tmp_path.iterdir()) == []
