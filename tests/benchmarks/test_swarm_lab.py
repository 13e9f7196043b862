"""The experiments run through the runtime, come out the same again, and their verdicts can go either way."""

from __future__ import annotations

import math
import re
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from benchmarks.swarm_lab import EXPERIMENTS
from benchmarks.swarm_lab.__main__ import main
from benchmarks.swarm_lab.budget import Spent, spend
from benchmarks.swarm_lab.capacity import largest, outcome
from benchmarks.swarm_lab.errors import (
    CENTRE,
    NONE,
    REUSED,
    VOTE,
    Chains,
    Slips,
    Work,
    pays_from,
    run_chains,
    unslipped,
)  # fmt: skip
from benchmarks.swarm_lab.joint import ALL, NUMBER, PAIRS, TENTH, joint
from benchmarks.swarm_lab.lab import DOCUMENT, WINDOW, Facts
from benchmarks.swarm_lab.learning import NONE as NO_LESSONS
from benchmarks.swarm_lab.learning import SAME, VIEW, WHOLE, controlled
from benchmarks.swarm_lab.load import Demand, run_load
from benchmarks.swarm_lab.memory import reduce_traces, specialise, stale
from benchmarks.swarm_lab.pages import apart
from benchmarks.swarm_lab.reading import ALL as READ
from benchmarks.swarm_lab.reading import PROGRAM, SAMPLE, computed, recall
from benchmarks.swarm_lab.result import Curve, Experiment, Setting, Verdict, constructed, judge
from benchmarks.swarm_lab.spread import Spread, above, mean_of, median_of
from benchmarks.swarm_lab.structure import edits
from benchmarks.swarm_lab.team import DIRECTORY, FLAT, LEADS, TREE, crossing, team
from benchmarks.swarm_lab.ways import chain, disk, fresh, persistent, reports
from combee.swarm.context import count

FIGURE = re.compile(r"\d+[.,]\d+")


def test_a_document_takes_what_it_says_and_facts_are_drawn_by_seed() -> None:
    facts = Facts.draw(50, 1, share=0.2, foreseen=0.5)
    assert {count(facts.document(number) + "\n") for number in range(50)} == {DOCUMENT}
    assert facts == Facts.draw(50, 1, share=0.2, foreseen=0.5)
    assert facts != Facts.draw(50, 2, share=0.2, foreseen=0.5)


def test_what_fits_one_window_is_right_and_what_does_not_needs_a_way() -> None:
    two_windows = 2 * WINDOW // DOCUMENT
    blind = outcome(chain(0.0, 0.2), two_windows, 0)
    assert blind.right < 0.8
    assert blind.compactions >= 1
    assert outcome(chain(1.0, 0.05), two_windows, 0).right == 1
    assert outcome(disk(addressable=True), two_windows, 0).right == 1
    assert outcome(disk(addressable=False), two_windows, 0).right < 0.8
    assert outcome(persistent(1), two_windows, 0).right < 0.5
    kept = outcome(persistent(4), two_windows, 0)
    once = outcome(fresh(), two_windows, 0, questions=6)
    assert kept.right == once.right == 1
    assert once.tokens > 2 * kept.tokens


def test_reports_written_before_the_questions_hold_what_was_foreseen_and_fits() -> None:
    two_windows = 2 * WINDOW // DOCUMENT
    assert outcome(reports(1.0, 0.05), two_windows, 0).right == 1
    assert outcome(reports(1.0, 0.5), two_windows, 0).right < 0.8
    assert outcome(reports(0.0, 0.05), two_windows, 0).right < 0.8


def test_a_fresh_agent_that_is_told_the_path_reads_no_more_than_it_leads_to() -> None:
    told = [outcome(fresh(what), 2 * WINDOW // DOCUMENT, 0, questions=6) for what in ("nothing", "part", "document")]
    assert [one.right for one in told] == [1, 1, 1]
    assert told[0].tokens > 2 * told[1].tokens > 20 * told[2].tokens
    stays = spend(persistent(3), 200, 0, 12)[0]
    path, document = (spend(fresh(what), 200, 0, 12)[0] for what in ("part", "document"))
    assert stays.tokens[1] > path.tokens[1]  # reading everything first does not pay for one question
    assert stays.tokens[12] < path.tokens[12]  # and does for twelve about it
    assert stays.tokens[12] > document.tokens[12]  # never where the path leads to the very document


def test_capacity_grows_with_agents_unless_the_parts_do_not_compress() -> None:
    def size(agents: int, start: float) -> float:
        return largest(partial(outcome, persistent(agents), seed=0), 4, start=start, steps=2).size

    assert 1.7 < size(2, 1) < 2
    assert 0.8 < size(1, 4) < 1
    for kind, documents, right in (
        (NUMBER, 2000, 1), (TENTH, 2000, 0), (TENTH, 800, 1), (ALL, 110, 0), (ALL, 70, 1), (PAIRS, 180, 1),
    ):  # fmt: skip
        assert outcome(joint(24 if kind in {NUMBER, TENTH} else 5, kind), documents, 0).right == right, kind


def test_readers_that_forget_forget_more_of_a_full_window() -> None:
    assert recall(3, 0.0, 2, 0).right == 1
    full, light = recall(3, 0.5, 2, 0), recall(12, 0.5, 2, 0)
    assert full.right < 0.8 < light.right
    asked = recall(3, 0.5, 2, 0, tries=3)
    assert full.right < asked.right
    assert full.tokens < asked.tokens


def test_a_program_counts_what_its_writer_has_words_for() -> None:
    reads = computed(READ, 1, 32, 1)
    guess, whole = computed(SAMPLE, 1, 32, 1), computed(PROGRAM, 1, 32, 1)
    assert (reads.right, guess.right, whole.right) == (1, 0, 1)
    assert guess.tokens < whole.tokens < reads.tokens
    assert computed(SAMPLE, 1, 1, 0).right == 1
    assert computed(PROGRAM, 1, 0, 0).tokens > computed(READ, 1, 0, 0).tokens  # each document has words of its own


def test_the_root_of_a_tree_carries_what_peers_of_a_mesh_do_not() -> None:
    tree, mesh = run_load("tree", Demand(50, 60)), run_load("directory", Demand(50, 60))
    assert tree.name == "a00000"
    assert tree.busiest > 5 * mesh.busiest
    assert tree.root == tree.routed > 0  # arithmetic on the tree, without a run, says the same
    hot = run_load("directory", Demand(50, 100, zipf=True))
    assert run_load("directory", Demand(50, 100, zipf=True, replicas=8)).busiest < hot.busiest


def test_copies_that_bring_back_more_leave_fewer_cold_starts() -> None:
    none, digest, full = (specialise(kind, 40, 0) for kind in ("none", "digest", "full"))
    assert none.entropy > 0.5 > digest.entropy
    assert full.cold < digest.cold
    assert specialise("digest", 48, 0, at_once=24).entropy > digest.entropy == 0  # nobody looked first


def test_a_reducer_that_asks_has_what_the_reflections_left_out() -> None:
    told = [reduce_traces(6, share, 0, asks=False).kept for share in (0.0, 1.0)]
    asked = [reduce_traces(6, share, 0, asks=True).kept for share in (0.0, 1.0)]
    assert told[0] < 0.7
    assert told[1] == 1
    assert asked == [1, 1]
    assert reduce_traces(6, 0.0, 0, asks=True, since=8).kept < 0.7  # it has forgotten meanwhile


def test_stamps_notice_what_has_changed() -> None:
    assert stale(0.3, 0, stamps=False)[0] == pytest.approx(0.7)
    assert stale(0.3, 0, stamps=True)[0] == 1


def test_edits_by_agents_shorten_the_ways() -> None:
    found = [edits(who, 0, agents=14, budget=4, sample=20)[0] for who in ("all mail", "agents", "fixed")]
    assert found[0] < found[2]
    assert found[1] < found[2]


def test_a_check_stops_the_slips_of_a_reader_and_not_those_of_a_source() -> None:
    own = {way: run_chains(Work(way, Slips(0.3), 6, 4)) for way in (NONE, CENTRE, VOTE)}
    assert own[NONE].right[-1] < 0.6
    assert own[CENTRE].right[-1] == 1
    assert own[CENTRE].tokens[-1] > own[NONE].tokens[-1]
    assert own[VOTE].right[-1] >= own[NONE].right[-1]
    source = [run_chains(Work(way, Slips(0.3, shared=1.0), 6, 4)) for way in (NONE, CENTRE)]
    assert source[0].right == source[1].right
    assert source[0].right[-1] < 0.6
    flawless = [run_chains(Work(way, Slips(0), 2, 3)) for way in (NONE, CENTRE)]
    assert min(flawless[0].right + flawless[1].right) == 1
    assert pays_from(flawless[1], flawless[0]) == math.inf


@pytest.mark.parametrize("slips", [Slips(0.3), Slips(0.4, shared=0.5)])
def test_without_a_check_the_dice_alone_say_how_much_is_right(slips: Slips) -> None:
    for seed in (0, 1):
        work = Work(NONE, slips, 6, 4, seed=seed)
        assert run_chains(work).right == unslipped(work)
    assert run_chains(Work(CENTRE, slips, 6, 4)).right != unslipped(Work(CENTRE, slips, 6, 4))


def test_what_is_used_again_is_checked_and_the_uses_are_not() -> None:
    none, all_, some = (run_chains(Work(way, Slips(0.3), 6, 2, uses=3)) for way in (NONE, CENTRE, REUSED))
    assert some.right[1] == all_.right[1] == all_.right[2] == 1
    assert none.right[2] < some.right[2] < 1
    assert none.tokens[2] < some.tokens[2] < all_.tokens[2]


def test_checking_pays_from_the_depth_after_the_last_at_which_it_does_not() -> None:
    cheap = Chains((0.9, 0.3, 0.2), (100, 200, 300), 1)
    dear = Chains((1.0, 1.0, 1.0), (200, 400, 600), 1)
    assert cheap.yielded(1) == 9000
    assert pays_from(dear, cheap) == 2
    assert pays_from(cheap, dear) == math.inf
    assert pays_from(Chains((0.95, 0.5, 0.3), (100, 200, 300), 1), cheap) == 1


@pytest.mark.parametrize("way", [FLAT, DIRECTORY, LEADS, TREE])
def test_a_team_finds_what_it_needs_after_changes_and_gathers_everything(way: str) -> None:
    assert team(way, 9, 0.5, 0, tasks=8).right == 1
    assert team(way, 9, 0.5, 0, tasks=2, gather=True).right == 1


def test_a_layer_pays_where_news_are_many_and_not_where_there_are_none() -> None:
    calm = {way: team(way, 16, 0, 0, tasks=10) for way in (FLAT, LEADS, DIRECTORY)}
    busy = {way: team(way, 16, 1, 0, tasks=10) for way in (FLAT, LEADS, DIRECTORY)}
    assert calm[LEADS].messages > calm[FLAT].messages == calm[DIRECTORY].messages
    assert busy[FLAT].messages > busy[LEADS].messages > busy[DIRECTORY].messages
    assert busy[FLAT] == team(FLAT, 16, 1, 0, tasks=10)


def test_a_crossing_is_where_the_last_doubt_ends() -> None:
    assert crossing((2, 4, 8, 16), lambda size: size >= 6) == 6
    assert crossing((2, 4, 8), lambda size: True) == 2
    assert crossing((2, 4, 8), lambda size: size < 5) == math.inf


def test_a_budget_pays_reading_first() -> None:
    spent = Spent((100, 110, 120, 130), (0, 1, 1, 2))
    shares = [spent.within(tokens) for tokens in (50, 109, 110, 1000)]
    assert shares == pytest.approx([0, 0, 1 / 3, 2 / 3])
    assert spent.reach(0.5) == 130
    assert spent.reach(0.9) == float("inf")
    stays, cached = spend(persistent(2), 150, 0, 4)
    once, _ = spend(fresh(), 150, 0, 4)
    assert stays.right[-1] == once.right[-1] == 4
    assert once.tokens[0] == 0 < stays.tokens[0]
    assert once.each > 2 * stays.each > 2 * cached.each


def test_an_experiment_is_repeated_exactly_and_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.md"
    pages = []
    for seed in ("7", "7", "8"):
        assert main(["returns", "--quick", "--seed", seed, "--out", str(out)]) == 0
        pages.append(out.read_text(encoding="utf-8"))
    assert pages[0] == pages[1]
    assert pages[0] != pages[2].replace("--seed 8", "--seed 7")
    assert "python -m benchmarks.swarm_lab returns --seed 7 --seeds 2 --quick" in pages[0]
    assert "BY CONSTRUCTION: Asked one at a time" in capsys.readouterr().out
    assert main(["staleness", "--quick", "--out", str(out)]) == 0
    assert "| 30% | 70.0% | 100.0% |" in out.read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["staleness", "--quick", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().out == ""  # said before anything is measured
    assert main(["capcity"]) == 2
    assert "Did you mean 'capacity'" in capsys.readouterr().err


def test_views_are_measured_against_the_whole_playbook_in_a_window_that_holds_it() -> None:
    found = controlled(0, desks=3, rounds=3)
    assert found.right[VIEW] > found.right[NO_LESSONS] + 0.2
    assert found.right[VIEW] > found.right[SAME]
    assert found.right[WHOLE] > found.right[NO_LESSONS] + 0.2
    assert found.tokens[WHOLE] > 2 * found.tokens[VIEW]
    assert found.named == 1


def test_marks_of_a_line_stand_apart_and_its_ends_stay() -> None:
    steep = [(float(100 + n), n / 40) for n in range(41)]
    wide = [(10.0**n, 0.5) for n in range(5)]
    line = apart(Curve("c", "", "", "", {"steep": [(0, 0), *steep], "wide": wide, "none": []}, log_y=False))
    assert line["wide"] == wide  # each is a decade from the next: as they were
    assert line["none"] == []
    assert (line["steep"][0], line["steep"][-1]) == (steep[0], steep[-1])  # a logarithmic axis has no 0
    gaps = [b[1] - a[1] for a, b in pairwise(line["steep"])]
    assert len(gaps) >= 9
    assert min(gaps) >= 0.08 - 1e-9
    assert apart(Curve("c", "", "", "", {"two": [(1, 1), (8, 8), (9, 9)]})) == {"two": [(1, 1), (9, 9)]}
    assert apart(Curve("c", "", "", "", {"none": [(0, 0)]})) == {"none": []}


def test_a_verdict_follows_from_the_cases_and_their_intervals() -> None:
    cases = ([True, True], [True, None], [True, False], [False, None], [False, False])
    found = [judge("", "", one).verdict for one in cases]
    assert found == ["holds", "holds only if", "holds only if", "undecided", "does not hold"]
    assert constructed("", "", [(0.5, 0.5), (0.1 + 0.2, 0.3)]).verdict == "by construction"
    assert constructed("", "", [(0.5, 0.5), (0.5, 0.6)]).verdict == "does not hold"  # one seed is enough
    some = mean_of([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert (some.low, some.high) == pytest.approx((5.5 - 2.166, 5.5 + 2.166), abs=0.005)  # of a table: t = 2.262
    assert [above(some, bar) for bar in (3, 5, 8)] == [True, None, False]
    assert above(Spread(0, 0, 0), 0) is False  # a tie is no gain
    assert f"{mean_of([4, 4, 4]):.1f} {median_of([math.inf] * 3):.0f}" == "4.0 never"
    mixed = median_of([3, 4, 5, math.inf, math.inf])
    assert (mixed.value, mixed.low, mixed.high) == (5, 3, math.inf)
    assert f"{Spread(0.99, 0.95, 1.03):.0%}" == "99% (95% to 100%)"


def test_a_stop_keeps_the_experiments_that_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(setting: Setting) -> Experiment:
        raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "load", stopped)
    out = tmp_path / "found.md"
    assert main(["staleness", "load", "--quick", "--out", str(out)]) == 130
    said = capsys.readouterr().err
    assert "[1/2] staleness" in said
    assert f"1 of 2 experiments done and kept in {out}" in said
    assert "go stale unnoticed" in out.read_text(encoding="utf-8")


def test_the_page_on_swarms_says_what_was_measured() -> None:
    short, full = (
        (Path(__file__).parents[2] / "docs" / "evidence" / page).read_text(encoding="utf-8")
        for page in ("swarm-runtime.md", "swarm.md")
    )
    rows = [line.split("|")[2].strip(" *") for line in full.splitlines() if line.count("|") > 3]
    claims = sum(verdict in get_args(Verdict) for verdict in rows)
    part = short.partition("## What was measured")[2].partition("## What holds")[0]
    assert f"{claims} claims" in part
    said = [number for line in part.splitlines() if line.startswith(("- ", "  ")) for number in FIGURE.findall(line)]
    assert len(said) > 8
    assert [number for number in said if number not in full] == []
