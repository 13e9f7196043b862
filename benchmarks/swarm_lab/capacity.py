"""How much a task may hold: windows of text at which 95 % of the answers are still right, by way of keeping context.

A window stands for 1M tokens or for 200k: only the share of it that a summary may take enters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.swarm_lab.lab import BATCH, WINDOW, ask_all, cost
from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, constructed, judge
from benchmarks.swarm_lab.spread import Spread, above, against, both, each, mean_of
from benchmarks.swarm_lab.ways import FRESH, PER_WINDOW, QUESTIONS, Way, chain, disk, mesh, persistent, reports

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


def outcome(way: Way, count: int, seed: int, *, questions: int = QUESTIONS, one_at_a_time: bool = False) -> Outcome:
    """Let a way read so many documents and answer questions."""
    with way(count, seed) as (swarm, asks):
        before = cost(swarm)
        asked = asks[:questions]
        right = ask_all(swarm, asked, one_at_a_time=one_at_a_time)
        spent = cost(swarm) - before
        return Outcome(right / len(asked), spent.tokens / len(asked), before.compactions)


def largest(run: Callable[[int], Outcome], limit: float, *, start: float = 0.5, steps: int = 4) -> Found:
    """Return the largest size that is right to 95 %; `run` takes a number of documents.

    It is doubled or halved from `start` until it lies between a good and a bad one, then bisected in so many steps.
    """

    def good(size: float) -> Outcome | None:
        found = run(max(BATCH, round(size * PER_WINDOW)))
        return found if found.right >= RIGHT else None

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
SEARCHED, BLIND = "disk, question can be searched for", "disk, question cannot be searched for"
_Sizes = dict[str, list[Found]]


def _size(found: list[Found]) -> Spread:
    return mean_of(one.size for one in found)


def _shown(found: list[Found]) -> str:
    return f"{'≥ ' if any(one.limited for one in found) else ''}{_size(found):.2f}"


def capacity(setting: Setting) -> Experiment:
    """Context capacity by way of keeping it."""
    found, agents = _measured(setting)
    rows = []
    for name, sizes in found.items():
        at = [one.at for one in sizes]
        rows.append((name, _shown(sizes), f"{each(at, 'right'):.1%}", f"{each(at, 'tokens'):,.0f}",
                     f"{each(at, 'compactions'):.1f}"))  # fmt: skip
    series: dict[str, list[tuple[float, float]]] = {
        "persistent agents": [(n, _size(found[_hired(n)]).value) for n in agents],
        _GUIDE: [(n, n) for n in agents],
    }
    return Experiment(
        "capacity",
        "Windows of text at which 95 % of the answers are right, searched for with every seed; summaries of 1.6 % of "
        "a window (1M to 16k) or as said; ≥: the limit of the search.",
        (Table("Capacity", ("way", "windows", "right", "tokens a question", "compactions"), tuple(rows)),),
        (Curve("capacity", "Capacity of persistent agents", "agents", "windows at 95 % right", series, _GUIDE),),
        _claims(found, agents),
    )


def _compaction(foreseen: float, share: float) -> str:
    return f"compaction, {foreseen:.0%} foreseeable, {share:.0%} needed"


def _short(way: str, summary: int, foreseen: float = 1.0) -> str:
    return f"{way} 200k to {summary * 200 // WINDOW}k, {foreseen:.0%} foreseeable, 5% needed"


def _hired(agents: int) -> str:
    return f"persistent, {agents} agents" if agents > 1 else "persistent, 1 agent"


def _measured(setting: Setting) -> tuple[_Sizes, tuple[int, ...]]:
    """Return what every way of keeping context can hold, by seed, and the numbers of persistent agents."""
    limit, steps, questions = setting.pick((2.0, 2, 12), (32.0, 4, QUESTIONS))

    def run(way: Way, most: float = limit, start: float = 0.5, few: int = QUESTIONS, **how: bool) -> list[Found]:

        def one(seed: int) -> Found:
            ask = partial(outcome, way, seed=seed, questions=min(questions, few), **how)
            return largest(ask, most, start=start, steps=steps)

        return setting.over(one)

    found = {
        _compaction(foreseen, share): run(chain(foreseen, share))
        for foreseen in setting.pick((1.0, 0.0), (1.0, 0.5, 0.0))
        for share in setting.pick((0.01, 0.2), (0.01, 0.05, 0.2))
    }
    for foreseen in (1.0, 0.5):
        for summary in SHORT:
            found[_short(CHAINED, summary, foreseen)] = run(chain(foreseen, 0.05, summary))
            found[_short(REPORTED, summary, foreseen)] = run(
                reports(foreseen, 0.05, summary), 2 * limit, limit / 2 if foreseen == 1 else 0.5
            )
    found[SEARCHED] = run(disk(addressable=True), start=limit)
    found[BLIND] = run(disk(addressable=False))
    found |= {name: run(way, start=limit, few=6) for name, way in FRESH.items()}
    agents = setting.pick((1, 4), (1, 4, 16, 64))
    found |= {_hired(n): run(persistent(n), 2 * n, n / 2) for n in agents}
    found[TURNS] = run(persistent(4), 8, 2, one_at_a_time=True)
    found |= {f"mesh, {n} peers who ask each other": run(mesh(n), 2 * n, n / 2) for n in agents[1:3]}
    return found, agents


CHAINED, REPORTED = "compaction", "reports of sub-agents"


def _claims(found: _Sizes, agents: tuple[int, ...]) -> tuple[Claim, ...]:
    chains = [name for name in found if name.startswith(CHAINED) and "200k" not in name]
    kept = found[_hired(4)]
    price = {name: [one.at.tokens for one in found[name]] for name in (*FRESH, _hired(4))}
    dearer = {name: mean_of(a / b for a, b in zip(price[name], price[_hired(4)], strict=True)) for name in FRESH}
    one = found[_hired(1)]
    pairs = {
        f"{foreseen:.0%} foreseeable, {summary * 200 // WINDOW}k": [
            found[_short(way, summary, foreseen)] for way in (CHAINED, REPORTED)
        ]
        for foreseen in (1.0, 0.5)
        for summary in SHORT
    }
    return (
        judge(
            "Compaction raises capacity above one window.",
            "; ".join(f"{name.partition(', ')[2]}: {_shown(found[name])} windows" for name in chains),
            (above(_size(found[name]), 1) for name in chains),
        ),
        judge(
            "What is on disk can be found and read back, and raises capacity above one window.",
            f"{_shown(found[SEARCHED])} windows where the question names what a search can find, "
            f"{_shown(found[BLIND])} where not, reading back one window at most",
            (above(_size(found[name]), 1) for name in (SEARCHED, BLIND)),
        ),
        judge(
            "A fresh sub-agent need not guess what matters; it pays with reading everything again.",
            "; ".join(f"{name}: {_shown(found[name])} windows at {dearer[name]:.2f} times the tokens a question of "
                      "four agents that stay" for name in FRESH),
            (both(above(_size(found[name]), 1), above(dearer[name], 1)) for name in FRESH),
        ),
        constructed(
            "With persistent agents that forget nothing capacity grows to one window an agent, also when they take "
            "turns.",
            ", ".join(f"{_shown(found[_hired(n)])} windows with {n}" for n in agents)
            + f"; with four, one at a time, {_shown(found[TURNS])}",
            [(b.size, n * a.size) for n in agents for a, b in zip(one, found[_hired(n)], strict=True)]
            + [(a.size, b.size) for a, b in zip(found[TURNS], kept, strict=True)],
        ),
        judge(
            "Sub-agents that read 200k and answer in a few thousand tokens carry further than one agent that compacts.",
            "; ".join(f"{name}: {_shown(told)} windows of 200k, compaction {_shown(chained)}"
                      for name, (chained, told) in pairs.items()),
            (above(against(told, "size", chained), 0)
             for chained, told in pairs.values()),
        ),
    )  # fmt: skip
