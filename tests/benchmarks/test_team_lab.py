"""Broken repositories, what rules mean, and a scripted team that learns its lead's rules."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.team_lab.learning import Arena, learn_rules, reworded, stance_of
from benchmarks.team_lab.meaning import meanings, meanings_by_words, stance, understood
from benchmarks.team_lab.phrases import HELD_OUT, SEEN, Intent
from benchmarks.team_lab.play import Played, play
from benchmarks.team_lab.repositories import generate, split, write_repository
from benchmarks.team_lab.stock import STOCK
from benchmarks.team_lab.testing import check_plain_commit
from combee.traces.mining import MiningCurator

EVERYTHING = dict.fromkeys(Intent, 1)


@pytest.fixture(scope="module")
def arena() -> Arena:
    return Arena()


def played(arena: Arena, rules: dict[Intent, int], seed: int = 0, *, edit_tool: bool = True) -> Played:
    return arena.run([generate(seed)], rules, edit_tool=edit_tool)[0]


def test_there_are_twenty_four_different_repositories_with_many_kinds_of_bugs() -> None:
    train, held_out = split()
    everything = [*train, *held_out]
    assert len({tuple(sorted(one.files.items())) for one in everything}) == 24
    assert not {one.seed for one in train} & {one.seed for one in held_out}
    kinds = Counter(bug.kind for one in everything for bug in one.bugs)
    assert len(kinds) >= 10
    assert all(len({bug.path for bug in one.bugs}) >= 3 for one in everything)


def test_what_breaks_a_module_stands_in_it_once() -> None:
    assert {part.source.count(right) for part in STOCK for right, _, _ in part.breaks} == {1}


@pytest.mark.parametrize("seed", range(3))
def test_visible_tests_see_every_bug_but_the_hidden_one_and_repairs_mend_all(tmp_path: Path, seed: int) -> None:
    broken = generate(seed)
    folder = tmp_path / "repository"
    commit = write_repository(broken, folder)

    def failing(extra: dict[str, str]) -> set[str]:
        found = check_plain_commit(folder, "main", extra=extra)
        return {name.split("::")[0] for name, error in found.items() if error}

    assert failing({}) == {bug.test for bug in broken.bugs if not bug.hidden}
    assert failing(dict(broken.deciding)) == {bug.test for bug in broken.bugs}
    assert failing({**broken.deciding, **{bug.path: bug.repaired for bug in broken.bugs}}) == set()
    assert write_repository(generate(seed), tmp_path / "again") == commit


def test_seen_phrasings_are_all_understood() -> None:
    assert understood(SEEN)[2] == []


def test_held_out_phrasings_are_understood_better_than_by_shared_words() -> None:
    # 36 of 46 and 19 of 46 when they were first read; what is missed is listed in docs/evidence/team.md, not mended.
    assert understood(HELD_OUT)[0] > 1.5 * understood(HELD_OUT, meanings_by_words)[0]
    contrary = {meaning: texts for meaning, texts in HELD_OUT.items() if meaning[1] < 0}
    assert understood(contrary)[0] > 5 * understood(contrary, meanings_by_words)[0]


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("Nobody except the developer edits the code.", 1),
        ("Nobody except the lead edits the code.", -1),
        ("The lead must never edit production code.", 1),
        ("The lead may edit production code.", -1),
    ],
)
def test_the_same_words_in_another_order_or_with_a_negation_mean_the_contrary(text: str, sign: int) -> None:
    assert meanings(text)[Intent.NO_EDIT] == sign


def test_rules_that_contradict_each_other_are_weighed_and_a_tie_says_nothing() -> None:
    forbid, allow = SEEN[Intent.NO_EDIT, 1][0], SEEN[Intent.NO_EDIT, -1][0]
    assert stance([(forbid, 2), (allow, 1)]) == {Intent.NO_EDIT: 1}
    assert stance([(forbid, 1), (allow, 1)]) == {}


def test_without_rules_the_lead_edits_and_collaboration_is_nothing(arena: Arena) -> None:
    score = played(arena, {}).score
    assert score.collaboration == 0
    assert score.lead_edits


def test_all_rules_together_give_a_full_score_and_cost_more(arena: Arena) -> None:
    alone, team = played(arena, {}), played(arena, EVERYTHING)
    assert team.score.total == pytest.approx(1)
    assert team.score.lead_edits == ()
    assert team.cost.steps > 2 * alone.cost.steps


def test_every_rule_is_needed_somewhere(arena: Arena) -> None:
    seed = next(seed for seed in range(99) if generate(seed).slow and generate(seed).fragile)

    def without(intent: Intent) -> float:
        rules = {one: 1 for one in Intent if one is not intent}
        if intent is Intent.USE_DEV:
            rules[intent] = -1  # a lead that may not edit delegates unasked
        return played(arena, rules, seed).score.total

    with ThreadPoolExecutor(2) as pool:
        scores = dict(zip(Intent, pool.map(without, Intent), strict=True))
    assert {intent for intent, total in scores.items() if total >= 1 - 1e-9} == set()


def test_taking_the_edit_tool_away_stops_the_edits_and_little_else(arena: Arena) -> None:
    control = played(arena, {}, edit_tool=False).score
    assert control.lead_edits == ()
    assert control.total < 0.6


def test_the_same_play_gives_the_same_trace(arena: Arena, tmp_path: Path) -> None:
    assert play(generate(0), tmp_path / "run", {}).trace == played(arena, {}).trace


def test_a_team_learns_rules_that_hold_on_other_repositories(arena: Arena) -> None:
    train, held_out = [generate(seed) for seed in range(3)], [generate(4)]
    rounds = list(learn_rules(train, MiningCurator(), arena, rounds=2))
    learned = stance_of(rounds[-1].after)

    def mean(rules: dict[Intent, int]) -> float:
        return sum(one.score.total for one in arena.run(held_out, rules)) / len(held_out)

    assert learned[Intent.NO_EDIT] == 1
    assert mean(learned) > mean({}) + 0.2
    assert mean(stance(reworded(rounds[-1].after, 0, contrary=True))) < mean(learned) - 0.2
