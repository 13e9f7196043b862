"""The canary's test: what it promises on simulated traffic, with seeds."""

from __future__ import annotations

import math
import random
from statistics import median

from combee.serve.canary import GOOD, WORSE, ArmEvidence, is_on_trial


def _until(old: float, new: float, *, seed: int, most: int, drift: float = 0.0) -> tuple[str | None, int]:
    drawn = random.Random(seed)
    evidence = ArmEvidence(0.2)
    for number in range(most):
        on_trial = drawn.random() < 0.2
        rate = (new if on_trial else old) + drift * math.sin(number / 200)
        evidence.add(on_trial=on_trial, failed=drawn.random() < rate)
        if verdict := evidence.verdict():
            return verdict, number + 1
    return None, most


def test_a_version_that_fails_as_often_is_hardly_ever_rolled_back_however_the_rate_drifts() -> None:
    found = [_until(0.3, 0.3, seed=seed, most=2000, drift=0.2)[0] for seed in range(150)]
    assert found.count("worse") <= 1  # 1 % of them, and a hair more than that would be chance


def test_a_version_that_breaks_everything_is_rolled_back_within_a_hundred_outcomes() -> None:
    found = [_until(0.3, 0.9, seed=seed, most=1000) for seed in range(60)]
    assert {verdict for verdict, _ in found} == {"worse"}
    assert median(count for _, count in found) <= 100


def test_a_version_that_fails_a_third_more_is_rolled_back_within_five_thousand() -> None:
    found = [_until(0.3, 0.4, seed=seed, most=5000)[0] for seed in range(40)]
    assert found.count("worse") >= 36


def test_what_fails_a_quarter_more_is_seldom_promoted_and_what_is_better_is() -> None:
    assert [_until(0.2, 0.25, seed=seed, most=2000)[0] for seed in range(60)].count("good") <= 6
    assert [_until(0.2, 0.1, seed=seed, most=5000)[0] for seed in range(30)].count("good") == 30


def test_the_expectation_of_each_bet_is_at_most_one_under_what_it_bets_against() -> None:
    """Summed over arm and outcome from many states: this, not a simulation, is what makes it safe."""
    drawn = random.Random(7)
    for _ in range(200):
        share, rate = drawn.uniform(0.05, 0.5), drawn.uniform(0.01, 0.99)
        start = ArmEvidence(share)
        for _ in range(drawn.randrange(30)):
            start.add(on_trial=drawn.random() < share, failed=drawn.random() < drawn.random())
        worse = good = 0.0
        for on_trial in (True, False):
            for failed in (True, False):
                after = ArmEvidence(share, dict(start.counts), list(start._worse), list(start._good))
                after.add(on_trial=on_trial, failed=failed)
                arm = share if on_trial else 1 - share
                worse += arm * (rate if failed else 1 - rate) * after.worse
                high = min(1.0, 1.25 * rate)
                own = high if on_trial else high / 1.25
                good += arm * (own if failed else 1 - own) * after.good
        assert worse <= start.worse * (1 + 1e-9)
        assert good <= start.good * (1 + 1e-9)


def test_a_unit_stays_in_its_arm_and_the_share_is_kept() -> None:
    units = [f"u{number}" for number in range(20_000)]
    arms = [is_on_trial(unit, "version", 0.2) for unit in units]
    assert arms == [is_on_trial(unit, "version", 0.2) for unit in units]
    assert abs(sum(arms) / len(arms) - 0.2) < 0.01
    other = [is_on_trial(unit, "another", 0.2) for unit in units]
    assert abs(sum(a and b for a, b in zip(arms, other, strict=True)) / len(arms) - 0.04) < 0.006
    assert (WORSE, GOOD) == (100, 20)
