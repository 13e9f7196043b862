"""How much a task may hold: windows of text at which 95 % of the answers are still right, by way of keeping context.

A window stands for 1M tokens or for 200k: only the share of it that a summary may take enters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.swarm_lab.lab import BATCH, WINDOW, ask_all, averaged, cost
from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, judge
from benchmarks.swarm_lab.ways import PER_WINDOW, QUESTIONS, Way, chain, disk, fresh, mesh, persistent, reports

__all__ = ["Outcome", "capacity", "largest", "outcome"]

RIGHT = 0.95
SHORT = WINDOW // 100, WINDOW // 50
"""Summaries of 2k and 4k tokens where the window is 200k; 1M to 16k is the default of the ways."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one size gave: share of right answers, tokens of reply a question, and how often compaction fired."""

    right: float
    tokens: float
    compactions: float


@dataclass(frozen=True, slots=True)
class Found:
    """The largest size in windows, what it gave, and whether the limit of the search stopped it."""

    size: float
    at: Outcome
    limited: bool = False

    def __str__(self) -> str:
        return f"{'≥ ' if self.limited else ''}{self.size:.2f}"


def outcome(way: Way, count: int, seed: int, *, questions: int = QUESTIONS, one_at_a_time: bool = False) -> Outcome:
    """Let a way read so many documents and answer questions."""
    with way(count, seed) as (swarm, asks):
        before = cost(swarm)
        asked = asks[:questions]
        right = ask_all(swarm, asked, one_at_a_time=one_at_a_time)
        spent = cost(swarm) - before
        return Outcome(right / len(asked), spent.tokens / len(asked), before.compactions)


def largest(
    run: Callable[[int, int], Outcome], limit: float, seeds: Sequence[int], *, start: float = 0.5, steps: int = 4
) -> Found:
    """Return the largest size that is right to 95 % in the mean of the seeds.

    It is doubled or halved from `start` until it lies between a good and a bad one, then bisected in so many steps.
    """

    def good(size: float) -> Outcome | None:
        count = max(BATCH, round(size * PER_WINDOW))
        found: list[Outcome] = []
        for seed in seeds:
            found.append(run(count, seed))
            # What is still to come can save it only by being all right.
            if sum(one.right for one in found) + len(seeds) - len(found) < RIGHT * len(seeds):
                return None
        return averaged(lambda n: found[n], range(len(found)))

    low, high, best, size = 0.0, math.inf, Outcome(0, 0, 0), start
    while not low or math.isinf(high):
        if (found := good(size)) is not None:
            low, best = size, found
            if size >= limit:
                return Found(size, best, limited=True)
            size = min(size * 2, limit)
        else:
            high = size
            if size <= BATCH / PER_WINDOW:
                return Found(0, best)
            size /= 2
    for _ in range(steps):
        middle = (low + high) / 2
        found = good(middle)
        low, high, best = (middle, high, found) if found is not None else (low, middle, best)
    return Found(low, best)


_GUIDE = "one window each"
TURNS = "persistent, 4 agents, one at a time"


def capacity(setting: Setting) -> Experiment:
    """Context capacity by way of keeping it."""
    ways, hired = _ways(setting)
    rows = tuple(
        (name, str(found), f"{found.at.right:.1%}", f"{found.at.tokens:,.0f}", f"{found.at.compactions:.0f}")
        for name, found in ways.items()
    )
    series: dict[str, list[tuple[float, float]]] = {
        "persistent agents": [(n, found.size) for n, found in hired.items()],
        _GUIDE: [(n, n) for n in hired],
    }
    return Experiment(
        "capacity",
        f"Windows of text at which 95 % of the answers are right; summaries of 1.6 % of a window (1M to 16k) or as "
        f"said; seeds of compaction: {len(setting.seeds)}; ≥: the limit of the search.",
        (Table("Capacity", ("way", "windows", "right", "tokens a question", "compactions"), rows),),
        (Curve("capacity", "Capacity of persistent agents", "agents", "windows at 95 % right", series, _GUIDE),),
        (*_claims(ways, hired), _short_claim(ways)),
    )


def _compaction(foreseen: float, share: float) -> str:
    return f"compaction, {foreseen:.0%} foreseeable, {share:.0%} needed"


def _short(way: str, summary: int) -> str:
    return f"{way} 200k to {summary * 200 // WINDOW}k, all foreseeable, 5% needed"


def _ways(setting: Setting) -> tuple[dict[str, Found], dict[int, Found]]:
    """Return what every way of keeping context can hold, and persistent agents by their number."""
    limit, steps, questions = setting.pick((2.0, 2, 12), (32.0, 4, QUESTIONS))

    def run(way: Way, most: float = limit, seeds: Sequence[int] = (0,), start: float = 0.5, **how: bool) -> Found:
        ask = partial(outcome, way, questions=min(questions, 6) if way is fresh else questions, **how)
        return largest(ask, most, seeds, start=start, steps=steps)

    found = {
        _compaction(foreseen, share): run(chain(foreseen, share), limit, setting.seeds)
        for foreseen in setting.pick((1.0, 0.0), (1.0, 0.5, 0.0))
        for share in setting.pick((0.01, 0.2), (0.01, 0.05, 0.2))
    }
    for summary in SHORT:
        found[_short("compaction", summary)] = run(chain(1.0, 0.05, summary), limit, setting.seeds)
    for summary in SHORT:
        found[_short("reports of sub-agents", summary)] = run(reports(1.0, 0.05, summary), 2 * limit, start=limit / 2)
    found["reports of sub-agents 200k to 4k, 50% foreseeable, 5% needed"] = run(reports(0.5, 0.05, SHORT[1]))
    found["disk, question can be searched for"] = run(disk(addressable=True), start=limit)
    found["disk, question cannot be searched for"] = run(disk(addressable=False))
    found["fresh sub-agents"] = run(fresh, start=limit)
    hired = {n: run(persistent(n), 2 * n, start=n / 2) for n in setting.pick((1, 4), (1, 4, 16, 64))}
    found |= {f"persistent, {n} agents": one for n, one in hired.items()}
    found[TURNS] = run(persistent(4), 8, start=2, one_at_a_time=True)
    found |= {f"mesh, {n} peers who ask each other": run(mesh(n), 2 * n, start=n / 2) for n in list(hired)[1:3]}
    return found, hired


def _claims(ways: dict[str, Found], hired: dict[int, Found]) -> tuple[Claim, ...]:
    best, much, worst = (ways[_compaction(*key)].size for key in ((1.0, 0.01), (1.0, 0.2), (0.0, 0.01)))
    blind, found = ways["disk, question cannot be searched for"], ways["disk, question can be searched for"]
    per_agent = [one.size / n for n, one in hired.items()]
    once, alone, four = ways["fresh sub-agents"], ways[TURNS].size, hired[4]
    return (
        judge(
            "Compaction raises capacity above one window, and by how much depends on what must survive.",
            f"what matters is foreseeable and little: {best:.2f} windows with 1 % needed, {much:.2f} with 20 %, "
            f"{worst:.2f} when nothing can be foreseen",
            held=min(best, worst, much) >= 2, partly=best >= 2,
        ),
        judge(
            "On disk nothing is lost, but it has to be found and read back.",
            f"the question names what a search can find: {found} windows against {blind}, reading back one window at "
            "most",
            held=blind.size >= 2, partly=found.size >= 2,
        ),
        judge(
            "A fresh sub-agent need not guess what matters; it pays with reading everything again.",
            f"{once} windows at {once.at.tokens:,.0f} tokens a question; four persistent agents take "
            f"{four.at.tokens:,.0f}",
            held=once.size >= 2 and once.at.tokens > 2 * four.at.tokens, partly=once.size >= 2,
        ),
        judge(
            "With persistent agents capacity grows to about one window an agent.",
            f"{min(per_agent):.2f} to {max(per_agent):.2f} windows an agent, for {', '.join(map(str, hired))} agents",
            held=min(per_agent) > 0.8, partly=min(per_agent) > 0.5,
        ),
        judge(
            "That holds also when they take turns, one at a time.",
            f"{alone:.2f} windows one at a time, {four.size:.2f} at once",
            held=abs(alone - four.size) < 0.26, partly=alone > 2,
        ),
    )  # fmt: skip


def _short_claim(ways: dict[str, Found]) -> Claim:
    chains, told = ([ways[_short(way, one)] for one in SHORT] for way in ("compaction", "reports of sub-agents"))
    blind = ways["reports of sub-agents 200k to 4k, 50% foreseeable, 5% needed"]
    return judge(
        "Sub-agents that read 200k and answer in a few thousand tokens carry further than one agent that compacts.",
        f"what a report must hold is known when it is written: reports of 2k and 4k carry {told[0]} and {told[1]} "
        f"windows of 200k, compaction to as much {chains[0]} and {chains[1]}; with half of it foreseeable reports of "
        f"4k carry {blind}",
        held=min(*(one.size for one in told), blind.size) > 2 * max(one.size for one in chains),
        partly=min(one.size for one in told) > max(one.size for one in chains),
    )
