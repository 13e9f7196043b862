"""Answers that rest on answers: chains of agents that add what their source says to what the one before them found.

Whoever reads a source slips at times. A slip is the reader's own (another reader, or another try, has another draw) or
lies in the source and deceives everybody who reads it. Nothing is checked; or a centre reads the source again before
an answer may be used, any or only those on which others will rest; or three agents do each step and the majority of
what they found is used.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.swarm_lab.lab import WINDOW, Facts, cost, facts_in, key_of, lab, path_of
from benchmarks.swarm_lab.result import Claim, Curve, Experiment, Setting, Table, constructed, judge
from benchmarks.swarm_lab.spread import Spread, above, average, both, comes, mean_of, resampled
from combee.swarm.agents import Reply, View, use
from combee.swarm.mail import Mail
from combee.swarm.swarm import USER

__all__ = [
    "CENTRE",
    "NONE",
    "REUSED",
    "VOTE",
    "Chains",
    "Slips",
    "Work",
    "errors",
    "pays_from",
    "run_chains",
    "unslipped",
]

NONE, CENTRE, VOTE = "no check", "verifying centre", "majority of three"
REUSED = "centre for what is used again"
_CLAIM = re.compile(r"n(\d{5}) is (\d{5})")
TRIES = 5  # of an answer, before it goes on unconfirmed


@dataclass(frozen=True, slots=True)
class Slips:
    """How often a reading goes wrong, and the share of that which lies in the source."""

    rate: float
    shared: float = 0.0

    def reading(self, seed: int, reader: str, number: int, value: int) -> int:
        """Return what a reader makes of the value of a source."""
        for who, rate in ((reader, self.rate * (1 - self.shared)), ("everybody", self.rate * self.shared)):
            rng = random.Random(f"slip {seed} {who} {number}")
            if rng.random() < rate:
                value += rng.randrange(1, 100_000)
        return value % 100_000


@dataclass(frozen=True, slots=True)
class Chains:
    """By depth, from 1, the uses of the last answer after that: share right, and tokens so far for each chain."""

    right: tuple[float, ...]
    tokens: tuple[float, ...]
    messages: float

    def yielded(self, depth: int) -> float:
        """Return right answers for a million tokens, when answers at this depth are what is wanted."""
        return 1e6 * self.right[depth - 1] / self.tokens[depth - 1]


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done: chains of so many steps, and answers (`uses`) that rest on the end of each of them."""

    way: str
    slips: Slips
    chains: int
    depth: int
    uses: int = 0
    seed: int = 0

    def agents(self, number: int) -> list[str]:
        """Return who does a step: others than did the one it rests on."""
        chain, link = divmod(number, self.depth + self.uses)
        place = f"{link % 2}" if link < self.depth else f"u{link}"
        return [f"c{chain:02d}-{place}-{copy}" for copy in range(3 if self.way == VOTE else 1)]

    def rests_on(self, number: int) -> int | None:
        """Return the step whose answer a step needs, None for the first of a chain."""
        link = number % (self.depth + self.uses)
        return number - link + min(link, self.depth) - 1 if link else None

    def policy(self, view: View) -> Reply | str:
        """Think as any of the agents, or as the centre."""
        what, number, *more = view.current.body.split() if view.current else ("", "0")
        if view.results() and view.results()[-1].text.startswith("Asked"):
            return "waiting"
        if what == "check":
            return self._check(view, int(number), *map(int, more))
        if what == "claim":
            return f"n{number:0>5} is {dict(_CLAIM.findall(view.text())).get(f'{number:0>5}', 'unknown')}"
        if view.mail.kind == "ask" and not view.results():
            before = self.rests_on(int(number))
            names = self.agents(before) if before is not None else []
            asks = [use("ask", n, to=name, question=f"claim {before}") for n, name in enumerate(names, 1)]
            return Reply(calls=(use("read", path=path_of(int(number))), *asks))
        return self._derive(view, int(number))

    def _derive(self, view: View, number: int) -> Reply | str:
        """Add what the source says to what was found before; have it checked where there is a centre."""
        start = max(n for n, entry in enumerate(view.entries) if entry.kind == "ask" and "derive" in entry.text)
        text = "\n".join(entry.text for entry in view.entries[start:])
        before = Counter(int(value) for at, value in _CLAIM.findall(text) if int(at) == self.rests_on(number))
        base, tries = before.most_common(1)[0][0] if before else 0, text.count(" answers: no")
        value = self._sum(f"{view.agent.name} {tries}", number, base, text)
        last = number % (self.depth + self.uses) >= self.depth
        checked = self.way == CENTRE or (self.way == REUSED and not last)
        if not checked or tries >= TRIES or " answers: yes" in text:
            return f"n{number:05d} is {value:05d}"
        return Reply(calls=(use("ask", to="centre", question=f"check {number} {base} {value} {tries}"),))

    def _check(self, view: View, number: int, base: int, value: int, tries: int) -> Reply | str:
        """Read the source of an answer, and say whether it follows from it."""
        if not view.results():
            return Reply(calls=(use("read", path=path_of(number)),))
        return "yes" if self._sum(f"centre {tries}", number, base, view.results()[-1].text) == value else "no"

    def _sum(self, reader: str, number: int, base: int, text: str) -> int:
        source = int(facts_in(text)[key_of(number)][0][1:])
        return (base + self.slips.reading(self.seed, reader, number, source)) % 100_000


def run_chains(work: Work) -> Chains:
    """Let agents work through their chains, all side by side."""
    width = work.depth + work.uses
    facts = Facts.draw(work.chains * width, work.seed)
    truth: list[int] = []
    for number, value in enumerate(facts.values):
        before = work.rests_on(number)
        truth.append((int(value[1:]) + (truth[before] if before is not None else 0)) % 100_000)
    with lab(work.policy, facts) as swarm:
        with swarm.world.step():
            for name in {name: None for number in range(len(truth)) for name in work.agents(number)}:
                swarm.world.spawn(name, mode="serial", window=WINDOW)
            swarm.world.spawn("centre", role="centre", window=WINDOW, returns="none")
        right, tokens = [], []
        last = [[*range(work.depth, width)]] if work.uses else []
        for links in [*([link] for link in range(work.depth)), *last]:
            numbers = [chain * width + link for chain in range(work.chains) for link in links]
            sent = [
                [swarm.ask(USER, f"derive {number}", to=name) for name in work.agents(number)] for number in numbers
            ]
            asyncio.run(swarm.run())
            found = [_majority([swarm.answer(asked) for asked in one]) for one in sent]
            right.append(sum(value == truth[n] for value, n in zip(found, numbers, strict=True)) / len(numbers))
            tokens.append(cost(swarm).tokens / work.chains)
        return Chains(tuple(right), tuple(tokens), cost(swarm).messages / work.chains / width)


def _majority(answers: Iterable[Mail | None]) -> int | None:
    """Return the value that most answers give."""
    found = Counter(int(match[2]) for mail in answers if mail and (match := _CLAIM.search(mail.body)))
    return found.most_common(1)[0][0] if found else None


def unslipped(work: Work) -> tuple[float, ...]:
    """Return the share of chains without a slip so far, by depth, from the dice alone: what nobody's check leaves."""
    width = work.depth + work.uses
    clean = [True] * work.chains
    shares = []
    for link in range(work.depth):
        for chain in range(work.chains):
            number = chain * width + link
            reader = f"{work.agents(number)[0]} 0"
            clean[chain] &= work.slips.reading(work.seed, reader, number, 0) == 0
        shares.append(sum(clean) / work.chains)
    return tuple(shares)


# The experiment


def _run(way: str, slips: Slips, chains: int, depth: int, uses: int = 0, *, seed: int) -> Chains:
    return run_chains(Work(way, slips, chains, depth, uses, seed))


_Pairs = Sequence[tuple[Chains, Chains]]
_Cells = dict[tuple[Slips, str], list[Chains]]
_Again = dict[tuple[int, str], list[Chains]]


def pays_from(one: Chains, other: Chains) -> float:
    """Return the depth from which on the first gives more right answers for the same tokens; infinite: never."""
    better = [one.yielded(depth) > other.yielded(depth) for depth in range(1, len(one.right) + 1)]
    losses = [n for n, win in enumerate(better) if not win]
    start = losses[-1] + 2 if losses else 1
    return start if start <= len(better) else math.inf


def _pays(one: Sequence[Chains], other: Sequence[Chains]) -> Spread:
    """Return the depth from which on it pays, read off the curves that are the mean of the seeds."""

    def statistic(pairs: _Pairs) -> float:
        return pays_from(average([a for a, _ in pairs]), average([b for _, b in pairs]))

    return resampled(list(zip(one, other, strict=True)), statistic)


def errors(setting: Setting) -> Experiment:
    """Errors with and without a verifying centre: how they multiply, and from what length checking pays."""
    depth, chains = setting.pick((5, 3), (20, 16))
    kinds = [Slips(rate) for rate in setting.pick((0.2,), (0.02, 0.05, 0.1, 0.2))]
    kinds.append(Slips(0.1, shared=0.5))
    works = {
        (slips, way): (way, slips, chains, depth)
        for slips in kinds
        for way in ((NONE, CENTRE, VOTE) if slips == kinds[-2] else (NONE, CENTRE))
    }
    cells = {where: setting.over(_run, *work) for where, work in works.items()}
    uses, trunk = setting.pick((1, 4), (1, 4, 16)), 4
    again = {
        (many, way): setting.over(_run, way, Slips(0.1), chains, trunk, many)
        for many in uses
        for way in (NONE, CENTRE, REUSED)
    }
    series = {
        f"{way}, {_name(slips)}": list(enumerate(average(cells[slips, way]).right, 1))
        for slips in kinds[-3:-1]
        for way in (NONE, CENTRE)
    }
    told = [
        (a, b)
        for slips in kinds
        for seed, one in enumerate(cells[slips, NONE], setting.seed)
        for a, b in zip(one.right, unslipped(Work(*works[slips, NONE], seed=seed)), strict=True)
    ]
    return Experiment(
        "errors",
        f"{chains} chains of {depth} steps; each step, by another agent, adds what a source says to the answer "
        f"before it. The centre reads the source again and slips as often as others; an answer has {TRIES} tries. "
        "Pays: more right answers for the same tokens than without a check, from that depth on.",
        (_along(cells, depth), _used(again, trunk)),
        (Curve("errors", "Right answers along a chain", "depth", "share right", series, log_x=False, log_y=False),),
        (*_claims(cells, kinds, depth, told), _reuse(again, trunk + 1)),
    )


def _right(found: Sequence[Chains], depth: int) -> Spread:
    return mean_of(one.right[depth - 1] for one in found)


def _yield(found: Sequence[Chains], depth: int, times: int = 1) -> Spread:
    return mean_of(times * one.yielded(depth) for one in found)


def _along(cells: _Cells, depth: int) -> Table:
    marks = (1, depth // 2, depth)
    columns = ("slips", "way", *(f"right at depth {mark}" for mark in marks), "tokens a step",
               *(f"right for 1M tokens at {mark}" for mark in marks), "pays from depth")  # fmt: skip
    rows = tuple(
        (_name(slips), way, *(f"{_right(found, mark):.0%}" for mark in marks),
         f"{mean_of(one.tokens[-1] / depth for one in found):,.0f}",
         *(f"{_yield(found, mark):,.1f}" for mark in marks),
         "" if way == NONE else f"{_pays(found, cells[slips, NONE]):.0f}")
        for (slips, way), found in cells.items()
    )  # fmt: skip
    return Table("Errors along a chain", columns, rows)


def _used(again: _Again, trunk: int) -> Table:
    rows = tuple(
        (str(many), way, f"{mean_of(one.right[-1] for one in found):.0%}",
         f"{mean_of(one.tokens[-1] for one in found):,.0f}", f"{_yield(found, trunk + 1, many):,.0f}",
         "" if way == NONE else f"{_more(again, many, way, NONE, trunk + 1):+,.0f}")
        for (many, way), found in again.items()
    )  # fmt: skip
    columns = ("uses", "way", "right", "tokens in all", "right for 1M tokens", "more than without a check")
    return Table(f"An answer at depth {trunk} on which others rest, slips of 10%", columns, rows)


def _more(again: _Again, many: int, way: str, rival: str, depth: int) -> Spread:
    """Return how many more right answers a way gives for a million tokens, seed by seed."""
    pairs = zip(again[many, way], again[many, rival], strict=True)
    return mean_of(many * (a.yielded(depth) - b.yielded(depth)) for a, b in pairs)


def _name(slips: Slips) -> str:
    return f"{slips.rate:.0%}" + (f", {slips.shared:.0%} of them in the source" if slips.shared else "")


def _claims(cells: _Cells, kinds: list[Slips], depth: int, told: Sequence[tuple[float, float]]) -> tuple[Claim, ...]:
    pays = {slips: _pays(cells[slips, CENTRE], cells[slips, NONE]) for slips in kinds}
    most = kinds[-2]
    vote, checked = cells[most, VOTE], cells[most, CENTRE]
    pairs = list(zip(vote, checked, strict=True))
    against = [
        mean_of(a.right[-1] - b.right[-1] for a, b in pairs),
        mean_of(a.yielded(depth) - b.yielded(depth) for a, b in pairs),
    ]
    return (
        constructed(
            "Where nobody checks, errors multiply along a chain.",
            "; ".join(f"slips of {_name(slips)}: {_right(cells[slips, NONE], 1):.0%} right at depth 1, "
                      f"{_right(cells[slips, NONE], depth):.0%} at {depth}" for slips in kinds),
            told,
        ),
        judge(
            f"A centre that checks answers against their sources keeps 95 % right at depth {depth}.",
            ", ".join(f"{_right(cells[slips, CENTRE], depth):.0%} with {_name(slips)}" for slips in kinds),
            (above(_right(cells[slips, CENTRE], depth), 0.95) for slips in kinds),
        ),
        judge(
            f"At equal tokens checking saves more than it costs, at some depth up to {depth}.",
            "; ".join(f"slips of {_name(slips)}: from depth {one:.0f}" for slips, one in pays.items()),
            (comes(one) for one in pays.values()),
        ),
        judge(
            "Peers who do the work three times and take the majority need no centre.",
            f"with slips of {_name(most)} {_right(vote, depth):.0%} right at depth {depth}, "
            f"{_yield(vote, depth):,.1f} for 1M tokens, with a centre {_right(checked, depth):.0%} and "
            f"{_yield(checked, depth):,.1f}",
            (above(one, 0) for one in against),
        ),
    )  # fmt: skip


def _reuse(again: _Again, depth: int) -> Claim:
    uses = sorted({many for many, _ in again})
    more = {many: [_more(again, many, REUSED, rival, depth) for rival in (NONE, CENTRE)] for many in uses}
    return judge(
        "Only answers that are used again are worth a check: more right for the same tokens than without, and than "
        "with all of them checked.",
        "; ".join(f"{many} {'uses' if many > 1 else 'use'}: {a:+,.0f} right answers for 1M tokens against none, "
                  f"{b:+,.0f} against all" for many, (a, b) in more.items()),
        (both(*(above(one, 0) for one in pair)) for pair in more.values()),
    )  # fmt: skip
