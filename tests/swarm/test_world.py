"""The world: steps are whole, spawns and sends happen once, mail is bound, documents and notes have versions."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.swarm import World, join, publish
from combee.swarm.knowledge import (
    close_issue,
    credit,
    issues,
    note,
    open_issue,
    read,
    recall,
    search_notes,
    take_issue,
    who_knows,
)
from combee.swarm.mail import About, Sent, finish, get_mail, open_asks, post, send


def test_a_step_that_fails_leaves_nothing_and_an_inner_one_only_itself(world: World) -> None:
    def fails(name: str) -> None:
        with world.step():
            world.spawn(name)
            raise KeyError

    with pytest.raises(KeyError):
        fails("ghost")
    assert world.agent("ghost") is None
    with world.step():
        world.spawn("stays")
        with pytest.raises(KeyError):
            fails("goes")
    assert world.agent("stays")
    assert not world.agent("goes")


def test_what_is_done_is_there_after_reopening_and_a_foreign_file_is_refused(tmp_path: Path) -> None:
    with World.open(tmp_path / "w.sqlite") as first:
        first.spawn("ann", window=7)
    with World.open(tmp_path / "w.sqlite", read_only=True) as again:
        found = again.agent("ann")
        assert found is not None
        assert found.window == 7
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(UsageError, match="another program"):
        World.open(tmp_path / "other.sqlite")
    with pytest.raises(UsageError, match="no world"):
        World.open(tmp_path / "none.sqlite", read_only=True)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    World.open(tmp_path / "w.sqlite").close()
    raw = sqlite3.connect(tmp_path / "w.sqlite")
    raw.execute("PRAGMA user_version=99")
    raw.close()
    with pytest.raises(UsageError, match="newer"):
        World.open(tmp_path / "w.sqlite")


def test_spawning_with_the_same_key_makes_one_agent(world: World) -> None:
    first = world.spawn("helper", key="job-1")
    assert world.spawn("helper-2", key="job-1") == first
    with pytest.raises(UsageError, match="already"):
        world.spawn("helper", key="job-2")


def test_the_same_key_sends_once_and_delivers_once(world: World) -> None:
    world.spawn("a")
    world.spawn("b")
    one = send(world, key="k", kind="tell", sender="a", recipient="b", body="hello")
    two = send(world, key="k", kind="tell", sender="a", recipient="b", body="hello")
    assert one.id == two.id
    assert two.again
    assert finish(world, one.id, "delivered")
    assert not finish(world, one.id, "delivered")
    assert finish(world, one.id, "done")
    assert not finish(world, one.id, "done")


def test_mail_is_bound_to_the_incarnation_it_was_sent_to(world: World) -> None:
    world.spawn("a")
    world.spawn("b")
    sent = send(world, key="k", kind="ask", sender="a", recipient="b", body="?")
    assert world.revive("b") == 2
    mail = get_mail(world, sent.id)
    assert mail is not None
    assert mail.incarnation == 1
    later = get_mail(world, send(world, key="k2", kind="ask", sender="a", recipient="b", body="?").id)
    assert later is not None
    assert later.incarnation == 2


def test_the_dead_the_unknown_and_long_chains_are_refused_and_recorded(world: World) -> None:
    world.spawn("a")
    world.spawn("b")

    def ask(key: str, cause: int | None) -> Sent:
        about = About(cause=cause)
        return send(world, key=key, kind="ask", sender="a", recipient="b", body="?", about=about, hop_limit=3)

    cause: int | None = None
    for number in range(4):
        cause = ask(f"{number}", cause).id
    assert ask("x", cause).refused == "hops"
    world.set_state("b", "dead", "test")
    assert send(world, key="y", kind="tell", sender="a", recipient="b", body="").refused == "dead"
    assert send(world, key="z", kind="tell", sender="a", recipient="nobody", body="").refused == "unknown"
    assert [event.data["why"] for event in world.events("refused")] == ["hops", "dead", "unknown"]


def test_a_post_reaches_every_other_member_once(world: World) -> None:
    for name in ("a", "b", "c"):
        world.spawn(name)
        join(world, "front", name)
        join(world, "front", name)
    first = post(world, "front", key="p", sender="a", body="news")
    assert [get_mail(world, one.id).recipient for one in first] == ["b", "c"]  # type: ignore[union-attr]  # they exist
    assert all(one.again for one in post(world, "front", key="p", sender="a", body="news"))
    far = post(world, "front", key="q", sender="b", body="more", cause=first[0].id, hop_limit=0)
    assert {one.refused for one in far} == {"hops"}


def test_the_directory_prefers_who_read_the_newest_version_then_the_neighbours(world: World) -> None:
    for name in ("old", "new", "near"):
        world.spawn(name)
    credit(world, "old", 1, "doc/0001", "1")
    credit(world, "old", 1, "doc/0001", "1")
    publish(world, "doc/0001", "changed", "x")
    credit(world, "new", 1, "doc/0001", "2")
    credit(world, "near", 1, "doc/0002", "1")
    assert [(one.agent, one.fresh) for one in who_knows(world, "doc/0001")] == [("new", True), ("old", False)]
    assert {one.agent for one in who_knows(world, "doc/0009")} == {"old", "new", "near"}
    world.set_state("new", "dead")
    assert [one.agent for one in who_knows(world, "doc/0001", exclude=("old",))] == ["near"]
    assert who_knows(world, "elsewhere/1") == []


def test_notes_are_found_and_say_when_their_source_has_changed(world: World) -> None:
    pointer = note(world, "ann", "the retry limit is 7 (see http client)", path="doc/0003", version="1")
    note(world, "bob", "unrelated words")
    found = search_notes(world, "retry limit?")
    assert [one.pointer for one in found] == [pointer]
    assert not found[0].stale
    publish(world, "doc/0003", "the retry limit is 9", "x")
    again = recall(world, pointer)
    assert again is not None
    assert again.stale
    assert recall(world, "note:99") is None
    assert recall(world, "note:x") is None
    assert search_notes(world, '"* OR') == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("仓库的退货必须在七天之内登记", "退货怎么办？"),
        ("返品は七日以内に登録すること", "返品について"),
        ("반품은 칠 일 안에 등록한다", "반품이 언제까지?"),
        ("VIP客户可以延期", "VIP客户"),
    ],
)
def test_notes_without_blanks_between_words_are_found(world: World, text: str, query: str) -> None:
    pointer = note(world, "ann", text)
    note(world, "bob", "货车退回了车库")  # the same letters, another word
    assert [one.pointer for one in search_notes(world, query)] == [pointer]


def test_an_issue_is_taken_by_one(world: World) -> None:
    number = open_issue(world, "broken", "", "ann", key="i")
    assert open_issue(world, "broken", "", "ann", key="i") == number
    assert not close_issue(world, number, "ann")  # nobody closes what nobody holds
    assert take_issue(world, number, "ann")
    assert not take_issue(world, number, "bob")
    assert not close_issue(world, number, "bob")
    assert close_issue(world, number, "ann")
    assert issues(world) == []
    assert issues(world, None)[0].owner == "ann"


def test_open_asks_are_those_without_an_answer(world: World) -> None:
    world.spawn("a")
    world.spawn("b")
    ask = send(world, key="q", kind="ask", sender="a", recipient="b", body="?").id
    assert [mail.id for mail in open_asks(world, "a")] == [ask]
    send(world, key="r", kind="answer", sender="b", recipient="a", body="!", about=About(thread=ask))
    assert open_asks(world, "a") == []


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=8))
def test_documents_keep_every_version(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    with World.open(tmp_path_factory.mktemp("w") / "w.sqlite") as opened:
        versions = [publish(opened, "a", text.encode("utf-8", "replace").decode(), "x") for text in texts]
        for text, version in zip(texts, versions, strict=True):
            document = read(opened, "a", version)
            assert document is not None
            assert document.body == text.encode("utf-8", "replace").decode()
