"""Answers that rest on answers: chains of agents that add what their source says to what the one before them found.

Whoever reads a source slips at times. A slip is the reader's own (another reader, or another try, has another draw) or
lies in the source and deceives everybody who reads it. Nothing is checked; or a centre reads the source again before
an answer may be used; or three agents do each step and the majority of what they found is used.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from combee.swarm.brain import Policy, Thought, View, use
from combee.swarm.mail import Mail
from combee.swarm.measure.lab import WINDOW, Facts, cost, facts_in, key_of, lab, path_of
from combee.swarm.swarm import USER

__all__ = ["CENTRE", "NONE", "VOTE", "Chains", "Slips", "run_chains"]

NONE, CENTRE, VOTE = "no check", "verifying centre", "majority of three"
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
    """By depth, from 1: the share of right answers, and tokens spent so far for each chain."""

    right: tuple[float, ...]
    tokens: tuple[float, ...]
    messages: float

    def yielded(self, depth: int) -> float:
        """Return right answers for a million tokens, when answers at this depth are what is wanted."""
        return 1e6 * self.right[depth - 1] / self.tokens[depth - 1]


def _names(link: int, chain: int, copies: int) -> list[str]:
    """Return who does a link: others than did the one before."""
    return [f"c{chain:02d}-{link % 2}{copy}" for copy in range(copies)]


def run_chains(way: str, slips: Slips, *, chains: int, depth: int, seed: int) -> Chains:
    """Let chains of agents work through their links, all chains side by side."""
    facts = Facts.draw(chains * depth, seed)
    copies = 3 if way == VOTE else 1
    truth: list[int] = []
    for number, value in enumerate(facts.values):
        truth.append((int(value[1:]) + (truth[-1] if number % depth else 0)) % 100_000)
    with lab(_policy(way, slips, depth, seed), facts) as swarm:
        with swarm.world.step():
            for chain in range(chains):
                for name in _names(0, chain, copies) + _names(1, chain, copies):
                    swarm.world.spawn(name, mode="serial", window=WINDOW)
            swarm.world.spawn("centre", role="centre", window=WINDOW, returns="none")
        right, tokens = [], []
        for link in range(depth):
            sent = [
                [swarm.ask(USER, f"derive {chain * depth + link}", to=name) for name in _names(link, chain, copies)]
                for chain in range(chains)
            ]
            asyncio.run(swarm.run())
            found = [_majority([swarm.answer(number) for number in one]) for one in sent]
            right.append(sum(found[chain] == truth[chain * depth + link] for chain in range(chains)) / chains)
            tokens.append(cost(swarm).tokens / chains)
        return Chains(tuple(right), tuple(tokens), cost(swarm).messages / chains / depth)


def _majority(answers: Iterable[Mail | None]) -> int | None:
    """Return the value that most answers give."""
    found = Counter(int(match[2]) for mail in answers if mail and (match := _CLAIM.search(mail.body)))
    return found.most_common(1)[0][0] if found else None


def _policy(way: str, slips: Slips, depth: int, seed: int) -> Policy:
    def policy(view: View) -> Thought | str:
        body = view.current.body if view.current else ""
        if view.results() and view.results()[-1].text.startswith("Asked"):
            return "waiting"
        if body.startswith("check"):
            return _check(view, slips, seed)
        number = int(body.split()[1])
        if body.startswith("claim"):
            return f"n{number:05d} is {dict(_CLAIM.findall(view.text())).get(f'{number:05d}', 'unknown')}"
        if view.mail.kind == "ask" and not view.results():
            chain, link = divmod(number, depth)
            before = _names(link - 1, chain, 3 if way == VOTE else 1) if link else []
            asks = [use("ask", n, to=name, question=f"claim {number - 1}") for n, name in enumerate(before, 1)]
            return Thought(calls=(use("read", path=path_of(number)), *asks))
        return _derive(view, number, way, slips, seed)

    return policy


def _derive(view: View, number: int, way: str, slips: Slips, seed: int) -> Thought | str:
    """Add what the source says to what was found before; have it checked where there is a centre."""
    start = max(n for n, entry in enumerate(view.entries) if entry.kind == "ask" and "derive" in entry.text)
    text = "\n".join(entry.text for entry in view.entries[start:])
    before = Counter(int(value) for at, value in _CLAIM.findall(text) if int(at) == number - 1).most_common(1)
    base, tries = before[0][0] if before else 0, text.count(" answers: no")
    value = (base + slips.reading(seed, f"{view.agent.name} {tries}", number, _source(text, number))) % 100_000
    if way != CENTRE or tries >= TRIES or " answers: yes" in text:
        return f"n{number:05d} is {value:05d}"
    return Thought(calls=(use("ask", to="centre", question=f"check {number} {base} {value} {tries}"),))


def _check(view: View, slips: Slips, seed: int) -> Thought | str:
    """Read the source of an answer, and say whether it follows from it."""
    number, base, value, tries = map(int, view.mail.body.split()[1:])
    if not view.results():
        return Thought(calls=(use("read", path=path_of(number)),))
    own = slips.reading(seed, f"centre {tries}", number, _source(view.results()[-1].text, number))
    return "yes" if (base + own) % 100_000 == value else "no"


def _source(text: str, number: int) -> int:
    return int(facts_in(text)[key_of(number)][0][1:])
