"""Equal token budgets for all ways of keeping context: what each gets right once reading and answering are paid."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from benchmarks.swarm_lab.lab import ask_all, cost
from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, judge
from benchmarks.swarm_lab.ways import PER_WINDOW, Way, chain, disk, fresh, mesh, persistent, reports

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
DISK, ONCE, STAYING, PEERS = "disk, searched", "fresh sub-agents", "persistent agents", "mesh"


def _ways(agents: int) -> dict[str, Way]:
    return {
        CHAIN: chain(1.0, 0.05),
        HALF: chain(0.5, 0.05),
        TOLD: reports(1.0, 0.05),
        GUESSED: reports(0.5, 0.05),
        DISK: disk(addressable=True),
        ONCE: fresh,
        STAYING: persistent(agents),
        PEERS: mesh(agents),
    }


def budget(setting: Setting) -> Experiment:
    """Ways of keeping context at equal token budgets."""
    windows, questions = setting.pick((2, 8), (4, 40))
    both = {name: spend(way, windows * PER_WINDOW, 0, questions) for name, way in _ways(windows + 1).items()}
    whole, cached = ({name: pair[n] for name, pair in both.items()} for n in (0, 1))
    top = max(one.tokens[-1] for way, one in whole.items() if way != ONCE)
    budgets = [round(top / part, -3) for part in (8, 4, 2, 1)]
    columns = ("way", "tokens to read", "tokens a question", "fresh to read", "fresh a question",
               *(f"right for {one:,.0f}" for one in budgets), "tokens for 95 % right")  # fmt: skip
    rows = tuple(
        (way, f"{one.tokens[0]:,}", f"{one.each:,.0f}", f"{cached[way].tokens[0]:,}", f"{cached[way].each:,.0f}",
         *(f"{one.within(tokens):.0%}" for tokens in budgets), _amount(one.reach(0.95)))
        for way, one in whole.items()
    )  # fmt: skip
    series = {
        way: [(at, n / questions) for at, n in zip(whole[way].tokens, whole[way].right, strict=True)]
        for way in (CHAIN, HALF, DISK, ONCE, STAYING, PEERS)
    }
    return Experiment(
        "budget",
        f"{windows} windows of text, {questions} questions one after the other, 5 % of the facts needed where that "
        f"matters; {windows + 1} persistent agents. A budget pays reading first, then questions; what it does not "
        "reach is not answered. Fresh: only what no earlier prompt began with, as with a prefix cache.",
        (Table("Share of right answers at equal budgets of tokens", columns, rows),),
        (Curve("budget", "Right answers for tokens", "tokens", "share of right answers", series, log_y=False),),
        _claims(whole, cached),
    )


def _amount(tokens: float) -> str:
    return "never" if math.isinf(tokens) else f"{tokens:,.0f}"


def _from(one: Spent, other: Spent) -> int:
    """Return the number of questions from which on the first is cheaper in all, reading included; 0: never."""
    dearer = [n for n, (a, b) in enumerate(zip(one.tokens, other.tokens, strict=True)) if a >= b]
    start = dearer[-1] + 1 if dearer else 1
    return start if start < len(one.tokens) else 0


def _claims(whole: dict[str, Spent], cached: dict[str, Spent]) -> tuple[Claim, ...]:
    asked = len(whole[STAYING].right) - 1
    once = [_from(one[STAYING], one[ONCE]) for one in (whole, cached)]
    needs = {way: one.reach(0.95) for way, one in whole.items()}
    ratio = [one[PEERS].each / one[STAYING].each for one in (whole, cached)]
    return (
        judge(
            "At equal tokens agents that stay get more right than fresh sub-agents.",
            "the text is asked about more than once: they are cheaper, reading included, from question "
            f"{once[0] or 'none'} on in whole prompts and {once[1] or 'none'} in fresh tokens, of {asked}",
            held=once == [1, 1], partly=any(once),
        ),
        judge(
            "At equal tokens agents that stay get more right than what was written before the question was known.",
            f"what will be asked cannot be foreseen: 95 % right takes {_amount(needs[STAYING])} tokens; compaction "
            f"{_amount(needs[CHAIN])} when all can be foreseen and {_amount(needs[HALF])} when half, reports "
            f"{_amount(needs[TOLD])} and {_amount(needs[GUESSED])}",
            held=needs[STAYING] < min(needs[way] for way in (CHAIN, HALF, TOLD, GUESSED)),
            partly=needs[STAYING] < min(needs[HALF], needs[GUESSED]),
        ),
        judge(
            "That agents ask each other costs little.",
            f"a question put to a peer who asks the one who knows takes {ratio[0]:.1f} times the tokens of asking it, "
            f"{ratio[1]:.1f} times the fresh ones",
            held=max(ratio) < 1.5, partly=min(ratio) < 1.5,
        ),
    )  # fmt: skip
