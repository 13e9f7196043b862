"""Equal token budgets for all ways of keeping context: what each gets right once reading and answering are paid."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from statistics import mean

from benchmarks.swarm_lab.lab import ask_all, cost
from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, judge
from benchmarks.swarm_lab.spread import above, below, comes, mean_of, median_of, resampled
from benchmarks.swarm_lab.ways import FRESH, PER_WINDOW, Way, chain, disk, mesh, persistent, reports

__all__ = ["Spent", "budget", "spend"]


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens spent after reading and after each question, and how many answers were right by then."""

    tokens: tuple[int, ...]
    right: tuple[int, ...]

    def within(self, tokens: float) -> float:
        """Return the share of all questions that are answered right for so many tokens."""
        done = bisect_right(self.tokens, tokens) - 1
        return self.right[done] / (len(self.right) - 1) if done > 0 else 0.0

    def reach(self, share: float) -> float:
        """Return the tokens for which this share of all questions is answered right; infinite when it never is."""
        needed = share * (len(self.right) - 1)
        return next((float(t) for t, n in zip(self.tokens, self.right, strict=True) if n >= needed), math.inf)

    @property
    def each(self) -> float:
        """Tokens a question."""
        return (self.tokens[-1] - self.tokens[0]) / (len(self.tokens) - 1)


def spend(way: Way, count: int, seed: int, questions: int) -> tuple[Spent, Spent]:
    """Let a way read and answer, one question after the other; in whole prompts, and in fresh tokens.

    Fresh tokens are those that no earlier prompt of the same context began with: what is left with a prefix cache.
    """
    with way(count, seed) as (swarm, asks):
        found, right = [cost(swarm)], [0]
        for n in range(questions):
            right.append(right[-1] + ask_all(swarm, [asks[n % len(asks)]]))
            found.append(cost(swarm))
    whole, fresh_only = (tuple(getattr(one, name) for one in found) for name in ("tokens", "fresh"))
    return Spent(whole, tuple(right)), Spent(fresh_only, tuple(right))


CHAIN, HALF = "compaction, all foreseeable", "compaction, half foreseeable"
TOLD, GUESSED = "reports of sub-agents, all foreseeable", "reports of sub-agents, half foreseeable"
DISK, STAYING, PEERS = "disk, searched", "persistent agents", "mesh"
_Found = dict[str, list[tuple[Spent, Spent]]]


def _ways(agents: int) -> dict[str, Way]:
    return {
        CHAIN: chain(1.0, 0.05),
        HALF: chain(0.5, 0.05),
        TOLD: reports(1.0, 0.05),
        GUESSED: reports(0.5, 0.05),
        DISK: disk(addressable=True),
        **FRESH,
        STAYING: persistent(agents),
        PEERS: mesh(agents),
    }


def budget(setting: Setting) -> Experiment:
    """Ways of keeping context at equal token budgets."""
    windows, questions = setting.pick((2, 8), (4, 40))
    found: _Found = {
        name: setting.over(spend, way, windows * PER_WINDOW, questions=questions)
        for name, way in _ways(windows + 1).items()
    }
    top = max(whole.tokens[-1] for name in (CHAIN, STAYING, PEERS) for whole, _ in found[name])
    budgets = [round(top / part, -3) for part in (8, 4, 2, 1)]
    columns = ("way", "tokens to read", "tokens a question", "fresh to read", "fresh a question",
               *(f"right for {one:,.0f}" for one in budgets), "tokens for 95 % right")  # fmt: skip
    rows = tuple(
        (
            name,
            *(f"{mean_of(number(pair[n]) for pair in pairs):,.0f}" for n in (0, 1) for number in (_read, _each)),
            *(f"{mean_of(whole.within(tokens) for whole, _ in pairs):.0%}" for tokens in budgets),
            f"{median_of(whole.reach(0.95) for whole, _ in pairs):,.0f}",
        )
        for name, pairs in found.items()
    )
    series = {
        name: [
            (mean(whole.tokens[n] for whole, _ in pairs), mean(whole.right[n] for whole, _ in pairs) / questions)
            for n in range(questions + 1)
        ]
        for name, pairs in found.items()
        if name not in {TOLD, GUESSED}
    }
    return Experiment(
        "budget",
        f"{windows} windows of text, {questions} questions one after the other, 5 % of the facts needed where that "
        f"matters; {windows + 1} persistent agents. A budget pays reading first, then questions; what it does not "
        "reach is not answered. Fresh: only what no earlier prompt began with, as with a prefix cache. The path that "
        "comes with a question leads to the agent that has read it; fresh sub-agents are told nothing of it, or the "
        "part that such an agent holds (80 documents), or the one document.",
        (Table("Share of right answers at equal budgets of tokens", columns, rows),),
        (Curve("budget", "Right answers for tokens", "tokens", "share of right answers", series, log_y=False),),
        _claims(found, questions),
    )


def _read(one: Spent) -> float:
    return one.tokens[0]


def _each(one: Spent) -> float:
    return one.each


def _from(one: Spent, other: Spent) -> float:
    """Return the number of questions from which on the first is cheaper in all, reading included; infinite: never."""
    dearer = [n for n, (a, b) in enumerate(zip(one.tokens, other.tokens, strict=True)) if a >= b]
    start = dearer[-1] + 1 if dearer else 1
    return start if start < len(one.tokens) else math.inf


def _claims(found: _Found, asked: int) -> tuple[Claim, ...]:
    pairs = {
        name: [
            median_of(_from(one[n], other[n]) for one, other in zip(found[STAYING], found[name], strict=True))
            for n in (0, 1)
        ]
        for name in FRESH
    }
    needs = {name: median_of(whole.reach(0.95) for whole, _ in found[name]) for name in found}
    written = (CHAIN, HALF, TOLD, GUESSED)
    dearer = [_before(found[STAYING], found[name]) for name in written]
    ratios = [
        mean_of(one[n].each / other[n].each for one, other in zip(found[PEERS], found[STAYING], strict=True))
        for n in (0, 1)
    ]
    return (
        judge(
            "Agents that stay are cheaper than fresh sub-agents, reading included.",
            "; ".join(f"{name}, from question: {whole:.0f} in whole prompts, {cached:.0f} in fresh tokens"
                      for name, (whole, cached) in pairs.items()) + f", of {asked}",
            (comes(one) for both in pairs.values() for one in both),
        ),
        judge(
            "At equal tokens agents that stay get more right than what was written before the question was known.",
            f"95 % right takes {needs[STAYING]:,.0f} tokens; "
            + ", ".join(f"{name} {needs[name]:,.0f}" for name in written),
            dearer,
        ),
        judge(
            "That agents ask each other costs little (less than half as much again).",
            f"a question put to a peer who asks the one who knows takes {ratios[0]:.2f} times the tokens of asking it, "
            f"{ratios[1]:.2f} times the fresh ones",
            (below(one, 1.5) for one in ratios),
        ),
    )  # fmt: skip


def _before(staying: list[tuple[Spent, Spent]], other: list[tuple[Spent, Spent]]) -> bool | None:
    """Return whether agents that stay reach 95 % for fewer tokens; decided when nearly all resamples agree."""
    pairs = [(a.reach(0.95), b.reach(0.95)) for (a, _), (b, _) in zip(staying, other, strict=True)]
    wins = resampled(pairs, lambda some: sum(a < b for a, b in some) / len(some))
    return above(wins, 0.5)
