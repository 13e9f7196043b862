"""Well-voted bullets stay unless there is a cause, and what becomes of them is followed over the whole run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from combee.kernel.guard import Evidence, GuardLimits, GuardState, Verdict, after, follow, from_json, judge, to_json
from combee.kernel.playbook import (
    Add,
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
    delta_of,
)

Curator = Callable[[Playbook, int], Sequence[Operation]]
HARMFUL, HELPFUL = VoteKind.HARMFUL, VoteKind.HELPFUL


def lesson(number: int) -> str:
    return f"Gauge G-{number:03d} must be read twice when the pump shows {100 + number} bar at night."


def book(helpful: Sequence[int], harmful: int = 0) -> Playbook:
    rows = (Bullet(f"misc-{n:05d}", "OTHERS", lesson(n), votes, harmful) for n, votes in enumerate(helpful, 1))
    return Playbook(tuple(rows), high_water=len(helpful))


def twin(helpful: int) -> Bullet:
    return Bullet("misc-00021", "OTHERS", f"{lesson(1)} Always.", helpful)


VOTED = book([5 + n % 7 for n in range(60)])


def run(
    start: Playbook,
    curator: Curator,
    steps: int = 4,
    *,
    votes: Sequence[Vote] = (),
    limits: GuardLimits | None = None,
    watch: bool = False,
) -> tuple[Playbook, list[Verdict]]:
    """Play the loop: the curator's operations are judged, applied, and followed."""
    state, now, verdicts = GuardState(), start, []
    limits = limits or GuardLimits()
    for step in range(steps):
        items = {f"r{step}-{n}": lesson(1000 + 10 * step + n) for n in range(6)}
        new = [Add("OTHERS", text, (name,)) for name, text in items.items()]
        delta = delta_of([*new, *curator(now, step)])
        seen = Evidence(step, items, delta, before=now, votes=tuple(votes))
        verdict = judge(seen, state, limits)
        applied = apply(now, delta if watch else verdict.delta, votes=votes, step=step)
        standing, findings = follow(state.standing, seen, delta if watch else verdict.delta, applied.playbook, limits)
        verdict = replace(verdict, findings=(*verdict.findings, *findings))
        state = after(replace(state, standing=standing), seen, verdict)
        state = from_json(to_json(state))
        now = applied.playbook
        verdicts.append(verdict)
    return now, verdicts


def told(verdicts: Sequence[Verdict], level: str = "alert") -> list[str]:
    findings = [one for verdict in verdicts for one in verdict.findings if one.check == "erosion"]
    return [one.message for one in findings if one.level == level]


def first_part(now: Playbook, step: int) -> list[Operation]:
    """Removes the first 40 % of the book, whatever they are."""
    return [Remove(bullet.id, (f"r{step}-0",)) for bullet in now.bullets[: 2 * len(now) // 5]]


def test_a_curator_that_takes_out_a_part_of_the_book_at_each_step_is_told_and_takes_none_that_is_well_voted() -> None:
    last, verdicts = run(VOTED, first_part)
    assert all(bullet.id in last for bullet in VOTED)
    assert len(told(verdicts)) >= 4
    assert "24 of 60 well-voted bullets would be taken out or rewritten without cause: " in told(verdicts)[0]
    assert "misc-00007 (11 helpful)" in told(verdicts)[0]
    assert all(verdict.action == "alert" for verdict in verdicts)
    assert len(verdicts[0].refused) == 24
    reason = verdicts[0].refused[0][1]
    assert reason == "it takes out a well-voted bullet (misc-00001, 5 helpful and 0 harmful votes) without cause"


def test_a_guard_that_only_watches_says_what_is_gone_since_the_run_began() -> None:
    last, verdicts = run(VOTED, first_part, watch=True)
    assert sum(bullet.id in last for bullet in VOTED) == 0
    assert "since the run began 24 well-voted bullets are gone without cause" in told(verdicts)[1]
    assert "since the run began 60 well-voted bullets are gone without cause" in " ".join(told(verdicts))


def test_slow_erosion_is_told_once_it_is_a_fifth_of_the_votes() -> None:
    def some(now: Playbook, step: int) -> list[Operation]:
        return [Remove(bullet.id, ()) for bullet in now.bullets[:3]]

    _, verdicts = run(VOTED, some, 8, watch=True)
    when = [n for n, verdict in enumerate(verdicts) if any("since the run" in each for each in told([verdict]))]
    assert when == [4, 5, 6, 7]


@pytest.mark.parametrize(
    "emptied",
    [
        lambda b: Update(b.id, "Be careful with all gauges.", ("r0-0",)),
        lambda b: Update(b.id, lesson(999), ("r0-0",)),
        lambda b: Remove(b.id, ("r0-0",)),
        lambda b: Merge((b.id, "misc-00060"), "Check your work before you answer.", ("r0-0",)),
    ],
)
def test_a_rewrite_that_leaves_nothing_is_refused_like_a_removal(emptied: Callable[[Bullet], Operation]) -> None:
    last, verdicts = run(VOTED, lambda now, step: [emptied(now.bullets[0])] if step == 0 else [])
    assert last.bullets[0].text == lesson(1)
    assert len(verdicts[0].refused) == 1
    assert told(verdicts) == []  # one of sixty is no alert, and is noted
    assert "1 of 60 well-voted bullets" in told(verdicts, "note")[0] or "2 of 60" in told(verdicts, "note")[0]


def test_honest_refactoring_is_not_hindered_and_not_told() -> None:
    def tidy(now: Playbook, step: int) -> list[Operation]:
        old = [bullet for bullet in now if bullet.created == 0 and bullet.helpful]
        pairs = zip(old[0:12:2], old[1:12:2], strict=True)
        found: list[Operation] = [Merge((a.id, b.id), f"{a.text} Likewise: {b.text}", ()) for a, b in pairs]
        found += [Update(each.id, f"{each.text} Write the time down too.", ()) for each in old[12:18]]
        short = old[18]
        return [*found, Update(short.id, short.text.replace(" must be", "").replace(" at night", ""), ())]

    last, verdicts = run(VOTED, tidy)
    assert [verdict.action for verdict in verdicts] == ["accept"] * 4
    assert all(not verdict.refused for verdict in verdicts)
    assert told(verdicts) == told(verdicts, "note") == []
    assert sum(bullet.helpful for bullet in last) == sum(bullet.helpful for bullet in VOTED)


CAUSES: dict[str, tuple[Playbook, list[Operation], list[Vote]]] = {
    "harmful votes in the book": (book([4] * 20, harmful=2), [Remove("misc-00001", ())], []),
    "harmful votes of this step": (
        book([3] * 20),
        [Remove("misc-00001", ())],
        [Vote(f"r{n}", "misc-00001", HARMFUL) for n in range(2)],
    ),
    "the reflection it cites found it harmful": (
        book([9] * 20),
        [Remove("misc-00001", ("r0-0",))],
        [Vote("r0-0", "misc-00001", HARMFUL)],
    ),
    "a text of the same delta says it": (
        book([9] * 20),
        [Remove("misc-00001", ()), Add("OTHERS", f"{lesson(1)} Note the time.", ())],
        [],
    ),
    "another bullet says it": (
        Playbook((*book([9] * 20).bullets, twin(1)), high_water=21),
        [Remove("misc-00001", ())],
        [],
    ),
    "it has not proved itself": (book([2] * 20), [Remove("misc-00001", ())], []),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_with_a_cause_a_bullet_may_go(cause: str) -> None:
    start, operations, votes = CAUSES[cause]
    last, verdicts = run(start, lambda now, step: operations, 1, votes=votes)
    assert "misc-00001" not in last
    assert told(verdicts) == told(verdicts, "note") == []


def test_two_that_say_the_same_may_not_both_go() -> None:
    start = Playbook((*book([9] * 20).bullets, twin(8)), high_water=21)
    last, verdicts = run(start, lambda now, step: [Remove("misc-00001", ()), Remove("misc-00021", ())], 1)
    assert {"misc-00001", "misc-00021"} <= {bullet.id for bullet in last}
    assert len(verdicts[0].refused) == 2


def test_votes_of_the_step_count_for_a_bullet_too() -> None:
    votes = [Vote(f"r{n}", "misc-00001", HELPFUL) for n in range(2)]
    last, _ = run(book([1] * 20), lambda now, step: [Remove("misc-00001", ())], 1, votes=votes)
    assert "misc-00001" in last


def test_bullets_without_votes_may_go_until_half_of_the_book_did() -> None:
    last, verdicts = run(book([0] * 60), first_part)
    assert told(verdicts[:1]) == []
    assert "bullets were taken out without cause; the most it had were" in " ".join(told(verdicts))
    assert sum(bullet.id in last for bullet in book([0] * 60)) == 0


def test_what_a_full_book_evicts_is_no_erosion() -> None:
    items = {"r0": lesson(700)}
    seen = Evidence(0, items, Delta((Add("OTHERS", lesson(700), ("r0",)),)), before=VOTED)
    applied = apply(VOTED, seen.delta, budget=600)
    assert applied.evicted
    _, findings = follow(GuardState().standing, seen, seen.delta, applied.playbook, GuardLimits())
    assert findings == ()


def test_merges_that_thin_a_text_out_are_told_when_much_is_gone() -> None:
    def thin(now: Playbook, step: int) -> list[Operation]:
        old = [bullet for bullet in now if bullet.helpful and bullet.text.startswith("Gauge G-0")][:10]
        text = f"Read each gauge twice at night, step {step}."
        return [Merge(tuple(bullet.id for bullet in old), text, ())] if len(old) > 1 else []

    last, verdicts = run(VOTED, thin, 3)
    assert sum(bullet.helpful for bullet in last) == sum(bullet.helpful for bullet in VOTED)
    assert "well-voted bullets are gone without cause" in " ".join(told(verdicts))
