"""Versions come back byte for byte, labels move and roll back, and a replay adds nothing to the history."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.journal import JOURNAL_NAME, Journal
from combee.kernel.journal.versions import make_patch, use_patch


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def book(count: int, changed: int = -1) -> str:
    bullets = [{"id": f"misc-{i:05}", "text": f"lesson {i} Σ" + "!" * (i == changed)} for i in range(count)]
    rows = ",\n".join(json.dumps(bullet, ensure_ascii=False) for bullet in bullets)
    return f'{{"bullets": [\n{rows}\n]}}'


pieces = st.lists(st.sampled_from(["a\n", "b\n", "c},", "d", "\n", '"},{"', ""]), max_size=30).map("".join)


@given(pieces | st.text(), pieces | st.text())
def test_a_patch_gives_the_text_back(base: str, text: str) -> None:
    assert use_patch(base, make_patch(base.split("\n"), text.split("\n"))) == text


def test_a_patch_of_an_earlier_version_is_read() -> None:
    base = '{"b":[{"t":"a"},{"t":"b"},{"t":"c"}]}'
    assert use_patch(base, '[[0,1],"{\\"t\\":\\"x\\"},",[2,1]]') == '{"b":[{"t":"a"},{"t":"x"},{"t":"c"}]}'
    assert use_patch(base.replace("},", "},\n"), '[[0,2],"new\\n",[4,1]]') == '{"b":[{"t":"a"},\nnew\n{"t":"c"}]}'


def test_a_patch_to_a_wholly_new_text_takes_no_square_of_its_lines() -> None:
    base, text = ("\n".join(f"{word} {n}" for n in range(50_000)) for word in ("old", "new"))
    assert use_patch(base, make_patch(base.split("\n"), text.split("\n"))) == text


def test_a_long_history_is_small_on_disk_and_every_book_comes_back(tmp_path: Path) -> None:
    texts = [book(300 + step, changed=step) for step in range(60)]
    with Journal.open(tmp_path) as journal:
        parent = None
        for step, text in enumerate(texts):
            parent = journal.add_version(text, digest_of(text), parent=parent, delta={"add": step}, step=step)
    with Journal.open(tmp_path, read_only=True) as journal:
        assert [journal.text(version.digest) for version in journal.versions()] == texts
        last = journal.version(digest_of(texts[-1]))
        assert (last.parent, last.delta, last.step) == (digest_of(texts[-2]), {"add": 59}, 59)
    assert (tmp_path / JOURNAL_NAME).stat().st_size < sum(map(len, texts)) / 5


def test_a_replay_adds_nothing_and_a_book_reached_again_is_one_book_with_two_stories(tmp_path: Path) -> None:
    first, second = book(3), book(4)
    for _ in range(2):
        with Journal.open(tmp_path) as journal:
            journal.add_version(first, digest_of(first))
            journal.add_version(second, digest_of(second), parent=digest_of(first), step=1)
            journal.add_version(first, digest_of(first), parent=digest_of(second), step=2)
            assert [version.step for version in journal.versions()] == [0, 1, 2]
            assert journal.version(digest_of(first)).parent is None


def test_labels_move_and_roll_back_through_all_their_places(tmp_path: Path) -> None:
    texts = [book(count) for count in (1, 2, 3, 4)]
    with Journal.open(tmp_path) as journal:
        a, b, c, d = (journal.add_version(text, digest_of(text)) for text in texts)
        for digest in (a, b, b, c):
            journal.label("stable", digest, note="passed")
        journal.label("canary", d)
        assert journal.rollback("stable", note="worse") == b
        assert journal.rollback("stable") == a
        with pytest.raises(UsageError, match="no earlier version"):
            journal.rollback("stable")
        with pytest.raises(UsageError, match="no earlier version"):
            journal.rollback("stabel")
        journal.label("stable", d)
        assert journal.rollback("stable") == a
        assert journal.labels() == {"canary": d, "stable": a}
        moves = journal.label_moves("stable")
        assert [(move.digest, move.rollback) for move in moves] == [
            (a, False), (b, False), (c, False), (b, True), (a, True), (d, False), (a, True)
        ]  # fmt: skip
        assert moves[3].note == "worse"
        assert len(journal.label_moves()) == 8


def test_a_move_with_a_key_is_made_once(tmp_path: Path) -> None:
    texts = [book(1), book(2)]
    with Journal.open(tmp_path) as journal:
        a, b = (journal.add_version(text, digest_of(text)) for text in texts)
        for _ in range(2):
            journal.label("last", a, key="step 1")
            journal.label("last", b, key="step 2")
        assert [move.digest for move in journal.label_moves("last")] == [a, b]
        assert journal.labels() == {"last": b}


def test_a_name_is_a_label_or_the_beginning_of_a_digest(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        with pytest.raises(UsageError, match="No version has a label yet"):
            journal.resolve("best")
        one = journal.add_version("1", "abcd1" + "0" * 59)
        two = journal.add_version("2", "abcd2" + "0" * 59)
        journal.label("best", two)
        assert journal.resolve("best") == two
        assert journal.resolve("abcd1") == one
        assert journal.resolve(one) == one
        with pytest.raises(UsageError, match="more than one version"):
            journal.resolve("abcd")
        with pytest.raises(UsageError, match="Did you mean 'best'"):
            journal.resolve("bets")
        for wrong in ("", "abc", "ffff", "a*", "?bcd"):
            with pytest.raises(UsageError, match="there is no label or version"):
                journal.resolve(wrong)


def test_what_does_not_exist_cannot_be_named(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        one = journal.add_version("1", "abcd" * 16)
        for action in (
            lambda: journal.text("ffff" * 16),
            lambda: journal.version("ffff" * 16),
            lambda: journal.label("best", "ffff" * 16),
            lambda: journal.add_version("2", "1234" * 16, parent="ffff" * 16),
            lambda: journal.add_version("2", "not a digest"),
            lambda: journal.label("", one),
            lambda: journal.label("cafe", one),
            lambda: journal.label("two words", one),
        ):
            with pytest.raises(UsageError):
                action()
        assert len(journal.versions()) == 1
        assert journal.labels() == {}


def test_a_replay_never_takes_a_label_back_also_where_a_step_left_it_where_it_was(tmp_path: Path) -> None:
    """Each opening makes the same moves; the second step of them changes nothing the first time."""
    for _ in range(3):
        with Journal.open(tmp_path) as journal:
            for step, digest in enumerate(("a" * 64, "a" * 64, "b" * 64)):
                journal.add_version(f"text {digest}", digest, step=step)
                journal.label("last", digest, key=f"last/{step}")
            assert journal.labels() == {"last": "b" * 64}
            assert [move.digest for move in journal.label_moves("last")] == ["a" * 64, "b" * 64]
    with Journal.open(tmp_path) as journal:
        assert journal.rollback("last") == "a" * 64
