"""A small world for experiments: documents with one fact each, agents that read them, questions with a right answer.

All agents are scripted and honest: they know what stands in their window and nothing else. Everything passes through
the real runtime: mail, windows, compaction, directory, ledger. The world is SQLite's in memory: what is measured here
is what agents do, not a disk.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields

from combee.swarm.agents import Policy, PolicyModel, Reply, View, use
from combee.swarm.context import Compaction
from combee.swarm.knowledge import publish
from combee.swarm.ledger import totals
from combee.swarm.swarm import USER, Swarm
from combee.swarm.tools import TOOLS, Tool
from combee.swarm.world import World

__all__ = [
    "BATCH",
    "DOCUMENT",
    "SUMMARY",
    "WINDOW",
    "Ask",
    "Cost",
    "Facts",
    "ask_all",
    "cost",
    "facts_in",
    "handled",
    "hire",
    "key_of",
    "know",
    "lab",
    "path_of",
    "read_told",
    "reading",
]

DOCUMENT = 40  # tokens of a document
WINDOW = 100 * DOCUMENT  # tokens of a window
SUMMARY = WINDOW * 16 // 1000  # tokens of a summary: 1M to 16k
BATCH = 10  # documents read by one use of the tool

_FACT = re.compile(r"(!?)(k\d{5})=(v\d{5})")


# Documents


def facts_in(text: str) -> dict[str, tuple[str, bool]]:
    """Return the facts in a text: key to value, and whether it was seen to matter."""
    return {key: (value, bool(mark)) for mark, key, value in _FACT.findall(text)}


def key_of(number: int) -> str:
    """Return the key of a document's fact."""
    return f"k{number:05d}"


def path_of(number: int) -> str:
    """Return the path of a document."""
    return f"doc/{number:05d}"


def reading(first: int, end: int) -> list[str]:
    """Return the paths by which a range of documents is read, a batch each."""
    return [f"{path_of(at)}..{min(at + BATCH, end) - 1:05d}" for at in range(first, end, BATCH)]


@dataclass(frozen=True, slots=True)
class Facts:
    """One fact a document. `needed` are those that will be asked for; some of them could be seen to matter."""

    values: tuple[str, ...] = ()
    needed: tuple[int, ...] = ()
    seen: frozenset[int] = frozenset()

    @classmethod
    def draw(cls, count: int, seed: int, *, share: float = 1.0, foreseen: float = 0.0) -> Facts:
        """Draw facts: each is needed with `share`, and of the needed ones `foreseen` are marked in the text."""
        rng = random.Random(f"facts {seed} {count}")
        values = tuple(f"v{rng.randrange(100_000):05d}" for _ in range(count))
        needed = sorted(rng.sample(range(count), max(1, round(count * share))))
        return cls(values, tuple(needed), frozenset(n for n in needed if rng.random() < foreseen))

    def document(self, number: int, value: str = "") -> str:
        """Return a document of exactly `DOCUMENT` tokens, with its line break; `value` replaces the one drawn."""
        fact = f"{'!' if number in self.seen else ''}{key_of(number)}={value or self.values[number]} "
        return fact + "x" * (4 * DOCUMENT - 1 - len(fact))

    def questions(self, count: int, seed: int) -> list[int]:
        """Return numbers of needed facts to be asked for."""
        rng = random.Random(f"questions {seed}")
        return [rng.choice(self.needed) for _ in range(count)]

    def summary(self, text: str, rng: random.Random) -> list[str]:
        """Return the facts of a text as a summary lists them: first what was seen to matter, then as the dice say."""
        known = facts_in(text)
        order = sorted(known, key=lambda key: (not known[key][1], rng.random()))
        return [f"{'!' if known[key][1] else ''}{key}={known[key][0]}" for key in order]


# Agents


@contextmanager
def lab(
    policy: Policy,
    facts: Facts | None = None,
    *,
    compaction: Compaction | None = None,
    tools: Sequence[Tool] = (),
    **options: int,
) -> Iterator[Swarm]:
    """Open a world that is gone afterwards, with the documents published."""
    facts = facts or Facts()
    with World.open(":memory:") as world:
        compactions: Mapping[str, Compaction] = {"": compaction} if compaction else {}
        swarm = Swarm(world, {"": PolicyModel(policy)}, compactions=compactions, tools=(*TOOLS, *tools), **options)  # type: ignore[arg-type]  # whole numbers
        with world.step():
            for number in range(len(facts.values)):
                publish(world, path_of(number), facts.document(number), USER)
        yield swarm


def hire(swarm: Swarm, agents: int, count: int) -> None:
    """Let agents read equal parts of the documents."""
    for number in range(agents):
        swarm.world.spawn(f"a{number:02d}", window=WINDOW, returns="none")
        for path in reading(number * count // agents, (number + 1) * count // agents):
            swarm.tell(f"a{number:02d}", path)
    asyncio.run(swarm.run())


def read_told(view: View) -> Reply | str:
    """Read the documents whose path was told."""
    return "ok" if view.results() else Reply(calls=(use("read", path=view.mail.body),))


def know(view: View, key: str, rot: float = 0.0) -> str:
    """Return what the window says of a key.

    `rot`: of a window that is full, a reader overlooks 1 - exp(-rot) of what it holds; of one half full the square root
    of that is seen. The dice are the reader's: a copy made for another question has others.
    """
    found = facts_in(view.text()).get(key)
    if found is None:
        return "unknown"
    used = sum(entry.tokens for entry in view.entries) / WINDOW
    seen = random.Random(f"seen {view.agent.name} {found[0]}").random() < math.exp(-rot * used)
    return found[0] if seen else "unknown"


# Questions and what they took


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to an agent ("": to whoever knows the subject) and its right answer."""

    to: str
    question: str
    right: str
    subject: str = ""


def ask_all(swarm: Swarm, asks: Sequence[Ask], *, one_at_a_time: bool = False) -> int:
    """Ask as the user; return how many answers are right."""
    sent: list[int] = []
    for one in asks:
        sent.append(swarm.ask(USER, one.question, to=one.to, subject=one.subject))
        if one_at_a_time:
            asyncio.run(swarm.run())
    asyncio.run(swarm.run())
    answers = [swarm.answer(number) if number else None for number in sent]
    return sum(mail is not None and mail.body == one.right for mail, one in zip(answers, asks, strict=True))


@dataclass(frozen=True, slots=True)
class Cost:
    """What was spent. `tokens`: prompts and replies; `fresh`: the same without what an earlier prompt began with."""

    messages: int
    tokens: int
    fresh: int
    compactions: int

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(self)))


def cost(swarm: Swarm) -> Cost:
    """Return what a world has spent so far."""
    sums = totals(swarm.world)
    return Cost(sums.messages, sums.prompt + sums.completion, sums.fresh + sums.completion, sums.compactions)


def handled(swarm: Swarm) -> Counter[str]:
    """Return how many messages each agent and its copies took."""
    sql = (
        "SELECT coalesce(a.fork_of, a.name), count(*) FROM mail m JOIN agents a ON a.name = m.recipient"
        " WHERE a.mode != 'outside' GROUP BY 1"
    )
    return Counter(dict(swarm.world.rows(sql)))
