"""Answers that rest on answers: chains of agents that add what their source says to what the one before them found.

Whoever reads a source slips at times. A slip is the reader's own (another reader, or another try, has another draw) or
lies in the source and deceives everybody who reads it. Nothing is checked; or a centre reads the source again before
an answer may be used, any or only those on which others will rest; or three agents do each step and the majority of
what they found is used.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.swarm_lab.lab import WINDOW, Facts, cost, facts_in, key_of, lab, path_of
from combee.swarm.agents import Reply, View, use
from combee.swarm.mail import Mail
from combee.swarm.swarm import USER

__all__ = ["CENTRE", "NONE", "REUSED", "TRIES", "VOTE", "Chains", "Slips", "Work", "run_chains"]

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
