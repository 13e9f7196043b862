"""What is written is there at the next opening; foreign, newer and damaged files are told apart and left alone."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from combee.errors import CombeeError, StorageError, UsageError
from combee.kernel.journal import JOURNAL_NAME, JSON, Journal, Stats
from combee.kernel.journal import journal as journal_file
from combee.kernel.journal.journal import SCHEMA
from combee.kernel.journal.purchases import PURCHASES_NAME, Purchases, current_purchase, left_open
from combee.kernel.journal.scope import key_of


async def buy(journal: Journal, count: int, text: str = "lesson") -> None:
    scope = journal.scope(seed=0, epoch=0, step=1)
    for index in range(count):

        async def make(number: int = index) -> JSON:
            return {"number": number, "text": text}

        await scope.once("reflect", str(index), index, make)
    scope.decide("size", count)


async def test_another_process_life_finds_everything(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "deep" / "run") as journal:
        await buy(journal, 100)
        journal.record_event("step", {"n": 1})
        journal.record_call({"tokens": 12, "cost": None})
        journal.set_meta("config", {"batch": 40})
        journal.set_meta("config", {"batch": 41})
        assert journal.stats() == Stats(bought=100, decisions_made=1)
    with Journal.open(tmp_path / "deep" / "run", create=False) as journal:
        await buy(journal, 120)
        assert journal.stats() == Stats(reused=100, bought=20, decisions_replayed=1)
        assert [(event.number, event.kind, event.data) for event in journal.events()] == [(1, "step", {"n": 1})]
        assert list(journal.calls()) == [{"cost": None, "tokens": 12}]
        assert journal.meta("config") == {"batch": 41}
        assert journal.meta("other") is None
        assert [value for _, _, value in journal.decisions()] == [100]
        assert [address.item for address, _ in journal.results("reflect")] == [str(index) for index in range(120)]
        assert list(journal.results("curate")) == []
        assert journal.problems() == []
    names = sorted(path.name for path in tmp_path.rglob("journal*"))  # noqa: ASYNC240 - a test may wait for its disk
    assert names == ["journal.lock", "journal.open", JOURNAL_NAME]


def test_events_are_read_in_order_by_kind_and_from_a_number_on(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        for index in range(2500):
            journal.record_event("even" if index % 2 == 0 else "odd", index)
        assert [event.data for event in journal.events()] == list(range(2500))
        assert [event.data for event in journal.events("odd", after=2490)] == [2491, 2493, 2495, 2497, 2499]


def test_a_keyed_event_is_recorded_once_however_often_it_is_replayed(tmp_path: Path) -> None:
    for _ in range(2):
        with Journal.open(tmp_path) as journal:
            journal.record_event("scored", 0.5, key="epoch 0 step 3")
            journal.record_event("note", "seen")
    with Journal.open(tmp_path, read_only=True) as journal:
        assert [event.kind for event in journal.events()] == ["scored", "note", "note"]


async def test_a_reader_sees_what_was_flushed_and_changes_nothing(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        await buy(journal, 10)
        journal.flush()
        with Journal.open(tmp_path, read_only=True) as reader:
            assert len(list(reader.results())) == 10
            await buy(reader, 10)
            assert reader.stats() == Stats(reused=10, decisions_replayed=1)
            journal.record_event("later", None)
            journal.flush()
            assert [event.kind for event in reader.events()] == ["later"]
            assert reader.read_only
            with pytest.raises(UsageError, match="reading only"):
                reader.record_event("x", 1)
            with pytest.raises(UsageError, match="reading only"):
                reader.set_meta("a", 1)
            with pytest.raises(UsageError, match="reading only"):
                await buy(reader, 11)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_missing_run_is_an_error_and_leaves_nothing_behind(tmp_path: Path, read_only: bool) -> None:
    with pytest.raises(UsageError, match="there is no run"):
        Journal.open(tmp_path / "none", create=False, read_only=read_only)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="not a run folder"):
        Journal.open(tmp_path / "run")
    with pytest.raises(StorageError, match="cannot be used"):
        Journal.open(tmp_path / "run" / "deeper")


def test_a_newer_file_is_refused_and_not_touched(tmp_path: Path) -> None:
    with Journal.open(tmp_path):
        pass
    with sqlite3.connect(tmp_path / JOURNAL_NAME) as raw:
        raw.execute(f"PRAGMA user_version={len(SCHEMA.migrations) + 1}")
    raw.close()
    before = (tmp_path / JOURNAL_NAME).read_bytes()
    for read_only in (False, True):
        with pytest.raises(UsageError, match="newer Combee") as caught:
            Journal.open(tmp_path, read_only=read_only)
        assert "pip install" in (caught.value.hint or "")
    assert (tmp_path / JOURNAL_NAME).read_bytes() == before


def test_the_file_of_another_program_is_refused_and_keeps_its_content(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / JOURNAL_NAME) as raw:
        raw.execute("CREATE TABLE bookmarks (url TEXT)")
    raw.close()
    for read_only in (False, True):
        with pytest.raises(UsageError, match="another program"):
            Journal.open(tmp_path, read_only=read_only)
    with sqlite3.connect(tmp_path / JOURNAL_NAME) as raw:
        assert [row[0] for row in raw.execute("SELECT name FROM sqlite_schema")] == ["bookmarks"]
    raw.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_an_empty_file_left_by_a_kill_is_a_new_journal(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / JOURNAL_NAME).touch()
    with Journal.open(tmp_path, read_only=read_only) as journal:
        assert list(journal.events()) == []


def test_a_file_that_is_not_sqlite_is_called_damaged(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_NAME).write_text("hello" * 1000, encoding="utf-8")
    for read_only in (False, True):
        with pytest.raises(StorageError, match="is damaged") as caught:
            Journal.open(tmp_path, read_only=read_only)
        assert ".recover" in (caught.value.hint or "")


async def test_damage_anywhere_gives_a_clear_error_or_the_right_content(tmp_path: Path) -> None:
    source = tmp_path / "whole"
    with Journal.open(source) as journal:
        await buy(journal, 300, "a lesson of some length " * 8)
        journal.add_version("line\n" * 900, "ab" * 32)
    whole = (source / JOURNAL_NAME).read_bytes()
    dice = random.Random(5)
    refused = 0
    for round_number in range(40):
        folder = tmp_path / str(round_number)
        folder.mkdir()
        data = bytearray(whole)
        if round_number % 4 == 0:
            del data[dice.randrange(len(data)) :]
        else:
            start = dice.randrange(len(data))
            data[start : start + dice.choice([1, 64, 4096])] = dice.randbytes(dice.choice([1, 64, 4096]))
        (folder / JOURNAL_NAME).write_bytes(data)
        for read_only in (True, False):
            try:
                with Journal.open(folder, read_only=read_only) as journal:
                    list(journal.results())
                    list(journal.decisions())
                    assert journal.text("ab" * 32) == "line\n" * 900
            except CombeeError as error:
                refused += 1
                assert error.hint  # noqa: PT017 - most rounds raise; every raised error must help
    assert refused > 20


def test_a_closed_journal_says_so_and_closes_twice(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.close()
    journal.close()
    with pytest.raises(UsageError, match="closed"):
        journal.record_event("x", 1)


def test_a_forgotten_journal_still_writes_what_was_queued(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.record_event("x", 1)
    del journal
    with Journal.open(tmp_path) as journal:
        assert [event.kind for event in journal.events()] == ["x"]


async def test_work_that_is_cancelled_after_the_end_reports_its_cancellation(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        scope = journal.scope(seed=0, epoch=0, step=0)
        task = asyncio.create_task(scope.once("r", "a", None, asyncio.Event().wait))
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_lone_surrogates_are_cleaned_wherever_text_goes_in(tmp_path: Path) -> None:
    bad, good = "a\ud800", "a\ufffd"
    with Journal.open(tmp_path) as journal:
        journal.record_event(bad, {bad: bad}, key=bad)
        journal.record_call({bad: bad})
        journal.set_meta(bad, bad)
        digest = journal.add_version(bad, "ab" * 32, delta=[bad], data=bad)
        journal.label("best", digest, note=bad, key=bad)
        assert [(event.kind, event.data) for event in journal.events(bad)] == [(good, {good: good})]
        assert list(journal.calls()) == [{good: good}]
        assert journal.meta(bad) == good
        assert journal.text(digest) == good
        assert journal.label_moves(bad) == ()
        assert [move.note for move in journal.label_moves()] == [good]
        for use in (journal.resolve, journal.rollback, journal.text, journal.version):
            with pytest.raises(UsageError):
                use(bad)


def test_a_seed_too_large_for_the_file_is_refused(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal, pytest.raises(UsageError, match="too large"):
        journal.scope(seed=2**64, epoch=0, step=0)


ADDED = ("ALTER TABLE events ADD COLUMN level TEXT NOT NULL DEFAULT 'info'",)


async def test_an_older_file_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal.open(tmp_path) as journal:
        await buy(journal, 5)
        journal.record_event("old", 1)
    before = (tmp_path / JOURNAL_NAME).read_bytes()
    newer = replace(SCHEMA, migrations=(*SCHEMA.migrations, ADDED))
    monkeypatch.setattr(journal_file, "SCHEMA", newer)
    with Journal.open(tmp_path, read_only=True) as journal:
        assert len(list(journal.results())) == 5
    assert (tmp_path / JOURNAL_NAME).read_bytes() == before, "reading must not migrate the file itself"
    with Journal.open(tmp_path) as journal:
        assert len(list(journal.results())) == 5
    with sqlite3.connect(tmp_path / JOURNAL_NAME) as raw:
        assert raw.execute("SELECT level FROM events").fetchall() == [("info",)]
        assert raw.execute("PRAGMA user_version").fetchone() == (len(newer.migrations),)
    raw.close()


def test_a_file_of_the_first_format_is_read_as_it_would_be_written_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(journal_file, "SCHEMA", replace(SCHEMA, migrations=SCHEMA.migrations[:1]))
        with Journal.open(tmp_path) as journal:
            journal.record_event("GuardSpoke", {"verdict": "accept"}, key="GuardSpoke/0/accept")
            journal.record_event("GuardSpoke", {"verdict": "reject"})
    for read_only in (True, False):
        with Journal.open(tmp_path, read_only=read_only) as journal:
            if not read_only:
                journal.record_event("GuardJudged", {"verdict": "accept"}, key="GuardJudged/0/accept")
            verdicts = [event.data for event in journal.events("GuardJudged")]
        assert verdicts == [{"verdict": "accept"}, {"verdict": "reject"}]


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal.open(tmp_path) as journal:
        await buy(journal, 5)
    with monkeypatch.context() as patch:
        broken = (*ADDED, "ALTER TABLE nothing ADD COLUMN x")
        patch.setattr(journal_file, "SCHEMA", replace(SCHEMA, migrations=(*SCHEMA.migrations, broken)))
        with pytest.raises(StorageError):
            Journal.open(tmp_path)
    with Journal.open(tmp_path) as journal:
        assert len(list(journal.results())) == 5
        assert journal.problems() == []


@pytest.mark.parametrize("number", [1.0, True, "1", None])
def test_a_place_is_made_of_whole_numbers(tmp_path: Path, number: Any) -> None:
    with Journal.open(tmp_path) as journal, pytest.raises(UsageError, match="whole numbers"):
        journal.scope(seed=number, epoch=0, step=0)


def test_a_closed_journal_says_so_whatever_it_is_asked(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.close()
    asked: list[Callable[[], object]] = [
        lambda: journal.meta("spec"),
        lambda: list(journal.events()),
        journal.labels,
        lambda: journal.set_meta("key", 1),
        lambda: journal.record_event("kind", 1),
    ]
    for ask in asked:
        with pytest.raises(UsageError, match="closed"):
            ask()


@pytest.mark.parametrize("left", [0, 1023, 1024, 3000])
def test_what_kills_left_open_is_there_until_it_is_stored(tmp_path: Path, left: int) -> None:
    keys = [key_of("result", number) for number in range(left)]
    for _ in range(3):  # each process marks the same ones, and dies
        purchases = Purchases(tmp_path, lambda _: False)
        for key in keys:
            purchases.mark(key)
        size = (tmp_path / PURCHASES_NAME).stat().st_size
        assert size <= 17 * max(1024, 4 * 3 * left), "it grows with what is open, not with what was bought"
        die(purchases)
    assert left_open(tmp_path / PURCHASES_NAME) == dict.fromkeys(keys, 3)
    purchases = Purchases(tmp_path, lambda key: key in keys[::2])
    assert purchases.lost == set(keys[1::2])
    for key in keys[1::2]:
        purchase = purchases.begin(key)
        assert purchase.lost == 3
        purchases.clear(purchase.stored())
    purchases.close()
    assert (tmp_path / PURCHASES_NAME).read_bytes() == b""


def die(purchases: Purchases) -> None:
    """Leave the table as a killed process leaves it."""
    purchases._table.close()
    purchases._file.close()


def test_a_log_of_an_earlier_version_is_read_as_it_was_meant(tmp_path: Path) -> None:
    one, two, three = (key_of("result", number) for number in range(3))
    log = [b"+" + one, b"+" + two, b"-" + one, b"+" + three, b"+" + three, b"+"]
    (tmp_path / PURCHASES_NAME).write_bytes(b"".join(log))
    assert left_open(tmp_path / PURCHASES_NAME) == {two: 1, three: 2}
    with Journal.open(tmp_path) as journal:
        assert journal.stats().lost == 2


async def test_what_only_waits_is_not_open_and_what_failed_is_closed(tmp_path: Path) -> None:
    table = tmp_path / PURCHASES_NAME
    with Journal.open(tmp_path) as journal:

        def open_now() -> int:
            return sum(left_open(table).values())

        async def waits_and_sends_twice() -> JSON:
            purchase = current_purchase()
            assert purchase is not None
            assert open_now() == 1, "work of an unknown kind may cost something from its first moment on"
            purchase.wait()
            assert open_now() == 0
            purchase.send()
            assert open_now() == 1
            journal.record_call({"paid": "yes"})
            journal.flush()
            assert open_now() == 0, "it is in the books"
            purchase.send()
            purchase.send()
            journal.record_call({"paid": "yes"})
            journal.flush()
            assert open_now() == 1
            return 1

        async def fails() -> JSON:
            raise CombeeError("no")

        scope = journal.scope(seed=0, epoch=0, step=0)
        await scope.once("r", "a", None, waits_and_sends_twice)
        journal.flush()
        assert open_now() == 0
        with pytest.raises(CombeeError):
            await scope.once("r", "b", None, fails)
        assert open_now() == 0
        assert current_purchase() is None
