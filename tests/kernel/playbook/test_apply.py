from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import UsageError
from combee.kernel.playbook import (
    SECTIONS,
    Add,
    Applied,
    Bullet,
    Delta,
    Merge,
    Operation,
    Playbook,
    Remove,
    Update,
    Vote,
    VoteKind,
    apply,
    count_tokens,
    delta_of,
    from_text,
    to_text,
    tokens,
)
from combee.kernel.playbook.sections import number_of
from tests.kernel.playbook.strategies import OPERATIONS, VOTES, books

HELPFUL, HARMFUL = VoteKind.HELPFUL, VoteKind.HARMFUL


def book_of(*bullets: Bullet) -> Playbook:
    return Playbook(bullets)


def counted(book: Playbook) -> int:
    return sum(bullet.helpful + bullet.harmful for bullet in book)


# Budget ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_full", ["refuse", "evict"])
@pytest.mark.parametrize("counter", ["chars/4", "words"])
def test_many_steps_of_adds_never_pass_the_budget(on_full: str, counter: str) -> None:
    rng = random.Random(1)
    book = Playbook(counter=counter)
    refused = 0
    for step in range(300):
        text = " ".join(rng.choices(["units", "ratio", "margin", "equity", "of", "the"], k=rng.randint(3, 30)))
        delta = delta_of([Add(rng.choice(list(SECTIONS)), f"{text} {step}.{n}", (f"r{step}",)) for n in range(3)])
        done = apply(book, delta, step=step, budget=1_000, on_full=on_full)  # type: ignore[arg-type]  # a parameter
        assert tokens(done.playbook) <= 1_000
        assert len(done.added) + len(done.refused) == 3
        assert all("budget is 1000" in refusal.reason for refusal in done.refused)
        assert done.playbook.high_water == book.high_water + len(done.added), "a refusal burns no id"
        refused += len(done.refused)
        book = done.playbook
    assert (refused > 500) == (on_full == "refuse")
    assert tokens(book) > 900


@pytest.mark.parametrize("counter", ["chars/4", "words"])
@pytest.mark.parametrize("section", ["OTHERS", "CODE SNIPPETS & TEMPLATES", "Tax rules"])
def test_exactly_the_budget_is_accepted_and_one_token_less_refuses_whole(counter: str, section: str) -> None:
    base = Playbook((Bullet("misc-00001", "OTHERS", "old"),), 1, counter)
    add = Add(section, "a lesson of a few words " * 5, ("r1",))
    size = tokens(apply(base, Delta((add,))).playbook)
    exact = apply(base, Delta((add,)), budget=size)
    assert exact.added
    assert tokens(exact.playbook) == size == count_tokens(to_text(exact.playbook, mark=False), counter)
    short = apply(base, Delta((add,)), budget=size - 1)
    assert [refusal.operation for refusal in short.refused] == [add]
    assert short.playbook.bullets == base.bullets
    assert short.playbook.high_water == 1


def test_an_update_that_would_break_the_budget_is_refused_and_one_that_shrinks_is_not() -> None:
    base = book_of(Bullet("misc-00001", "OTHERS", "x" * 40), Bullet("misc-00002", "OTHERS", "y" * 40))
    budget = tokens(base)
    grown = apply(base, Delta((Update("misc-00001", "x" * 60, ("r1",)),)), budget=budget)
    assert grown.playbook.bullets == base.bullets
    assert "budget" in grown.refused[0].reason
    shrunk = apply(base, Delta((Update("misc-00001", "z", ("r1",)), Add("OTHERS", "w"))), budget=budget)
    assert not shrunk.refused


def test_the_stated_policy_says_who_leaves_first() -> None:
    base = book_of(
        Bullet("misc-00001", "OTHERS", "oldest, used", helpful=3, last_used=2),
        Bullet("misc-00002", "OTHERS", "never used"),
        Bullet("misc-00003", "OTHERS", "as harmful as helpful", helpful=1, harmful=1, last_used=1),
        Bullet("misc-00004", "OTHERS", "very harmful thing", helpful=1, harmful=4, last_used=1),
        Bullet("misc-00005", "OTHERS", "newer, never used", created=5),
        Bullet("misc-00006", "OTHERS", "helpful and harmful", helpful=3, harmful=2, last_used=1, created=9),
    )
    expected = ["misc-00004", "misc-00003", "misc-00002", "misc-00005", "misc-00001", "misc-00006"]
    for count in range(1, 7):
        delta = delta_of(Add("OTHERS", f"new lesson {n} {'x' * 20}") for n in range(count))
        evicted = apply(base, delta, step=10, budget=tokens(base), on_full="evict").evicted
        assert list(evicted) == expected[: len(evicted)]
        assert len(evicted) >= count


def test_one_large_lesson_never_empties_the_book_in_vain() -> None:
    base = book_of(*(Bullet(f"misc-{n:05d}", "OTHERS", f"lesson {n}") for n in range(1, 20)))
    huge = Add("OTHERS", "x" * 5_000)
    done = apply(base, Delta((huge,)), budget=tokens(base), on_full="evict")
    assert done.playbook.bullets == base.bullets
    assert [refusal.operation for refusal in done.refused] == [huge]


def test_votes_that_make_the_book_longer_do_not_pass_the_budget_either() -> None:
    base = book_of(*(Bullet(f"misc-{n:05d}", "OTHERS", f"lesson {n}", helpful=9) for n in range(1, 9)))
    votes = [Vote("r1", bullet.id, HELPFUL) for bullet in base]
    done = apply(base, Delta(), votes=votes, budget=tokens(base))
    assert tokens(done.playbook) <= tokens(base)
    assert len(done.evicted) == 1


@given(
    books(),
    OPERATIONS,
    VOTES,
    st.integers(0, 300),
    st.tuples(st.sampled_from(["refuse", "evict"]), st.sampled_from([None, 0.7])),
)
def test_no_budget_is_ever_exceeded_and_nothing_goes_unreported(
    base: Playbook, operations: list[Operation], votes: list[Vote], budget: int, rules: tuple[str, float | None]
) -> None:
    on_full, near = rules
    done = apply(base, delta_of(operations), votes=votes, budget=budget, on_full=on_full, near=near)  # type: ignore[arg-type]
    assert tokens(done.playbook) <= budget
    assert tokens(done.playbook) == count_tokens(to_text(done.playbook, mark=False), base.counter)
    adds = [operation for operation in delta_of(operations) if isinstance(operation, Add)]
    refused = [refusal.operation for refusal in done.refused]
    assert all((add in done.added) + (add in done.folded) + (add in refused) == 1 for add in adds)
    gone = {*done.removed, *done.merged, *done.evicted}
    assert {bullet.id for bullet in base} - gone <= {bullet.id for bullet in done.playbook}
    assert done.playbook.high_water >= max(number_of(bullet.id) for bullet in base) if base.bullets else True


# Votes ----------------------------------------------------------------------------------------------------------------


def test_three_reflections_make_three_votes_and_a_reflection_read_twice_makes_one() -> None:
    base = book_of(Bullet("ph-00001", "PROBLEM-SOLVING HEURISTICS", "x"))
    votes = [Vote(reflection, "ph-00001", HELPFUL) for reflection in ("r1", "r2", "r3", "r1")]
    done = apply(base, Delta(), votes=votes, step=4)
    assert done.playbook.bullets[0].helpful == 3
    assert done.playbook.bullets[0].last_used == 4
    assert done.changed == ("ph-00001",)


def test_helpful_and_harmful_from_one_reflection_are_one_each() -> None:
    base = book_of(Bullet("ph-00001", "OTHERS", "x"))
    bullet = apply(
        base, Delta(), votes=[Vote("r1", "ph-00001", HELPFUL), Vote("r1", "ph-00001", HARMFUL)]
    ).playbook.bullets[0]
    assert (bullet.helpful, bullet.harmful) == (1, 1)


def test_votes_on_unknown_bullets_are_named_and_do_nothing() -> None:
    base = book_of(Bullet("ph-00001", "OTHERS", "x"))
    lost = Vote("r1", "foo-99999", HELPFUL)
    done = apply(base, Delta(), votes=[lost, lost])
    assert done.unknown_votes == (lost,)
    assert done.playbook.bullets == base.bullets


def test_use_without_a_vote_is_remembered() -> None:
    base = book_of(Bullet("ph-00001", "OTHERS", "x"))
    assert apply(base, Delta(), used=["ph-00001", "no-1"], step=3).playbook.bullets[0].last_used == 3


@given(books(), OPERATIONS, VOTES, st.sampled_from([None, 0.7]))
def test_counters_are_conserved(
    base: Playbook, operations: list[Operation], votes: list[Vote], near: float | None
) -> None:
    voted = apply(base, Delta(), votes=votes).playbook
    done = apply(base, delta_of(operations), votes=votes, near=near)
    gone = sum(bullet.helpful + bullet.harmful for bullet in voted if bullet.id in done.removed)
    assert counted(voted) == counted(base) + len(set(votes)) - len(done.unknown_votes)
    assert counted(done.playbook) + gone == counted(voted)
    kept = {source for bullet in done.playbook for source in bullet.sources}
    removed = {source for bullet in base if bullet.id in done.removed for source in bullet.sources}
    assert {source for bullet in base for source in bullet.sources} <= kept | removed


# Order and ids --------------------------------------------------------------------------------------------------------


@given(books(), OPERATIONS, VOTES, st.randoms(use_true_random=False), st.none() | st.integers(0, 300))
def test_the_order_in_which_things_arrive_never_matters(
    base: Playbook, operations: list[Operation], votes: list[Vote], rng: random.Random, budget: int | None
) -> None:
    mixed, mixed_votes = rng.sample(operations, len(operations)), rng.sample(votes, len(votes))

    def outcome(some: list[Operation], ballots: list[Vote]) -> Applied:
        return apply(base, Delta(tuple(some)), votes=ballots, budget=budget, near=0.7, on_full="evict")

    assert outcome(operations, votes) == outcome(mixed, mixed_votes) == outcome([*mixed, *operations], [*votes, *votes])


@given(books(), OPERATIONS)
def test_ids_are_unique_and_never_given_again(base: Playbook, operations: list[Operation]) -> None:
    done = apply(base, delta_of(operations))
    ids = [bullet.id for bullet in done.playbook]
    assert len(set(ids)) == len(ids)
    highest = max([base.high_water, *(number_of(bullet.id) for bullet in base)])
    assert all(number_of(new) > highest for new in done.added.values())
    again = apply(done.playbook, delta_of([Remove(new) for new in done.added.values()] + [Add("OTHERS", "really new")]))
    assert not set(again.added.values()) & set(ids)


def test_a_warm_start_goes_on_counting() -> None:
    base = from_text("## OTHERS\n[misc-00001] helpful=0 harmful=0 :: x\n").playbook
    done = apply(base, Delta((Add("others", "y"),)))
    assert list(done.added.values()) == ["misc-00002"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## OTHERS\n[misc-00041] helpful=0 harmful=0 :: x\n", "misc-00042"),
        ("[calc-00007] x\n", "misc-00008"),
        ("## OTHERS\n[misc-99999] x\n", "misc-100000"),
        ("", "misc-00001"),
    ],
)
def test_other_warm_starts(text: str, expected: str) -> None:
    assert list(apply(from_text(text).playbook, Delta((Add("others", "y"),))).added.values()) == [expected]


def test_a_removed_id_is_not_given_again_after_a_round_trip() -> None:
    base = book_of(Bullet("misc-00001", "OTHERS", "x"), Bullet("misc-00002", "OTHERS", "y"))
    less = apply(base, Delta((Remove("misc-00002"),))).playbook
    warm = from_text(to_text(less)).playbook
    assert list(apply(warm, Delta((Add("OTHERS", "z"),))).added.values()) == ["misc-00003"]


@given(books())
def test_an_empty_delta_changes_nothing_but_keeps_sections_together(base: Playbook) -> None:
    done = apply(base, Delta())
    assert {bullet.id: (bullet.text, bullet.helpful, bullet.harmful) for bullet in base} == {
        bullet.id: (bullet.text, bullet.helpful, bullet.harmful) for bullet in done.playbook
    }
    sections = [bullet.section for bullet in done.playbook]
    assert len(dict.fromkeys(sections)) == sum(
        one != other for one, other in zip(sections, ["", *sections], strict=False)
    )
    assert apply(done.playbook, Delta()).playbook == done.playbook


# What wins ------------------------------------------------------------------------------------------------------------

THREE = book_of(
    Bullet("misc-00001", "OTHERS", "one", 1, 0, ("a",)),
    Bullet("misc-00002", "OTHERS", "two", 2, 1, ("b",), created=1, last_used=3),
    Bullet("misc-00003", "OTHERS", "three", 0, 4, ("c",)),
)


def test_the_same_add_twice_is_one_bullet_with_both_sources() -> None:
    done = apply(Playbook(), Delta((Add("OTHERS", "x", ("r1",)), Add("others", "x", ("r2",)))))
    assert [bullet.sources for bullet in done.playbook] == [("r1", "r2")]


@pytest.mark.parametrize("text", ["one", " one", "one\r\n", "one  "])
@pytest.mark.parametrize("section", ["OTHERS", "CODE SNIPPETS & TEMPLATES"])
def test_an_add_of_what_a_bullet_says_adds_its_sources_there(text: str, section: str) -> None:
    add = Add(section, text, ("r9",))
    done = apply(THREE, Delta((add,)), budget=tokens(THREE))
    assert done.folded == {add: "misc-00001"}
    assert len(done.playbook) == 3
    assert done.playbook.bullets[0].sources == ("a", "r9")
    assert done.playbook.bullets[0].text == "one"


def test_remove_beats_update_and_merge() -> None:
    delta = Delta(
        (Update("misc-00001", "x", ("r1", "r2")), Merge(("misc-00001", "misc-00002"), "y"), Remove("misc-00001"))
    )
    done = apply(THREE, delta)
    assert done.removed == ("misc-00001",)
    assert len(done.refused) == 2
    assert all("REMOVE wins" in refusal.reason for refusal in done.refused)
    assert done.playbook.bullets == THREE.bullets[1:]


def test_of_two_updates_the_greater_support_wins_then_the_smaller_hash() -> None:
    weak, strong = Update("misc-00001", "weak", ("r1",)), Update("misc-00001", "strong", ("r2", "r3"))
    done = apply(THREE, Delta((weak, strong)))
    assert done.playbook.bullets[0].text == "strong"
    assert done.playbook.bullets[0].sources == ("a", "r2", "r3")
    assert [refusal.operation for refusal in done.refused] == [weak]
    tied = {
        apply(THREE, Delta(pair)).playbook
        for pair in [(weak, Update("misc-00001", "w2", ("r9",))), (Update("misc-00001", "w2", ("r9",)), weak)]
    }
    assert len(tied) == 1


def test_a_merge_adds_up_counters_and_sources_under_the_oldest_id() -> None:
    done = apply(
        THREE, Delta((Merge(("misc-00003", "misc-00002"), "both", ("r1",)), Update("misc-00003", "lost", ("r2",))))
    )
    assert done.playbook.bullets[1] == Bullet("misc-00002", "OTHERS", "both", 2, 5, ("b", "c", "r1"), 0, 3)
    assert done.merged == {"misc-00003": "misc-00002"}
    assert "MERGE wins" in done.refused[0].reason


def test_of_overlapping_merges_one_is_done_whole() -> None:
    weak = Merge(("misc-00001", "misc-00002"), "weak", ("r1",))
    strong = Merge(("misc-00002", "misc-00003"), "strong", ("r1", "r2"))
    done = apply(THREE, Delta((weak, strong)))
    assert [bullet.text for bullet in done.playbook] == ["one", "strong"]
    assert [refusal.operation for refusal in done.refused] == [weak]


def test_an_update_to_what_another_bullet_says_makes_them_one() -> None:
    done = apply(THREE, Delta((Update("misc-00003", "two", ("r1",)),)))
    assert done.playbook.bullets[1] == Bullet("misc-00002", "OTHERS", "two", 2, 5, ("b", "c", "r1"), 0, 3)
    assert done.merged == {"misc-00003": "misc-00002"}


@pytest.mark.parametrize(
    "operation",
    [
        Update("foo-00001", "x"),
        Remove("foo-00001"),
        Merge(("misc-00001", "foo-00001"), "x"),
        Merge(("misc-00001",), "x"),
        Add("OTHERS", " \n"),
        Update("misc-00001", ""),
        Merge(("misc-00001", "misc-00002"), ""),
    ],
)
def test_what_cannot_be_done_is_refused_alone_with_a_reason(operation: Operation) -> None:
    done = apply(THREE, Delta((operation, Add("OTHERS", "good"))))
    assert [refusal.operation for refusal in done.refused] == [operation]
    assert done.refused[0].reason
    assert len(done.playbook) == 4


def test_near_folding_keeps_what_differs_in_a_number() -> None:
    base = book_of(Bullet("misc-00001", "OTHERS", "Always check the 3 units before adding numbers.", 2, 0, ("a",)))
    same, other = (
        Add("OTHERS", "check the 3 units before adding numbers", ("b",)),
        Add("OTHERS", "check the 4 units before adding numbers", ("c",)),
    )
    done = apply(base, Delta((same, other)), near=0.7)
    assert done.folded == {same: "misc-00001"}
    assert list(done.added) == [other]
    assert done.playbook.bullets[0].sources == ("a", "b")


def test_new_sections_follow_in_the_order_of_the_reference() -> None:
    done = apply(
        Playbook(),
        delta_of(Add(section, f"in {section}") for section in ["Zebra", "Apple", "OTHERS", "STRATEGIES & INSIGHTS"]),
    )
    assert [bullet.section for bullet in done.playbook] == ["STRATEGIES & INSIGHTS", "OTHERS", "Apple", "Zebra"]


def test_spellings_of_an_own_section_are_one_section() -> None:
    base = book_of(Bullet("tr-00001", "Tax rules", "x"))
    done = apply(base, delta_of([Add("TAX RULES", "y"), Add("tax_rules", "z")]))
    assert {bullet.section for bullet in done.playbook} == {"Tax rules"}


@pytest.mark.parametrize("options", [{"budget": -1}, {"near": 0.0}, {"near": 1.5}, {"on_full": "explode"}])
def test_impossible_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        apply(Playbook(), Delta(), **options)  # type: ignore[arg-type]  # wrong on purpose


def test_two_bullets_with_one_id_are_an_error_not_a_loss() -> None:
    with pytest.raises(UsageError, match="same id"):
        apply(book_of(Bullet("a-1", "OTHERS", "x"), Bullet("a-1", "OTHERS", "y")), Delta())
