from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from combee.kernel.playbook import (
    Add,
    Bullet,
    Delta,
    Merge,
    Playbook,
    Remove,
    Revision,
    Update,
    Vote,
    VoteKind,
    apply,
    delta_of,
    replay,
)
from tests.kernel.playbook.strategies import OPERATIONS, VOTES, books

REVISIONS = st.lists(
    st.builds(
        Revision,
        OPERATIONS.map(delta_of),
        VOTES.map(tuple),
        step=st.integers(0, 5),
        near=st.sampled_from([None, 0.7]),
        budget=st.sampled_from([None, 200]),
    ),
    max_size=4,
)


@given(books(), REVISIONS)
def test_a_replay_with_nothing_left_out_is_the_history(base: Playbook, revisions: list[Revision]) -> None:
    book = base
    for revision in revisions:
        book = apply(
            book,
            revision.delta,
            votes=revision.votes,
            step=revision.step,
            budget=revision.budget,
            near=revision.near,
        ).playbook
    assert replay(base, revisions).playbook == replay(base, revisions, without=["nobody"]).playbook == book


@given(books(), REVISIONS)
def test_nothing_of_a_left_out_source_stays(base: Playbook, revisions: list[Revision]) -> None:
    done = replay(base, revisions, without=["r1", "r2"])
    assert not {"r1", "r2"} & {source for bullet in done.playbook for source in bullet.sources}
    assert len({bullet.id for bullet in done.playbook}) == len(done.playbook)
    assert all(vote.reflection != "r1" for step in done.steps for vote in step.unknown_votes)


def test_later_steps_still_find_the_bullets_they_mean() -> None:
    helpful = [Vote(reflection, "misc-00002", VoteKind.HELPFUL) for reflection in ("bad", "good")]
    revisions = [
        Revision(delta_of([Add("OTHERS", "poison", ("bad",)), Add("OTHERS", "shared", ("bad", "good"))]), step=1),
        Revision(delta_of([Add("OTHERS", "later", ("good",))]), tuple(helpful), step=2),
        Revision(
            delta_of([Update("misc-00003", "later, better", ("good",)), Add("OTHERS", "poison", ("other",))]), step=3
        ),
    ]
    full = replay(Playbook(), revisions).playbook
    texts = {bullet.text: bullet for bullet in full}
    assert set(texts) == {"poison", "shared", "later, better"}
    clean = replay(Playbook(), revisions, without=["bad"]).playbook
    kept = {bullet.text: bullet for bullet in clean}
    assert {text: bullet.id for text, bullet in kept.items()} == {text: bullet.id for text, bullet in texts.items()}
    assert kept["poison"].sources == ("other",), "a second reflection said it too"
    assert kept["poison"].created == 3
    assert kept["shared"].sources == ("good",)
    assert full.get("misc-00002") is not None
    voted = clean.get("misc-00002")
    assert voted is not None
    assert voted.helpful == 1
    assert clean.high_water == full.high_water


def test_what_a_left_out_source_removed_merged_or_rewrote_comes_back() -> None:
    base = Playbook(tuple(Bullet(f"misc-{n:05d}", "OTHERS", f"lesson {n}") for n in range(1, 6)), 5)
    delta = Delta(
        (
            Remove("misc-00001", ("bad",)),
            Update("misc-00002", "rewritten", ("bad",)),
            Merge(("misc-00003", "misc-00004"), "merged", ("bad",)),
            Update("misc-00005", "kept", ("good",)),
        )
    )
    clean = replay(base, [Revision(delta)], without=["bad"]).playbook
    assert [bullet.text for bullet in clean] == ["lesson 1", "lesson 2", "lesson 3", "lesson 4", "kept"]


def test_bullets_of_the_base_from_a_left_out_source_go_too() -> None:
    base = Playbook(
        (Bullet("a-1", "OTHERS", "x", sources=("bad",)), Bullet("a-2", "OTHERS", "y", sources=("bad", "ok")))
    )
    clean = replay(base, [], without=["bad"]).playbook
    assert [(bullet.id, bullet.sources) for bullet in clean] == [("a-2", ("ok",))]
